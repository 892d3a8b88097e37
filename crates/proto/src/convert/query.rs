//! Conversions of the messages of `clew.query.v1`.

use bytes::Bytes;
use clew_core::{
    Answer, AttributeName, Citation, CorpusName, Cost, DocumentRange, Embedding, Error, Evidence,
    Filter, Grouping, Limits, MemoryUse, Outcome, PointFate, PointState, Query, SearchMode,
    ShardIndex, Span, Task, TextKind, TimeRange, Timestamp, Timing, TraceEvent, Version,
    Violations,
};

use crate::convert::condition::{condition_from_wire, condition_to_wire};
use crate::convert::{
    corpus_name, distinct_document_ids, document_id, duration_to_wire,
    optional_timestamp_from_wire, timestamp_from_wire, timestamp_to_wire,
};
use crate::query::v1 as wire;

const DEFAULT_K: u32 = 10;

/// Search as a client asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedSearch {
    /// Query, checked.
    pub query: Query,
    /// Whether the evidence comes with the attributes of its documents.
    pub with_attributes: bool,
    /// Token of the page, as it was sent; empty for the first page.
    pub page_token: String,
}

/// Returns the corpus and the content of a Search request, checked against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn search_from_wire(
    request: wire::SearchRequest,
    limits: &Limits,
) -> Result<(CorpusName, ReceivedSearch), Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    let search = received_from_wire(request, limits, &mut violations);
    let (most, got) = (limits.results_with_attributes, search.query.k);
    if search.with_attributes && got > most {
        violations.push("k", format!("expected at most {most} with attributes, got {got}"));
    }
    if search.query.rerank.is_some() && !search.page_token.is_empty() {
        let problem = "expected none with `rerank`: a reranked search has one page";
        violations.push("page_token", problem);
    }
    violations.into_result()?;
    match corpus {
        Some(corpus) => Ok((corpus, search)),
        None => Err(Error::internal("a field was neither taken nor refused")),
    }
}

/// Returns the corpus and the searches of a SearchBatch request, checked against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn search_batch_from_wire(
    request: wire::SearchBatchRequest,
    limits: &Limits,
) -> Result<(CorpusName, Vec<ReceivedSearch>), Error> {
    let (most, got) = (limits.searches, request.searches.len());
    if !(1..=most).contains(&got) {
        return Err(Error::invalid("searches", format!("expected 1 to {most}, got {got}")));
    }
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    let mut searches = Vec::with_capacity(got);
    for (place, search) in request.searches.into_iter().enumerate() {
        let mut own = Violations::default();
        if !search.corpus.is_empty() && search.corpus != request.corpus {
            own.push("corpus", "expected none, or the corpus of the batch");
        }
        if !search.page_token.is_empty() {
            own.push("page_token", "expected none in a batch: read further pages with `Search`");
        }
        searches.push(received_from_wire(search, limits, &mut own));
        violations.take(own.into_result().map_err(|error| in_batch(place, error)));
    }
    violations.into_result()?;
    // As many as one search may return, so that a response has a bound.
    let together = |is_counted: fn(&&ReceivedSearch) -> bool| {
        searches.iter().filter(is_counted).map(|search| search.query.k).sum::<usize>()
    };
    let bounds = [
        (limits.results, together(|_| true), ""),
        (limits.results_with_attributes, together(|it| it.with_attributes), " with attributes"),
    ];
    for (most, got, of_what) in bounds {
        if got > most {
            let problem =
                format!("expected at most {most} items (`k`){of_what} together, got {got}");
            return Err(Error::invalid("searches", problem));
        }
    }
    match corpus {
        Some(corpus) => Ok((corpus, searches)),
        None => Err(Error::internal("a field was neither taken nor refused")),
    }
}

/// Returns the error of a search as that of the batch in which it has this place: fields at fault
/// are named with the search.
pub fn in_batch(place: usize, error: Error) -> Error {
    let mut violations = Violations::default();
    for violation in error.violations() {
        violations.push(format!("searches[{place}].{}", violation.field), &violation.description);
    }
    match violations.into_result() {
        Err(named) => named,
        Ok(()) => error,
    }
}

