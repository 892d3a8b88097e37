//! Conversions of the messages of `clew.shard.v1`.
//!
//! Both ends are Clew, but a peer may be of another release, so nothing that arrives is trusted to
//! be well-formed.

use clew_core::{
    Access, CandidateQuery, Candidates, CheckQuery, Checked, ClueQuery, Clues, CorpusName, Counts,
    DocumentId, DocumentState, DocumentStatus, DraftTask, DraftedClues, Erasure, ErasureScan,
    Error, FailureStatus, Forgotten, GraphQuery, Hit, HoldingSnapshot, Label, Labels, Leftover,
    Limits, ListQuery, Recipe, Reembedded, SegmentId, ShardIndex, Stage, StoredDocument, Timestamp,
    TreeQuery, Version, Violations,
};

use crate::convert::corpus::{breach_from_wire, breach_to_wire};
use crate::convert::{
    corpus_name, distinct_document_ids, document_id, ingest, memory, query, timestamp_from_wire,
    timestamp_to_wire,
};
use crate::ingest::v1 as ingest_wire;
use crate::shard::v1 as wire;
use crate::status::{code_of, kind_of};

/// Maximum bytes of the fingerprint of a model.
const FINGERPRINT_BYTES: usize = 64;

/// Maximum number of documents that one call reads whole.
pub const DOCUMENTS_AT_ONCE: usize = 64;

/// Shard, with the time at which its corpus was created.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardRef {
    /// Name of its corpus.
    pub corpus: CorpusName,
    /// Time at which that corpus was created, which distinguishes it from an earlier one of the
    /// same name.
    pub corpus_created_at: Timestamp,
    /// Index of the shard in the corpus.
    pub shard: ShardIndex,
}

/// Shard, as far as a caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenShard {
    /// The shard.
    pub shard: ShardRef,
    /// Access of the caller.
    pub access: Access,
}

impl From<&SeenShard> for wire::ShardRef {
    fn from(SeenShard { shard, access }: &SeenShard) -> Self {
        Self {
            corpus: shard.corpus.to_string(),
            corpus_created_at: Some(timestamp_to_wire(shard.corpus_created_at)),
            shard: shard.shard.0,
            held_labels: access.labels().map(ToString::to_string).collect(),
            holds_all_labels: access.is_all(),
        }
    }
}

/// Converts a shard from the wire. If nothing is set about labels, the caller holds none.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn shard_from_wire(shard: Option<wire::ShardRef>) -> Result<SeenShard, Error> {
    let shard = shard.ok_or_else(|| missing("shard"))?;
    let access = match shard.holds_all_labels {
        true => Access::all(),
        false => {
            let held = shard.held_labels.iter().map(|label| label.parse());
            Access::holding(held.collect::<Result<Vec<Label>, Error>>()?)
        }
    };
    let shard = ShardRef {
        corpus: corpus_name(&shard.corpus)?,
        corpus_created_at: required_time("shard.corpus_created_at", shard.corpus_created_at)?,
        shard: ShardIndex(shard.shard),
    };
    Ok(SeenShard { shard, access })
}

/// Converts a search for candidates for the wire.
pub fn candidates_to_wire(
    shard: &SeenShard,
    asked: &CandidateQuery,
) -> wire::FindCandidatesRequest {
    wire::FindCandidatesRequest {
        shard: Some(shard.into()),
        text: asked.text.clone(),
        vector: asked.vector.clone().unwrap_or_default(),
        mode: query::search_mode_to_wire(asked.mode).into(),
        filter: Some(query::filter_to_wire(asked.filter.clone())),
        grouping: query::grouping_to_wire(asked.grouping).into(),
        limit: u32::try_from(asked.limit).unwrap_or(u32::MAX),
        exact: asked.exact,
        encoder: asked.encoder.clone(),
    }
}

