//! Checks of a shard, and the progress of its vectors.

use clew_core::{CheckQuery, Checked, Error, Recipe, Reembedded};

use super::{ShardRefWithAccess, optional_document_id, shard_from_wire};
use crate::convert::corpus::{breach_from_wire, breach_to_wire};
use crate::shard::v1 as wire;

/// Converts a request to check a page of documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn check_from_wire(
    request: wire::CheckDocumentsRequest,
) -> Result<(ShardRefWithAccess, CheckQuery), Error> {
    let after = optional_document_id("after", &request.after)?;
    let asked = CheckQuery { after, limit: request.limit as usize };
    Ok((shard_from_wire(request.shard)?, asked))
}

/// Converts the result of checking a page of documents for the wire.
pub fn checked_to_wire(checked: &Checked) -> wire::CheckDocumentsResponse {
    wire::CheckDocumentsResponse {
        documents: checked.documents,
        chunks: checked.chunks,
        breaches: checked.breaches.iter().map(breach_to_wire).collect(),
        last: checked.last.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

/// Converts the result of checking a page of documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn checked_from_wire(checked: wire::CheckDocumentsResponse) -> Result<Checked, Error> {
    Ok(Checked {
        documents: checked.documents,
        chunks: checked.chunks,
        breaches: checked.breaches.into_iter().map(breach_from_wire).collect::<Result<_, _>>()?,
        last: optional_document_id("last", &checked.last)?,
    })
}

/// Converts the progress of a shard's vectors for the wire.
pub fn reembedded_to_wire(reembedded: Reembedded) -> wire::GetReembeddedResponse {
    let Reembedded { recipe: Recipe(recipe), documents, outdated, set_aside } = reembedded;
    wire::GetReembeddedResponse { recipe, documents, outdated, set_aside }
}

/// Converts the progress of a shard's vectors from the wire.
pub fn reembedded_from_wire(reembedded: wire::GetReembeddedResponse) -> Reembedded {
    let wire::GetReembeddedResponse { recipe, documents, outdated, set_aside } = reembedded;
    Reembedded { recipe: Recipe(recipe), documents, outdated, set_aside }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::shard::tests::shard;

    #[test]
    fn what_a_check_found_survives_the_wire() {
        let breach = |&invariant| clew_core::Breach {
            invariant,
            document_id: "a".parse().unwrap(),
            detail: "expected one row, got 2".to_owned(),
        };
        let checked = Checked {
            documents: 3,
            chunks: 9,
            breaches: clew_core::Invariant::ALL.iter().map(breach).collect(),
            last: Some("b".parse().unwrap()),
        };
        assert_eq!(checked_from_wire(checked_to_wire(&checked)).unwrap(), checked);
        let asked = wire::CheckDocumentsRequest {
            shard: Some((&shard()).into()),
            after: String::new(),
            limit: 7,
        };
        assert_eq!(
            check_from_wire(asked).unwrap(),
            (shard(), CheckQuery { after: None, limit: 7 })
        );
    }
}