/// Returns the content of a Search request, with everything checked but its corpus and the number
/// of items with attributes.
fn received_from_wire(
    request: wire::SearchRequest,
    limits: &Limits,
    violations: &mut Violations,
) -> ReceivedSearch {
    let mode = search_mode_from_wire(request.mode, violations);
    let grouping = grouping_from_wire(request.grouping, violations);
    let filter = filter_from_wire(request.filter.unwrap_or_default(), violations);
    let query = Query {
        text: request.query,
        k: request.k.unwrap_or(DEFAULT_K) as usize,
        mode,
        filter,
        grouping,
        exact: request.exact,
        rerank: request.rerank.map(|candidates| candidates as usize),
    };
    check_as_sent(&query, limits, "query", violations);
    let (with_attributes, page_token) = (request.with_attributes, request.page_token);
    ReceivedSearch { query, with_attributes, page_token }
}

/// Checks a query whose fields are among those of a request. Violations have the names that the
/// fields have there. `text` is the field with the query's text.
pub(crate) fn check_as_sent(
    query: &Query,
    limits: &Limits,
    text: &str,
    violations: &mut Violations,
) {
    let Err(error) = query.check(limits) else { return };
    for violation in error.violations() {
        let field = match violation.field.strip_prefix("query.") {
            Some("text") => text,
            Some("filter.documents") => "filter.document_ids",
            Some(field) => field,
            None => &violation.field,
        };
        violations.push(field, &violation.description);
    }
}

/// Converts a search for the wire.
pub fn search_to_wire(corpus: &CorpusName, query: Query) -> wire::SearchRequest {
    wire::SearchRequest {
        corpus: corpus.to_string(),
        query: query.text,
        // The server refuses any number this large.
        k: Some(u32::try_from(query.k).unwrap_or(u32::MAX)),
        mode: search_mode_to_wire(query.mode).into(),
        filter: Some(filter_to_wire(query.filter)),
        grouping: grouping_to_wire(query.grouping).into(),
        exact: query.exact,
        rerank: query.rerank.map(|candidates| u32::try_from(candidates).unwrap_or(u32::MAX)),
        with_attributes: false,
        page_token: String::new(),
    }
}

/// Converts a batch of searches for the wire.
pub fn search_batch_to_wire(corpus: &CorpusName, queries: Vec<Query>) -> wire::SearchBatchRequest {
    let search =
        |query| wire::SearchRequest { corpus: String::new(), ..search_to_wire(corpus, query) };
    let searches = queries.into_iter().map(search).collect();
    wire::SearchBatchRequest { corpus: corpus.to_string(), searches }
}

/// Converts a filter for the wire.
pub fn filter_to_wire(filter: Filter) -> wire::Filter {
    wire::Filter {
        document_ids: filter.documents.into_iter().map(String::from).collect(),
        attributes: filter
            .attributes
            .into_iter()
            .map(|(name, value)| wire::AttributeMatch { name: name.into(), value })
            .collect(),
        condition: filter.condition.as_ref().map(condition_to_wire),
        event_time_from: filter.event_time.from.map(timestamp_to_wire),
        event_time_until: filter.event_time.until.map(timestamp_to_wire),
    }
}

/// Converts a filter from the wire, which came in the field `filter`.
pub(crate) fn filter_from_wire(filter: wire::Filter, violations: &mut Violations) -> Filter {
    let documents = distinct_document_ids("filter.document_ids", &filter.document_ids, violations);
    let mut attributes = Vec::new();
    for attribute in filter.attributes {
        if let Some(name) = violations.take(AttributeName::try_from(attribute.name)) {
            attributes.push((name, attribute.value));
        }
    }
    let condition = filter
        .condition
        .and_then(|condition| condition_from_wire("filter.condition", condition, violations));
    let mut time = |field: &str, time: Option<prost_types::Timestamp>| {
        optional_timestamp_from_wire(field, time.as_ref(), violations)
    };
    let event_time = TimeRange {
        from: time("filter.event_time_from", filter.event_time_from),
        until: time("filter.event_time_until", filter.event_time_until),
    };
    Filter { documents, attributes, condition, event_time }
}

/// Converts a filter of documents from the wire, which came in the field `filter`, and checks it
/// against `limits`.
pub(crate) fn checked_filter_from_wire(
    filter: Option<wire::Filter>,
    limits: &Limits,
    violations: &mut Violations,
) -> Filter {
    let filter = filter_from_wire(filter.unwrap_or_default(), violations);
    let mut own = Violations::default();
    filter.check("filter", limits, &mut own);
    if let Err(error) = own.into_result() {
        for violation in error.violations() {
            let field = match violation.field.as_str() {
                "filter.documents" => "filter.document_ids",
                field => field,
            };
            violations.push(field, &violation.description);
        }
    }
    filter
}