/// Converts a search for candidates from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn candidates_from_wire(
    request: wire::FindCandidatesRequest,
) -> Result<(SeenShard, CandidateQuery), Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let mode = query::search_mode_from_wire(request.mode, &mut violations);
    let grouping = query::grouping_from_wire(request.grouping, &mut violations);
    let filter = query::filter_from_wire(request.filter.unwrap_or_default(), &mut violations);
    if request.encoder.len() > FINGERPRINT_BYTES {
        violations.push("encoder", format!("expected at most {FINGERPRINT_BYTES} bytes"));
    }
    violations.into_result()?;
    let shard = shard.ok_or_else(|| missing("shard"))?;
    let asked = CandidateQuery {
        encoder: request.encoder,
        text: request.text,
        vector: Some(request.vector).filter(|vector| !vector.is_empty()),
        mode,
        filter,
        grouping,
        limit: request.limit as usize,
        exact: request.exact,
    };
    Ok((shard, asked))
}

/// Converts candidates for the wire, to messages of about `message_bytes` each.
pub fn found_to_wire(found: Candidates, message_bytes: usize) -> Vec<wire::FindCandidatesResponse> {
    let mut numbers = std::collections::HashMap::new();
    let mut chunks = Vec::new();
    let mut ranked = |hits: Vec<Hit>| {
        hits.into_iter()
            .map(|hit| {
                let score = hit.score;
                let chunk = *numbers.entry(hit.chunk_id).or_insert_with(|| {
                    chunks.push(chunk_to_wire(hit));
                    u32::try_from(chunks.len() - 1).unwrap_or(u32::MAX)
                });
                wire::Ranked { chunk, score }
            })
            .collect()
    };
    let rankings = wire::Rankings {
        dense: ranked(found.dense),
        sparse: ranked(found.sparse),
        attainable: found.attainable,
    };
    let mut messages =
        vec![wire::FindCandidatesResponse { rankings: Some(rankings), chunks: Vec::new() }];
    let mut bytes = 0;
    for chunk in chunks {
        bytes += prost::Message::encoded_len(&chunk);
        if bytes > message_bytes {
            messages.push(wire::FindCandidatesResponse::default());
            bytes = 0;
        }
        if let Some(last) = messages.last_mut() {
            last.chunks.push(chunk);
        }
    }
    messages
}

/// Converts candidates from the messages of a response.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the messages do not fit together.
pub fn found_from_wire(
    messages: impl IntoIterator<Item = wire::FindCandidatesResponse>,
) -> Result<Candidates, Error> {
    let mut rankings = None;
    let mut chunks = Vec::new();
    for message in messages {
        rankings = rankings.or(message.rankings);
        for chunk in message.chunks {
            chunks.push(hit_from_wire(chunk)?);
        }
    }
    let rankings = rankings.ok_or_else(|| malformed("no rankings"))?;
    let hits = |ranked: Vec<wire::Ranked>| {
        let hit = |ranked: wire::Ranked| {
            let chunk = chunks.get(ranked.chunk as usize);
            let chunk: &Hit = chunk.ok_or_else(|| malformed("a chunk that is not there"))?;
            Ok(Hit { score: ranked.score, ..chunk.clone() })
        };
        ranked.into_iter().map(hit).collect::<Result<Vec<_>, Error>>()
    };
    Ok(Candidates {
        dense: hits(rankings.dense)?,
        sparse: hits(rankings.sparse)?,
        attainable: rankings.attainable,
    })
}

fn chunk_to_wire(hit: Hit) -> wire::Chunk {
    wire::Chunk {
        chunk_id: hit.chunk_id.to_string(),
        document_id: hit.document_id.into(),
        version: hit.version.0,
        ordinal: hit.ordinal,
        span: Some(query::span_to_wire(hit.span)),
        text: hit.text,
        title: hit.title,
        event_time: hit.event_time.map(timestamp_to_wire),
    }
}

fn hit_from_wire(chunk: wire::Chunk) -> Result<Hit, Error> {
    let chunk_id = chunk.chunk_id.parse().map_err(|_| malformed("a chunk id"))?;
    let document_id: DocumentId = chunk.document_id.parse()?;
    let span = chunk.span.ok_or_else(|| malformed("a chunk without span"))?;
    Ok(Hit {
        chunk_id,
        document_id,
        version: Version(chunk.version),
        ordinal: chunk.ordinal,
        span: query::span_from_wire(span).ok_or_else(|| malformed("a span"))?,
        text: chunk.text,
        title: chunk.title,
        event_time: optional_time("event_time", chunk.event_time)?,
        score: 0.0,
    })
}

