//! Selections and descriptions of the documents of a shard.

use clew_core::{DescribedDocument, DocumentId, Error, Limits, Selection, Violations};

use super::query::in_messages;
use super::status::{state_from_wire, state_to_wire};
use super::{ShardRefWithAccess, malformed, missing, optional_document_id, shard_from_wire};
use crate::convert::attribute::{attributes_from_wire, attributes_to_wire};
use crate::convert::query::{checked_filter_from_wire, filter_to_wire};
use crate::convert::{distinct_document_ids, document_id};
use crate::shard::v1 as wire;

/// Content of a valid SelectDocuments request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectAsked {
    /// The shard.
    pub shard: ShardRefWithAccess,
    /// Selection of its documents.
    pub selection: Selection,
    /// Document after which the page begins; `None` for the first page.
    pub after: Option<DocumentId>,
    /// Maximum number of documents; 0 if only their number is wanted.
    pub limit: usize,
}

/// Converts a request for documents that are selected for the wire.
pub fn select_to_wire(
    shard: &ShardRefWithAccess,
    selection: &Selection,
    after: Option<&DocumentId>,
    limit: usize,
) -> wire::SelectDocumentsRequest {
    let text = |id: Option<&DocumentId>| id.map(ToString::to_string).unwrap_or_default();
    wire::SelectDocumentsRequest {
        shard: Some(shard.into()),
        filter: Some(filter_to_wire(selection.filter.clone())),
        id_prefix: text(selection.prefix.as_ref()),
        state: state_to_wire(selection.state).into(),
        after: text(after),
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
    }
}

/// Converts a request for documents that are selected from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn select_from_wire(
    request: wire::SelectDocumentsRequest,
    limits: &Limits,
) -> Result<SelectAsked, Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let filter = checked_filter_from_wire(request.filter, limits, &mut violations);
    let prefix = violations.take(optional_document_id("id_prefix", &request.id_prefix)).flatten();
    let state = violations.take(state_from_wire(request.state)).flatten();
    let after = violations.take(optional_document_id("after", &request.after)).flatten();
    violations.into_result()?;
    Ok(SelectAsked {
        shard: shard.ok_or_else(|| missing("shard"))?,
        selection: Selection { filter, prefix, state },
        after,
        limit: request.limit as usize,
    })
}

/// Converts a request for descriptions of documents for the wire.
pub fn describe_to_wire(
    shard: &ShardRefWithAccess,
    ids: &[DocumentId],
) -> wire::DescribeDocumentsRequest {
    let document_ids = ids.iter().map(ToString::to_string).collect();
    wire::DescribeDocumentsRequest { shard: Some(shard.into()), document_ids }
}

/// Converts a request for descriptions of documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn describe_from_wire(
    request: wire::DescribeDocumentsRequest,
    limits: &Limits,
) -> Result<(ShardRefWithAccess, Vec<DocumentId>), Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let (most, got) = (limits.document_ids, request.document_ids.len());
    if got > most {
        violations.push("document_ids", format!("expected at most {most}, got {got}"));
    }
    let ids = distinct_document_ids("document_ids", &request.document_ids, &mut violations);
    violations.into_result()?;
    Ok((shard.ok_or_else(|| missing("shard"))?, ids))
}

/// Converts descriptions of documents for the wire, to messages of about `message_bytes` each.
pub fn described_to_wire(
    described: Vec<DescribedDocument>,
    message_bytes: usize,
) -> Vec<wire::DescribeDocumentsResponse> {
    let document = |described: DescribedDocument| wire::DescribedDocument {
        document_id: described.document_id.into(),
        title: described.title,
        attributes: attributes_to_wire(&described.attributes),
    };
    let messages = in_messages(described.into_iter().map(document), message_bytes);
    messages.into_iter().map(|documents| wire::DescribeDocumentsResponse { documents }).collect()
}

/// Converts descriptions of documents from the messages of a response.
///
/// # Errors
/// Returns an error if a document is malformed.
pub fn described_from_wire(
    messages: impl IntoIterator<Item = wire::DescribeDocumentsResponse>,
) -> Result<Vec<DescribedDocument>, Error> {
    let document = |described: wire::DescribedDocument| {
        let mut violations = Violations::default();
        let attributes = attributes_from_wire("attributes", described.attributes, &mut violations);
        violations.into_result().map_err(|_| malformed("attributes"))?;
        let document_id = document_id("document_id", &described.document_id)?;
        Ok(DescribedDocument { document_id, title: described.title, attributes })
    };
    messages.into_iter().flat_map(|message| message.documents).map(document).collect()
}

#[cfg(test)]
mod tests {
    use clew_core::{DocumentState, Filter};

    use super::*;
    use crate::convert::shard::tests::shard;

    #[test]
    fn selections_and_descriptions_survive_the_wire() {
        let selection = Selection {
            filter: Filter { condition: Some("year > 2020".parse().unwrap()), ..Filter::default() },
            prefix: Some("notes/".parse().unwrap()),
            state: Some(DocumentState::Indexed),
        };
        let after: DocumentId = "notes/1".parse().unwrap();
        let wire = select_to_wire(&shard(), &selection, Some(&after), 7);
        let expected =
            SelectAsked { shard: shard(), selection, after: Some(after.clone()), limit: 7 };
        assert_eq!(select_from_wire(wire, &Limits::default()).unwrap(), expected);

        let described: Vec<DescribedDocument> = (0..5)
            .map(|number: i64| DescribedDocument {
                document_id: format!("d{number}").parse().unwrap(),
                title: "A title".to_owned(),
                attributes: [("n".to_owned().try_into().unwrap(), number.into())].into(),
            })
            .collect();
        for message_bytes in [1, 1 << 20] {
            let messages = described_to_wire(described.clone(), message_bytes);
            assert_eq!(described_from_wire(messages).unwrap(), described);
        }
    }

    #[test]
    fn what_is_wrong_with_a_selection_is_told_by_name() {
        let wire = wire::SelectDocumentsRequest {
            filter: Some(crate::query::v1::Filter {
                condition: Some(crate::query::v1::Condition::default()),
                ..Default::default()
            }),
            id_prefix: "a\n".to_owned(),
            state: 99,
            ..select_to_wire(&shard(), &Selection::default(), None, 0)
        };
        let error = select_from_wire(wire, &Limits::default()).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["filter.condition", "id_prefix", "state"]);
    }
}