/// Content of a valid Answer request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedQuestion {
    /// Name of the corpus.
    pub corpus: CorpusName,
    /// The question, or what to summarise.
    pub text: String,
    /// Kind of text that is wanted.
    pub task: Task,
    /// Time at which it is asked, if known.
    pub asked_at: Option<Timestamp>,
    /// Name of the strategy; empty for the default.
    pub strategy: String,
    /// Maximum number of passages that are read; `None` for the strategy's default.
    pub k: Option<usize>,
    /// Maximum tokens of the passages that are read; `None` for the strategy's own limits.
    pub evidence_tokens: Option<usize>,
    /// Number of candidates that a reranker reads in each search; `None` for no reranking.
    pub rerank: Option<usize>,
    /// Filter of what may be found.
    pub filter: Filter,
    /// Use of compressed memories.
    pub memory_use: MemoryUse,
    /// Whether citations come with the attributes of their documents.
    pub with_attributes: bool,
}

/// Converts a question from the wire, and checks it against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn question_from_wire(
    request: wire::AnswerRequest,
    limits: &Limits,
) -> Result<ReceivedQuestion, Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    let filter = filter_from_wire(request.filter.unwrap_or_default(), &mut violations);
    // The default of `k` is left to the strategy; 1 passes the check.
    let mut query = Query::new(request.question, request.k.unwrap_or(1) as usize);
    query.filter = filter;
    query.rerank = request.rerank.map(|candidates| candidates as usize);
    check_as_sent(&query, limits, "question", &mut violations);
    let task = task_from_wire(request.task, &mut violations);
    let memory_use = memory_use_from_wire(request.memory_use, &mut violations);
    let asked_at = request.asked_at.as_ref();
    let asked_at = optional_timestamp_from_wire("asked_at", asked_at, &mut violations);
    let evidence_tokens = request.evidence_tokens.map(|tokens| tokens as usize);
    if evidence_tokens.is_some_and(|tokens| !(1..=limits.evidence_tokens).contains(&tokens)) {
        let problem = format!("expected 1 to {}", limits.evidence_tokens);
        violations.push("evidence_tokens", problem);
    }
    violations.into_result()?;
    match corpus {
        Some(corpus) => Ok(ReceivedQuestion {
            corpus,
            text: query.text,
            task,
            asked_at,
            strategy: request.strategy,
            k: request.k.map(|k| k as usize),
            evidence_tokens,
            rerank: query.rerank,
            filter: query.filter,
            memory_use,
            with_attributes: request.with_attributes,
        }),
        None => Err(Error::internal("a field was neither taken nor refused")),
    }
}

/// Texts that a client wants to have embedded.
#[derive(Clone, Debug, PartialEq)]
pub struct TextsToEmbed {
    /// Encoder that embeds them.
    pub by: EmbedBy,
    /// Texts, at least one.
    pub texts: Vec<String>,
    /// Kind of the texts.
    pub kind: TextKind,
}

/// Encoder that a client names.
#[derive(Clone, Debug, PartialEq)]
pub enum EmbedBy {
    /// The encoder of a corpus.
    Corpus(CorpusName),
    /// An offered encoder with a model of this name.
    Model(String),
    /// The encoder for new corpora.
    Current,
}