/// Converts a stored document and its status for the wire. `document` is the document with the
/// first part of its text, which the caller has cut.
pub fn stored_to_wire(
    stored: &StoredDocument,
    document: ingest_wire::Document,
    status: &DocumentStatus,
) -> wire::StoredDocument {
    wire::StoredDocument {
        document: Some(document),
        version: stored.version.0,
        accepted_at: Some(timestamp_to_wire(stored.accepted_at)),
        status: Some(status_to_wire(status)),
    }
}

/// Converts a stored document with its whole text, and its status, from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] or [`clew_core::ErrorKind::Internal`] if the
/// message is malformed.
pub fn stored_from_wire(
    stored: wire::StoredDocument,
    limits: &Limits,
) -> Result<(StoredDocument, DocumentStatus), Error> {
    let document = stored.document.ok_or_else(|| malformed("no document"))?;
    let status = stored.status.ok_or_else(|| malformed("no status"))?;
    let document = ingest::document_from_wire(document, limits)?;
    let accepted_at = required_time("accepted_at", stored.accepted_at)?;
    let version = Version(stored.version);
    Ok((StoredDocument { document, version, accepted_at }, status_from_wire(status)?))
}

/// Converts the status of a document for the wire.
pub fn status_to_wire(status: &DocumentStatus) -> wire::DocumentStatus {
    wire::DocumentStatus {
        document_id: status.document_id.to_string(),
        state: state_to_wire(Some(status.state)).into(),
        version: status.version.0,
        live_version: status.live_version.map_or(0, |version| version.0),
        accepted_at: Some(timestamp_to_wire(status.accepted_at)),
        bytes: status.bytes,
        chunks: status.chunks,
        tokens: status.tokens,
        nodes: status.nodes,
        labels: ingest::labels_to_wire(&status.labels),
        failure: status.failure.as_ref().map(|failure| wire::FailureStatus {
            stage: match failure.stage {
                Stage::Chunking => wire::Stage::Chunking.into(),
                Stage::Embedding => wire::Stage::Embedding.into(),
                Stage::Storing => wire::Stage::Storing.into(),
                Stage::Structuring => wire::Stage::Structuring.into(),
            },
            attempts: failure.attempts,
            code: code_of(failure.kind).into(),
            message: failure.message.clone(),
            next_try: failure.next_try.map(timestamp_to_wire),
        }),
    }
}

/// Converts the status of a document from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the message is malformed.
pub fn status_from_wire(status: wire::DocumentStatus) -> Result<DocumentStatus, Error> {
    let state = state_from_wire(status.state)?.ok_or_else(|| malformed("no state"))?;
    let failure = match status.failure {
        None => None,
        Some(failure) => Some(FailureStatus {
            stage: match wire::Stage::try_from(failure.stage) {
                Ok(wire::Stage::Chunking) => Stage::Chunking,
                Ok(wire::Stage::Embedding) => Stage::Embedding,
                Ok(wire::Stage::Storing) => Stage::Storing,
                Ok(wire::Stage::Structuring) => Stage::Structuring,
                Ok(wire::Stage::Unspecified) | Err(_) => return Err(malformed("a stage")),
            },
            attempts: failure.attempts,
            kind: kind_of(tonic::Code::from(failure.code)),
            message: failure.message,
            next_try: optional_time("next_try", failure.next_try)?,
        }),
    };
    Ok(DocumentStatus {
        document_id: document_id("document_id", &status.document_id)?,
        state,
        version: Version(status.version),
        live_version: Some(Version(status.live_version)).filter(|version| version.0 != 0),
        accepted_at: required_time("accepted_at", status.accepted_at)?,
        bytes: status.bytes,
        chunks: status.chunks,
        tokens: status.tokens,
        nodes: status.nodes,
        failure,
        labels: needed_from_wire(&status.labels)?,
    })
}

/// Converts the labels that a document needs from the wire. While it changes from one set of labels
/// to another, there are more than a document may carry.
fn needed_from_wire(labels: &[String]) -> Result<Labels, Error> {
    let mut needed = Labels::default();
    for some in labels.chunks(Labels::MOST) {
        needed = needed.union(&Labels::parse(some).map_err(|_| malformed("labels"))?);
    }
    Ok(needed)
}

