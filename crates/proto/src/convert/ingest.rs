//! Conversions of the messages of `clew.ingest.v1`.

use std::sync::Arc;

use bytes::Bytes;
use clew_core::{
    Accepted, AttributeName, Attributes, CorpusName, Document, DocumentId, Error, Labels, Limits,
    MediaType, Novelty, Version, Violations,
};

use crate::convert::{
    corpus_name, distinct_document_ids, document_id, optional_timestamp_from_wire,
    timestamp_to_wire,
};
use crate::ingest::v1 as wire;

/// Converts a document from the wire, and checks it against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn document_from_wire(document: wire::Document, limits: &Limits) -> Result<Document, Error> {
    let mut violations = Violations::default();
    let id = violations.take(document_id("document.id", &document.id));
    let media_type = violations.take(MediaType::try_from_name(&document.media_type));
    let text = match String::from_utf8(document.text.into()) {
        Ok(text) => Some(text),
        Err(error) => {
            let place = error.utf8_error().valid_up_to();
            violations.push("document.text", format!("invalid UTF-8 at byte {place}"));
            None
        }
    };
    let mut attributes = Attributes::new();
    for attribute in document.attributes {
        if let Some(name) = violations.take(AttributeName::try_from(attribute.name))
            && attributes.insert(name, attribute.value).is_some()
        {
            violations.push("document.attributes", "duplicate name: each may be set once");
        }
    }
    let event_time = document.event_time.as_ref();
    let event_time =
        optional_timestamp_from_wire("document.event_time", event_time, &mut violations);
    let labels = labels_from_wire("document.labels", &document.labels, &mut violations);
    let (Some(id), Some(media_type), Some(text)) = (id, media_type, text) else {
        violations.into_result()?;
        return Err(Error::internal("a field was neither taken nor refused"));
    };
    let title = document.title;
    let document = Document { id, text, media_type, title, attributes, event_time, labels };
    document.check(limits, &mut violations);
    violations.into_result()?;
    Ok(document)
}

/// Converts a document for the wire.
pub fn document_to_wire(document: Document) -> wire::Document {
    wire::Document {
        id: document.id.into(),
        text: document.text.into(),
        media_type: document.media_type.as_str().to_owned(),
        title: document.title,
        attributes: document
            .attributes
            .into_iter()
            .map(|(name, value)| wire::Attribute { name: name.into(), value })
            .collect(),
        event_time: document.event_time.map(timestamp_to_wire),
        labels: labels_to_wire(&document.labels),
    }
}

/// Converts a document that others may use as well. Its text is not copied.
pub fn shared_document_to_wire(document: &Arc<Document>) -> wire::Document {
    struct SharedText(Arc<Document>);

    impl AsRef<[u8]> for SharedText {
        fn as_ref(&self) -> &[u8] {
            self.0.text.as_bytes()
        }
    }

    let Document { id, text: _, media_type, title, attributes, event_time, labels } = &**document;
    let attribute = |(name, value): (&AttributeName, &String)| wire::Attribute {
        name: name.as_str().to_owned(),
        value: value.clone(),
    };
    wire::Document {
        id: id.to_string(),
        text: Bytes::from_owner(SharedText(Arc::clone(document))),
        media_type: media_type.as_str().to_owned(),
        title: title.clone(),
        attributes: attributes.iter().map(attribute).collect(),
        event_time: event_time.map(timestamp_to_wire),
        labels: labels_to_wire(labels),
    }
}

/// Converts access labels from the wire. Adds violations, named `field`, if they are invalid.
pub fn labels_from_wire(field: &str, labels: &[String], violations: &mut Violations) -> Labels {
    Labels::parse(labels).unwrap_or_else(|error| {
        for violation in error.violations() {
            violations.push(field, violation.description.clone());
        }
        Labels::default()
    })
}

/// Converts access labels for the wire.
pub fn labels_to_wire(labels: &Labels) -> Vec<String> {
    labels.iter().map(ToString::to_string).collect()
}

/// Maximum bytes of text in one message; longer texts continue in further messages.
pub const TEXT_PART_BYTES: usize = 1 << 20;

/// Removes the next part from a text that is sent in several messages, and returns it.
pub fn next_text_part(rest: &mut Bytes) -> Bytes {
    rest.split_to(rest.len().min(TEXT_PART_BYTES))
}

/// Converts the acceptance of a document for the wire.
pub fn accepted_to_wire(accepted: &Accepted) -> wire::Accepted {
    let novelty = match accepted.novelty {
        Novelty::New => wire::Novelty::New,
        Novelty::Replaced => wire::Novelty::Replaced,
        Novelty::Unchanged => wire::Novelty::Unchanged,
    };
    let unchanged = accepted.novelty == Novelty::Unchanged;
    wire::Accepted { version: accepted.version.0, unchanged, novelty: novelty.into() }
}