/// Converts texts to embed from the wire, and checks them against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn texts_to_embed_from_wire(
    request: wire::EmbedRequest,
    limits: &Limits,
) -> Result<TextsToEmbed, Error> {
    let wire::EmbedRequest { corpus, model, texts, kind } = request;
    let mut violations = Violations::default();
    let by = match (corpus.as_str(), model.as_str()) {
        ("", "") => Some(EmbedBy::Current),
        ("", _) => Some(EmbedBy::Model(model)),
        (_, "") => violations.take(corpus_name(&corpus)).map(EmbedBy::Corpus),
        _ => {
            violations.push("model", "expected none beside `corpus`");
            None
        }
    };
    if !(1..=limits.embedded_texts).contains(&texts.len()) {
        let (most, got) = (limits.embedded_texts, texts.len());
        violations.push("texts", format!("expected 1 to {most}, got {got}"));
    }
    let most = limits.passage_bytes;
    let unfit = texts.iter().enumerate().filter(|(_, text)| !(1..=most).contains(&text.len()));
    for (place, text) in unfit {
        let problem = format!("expected 1 to {most} bytes, got {}", text.len());
        violations.push(format!("texts[{place}]"), problem);
    }
    let kind = match wire::TextKind::try_from(kind) {
        Ok(wire::TextKind::Unspecified | wire::TextKind::Passage) => TextKind::Passage,
        Ok(wire::TextKind::Query) => TextKind::Query,
        Err(_) => {
            violations.push("kind", "expected passage or query");
            TextKind::Passage
        }
    };
    violations.into_result()?;
    match by {
        Some(by) => Ok(TextsToEmbed { by, texts, kind }),
        None => Err(Error::internal("a field was neither taken nor refused")),
    }
}

/// Converts an embedding for the wire.
pub fn embedding_to_wire(embedding: Embedding) -> wire::Embedding {
    let Embedding { vector, tokens, truncated } = embedding;
    let vector: Bytes = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    wire::Embedding { vector, tokens, truncated }
}

/// Converts the use of compressed memories for the wire.
pub fn memory_use_to_wire(memory_use: MemoryUse) -> wire::MemoryUse {
    match memory_use {
        MemoryUse::Clues => wire::MemoryUse::Clues,
        MemoryUse::Hint => wire::MemoryUse::Hint,
        MemoryUse::Answer => wire::MemoryUse::Answer,
    }
}

fn memory_use_from_wire(memory_use: i32, violations: &mut Violations) -> MemoryUse {
    match wire::MemoryUse::try_from(memory_use) {
        Ok(wire::MemoryUse::Unspecified | wire::MemoryUse::Clues) => MemoryUse::Clues,
        Ok(wire::MemoryUse::Hint) => MemoryUse::Hint,
        Ok(wire::MemoryUse::Answer) => MemoryUse::Answer,
        Err(_) => {
            violations.push("memory_use", "expected clues, hint or answer");
            MemoryUse::Clues
        }
    }
}

/// Converts a task for the wire.
pub fn task_to_wire(task: Task) -> wire::Task {
    match task {
        Task::Answer => wire::Task::Answer,
        Task::Summarise => wire::Task::Summarise,
    }
}

pub(crate) fn task_from_wire(task: i32, violations: &mut Violations) -> Task {
    match wire::Task::try_from(task) {
        Ok(wire::Task::Unspecified | wire::Task::Answer) => Task::Answer,
        Ok(wire::Task::Summarise) => Task::Summarise,
        Err(_) => {
            violations.push("task", "expected answer or summarise");
            Task::Answer
        }
    }
}

pub(crate) fn search_mode_to_wire(mode: SearchMode) -> wire::SearchMode {
    match mode {
        SearchMode::Dense => wire::SearchMode::Dense,
        SearchMode::Sparse => wire::SearchMode::Sparse,
        SearchMode::Hybrid => wire::SearchMode::Hybrid,
    }
}

pub(crate) fn search_mode_from_wire(mode: i32, violations: &mut Violations) -> SearchMode {
    match wire::SearchMode::try_from(mode) {
        Ok(wire::SearchMode::Unspecified | wire::SearchMode::Hybrid) => SearchMode::Hybrid,
        Ok(wire::SearchMode::Dense) => SearchMode::Dense,
        Ok(wire::SearchMode::Sparse) => SearchMode::Sparse,
        Err(_) => {
            violations.push("mode", "expected dense, sparse or hybrid");
            SearchMode::Hybrid
        }
    }
}

pub(crate) fn grouping_to_wire(grouping: Grouping) -> wire::Grouping {
    match grouping {
        Grouping::Chunks => wire::Grouping::Chunks,
        Grouping::Documents => wire::Grouping::Documents,
    }
}

pub(crate) fn grouping_from_wire(grouping: i32, violations: &mut Violations) -> Grouping {
    match wire::Grouping::try_from(grouping) {
        Ok(wire::Grouping::Unspecified | wire::Grouping::Chunks) => Grouping::Chunks,
        Ok(wire::Grouping::Documents) => Grouping::Documents,
        Err(_) => {
            violations.push("grouping", "expected chunks or documents");
            Grouping::Chunks
        }
    }
}