/// Converts a request for a page of documents for the wire.
pub fn list_to_wire(shard: &SeenShard, asked: &ListQuery) -> wire::ListDocumentsRequest {
    wire::ListDocumentsRequest {
        shard: Some(shard.into()),
        after: asked.after.as_ref().map(ToString::to_string).unwrap_or_default(),
        limit: u32::try_from(asked.limit).unwrap_or(u32::MAX),
        state: state_to_wire(asked.state).into(),
    }
}

/// Converts a request for a page of documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn list_from_wire(
    request: wire::ListDocumentsRequest,
) -> Result<(SeenShard, ListQuery), Error> {
    let after = optional_document_id("after", &request.after)?;
    let state = state_from_wire(request.state)?;
    let asked = ListQuery { after, limit: request.limit as usize, state };
    Ok((shard_from_wire(request.shard)?, asked))
}

/// Converts a request to check a page of documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn check_from_wire(
    request: wire::CheckDocumentsRequest,
) -> Result<(SeenShard, CheckQuery), Error> {
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

fn optional_document_id(field: &str, id: &str) -> Result<Option<DocumentId>, Error> {
    if id.is_empty() { Ok(None) } else { document_id(field, id).map(Some) }
}

/// Converts a query for nodes of a shard's tree for the wire.
pub fn tree_query_to_wire(shard: &SeenShard, query: &TreeQuery) -> wire::ReadTreeRequest {
    use wire::read_tree_request::Wanted;
    let ids = |ids: &[DocumentId]| ids.iter().map(ToString::to_string).collect();
    let wanted = match query {
        TreeQuery::Tops { first, limit } => Wanted::Tops(wire::Tops {
            first: ids(first),
            limit: u32::try_from(*limit).unwrap_or(u32::MAX),
        }),
        TreeQuery::Roots(documents) => Wanted::Roots(wire::Roots { document_ids: ids(documents) }),
        TreeQuery::Children(node) => Wanted::Parent(memory::node_id_to_wire(node)),
    };
    wire::ReadTreeRequest { shard: Some(shard.into()), wanted: Some(wanted) }
}

/// Converts a query for nodes of a shard's tree from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn tree_query_from_wire(
    request: wire::ReadTreeRequest,
) -> Result<(SeenShard, TreeQuery), Error> {
    use wire::read_tree_request::Wanted;
    let ids = |field: &str, ids: Vec<String>| {
        ids.iter().map(|id| document_id(field, id)).collect::<Result<Vec<_>, Error>>()
    };
    let query = match request.wanted {
        Some(Wanted::Tops(tops)) => {
            TreeQuery::Tops { first: ids("tops.first", tops.first)?, limit: tops.limit as usize }
        }
        Some(Wanted::Roots(roots)) => {
            TreeQuery::Roots(ids("roots.document_ids", roots.document_ids)?)
        }
        Some(Wanted::Parent(parent)) => {
            TreeQuery::Children(memory::node_id_from_wire("parent", parent)?)
        }
        None => return Err(Error::invalid("wanted", "expected one of tops, roots, parent")),
    };
    Ok((shard_from_wire(request.shard)?, query))
}

/// Converts a query for a part of a shard's graph for the wire.
pub fn graph_query_to_wire(shard: &SeenShard, query: &GraphQuery) -> wire::ReadGraphRequest {
    let query = Some(memory::graph_query_to_wire(query));
    wire::ReadGraphRequest { shard: Some(shard.into()), query }
}

/// Converts a query for a part of a shard's graph from the wire, and checks it against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn graph_query_from_wire(
    request: wire::ReadGraphRequest,
    limits: &Limits,
) -> Result<(SeenShard, GraphQuery), Error> {
    let query = memory::graph_query_from_wire(request.query.unwrap_or_default(), limits)?;
    Ok((shard_from_wire(request.shard)?, query))
}

/// Converts a request for the texts of segments for the wire.
pub fn segments_to_wire(shard: &SeenShard, ids: &[SegmentId]) -> wire::ReadSegmentsRequest {
    let segments = ids.iter().map(memory::segment_id_to_wire).collect();
    wire::ReadSegmentsRequest { shard: Some(shard.into()), segments }
}

