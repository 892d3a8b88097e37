//! Conversions of the messages of `clew.ingest.v1`.

use std::sync::Arc;

use bytes::Bytes;
use clew_core::{
    Accepted, ChunkId, ChunkKind, ChunkListQuery, CorpusName, Document, DocumentId, Error, Labels,
    Limits, ListedChunk, ListedChunks, MediaType, Novelty, Selection, SourceVersion, Span, Version,
    Violations,
};

use crate::convert::attribute::{attributes_from_wire, attributes_to_wire};
use crate::convert::query::checked_filter_from_wire;
use crate::convert::{
    Page, corpus_name, distinct_document_ids, document_id, optional_timestamp_from_wire,
    timestamp_to_wire,
};
use crate::ingest::v1 as wire;
use crate::query::v1::Filter;

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
    let attributes =
        attributes_from_wire("document.attributes", document.attributes, &mut violations);
    let event_time = document.event_time.as_ref();
    let event_time =
        optional_timestamp_from_wire("document.event_time", event_time, &mut violations);
    let labels = labels_from_wire("document.labels", &document.labels, &mut violations);
    let (Some(id), Some(media_type), Some(text)) = (id, media_type, text) else {
        violations.into_result()?;
        return Err(Error::internal("a field was neither taken nor refused"));
    };
    let document = Document {
        id,
        text,
        media_type,
        title: document.title,
        attributes,
        event_time,
        labels,
        source_version: document.source_version.map(SourceVersion),
    };
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
        attributes: attributes_to_wire(&document.attributes),
        event_time: document.event_time.map(timestamp_to_wire),
        labels: labels_to_wire(&document.labels),
        source_version: document.source_version.map(|number| number.0),
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

    let Document { id, media_type, title, attributes, event_time, labels, source_version, .. } =
        &**document;
    wire::Document {
        id: id.to_string(),
        text: Bytes::from_owner(SharedText(Arc::clone(document))),
        media_type: media_type.as_str().to_owned(),
        title: title.clone(),
        attributes: attributes_to_wire(attributes),
        event_time: event_time.map(timestamp_to_wire),
        labels: labels_to_wire(labels),
        source_version: source_version.map(|number| number.0),
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

/// Maximum number of documents of an IngestDocuments request.
pub const DOCUMENTS_TOGETHER: usize = 100;

/// Returns the messages of an Ingest stream that holds the documents of an IngestDocuments request.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if there are no documents or too many.
pub fn documents_in_messages(
    request: wire::IngestDocumentsRequest,
) -> Result<Vec<wire::IngestRequest>, Error> {
    use wire::ingest_request::Payload;
    let wire::IngestDocumentsRequest { corpus, documents, only_additions } = request;
    if !(1..=DOCUMENTS_TOGETHER).contains(&documents.len()) {
        let got = documents.len();
        let problem = format!(
            "expected 1 to {DOCUMENTS_TOGETHER}, got {got}; send more in several calls or by Ingest"
        );
        return Err(Error::invalid("documents", problem));
    }
    let message = |document| wire::IngestRequest {
        corpus: corpus.clone(),
        payload: Some(match only_additions {
            true => Payload::Addition(document),
            false => Payload::Document(document),
        }),
        continues: false,
        text_bytes: 0,
    };
    Ok(documents.into_iter().map(message).collect())
}

/// Page of the chunks of a document, as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkPage {
    /// The chunks that are wanted.
    pub query: ChunkListQuery,
    /// Version of the document that the previous page was of.
    pub version: Option<Version>,
}

/// Maximum number of chunks of a page with texts.
const CHUNKS_WITH_TEXTS: usize = 100;

/// Converts a request for a page of chunks from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn chunk_page_from_wire(request: &wire::ListChunksRequest) -> Result<ChunkPage, Error> {
    let mut violations = Violations::default();
    let document_id = violations.take(document_id("document_id", &request.document_id));
    let page = violations.take(Page::from_wire(request.page_size, &request.page_token));
    let after = page.as_ref().map_or("", |page| page.after.as_str());
    let place = chunk_place(after);
    if !after.is_empty() && place.is_none() {
        violations.push("page_token", "expected a next_page_token of an earlier response");
    }
    violations.into_result()?;
    let (Some(document_id), Some(page)) = (document_id, page) else {
        return Err(Error::internal("a field was neither taken nor refused"));
    };
    let with_texts = request.with_texts;
    let limit = if with_texts { page.size.min(CHUNKS_WITH_TEXTS) } else { page.size };
    let (version, from) = place.map_or((None, 0), |(version, from)| (Some(version), from));
    Ok(ChunkPage { query: ChunkListQuery { document_id, from, limit, with_texts }, version })
}