/// Converts a span from the wire. Returns `None` if it ends before it starts, or does not fit this
/// machine's addresses.
pub(crate) fn span_from_wire(span: wire::Span) -> Option<Span> {
    let (start, end) = (usize::try_from(span.start).ok()?, usize::try_from(span.end).ok()?);
    (start <= end).then(|| Span::new(start, end))
}

pub(crate) fn span_to_wire(span: Span) -> wire::Span {
    wire::Span { start: span.start as u64, end: span.end as u64 }
}

/// Converts the shards that did not answer for the wire.
pub fn shards_to_wire(shards: &[ShardIndex]) -> Vec<u32> {
    shards.iter().map(|shard| shard.0).collect()
}

/// Converts the shards that did not answer from the wire.
pub(crate) fn shards_from_wire(shards: Vec<u32>) -> Vec<ShardIndex> {
    shards.into_iter().map(ShardIndex).collect()
}

/// Converts evidence for the wire, without attributes.
pub fn evidence_to_wire(evidence: Evidence) -> wire::Evidence {
    wire::Evidence {
        chunk_id: evidence.chunk_id.to_string(),
        document_id: evidence.document_id.into(),
        version: evidence.version.0,
        title: evidence.title,
        span: Some(span_to_wire(evidence.span)),
        text: evidence.text,
        event_time: evidence.event_time.map(timestamp_to_wire),
        score: evidence.score,
        dense_score: evidence.dense_score,
        sparse_score: evidence.sparse_score,
        attributes: Vec::new(),
    }
}

/// Converts evidence from the wire. Leaves its attributes out.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn evidence_from_wire(evidence: wire::Evidence) -> Result<Evidence, Error> {
    let chunk_id = evidence.chunk_id.parse();
    let chunk_id =
        chunk_id.map_err(|_| Error::invalid("evidence.chunk_id", "expected a chunk id"))?;
    let event_time = evidence.event_time.as_ref();
    let event_time =
        event_time.map(|time| timestamp_from_wire("evidence.event_time", time)).transpose()?;
    Ok(Evidence {
        chunk_id,
        document_id: document_id("evidence.document_id", &evidence.document_id)?,
        version: Version(evidence.version),
        title: evidence.title,
        span: required_span("evidence.span", evidence.span)?,
        text: evidence.text,
        event_time,
        score: evidence.score,
        dense_score: evidence.dense_score,
        sparse_score: evidence.sparse_score,
    })
}

pub(crate) fn required_span(field: &str, span: Option<wire::Span>) -> Result<Span, Error> {
    span.and_then(span_from_wire)
        .ok_or_else(|| Error::invalid(field, "expected a start and an end after it"))
}

/// Converts a cost from the wire.
pub fn cost_from_wire(cost: wire::Cost) -> Cost {
    Cost {
        embedded_tokens: cost.embedded_tokens,
        reranked_tokens: cost.reranked_tokens,
        model_calls: cost.model_calls,
        prompt_tokens: cost.prompt_tokens,
        completion_tokens: cost.completion_tokens,
        shards_searched: cost.shards_searched,
        is_out_of_budget: cost.out_of_budget,
    }
}

/// Converts a cost for the wire.
pub fn cost_to_wire(cost: Cost) -> wire::Cost {
    wire::Cost {
        embedded_tokens: cost.embedded_tokens,
        reranked_tokens: cost.reranked_tokens,
        model_calls: cost.model_calls,
        prompt_tokens: cost.prompt_tokens,
        completion_tokens: cost.completion_tokens,
        shards_searched: cost.shards_searched,
        out_of_budget: cost.is_out_of_budget,
    }
}

/// Converts the result of a search for the wire, without its timing and the token of the next page.
pub fn retrieved_to_wire(retrieved: clew_core::Retrieved) -> wire::SearchResponse {
    wire::SearchResponse {
        evidence: retrieved.evidence.into_iter().map(evidence_to_wire).collect(),
        shards_missing: shards_to_wire(&retrieved.shards_missing),
        cost: Some(cost_to_wire(retrieved.cost)),
        timing: None,
        next_page_token: String::new(),
    }
}