/// Converts a request for the texts of segments from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn segments_from_wire(
    request: wire::ReadSegmentsRequest,
    limits: &Limits,
) -> Result<(SeenShard, Vec<SegmentId>), Error> {
    if request.segments.len() > limits.results {
        let (most, got) = (limits.results, request.segments.len());
        return Err(Error::invalid("segments", format!("expected at most {most}, got {got}")));
    }
    let ids = request.segments.into_iter().map(memory::segment_id_from_wire);
    Ok((shard_from_wire(request.shard)?, ids.collect::<Result<_, Error>>()?))
}

/// Converts a request for whole documents for the wire; at most [`DOCUMENTS_AT_ONCE`].
pub fn documents_to_wire(shard: &SeenShard, ids: &[DocumentId]) -> wire::GetDocumentsRequest {
    let document_ids = ids.iter().map(ToString::to_string).collect();
    wire::GetDocumentsRequest { shard: Some(shard.into()), document_ids }
}

/// Converts a request for whole documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn documents_from_wire(
    request: wire::GetDocumentsRequest,
) -> Result<(SeenShard, Vec<DocumentId>), Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let got = request.document_ids.len();
    if got > DOCUMENTS_AT_ONCE {
        let problem = format!("expected at most {DOCUMENTS_AT_ONCE}, got {got}");
        violations.push("document_ids", problem);
    }
    let ids = distinct_document_ids("document_ids", &request.document_ids, &mut violations);
    violations.into_result()?;
    Ok((shard.ok_or_else(|| missing("shard"))?, ids))
}

/// Converts a request to forget documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn forget_from_wire(
    request: wire::ForgetRequest,
) -> Result<(SeenShard, Vec<DocumentId>), Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let ids = distinct_document_ids("document_ids", &request.document_ids, &mut violations);
    violations.into_result()?;
    Ok((shard.ok_or_else(|| missing("shard"))?, ids))
}

/// Converts what was removed of a document for the wire.
pub fn forgotten_to_wire(forgotten: &Forgotten) -> ingest_wire::ForgottenDocument {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    ingest_wire::ForgottenDocument {
        document_id: forgotten.document_id.to_string(),
        found: forgotten.versions > 0,
        versions: count(forgotten.versions),
        chunks: count(forgotten.chunks),
        nodes: count(forgotten.nodes),
        failures: count(forgotten.failures),
        memories: count(forgotten.memories),
        text_bytes: forgotten.bytes,
    }
}

/// Converts what was removed of a document from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the message is malformed.
pub fn forgotten_from_wire(forgotten: ingest_wire::ForgottenDocument) -> Result<Forgotten, Error> {
    Ok(Forgotten {
        document_id: document_id("document_id", &forgotten.document_id)?,
        versions: forgotten.versions.into(),
        chunks: forgotten.chunks.into(),
        nodes: forgotten.nodes.into(),
        failures: forgotten.failures.into(),
        memories: forgotten.memories.into(),
        bytes: forgotten.text_bytes,
    })
}

/// Converts the result of forgetting for the wire.
pub fn erasure_to_wire(erasure: Erasure) -> wire::ForgetResponse {
    wire::ForgetResponse {
        documents: erasure.documents.iter().map(forgotten_to_wire).collect(),
        scan: Some(scan_to_wire(erasure.scan)),
        snapshots: erasure.snapshots.into_iter().map(holding_to_wire).collect(),
    }
}

/// Converts the result of forgetting from the wire. An owner of an earlier release does not scan;
/// the result then says that it is not known what is left.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the message is malformed.
pub fn erasure_from_wire(response: wire::ForgetResponse) -> Result<Erasure, Error> {
    let unscanned = || {
        let mut scan = ErasureScan::default();
        scan.leave("", "the shard's owner is of a release that does not scan".to_owned());
        scan
    };
    Ok(Erasure {
        documents: response
            .documents
            .into_iter()
            .map(forgotten_from_wire)
            .collect::<Result<_, Error>>()?,
        scan: response.scan.map_or_else(unscanned, scan_from_wire),
        snapshots: response
            .snapshots
            .into_iter()
            .map(holding_from_wire)
            .collect::<Result<_, Error>>()?,
    })
}

/// Converts a scan after an erasure for the wire.
pub fn scan_to_wire(scan: ErasureScan) -> ingest_wire::ErasureScan {
    let leftover = |Leftover { place, problem }| ingest_wire::Leftover { place, problem };
    ingest_wire::ErasureScan {
        tables: scan.tables,
        files: scan.files,
        texts: scan.texts,
        searched_files: scan.searched_files,
        searched_bytes: scan.searched_bytes,
        unsearched_files: scan.unsearched_files,
        leftovers: scan.left.into_iter().map(leftover).collect(),
        leftover_count: scan.left_in_all,
    }
}