/// Returns the version and the ordinal at which a page of chunks begins.
fn chunk_place(text: &str) -> Option<(Version, u32)> {
    let (version, ordinal) = text.split_once(':')?;
    Some((Version(version.parse().ok()?), ordinal.parse().ok()?))
}

/// Converts a page of the chunks of a document for the wire. `corpus` is the full name of its
/// corpus.
pub fn chunk_page_to_wire(
    corpus: &CorpusName,
    document_id: &DocumentId,
    listed: ListedChunks,
) -> wire::ListChunksResponse {
    let ListedChunks { version, chunk_count, chunks } = listed;
    let version = version.unwrap_or(Version(0));
    let next = chunks.last().map_or(0, |last| last.ordinal.saturating_add(1));
    let is_last = chunks.is_empty() || u64::from(next) >= chunk_count;
    let next_page_token = match is_last {
        true => String::new(),
        false => Page::token_after(&format!("{}:{next}", version.0)),
    };
    let chunk = |chunk: ListedChunk| {
        let id = ChunkId::derive(corpus, document_id, version, chunk.ordinal);
        listed_chunk_to_wire(chunk, id.to_string())
    };
    let chunks = chunks.into_iter().map(chunk).collect();
    wire::ListChunksResponse { version: version.0, chunk_count, chunks, next_page_token }
}

/// Converts a chunk for the wire.
pub(crate) fn listed_chunk_to_wire(chunk: ListedChunk, chunk_id: String) -> wire::DocumentChunk {
    let kind = match chunk.kind {
        ChunkKind::Passage => wire::ChunkKind::Passage,
        ChunkKind::Statement => wire::ChunkKind::Statement,
        ChunkKind::Key => wire::ChunkKind::Key,
    };
    wire::DocumentChunk {
        chunk_id,
        ordinal: chunk.ordinal,
        kind: kind.into(),
        start: chunk.span.start as u64,
        end: chunk.span.end as u64,
        tokens: chunk.tokens,
        text: chunk.text,
        key_text: chunk.key_text,
    }
}

/// Converts a chunk from the wire, with which a shard answers.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the message is malformed.
pub(crate) fn listed_chunk_from_wire(chunk: wire::DocumentChunk) -> Result<ListedChunk, Error> {
    let malformed = |what: &str| Error::internal(format!("a chunk has no valid {what}"));
    let kind = match chunk.kind() {
        wire::ChunkKind::Passage => ChunkKind::Passage,
        wire::ChunkKind::Statement => ChunkKind::Statement,
        wire::ChunkKind::Key => ChunkKind::Key,
        wire::ChunkKind::Unspecified => return Err(malformed("kind")),
    };
    let span = match (usize::try_from(chunk.start), usize::try_from(chunk.end)) {
        (Ok(start), Ok(end)) if start <= end => Span::new(start, end),
        _ => return Err(malformed("span")),
    };
    let wire::DocumentChunk { ordinal, tokens, text, key_text, .. } = chunk;
    Ok(ListedChunk { ordinal, kind, span, tokens, text, key_text })
}

/// Documents of a request: named, or selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichDocuments {
    /// Those with these ids.
    Named(Vec<DocumentId>),
    /// Those that are selected.
    Selected(Selection),
}

/// Content of a valid ForgetDocuments request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentsToForget {
    /// Name of the corpus.
    pub corpus: CorpusName,
    /// The documents.
    pub which: WhichDocuments,
    /// Whether only to tell what would be forgotten.
    pub preview: bool,
}