/// Converts a timing for the wire.
pub fn timing_to_wire(timing: Timing) -> wire::Timing {
    let Timing { total, queue, compute, store } = timing;
    wire::Timing {
        total: Some(duration_to_wire(total)),
        queue: Some(duration_to_wire(queue)),
        compute: Some(duration_to_wire(compute)),
        store: Some(duration_to_wire(store)),
    }
}

/// Converts a trace event for the wire.
pub fn trace_to_wire(event: TraceEvent) -> wire::TraceEvent {
    use wire::trace_event::Step;
    let step = match event {
        TraceEvent::Searched { query, mode, hits, best_dense_score, took } => {
            Step::Searched(wire::Searched {
                query,
                mode: search_mode_to_wire(mode).into(),
                hits: count(hits),
                best_dense_score,
                took: Some(duration_to_wire(took)),
            })
        }
        TraceEvent::Judged { confidence, threshold, rationale } => {
            Step::Judged(wire::Judged { confidence, threshold, rationale })
        }
        TraceEvent::Entered { node, parent, summary, reason, score } => {
            Step::Entered(wire::Entered { node, parent, summary, reason, score })
        }
        TraceEvent::TurnedBack { node, reason } => {
            Step::TurnedBack(wire::TurnedBack { node, reason })
        }
        TraceEvent::LeafRead { node, answers, reason } => {
            Step::LeafRead(wire::LeafRead { node, answers, reason })
        }
        TraceEvent::Walked { nodes, turns, bytes_read, bytes_total, ended } => {
            let (nodes, turns) = (count(nodes), count(turns));
            Step::Walked(wire::Walked { nodes, turns, bytes_read, bytes_total, ended })
        }
        TraceEvent::EntitiesChosen { entities, reason } => {
            Step::EntitiesChosen(wire::EntitiesChosen { entities, reason })
        }
        TraceEvent::EdgeFollowed { head, relation, tail, to, score, reason } => {
            Step::EdgeFollowed(wire::EdgeFollowed { head, relation, tail, to, score, reason })
        }
        TraceEvent::Drafted { lines, answers, took } => {
            let (lines, took) = (count(lines), Some(duration_to_wire(took)));
            Step::Drafted(wire::Drafted { lines, answers, took })
        }
        TraceEvent::Evolved { step, points, brought } => {
            let points = points.into_iter().map(point_to_wire).collect();
            Step::Evolved(wire::Evolved { step, points, brought })
        }
        TraceEvent::Gathered { segments, dropped, bytes } => Step::Gathered(wire::Gathered {
            segments: count(segments),
            dropped: count(dropped),
            bytes,
        }),
        TraceEvent::Reflected { suffices, reason, missing } => {
            Step::Reflected(wire::Reflected { suffices, reason, missing })
        }
        TraceEvent::Read { passages, sentences, took } => Step::Read(wire::Read {
            passages: count(passages.len()),
            places: passages.iter().map(place_to_wire).collect(),
            sentences: count(sentences),
            took: Some(duration_to_wire(took)),
        }),
    };
    wire::TraceEvent { step: Some(step) }
}