fn scan_from_wire(scan: ingest_wire::ErasureScan) -> ErasureScan {
    let leftover = |ingest_wire::Leftover { place, problem }| Leftover { place, problem };
    ErasureScan {
        tables: scan.tables,
        files: scan.files,
        texts: scan.texts,
        searched_files: scan.searched_files,
        searched_bytes: scan.searched_bytes,
        unsearched_files: scan.unsearched_files,
        left: scan.leftovers.into_iter().map(leftover).collect(),
        left_in_all: scan.leftover_count,
    }
}

/// Converts a snapshot that holds forgotten documents for the wire.
pub fn holding_to_wire(holding: HoldingSnapshot) -> ingest_wire::HoldingSnapshot {
    let HoldingSnapshot { name, taken_at, documents, problem } = holding;
    let taken_at = taken_at.map(timestamp_to_wire);
    ingest_wire::HoldingSnapshot { snapshot: name, taken_at, documents, problem }
}

fn holding_from_wire(holding: ingest_wire::HoldingSnapshot) -> Result<HoldingSnapshot, Error> {
    let ingest_wire::HoldingSnapshot { snapshot, taken_at, documents, problem } = holding;
    let taken_at = taken_at.map(|time| timestamp_from_wire("snapshots.taken_at", &time));
    let taken_at = taken_at.transpose()?;
    Ok(HoldingSnapshot { name: snapshot, taken_at, documents, problem })
}

/// Converts a question to a shard's memories for the wire.
pub fn clue_query_to_wire(shard: &SeenShard, query: &ClueQuery) -> wire::DraftCluesRequest {
    wire::DraftCluesRequest {
        shard: Some(shard.into()),
        task: query::task_to_wire(query.draft.task).into(),
        question: query.draft.question.clone(),
        answers: query.draft.answers,
        filter: Some(query::filter_to_wire(query.filter.clone())),
    }
}

/// Converts a question to a shard's memories from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn clue_query_from_wire(
    request: wire::DraftCluesRequest,
) -> Result<(SeenShard, ClueQuery), Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let task = query::task_from_wire(request.task, &mut violations);
    let filter = query::filter_from_wire(request.filter.unwrap_or_default(), &mut violations);
    violations.into_result()?;
    let draft = DraftTask { task, question: request.question, answers: request.answers };
    let query = ClueQuery { draft, filter };
    Ok((shard.ok_or_else(|| missing("shard"))?, query))
}

/// Converts the drafts of memories for the wire.
pub fn drafted_to_wire(drafted: DraftedClues) -> wire::DraftCluesResponse {
    let DraftedClues { clues, memories, cost } = drafted;
    let Clues { queries, clues, key_points, answers } = clues;
    let cost = Some(query::cost_to_wire(cost));
    wire::DraftCluesResponse { queries, clues, key_points, memories, cost, answers }
}

/// Converts the drafts of memories from the wire.
pub fn drafted_from_wire(response: wire::DraftCluesResponse) -> DraftedClues {
    let wire::DraftCluesResponse { queries, clues, key_points, memories, cost, answers } = response;
    let cost = query::cost_from_wire(cost.unwrap_or_default());
    DraftedClues { clues: Clues { queries, clues, key_points, answers }, memories, cost }
}

/// Converts the totals of a shard for the wire.
pub fn counts_to_wire(counts: Counts) -> wire::CountResponse {
    wire::CountResponse {
        accepted: counts.accepted,
        documents: counts.documents,
        pending: counts.pending,
        retrying: counts.retrying,
        set_aside: counts.set_aside,
        chunks: counts.chunks,
        tokens: counts.tokens,
        bytes: counts.bytes,
        structured: counts.structured,
        unstructured: counts.unstructured,
        nodes: counts.nodes,
    }
}