/// Converts a ForgetDocuments request from the wire, and checks it against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field. A selection of
/// everything is refused, so that nobody empties a corpus by leaving a field out.
pub fn forget_from_wire(
    request: wire::ForgetDocumentsRequest,
    limits: &Limits,
) -> Result<DocumentsToForget, Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    let is_selection = request.filter.is_some() || !request.id_prefix.is_empty();
    let count = request.document_ids.len();
    let which = if is_selection {
        if count > 0 {
            violations.push("document_ids", "expected none besides `filter` or `id_prefix`");
        }
        let mut own = Violations::default();
        let selection = selection_from_wire(request.filter, &request.id_prefix, limits, &mut own);
        // A part that is invalid restricts nothing, but says more about what is wrong.
        if violations.take(own.into_result()).is_some() && selection.is_everything() {
            let problem = "expected a filter that restricts something; delete the corpus to \
                           forget everything";
            violations.push("filter", problem);
        }
        WhichDocuments::Selected(selection)
    } else {
        if !(1..=limits.document_ids).contains(&count) {
            let most = limits.document_ids;
            let problem = format!("expected 1 to {most}, or a filter or `id_prefix`, got {count}");
            violations.push("document_ids", problem);
        }
        let ids = distinct_document_ids("document_ids", &request.document_ids, &mut violations);
        WhichDocuments::Named(ids)
    };
    violations.into_result()?;
    match corpus {
        Some(corpus) => Ok(DocumentsToForget { corpus, which, preview: request.preview }),
        None => Err(Error::internal("a field was neither taken nor refused")),
    }
}

/// Converts the parts of a request that select documents, whatever their state. Adds violations,
/// named after `filter` and `id_prefix`, if they are invalid.
pub fn selection_from_wire(
    filter: Option<Filter>,
    id_prefix: &str,
    limits: &Limits,
    violations: &mut Violations,
) -> Selection {
    let filter = checked_filter_from_wire(filter, limits, violations);
    let prefix = match id_prefix {
        "" => None,
        prefix => violations.take(document_id("id_prefix", prefix)),
    };
    Selection { filter, prefix, state: None }
}

#[cfg(test)]
mod tests {
    use clew_core::{AttributeName, AttributeValue, Timestamp};

    use super::*;

    fn name(name: &str) -> AttributeName {
        name.to_owned().try_into().unwrap()
    }

    fn document() -> Document {
        Document {
            id: "docs/ü.md".parse().unwrap(),
            text: "Ariadne gave Theseus a clew.".to_owned(),
            media_type: MediaType::Markdown,
            title: "Thread".to_owned(),
            attributes: [
                (name("source"), "wiki".into()),
                (name("year"), 2020.into()),
                (name("rating"), AttributeValue::number(0.5).unwrap()),
                (name("draft"), false.into()),
            ]
            .into(),
            event_time: Some(Timestamp::from_micros(-5)),
            labels: Labels::parse(["a", "b"]).unwrap(),
            source_version: Some(SourceVersion(0)),
        }
    }

    #[test]
    fn documents_round_trip() {
        let wire = document_to_wire(document());
        assert_eq!(shared_document_to_wire(&Arc::new(document())), wire);
        assert_eq!(document_from_wire(wire, &Limits::default()).unwrap(), document());
    }

    #[test]
    fn a_value_that_cannot_be_is_refused_with_the_name_of_its_attribute() {
        for kind in [None, Some(wire::value::Kind::Number(f64::NAN))] {
            let attribute = wire::Attribute {
                name: "year".to_owned(),
                typed: Some(wire::Value { kind }),
                ..wire::Attribute::default()
            };
            let wire =
                wire::Document { attributes: vec![attribute], ..document_to_wire(document()) };
            let error = document_from_wire(wire, &Limits::default()).unwrap_err();
            let violation = &error.violations()[0];
            assert_eq!(violation.field, "document.attributes");
            assert!(violation.description.contains("`year`"), "{}", violation.description);
        }
    }