/// Converts the acceptance of a document from the wire. If an earlier release does not send its
/// novelty, it counts as new unless it is unchanged.
pub fn accepted_from_wire(accepted: &wire::Accepted) -> Accepted {
    let novelty = match accepted.novelty() {
        wire::Novelty::Replaced => Novelty::Replaced,
        wire::Novelty::Unchanged => Novelty::Unchanged,
        _ if accepted.unchanged => Novelty::Unchanged,
        wire::Novelty::New | wire::Novelty::Unspecified => Novelty::New,
    };
    Accepted { version: Version(accepted.version), novelty }
}

/// Converts the error of a document to its refusal.
pub fn refusal(error: &Error) -> wire::Refused {
    wire::Refused {
        reason: error.reason().to_owned(),
        violations: error
            .violations()
            .iter()
            .map(|violation| wire::FieldViolation {
                field: violation.field.clone(),
                description: violation.description.clone(),
            })
            .collect(),
        message: error.message().to_owned(),
        retryable: error.is_retryable(),
    }
}

/// Returns the corpus and the documents of a ForgetDocuments request.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn forget_from_wire(
    request: &wire::ForgetDocumentsRequest,
    limits: &Limits,
) -> Result<(CorpusName, Vec<DocumentId>), Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    let count = request.document_ids.len();
    if !(1..=limits.document_ids).contains(&count) {
        violations
            .push("document_ids", format!("expected 1 to {}, got {count}", limits.document_ids));
    }
    let ids = distinct_document_ids("document_ids", &request.document_ids, &mut violations);
    violations.into_result()?;
    match corpus {
        Some(corpus) => Ok((corpus, ids)),
        None => Err(Error::internal("a field was neither taken nor refused")),
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Timestamp;

    use super::*;

    fn document() -> Document {
        Document {
            id: "docs/ü.md".parse().unwrap(),
            text: "Ariadne gave Theseus a clew.".to_owned(),
            media_type: MediaType::Markdown,
            title: "Thread".to_owned(),
            attributes: [(AttributeName::try_from("year".to_owned()).unwrap(), "x".to_owned())]
                .into(),
            event_time: Some(Timestamp::from_micros(-5)),
            labels: Labels::parse(["a", "b"]).unwrap(),
        }
    }

    #[test]
    fn documents_round_trip() {
        let wire = document_to_wire(document());
        assert_eq!(shared_document_to_wire(&Arc::new(document())), wire);
        assert_eq!(document_from_wire(wire, &Limits::default()).unwrap(), document());
    }

    #[test]
    fn every_field_at_fault_is_named() {
        let attribute = wire::Attribute { name: "a b".to_owned(), value: String::new() };
        let bad = wire::Document {
            id: String::new(),
            text: vec![b'a', 0xff].into(),
            media_type: "image/png".to_owned(),
            title: String::new(),
            attributes: vec![attribute],
            event_time: Some(prost_types::Timestamp { seconds: 0, nanos: -1 }),
            labels: vec!["A".to_owned()],
        };
        let error = document_from_wire(bad, &Limits::default()).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(
            fields,
            [
                "document.id",
                "document.media_type",
                "document.text",
                "document.attributes",
                "document.event_time",
                "document.labels"
            ]
        );
    }

    #[test]
    fn acknowledgements_round_trip_and_those_of_earlier_releases_are_understood() {
        for novelty in [Novelty::New, Novelty::Replaced, Novelty::Unchanged] {
            let accepted = Accepted { version: Version(7), novelty };
            assert_eq!(accepted_from_wire(&accepted_to_wire(&accepted)), accepted);
        }
        for (unchanged, novelty) in [(false, Novelty::New), (true, Novelty::Unchanged)] {
            let told = wire::Accepted { version: 7, unchanged, novelty: 0 };
            assert_eq!(accepted_from_wire(&told).novelty, novelty);
        }
    }

    #[test]
    fn forgetting_refuses_duplicates_and_empty_lists() {
        let ask = |ids: &[&str]| {
            let request = wire::ForgetDocumentsRequest {
                corpus: "notes".to_owned(),
                document_ids: ids.iter().map(ToString::to_string).collect(),
            };
            forget_from_wire(&request, &Limits::default())
        };
        assert!(ask(&["a", "b"]).is_ok());
        assert!(ask(&[]).is_err());
        assert_eq!(ask(&["a", "a"]).unwrap_err().violations()[0].field, "document_ids[1]");
    }
}