/// Converts the totals of a shard from the wire.
pub fn counts_from_wire(counts: wire::CountResponse) -> Counts {
    Counts {
        accepted: counts.accepted,
        documents: counts.documents,
        pending: counts.pending,
        retrying: counts.retrying,
        set_aside: counts.set_aside,
        chunks: counts.chunks,
        tokens: counts.tokens,
        bytes: counts.bytes,
        structured: counts.structured,
        unstructured: counts.unstructured,
        nodes: counts.nodes,
    }
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

fn state_to_wire(state: Option<DocumentState>) -> wire::DocumentState {
    match state {
        None => wire::DocumentState::Unspecified,
        Some(DocumentState::Indexed) => wire::DocumentState::Indexed,
        Some(DocumentState::Pending) => wire::DocumentState::Pending,
        Some(DocumentState::Retrying) => wire::DocumentState::Retrying,
        Some(DocumentState::SetAside) => wire::DocumentState::SetAside,
    }
}

fn state_from_wire(state: i32) -> Result<Option<DocumentState>, Error> {
    match wire::DocumentState::try_from(state) {
        Ok(wire::DocumentState::Unspecified) => Ok(None),
        Ok(wire::DocumentState::Indexed) => Ok(Some(DocumentState::Indexed)),
        Ok(wire::DocumentState::Pending) => Ok(Some(DocumentState::Pending)),
        Ok(wire::DocumentState::Retrying) => Ok(Some(DocumentState::Retrying)),
        Ok(wire::DocumentState::SetAside) => Ok(Some(DocumentState::SetAside)),
        Err(_) => Err(Error::invalid("state", "expected a known state")),
    }
}

fn required_time(field: &str, time: Option<prost_types::Timestamp>) -> Result<Timestamp, Error> {
    timestamp_from_wire(field, &time.ok_or_else(|| missing(field))?)
}

fn optional_time(
    field: &str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, Error> {
    time.map(|time| timestamp_from_wire(field, &time)).transpose()
}

fn missing(field: &str) -> Error {
    Error::invalid(field, "expected a value")
}

fn malformed(what: &str) -> Error {
    Error::internal(format!("a shard's response is malformed: {what}"))
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, ChunkId, Document, ErrorKind, Filter, Grouping, MediaType};
    use clew_core::{SearchMode, Span};
    use proptest::prelude::*;

    use super::*;

    fn shard() -> SeenShard {
        let shard = ShardRef {
            corpus: "notes".parse().unwrap(),
            corpus_created_at: Timestamp::from_micros(7),
            shard: ShardIndex(3),
        };
        SeenShard { shard, access: Access::holding(["a".parse().unwrap()]) }
    }

    #[test]
    fn what_is_left_of_forgotten_documents_comes_back_as_it_was_sent() {
        let mut scan = ErasureScan { tables: 4, files: 30, texts: 2, ..ErasureScan::default() };
        (scan.searched_files, scan.searched_bytes, scan.unsearched_files) = (3, 4096, 1);
        scan.leave("shard-3/nodes", "rows of the documents: 2".to_owned());
        let documents = vec![Forgotten::nothing("a".parse().unwrap())];
        let snapshots = vec![HoldingSnapshot {
            name: "nightly".to_owned(),
            taken_at: Some(Timestamp::from_micros(5)),
            documents: 1,
            problem: "it is damaged".to_owned(),
        }];
        let erasure = Erasure { documents, scan, snapshots };
        assert_eq!(erasure_from_wire(erasure_to_wire(erasure.clone())).unwrap(), erasure);
        // If a release does not scan, it is not known what is left.
        let unscanned = wire::ForgetResponse { scan: None, ..erasure_to_wire(erasure) };
        assert!(!erasure_from_wire(unscanned).unwrap().scan.is_clean());
    }

    #[test]
    fn a_caller_of_whom_nothing_is_said_holds_no_labels() {
        for access in [Access::all(), Access::holding([]), shard().access] {
            let seen = SeenShard { access, ..shard() };
            assert_eq!(shard_from_wire(Some((&seen).into())).unwrap(), seen);
        }
        let silent = wire::ShardRef {
            held_labels: Vec::new(),
            holds_all_labels: false,
            ..(&SeenShard { access: Access::all(), ..shard() }).into()
        };
        assert_eq!(shard_from_wire(Some(silent)).unwrap().access, Access::holding([]));
    }

    fn hit(number: u32, score: f32) -> Hit {
        let document_id: DocumentId = format!("d{number}").parse().unwrap();
        let corpus = "notes".parse().unwrap();
        Hit {
            chunk_id: ChunkId::derive(&corpus, &document_id, Version(1), number),
            document_id,
            version: Version(1),
            ordinal: number,
            span: Span::new(1, 9),
            text: "x".repeat(number as usize),
            title: "t".to_owned(),
            event_time: Some(Timestamp::from_micros(5)),
            score,
        }
    }

    proptest! {
        #[test]
        fn candidates_survive_the_wire_in_messages_of_any_size(
            dense in proptest::collection::btree_map(0u32..60, -1f32..1.0, 0..40),
            sparse in proptest::collection::btree_map(0u32..60, 0f32..30.0, 0..40),
            message_bytes in 1usize..2000,
        ) {
            let hits = |scores: std::collections::BTreeMap<u32, f32>| {
                scores.into_iter().map(|(number, score)| hit(number, score)).collect::<Vec<_>>()
            };
            let found =
                Candidates { dense: hits(dense), sparse: hits(sparse), attainable: Some(3.0) };
            let messages = found_to_wire(found.clone(), message_bytes);
            prop_assert_eq!(found_from_wire(messages).unwrap(), found);
        }
    }

    #[test]
    fn searches_survive_the_wire() {
        let asked = CandidateQuery {
            encoder: "0123456789abcdef".to_owned(),
            text: "who?".to_owned(),
            vector: Some(vec![0.5, -0.5]),
            mode: SearchMode::Dense,
            filter: Filter { documents: vec!["a".parse().unwrap()], ..Filter::default() },
            grouping: Grouping::Documents,
            limit: 200,
            exact: true,
        };
        let back = candidates_from_wire(candidates_to_wire(&shard(), &asked)).unwrap();
        assert_eq!(back, (shard(), asked.clone()));
        let endless = CandidateQuery { encoder: "f".repeat(65), ..asked.clone() };
        let error = candidates_from_wire(candidates_to_wire(&shard(), &endless)).unwrap_err();
        assert_eq!(error.violations()[0].field, "encoder");

        let twice = Filter { documents: vec!["a".parse().unwrap(); 2], ..Filter::default() };
        let asked = CandidateQuery { filter: twice, ..asked };
        let unknown = wire::FindCandidatesRequest {
            mode: 17,
            grouping: 9,
            ..candidates_to_wire(&shard(), &asked)
        };
        let error = candidates_from_wire(unknown).unwrap_err();
        let fields: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["mode", "grouping", "filter.document_ids[1]"]);
    }

    #[test]
    fn documents_and_their_states_survive_the_wire() {
        let document = Document {
            id: "a".parse().unwrap(),
            text: "text".to_owned(),
            media_type: MediaType::Markdown,
            title: "title".to_owned(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::parse(["a"]).unwrap(),
        };
        let accepted_at = Timestamp::from_micros(11);
        let stored =
            StoredDocument { document: document.clone(), version: Version(4), accepted_at };
        let status = DocumentStatus {
            document_id: document.id.clone(),
            state: DocumentState::Retrying,
            version: Version(5),
            live_version: Some(Version(4)),
            accepted_at: Timestamp::from_micros(12),
            bytes: 4,
            chunks: 1,
            nodes: 3,
            tokens: 3,
            failure: Some(FailureStatus {
                stage: Stage::Embedding,
                attempts: 2,
                kind: ErrorKind::Unavailable,
                message: "no encoder".to_owned(),
                next_try: Some(Timestamp::from_micros(99)),
            }),
            labels: Labels::parse(["a", "b"]).unwrap(),
        };
        let wire = stored_to_wire(&stored, ingest::document_to_wire(document), &status);
        assert_eq!(stored_from_wire(wire, &Limits::default()).unwrap(), (stored, status));
    }

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

    #[test]
    fn malformed_responses_are_errors_and_not_panics() {
        let ranked = vec![wire::Ranked { chunk: 0, score: 1.0 }];
        let rankings = Some(wire::Rankings { dense: ranked, ..Default::default() });
        let message = wire::FindCandidatesResponse { rankings, chunks: Vec::new() };
        assert_eq!(found_from_wire([message]).unwrap_err().kind(), ErrorKind::Internal);
        assert!(found_from_wire([]).is_err());
        assert!(status_from_wire(wire::DocumentStatus::default()).is_err());
    }
}