fn point_to_wire(point: PointState) -> wire::Point {
    let fate = match point.fate {
        PointFate::Kept => wire::PointFate::Kept,
        PointFate::Updated => wire::PointFate::Updated,
        PointFate::Inserted => wire::PointFate::Inserted,
        PointFate::Merged => wire::PointFate::Merged,
    };
    wire::Point {
        number: point.number,
        fate: fate.into(),
        entities: point.entities,
        text: point.text,
        merged_from: point.merged_from,
        segments: point.segments.iter().map(ToString::to_string).collect(),
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Converts a range of a document for the wire.
pub(crate) fn place_to_wire(place: &DocumentRange) -> wire::Place {
    wire::Place {
        document_id: place.document_id.to_string(),
        version: place.version.0,
        span: Some(span_to_wire(place.span)),
    }
}

/// Converts a range of a document from the wire, which came in `field`.
pub(crate) fn place_from_wire(field: &str, place: wire::Place) -> Result<DocumentRange, Error> {
    Ok(DocumentRange {
        document_id: document_id(&format!("{field}.document_id"), &place.document_id)?,
        version: Version(place.version),
        span: required_span(&format!("{field}.span"), place.span)?,
    })
}

pub(crate) fn citation_to_wire(citation: Citation) -> wire::Citation {
    wire::Citation {
        document_id: citation.document_id.into(),
        version: citation.version.0,
        title: citation.title,
        span: Some(span_to_wire(citation.span)),
        quote: citation.quote,
        attributes: Vec::new(),
    }
}

pub(crate) fn citation_from_wire(citation: wire::Citation) -> Result<Citation, Error> {
    Ok(Citation {
        document_id: document_id("citation.document_id", &citation.document_id)?,
        version: Version(citation.version),
        title: citation.title,
        span: required_span("citation.span", citation.span)?,
        quote: citation.quote,
    })
}

/// Converts an answer for the wire, without its timing.
pub fn answer_to_wire(answer: Answer) -> wire::Answer {
    let (outcome, shards_missing) = match answer.outcome {
        Outcome::Answered => (wire::Outcome::Answered, Vec::new()),
        Outcome::NotInMemory => (wire::Outcome::NotInMemory, Vec::new()),
        Outcome::AnsweredWithShardsMissing(shards) => {
            (wire::Outcome::AnsweredWithShardsMissing, shards_to_wire(&shards))
        }
        Outcome::NotFoundWithShardsMissing(shards) => {
            (wire::Outcome::NotInMemory, shards_to_wire(&shards))
        }
    };
    wire::Answer {
        outcome: outcome.into(),
        text: answer.text,
        citations: answer.citations.into_iter().map(citation_to_wire).collect(),
        cost: Some(cost_to_wire(answer.cost)),
        shards_missing,
        timing: None,
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Timestamp;

    use super::*;

    #[test]
    fn searches_round_trip() {
        let corpus: CorpusName = "notes".parse().unwrap();
        let mut query = Query::new("who gave the thread?", 7);
        query.mode = SearchMode::Sparse;
        query.grouping = Grouping::Documents;
        query.exact = true;
        query.rerank = Some(50);
        query.filter = Filter {
            documents: vec!["it's".parse().unwrap()],
            attributes: vec![(AttributeName::try_from("a".to_owned()).unwrap(), "b".to_owned())],
            condition: Some("year >= 2020 and not draft exists".parse().unwrap()),
            event_time: TimeRange { from: Some(Timestamp::from_micros(1)), until: None },
        };
        for with_attributes in [false, true] {
            let wire = search_to_wire(&corpus, query.clone());
            let wire = wire::SearchRequest { with_attributes, ..wire };
            let back = search_from_wire(wire.clone(), &Limits::default()).unwrap();
            let (query, page_token) = (query.clone(), String::new());
            let search = ReceivedSearch { query, with_attributes, page_token };
            assert_eq!(back, (corpus.clone(), search));
            let page_token = "0a".to_owned();
            let further = wire::SearchRequest { page_token: page_token.clone(), ..wire };
            let error = search_from_wire(further.clone(), &Limits::default()).unwrap_err();
            assert_eq!(error.fields_at_fault(), ["page_token"], "it is reranked");
            let further = wire::SearchRequest { rerank: None, ..further };
            let (_, search) = search_from_wire(further, &Limits::default()).unwrap();
            assert_eq!(search.page_token, page_token);
        }
    }

    #[test]
    fn batches_round_trip() {
        let corpus: CorpusName = "notes".parse().unwrap();
        let sparse = Query { mode: SearchMode::Sparse, rerank: Some(20), ..Query::new("when?", 7) };
        let queries = vec![Query::new("who?", 1), sparse];
        let wire = search_batch_to_wire(&corpus, queries.clone());
        assert!(wire.searches.iter().all(|search| search.corpus.is_empty()));
        let mut named = wire.clone();
        named.searches[1].corpus = "notes".to_owned();
        for wire in [wire, named] {
            let back = search_batch_from_wire(wire, &Limits::default()).unwrap();
            let search =
                |query| ReceivedSearch { query, with_attributes: false, page_token: String::new() };
            let searches = queries.iter().cloned().map(search).collect();
            assert_eq!(back, (corpus.clone(), searches));
        }
    }

    #[test]
    fn every_field_at_fault_in_a_batch_is_named_with_its_search() {
        let fields = |corpus: &str, searches: Vec<wire::SearchRequest>| {
            let request = wire::SearchBatchRequest { corpus: corpus.to_owned(), searches };
            let error = search_batch_from_wire(request, &Limits::default()).unwrap_err();
            error.violations().iter().map(|it| it.field.clone()).collect::<Vec<_>>()
        };
        let search = || wire::SearchRequest { query: "who?".to_owned(), ..Default::default() };
        let elsewhere = wire::SearchRequest { corpus: "other".to_owned(), mode: 17, ..search() };
        let filter = wire::Filter { document_ids: vec!["a".to_owned(); 2], ..Default::default() };
        let empty = wire::SearchRequest { query: " ".to_owned(), filter: Some(filter), ..search() };
        assert_eq!(
            fields("../etc", vec![search(), elsewhere, empty]),
            [
                "corpus",
                "searches[1].corpus",
                "searches[1].mode",
                "searches[2].filter.document_ids[1]",
                "searches[2].query",
            ]
        );
        let further = wire::SearchRequest { page_token: "0a".to_owned(), ..search() };
        assert_eq!(fields("notes", vec![search(), further]), ["searches[1].page_token"]);
        assert_eq!(fields("notes", Vec::new()), ["searches"]);
        assert_eq!(fields("notes", vec![search(); 33]), ["searches"]);
        let many = wire::SearchRequest { k: Some(501), ..search() };
        assert_eq!(fields("notes", vec![many; 2]), ["searches"]);
        let heavy = wire::SearchRequest { k: Some(101), with_attributes: true, ..search() };
        assert_eq!(fields("notes", vec![heavy; 2]), ["searches"]);
    }

    #[test]
    fn texts_to_embed_name_one_encoder_and_have_bounds() {
        let limits = Limits { embedded_texts: 2, passage_bytes: 4, ..Limits::default() };
        let request = |corpus: &str, model: &str, texts: &[&str]| wire::EmbedRequest {
            corpus: corpus.to_owned(),
            model: model.to_owned(),
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            kind: wire::TextKind::Query.into(),
        };
        let by = |corpus, model| {
            let request = request(corpus, model, &["a"]);
            texts_to_embed_from_wire(request, &limits).unwrap().by
        };
        assert_eq!(by("", ""), EmbedBy::Current);
        assert_eq!(by("", "Mini"), EmbedBy::Model("Mini".to_owned()));
        assert_eq!(by("notes", ""), EmbedBy::Corpus("notes".parse().unwrap()));
        let at_fault = |request| {
            let error = texts_to_embed_from_wire(request, &limits).unwrap_err();
            error.violations().iter().map(|at| at.field.clone()).collect::<Vec<_>>()
        };
        assert_eq!(at_fault(request("notes", "Mini", &[])), ["model", "texts"]);
        assert_eq!(at_fault(request("", "", &["", "12345"])), ["texts[0]", "texts[1]"]);
        assert_eq!(at_fault(request("No", "", &["a", "b", "c"])), ["corpus", "texts"]);
        let odd = wire::EmbedRequest { kind: 9, ..request("", "", &["a"]) };
        assert_eq!(at_fault(odd), ["kind"]);
    }

    #[test]
    fn every_field_at_fault_is_named() {
        let request = wire::SearchRequest {
            corpus: "../etc".to_owned(),
            query: String::new(),
            k: Some(1_000_000),
            mode: 17,
            grouping: 9,
            rerank: Some(201),
            ..Default::default()
        };
        let error = search_from_wire(request, &Limits::default()).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["corpus", "mode", "grouping", "query", "k", "rerank"]);

        let request = wire::SearchRequest {
            corpus: "notes".to_owned(),
            query: "who?".to_owned(),
            k: Some(201),
            with_attributes: true,
            filter: Some(wire::Filter {
                condition: Some(wire::Condition::default()),
                ..Default::default()
            }),
            ..Default::default()
        };
        let error = search_from_wire(request, &Limits::default()).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["filter.condition", "k"]);

        let twice = wire::Filter {
            document_ids: vec!["a".to_owned(), "a".to_owned()],
            event_time_from: Some(timestamp_to_wire(Timestamp::from_micros(2))),
            event_time_until: Some(timestamp_to_wire(Timestamp::from_micros(1))),
            ..Default::default()
        };
        let request = wire::AnswerRequest {
            corpus: "notes".to_owned(),
            k: Some(0),
            filter: Some(twice),
            ..Default::default()
        };
        let error = question_from_wire(request, &Limits::default()).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["filter.document_ids[1]", "question", "k", "filter.event_time"]);
    }
}