    #[test]
    fn every_field_at_fault_is_named() {
        let attribute = wire::Attribute { name: "a b".to_owned(), ..Default::default() };
        let bad = wire::Document {
            id: String::new(),
            text: vec![b'a', 0xff].into(),
            media_type: "image/png".to_owned(),
            title: String::new(),
            attributes: vec![attribute],
            event_time: Some(prost_types::Timestamp { seconds: 0, nanos: -1 }),
            labels: vec!["A".to_owned()],
            source_version: None,
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
    fn a_message_of_documents_is_a_stream_of_them() {
        use wire::ingest_request::Payload;
        let sent = |count: usize, only_additions| {
            let (corpus, documents) = ("notes".to_owned(), vec![wire::Document::default(); count]);
            documents_in_messages(wire::IngestDocumentsRequest {
                corpus,
                documents,
                only_additions,
            })
        };
        for only_additions in [false, true] {
            let messages = sent(DOCUMENTS_TOGETHER, only_additions).unwrap();
            assert_eq!(messages.len(), DOCUMENTS_TOGETHER);
            for message in messages {
                assert_eq!((message.corpus.as_str(), message.continues), ("notes", false));
                let is_addition = matches!(message.payload, Some(Payload::Addition(_)));
                assert_eq!(is_addition, only_additions);
            }
        }
        for count in [0, DOCUMENTS_TOGETHER + 1] {
            assert_eq!(sent(count, false).unwrap_err().fields_at_fault(), ["documents"]);
        }
    }

    #[test]
    fn pages_of_chunks_continue_in_the_same_version() {
        let request = |page_size, with_texts, page_token: &str| {
            chunk_page_from_wire(&wire::ListChunksRequest {
                corpus: "notes".to_owned(),
                document_id: "a".to_owned(),
                with_texts,
                page_size,
                page_token: page_token.to_owned(),
            })
        };
        let first = request(2, false, "").unwrap();
        assert_eq!((first.version, first.query.from, first.query.limit), (None, 0, 2));
        assert_eq!(request(500, true, "").unwrap().query.limit, CHUNKS_WITH_TEXTS);
        let chunk = |ordinal| ListedChunk {
            ordinal,
            kind: ChunkKind::Passage,
            span: Span::new(0, 1),
            tokens: 1,
            text: String::new(),
            key_text: String::new(),
        };
        let listed = |ordinals: std::ops::Range<u32>| {
            let (version, chunks) = (Some(Version(9)), ordinals.map(chunk).collect());
            let listed = ListedChunks { version, chunk_count: 3, chunks };
            chunk_page_to_wire(&"notes".parse().unwrap(), &"a".parse().unwrap(), listed)
        };
        let second = request(2, false, &listed(0..2).next_page_token).unwrap();
        assert_eq!((second.version, second.query.from), (Some(Version(9)), 2));
        assert_eq!(listed(2..3).next_page_token, "");
        assert_eq!(listed(0..0).next_page_token, "");
        assert!(listed(2..3).chunks[0].chunk_id.starts_with("chunk-"));
        for bad in ["x", &Page::token_after("9"), &Page::token_after("9:x")] {
            assert_eq!(request(2, false, bad).unwrap_err().fields_at_fault(), ["page_token"]);
        }
    }

    #[test]
    fn forgetting_refuses_duplicates_and_selections_of_everything() {
        let corpus = || "notes".to_owned();
        let ids = |ids: &[&str]| wire::ForgetDocumentsRequest {
            corpus: corpus(),
            document_ids: ids.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        let selected = |filter: Option<Filter>, prefix: &str| wire::ForgetDocumentsRequest {
            corpus: corpus(),
            filter,
            id_prefix: prefix.to_owned(),
            preview: true,
            ..Default::default()
        };
        let one = || Filter { document_ids: vec!["a".to_owned()], ..Filter::default() };
        let ask = |request| forget_from_wire(request, &Limits::default());

        let both = ask(ids(&["a", "b"])).unwrap();
        let named = ["a", "b"].map(|id| id.parse().unwrap()).to_vec();
        assert_eq!((both.which, both.preview), (WhichDocuments::Named(named), false));
        let below = ask(selected(None, "notes/")).unwrap();
        let prefix = Some("notes/".parse().unwrap());
        let selection = Selection { prefix, ..Selection::default() };
        assert_eq!((below.which, below.preview), (WhichDocuments::Selected(selection), true));
        assert!(ask(selected(Some(one()), "")).is_ok());
        assert!(ask(selected(Some(Filter::default()), "a")).is_ok());

        let many = Filter {
            document_ids: (0..1001).map(|number| number.to_string()).collect(),
            ..Filter::default()
        };
        let refused = [
            (ids(&[]), "document_ids"),
            (ids(&["a", "a"]), "document_ids[1]"),
            (selected(Some(Filter::default()), ""), "filter"),
            (selected(Some(many), ""), "filter.document_ids"),
            (selected(None, "a\n"), "id_prefix"),
            (wire::ForgetDocumentsRequest { filter: Some(one()), ..ids(&["a"]) }, "document_ids"),
        ];
        for (request, field) in refused {
            let told = format!("{request:?}");
            assert_eq!(ask(request).unwrap_err().violations()[0].field, field, "{told}");
        }
    }
}
