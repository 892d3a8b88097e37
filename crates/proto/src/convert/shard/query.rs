//! Searches of a shard: candidates and drafts of memories.

use clew_core::{
    CandidateQuery, Candidates, ChunkRef, ChunkText, ClueQuery, Clues, DocumentId, DraftTask,
    DraftedClues, Error, Hit, Limits, SearchedView, Version, ViewName, Violations,
};

use super::{ShardRefWithAccess, malformed, missing, optional_time, shard_from_wire};
use crate::convert::{memory, query, timestamp_to_wire};
use crate::shard::v1 as wire;

/// Converts a search for candidates for the wire.
pub fn candidates_to_wire(
    shard: &ShardRefWithAccess,
    asked: &CandidateQuery,
) -> wire::FindCandidatesRequest {
    wire::FindCandidatesRequest { shard: Some(shard.into()), ..candidate_query_to_wire(asked) }
}

/// Converts searches for candidates for the wire, to messages of about `message_bytes` each, which
/// are to be sent one by one: a filter by documents may be long.
pub fn candidates_batch_to_wire(
    shard: &ShardRefWithAccess,
    asked: &[CandidateQuery],
    message_bytes: usize,
) -> Vec<wire::FindCandidatesBatchRequest> {
    in_messages(asked.iter().map(candidate_query_to_wire), message_bytes)
        .into_iter()
        .map(|searches| wire::FindCandidatesBatchRequest { shard: Some(shard.into()), searches })
        .collect()
}

fn candidate_query_to_wire(asked: &CandidateQuery) -> wire::FindCandidatesRequest {
    wire::FindCandidatesRequest {
        shard: None,
        text: asked.text.clone(),
        vector: asked.vector.clone().unwrap_or_default(),
        mode: query::search_mode_to_wire(asked.mode).into(),
        filter: Some(query::filter_to_wire(asked.filter.clone())),
        grouping: query::grouping_to_wire(asked.grouping).into(),
        limit: u32::try_from(asked.limit).unwrap_or(u32::MAX),
        exact: asked.exact,
        encoder: asked.encoder.clone(),
        without_texts: !asked.with_texts,
        keeps_view: asked.view != SearchedView::Newest,
        view: match asked.view {
            SearchedView::Named(name) => ViewName::number(Some(name)),
            SearchedView::Newest | SearchedView::Kept => 0,
        },
    }
}

/// Converts a search for candidates from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn candidates_from_wire(
    mut request: wire::FindCandidatesRequest,
) -> Result<(ShardRefWithAccess, CandidateQuery), Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard.take()));
    let asked = candidate_query_from_wire(request, &mut violations);
    violations.into_result()?;
    Ok((shard.ok_or_else(|| missing("shard"))?, asked))
}

/// Converts searches for candidates from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn candidates_batch_from_wire(
    request: wire::FindCandidatesBatchRequest,
    limits: &Limits,
) -> Result<(ShardRefWithAccess, Vec<CandidateQuery>), Error> {
    let (most, got) = (limits.searches, request.searches.len());
    if got > most {
        return Err(Error::invalid("searches", format!("expected at most {most}, got {got}")));
    }
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let searches = request.searches.into_iter();
    let asked = searches.map(|search| candidate_query_from_wire(search, &mut violations)).collect();
    violations.into_result()?;
    Ok((shard.ok_or_else(|| missing("shard"))?, asked))
}

fn candidate_query_from_wire(
    request: wire::FindCandidatesRequest,
    violations: &mut Violations,
) -> CandidateQuery {
    let mode = query::search_mode_from_wire(request.mode, violations);
    let grouping = query::grouping_from_wire(request.grouping, violations);
    let filter = query::filter_from_wire(request.filter.unwrap_or_default(), violations);
    let encoder = violations.take(memory::fingerprint_from_wire("encoder", request.encoder));
    CandidateQuery {
        encoder: encoder.unwrap_or_default(),
        text: request.text,
        vector: Some(request.vector).filter(|vector| !vector.is_empty()),
        mode,
        filter,
        grouping,
        limit: request.limit as usize,
        exact: request.exact,
        with_texts: !request.without_texts,
        view: match ViewName::new(request.view) {
            Some(name) => SearchedView::Named(name),
            None if request.keeps_view => SearchedView::Kept,
            None => SearchedView::Newest,
        },
    }
}

/// Converts the candidates of several searches for the wire, to messages of about `message_bytes`
/// each.
pub fn found_for_all_to_wire(
    found: Vec<Candidates>,
    message_bytes: usize,
) -> Vec<wire::FindCandidatesBatchResponse> {
    let of_search = |(search, found): (u32, Candidates)| {
        let messages = found_to_wire(found, message_bytes).into_iter();
        messages.map(move |found| wire::FindCandidatesBatchResponse { search, found: Some(found) })
    };
    (0..).zip(found).flat_map(of_search).collect()
}

/// Returns the messages of a response to `searches` searches by the search that they belong to,
/// each as [`found_from_wire`] takes them. A search that the response leaves out has none.
pub fn found_by_search(
    messages: impl IntoIterator<Item = wire::FindCandidatesBatchResponse>,
    searches: usize,
) -> Vec<Vec<wire::FindCandidatesResponse>> {
    let mut by_search = vec![Vec::new(); searches];
    for wire::FindCandidatesBatchResponse { search, found } in messages {
        if let Some(of_search) = by_search.get_mut(search as usize) {
            of_search.extend(found);
        }
    }
    by_search
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
    let mut rankings = Some(rankings);
    let mut view = ViewName::number(found.view);
    let messages = in_messages(chunks, message_bytes).into_iter();
    messages
        .map(|chunks| wire::FindCandidatesResponse {
            rankings: rankings.take(),
            chunks,
            view: std::mem::take(&mut view),
        })
        .collect()
}

/// Converts candidates from the messages of a response.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the messages do not fit together.
pub fn found_from_wire(
    messages: impl IntoIterator<Item = wire::FindCandidatesResponse>,
) -> Result<Candidates, Error> {
    let (mut rankings, mut view) = (None, None);
    let mut chunks = Vec::new();
    for message in messages {
        rankings = rankings.or(message.rankings);
        view = view.or(ViewName::new(message.view));
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
        view,
    })
}

fn chunk_to_wire(hit: Hit) -> wire::Chunk {
    let chunk = wire::Chunk {
        chunk_id: hit.chunk_id.to_string(),
        document_id: hit.document_id.into(),
        version: hit.version.0,
        ordinal: hit.ordinal,
        ..wire::Chunk::default()
    };
    match hit.shown {
        Some(shown) => with_text(chunk, shown),
        None => chunk,
    }
}

fn with_text(chunk: wire::Chunk, shown: ChunkText) -> wire::Chunk {
    let ChunkText { span, text, title, event_time } = shown;
    let (span, event_time) = (Some(query::span_to_wire(span)), event_time.map(timestamp_to_wire));
    wire::Chunk { span, text, title, event_time, ..chunk }
}

fn text_from_wire(chunk: &mut wire::Chunk) -> Result<Option<ChunkText>, Error> {
    let Some(span) = chunk.span.take() else { return Ok(None) };
    Ok(Some(ChunkText {
        span: query::span_from_wire(span).ok_or_else(|| malformed("a span"))?,
        text: std::mem::take(&mut chunk.text),
        title: std::mem::take(&mut chunk.title),
        event_time: optional_time("event_time", chunk.event_time.take())?,
    }))
}

/// Converts a request for chunks, which were found in the state `view`, for the wire.
pub fn chunk_refs_to_wire(
    shard: &ShardRefWithAccess,
    wanted: &[ChunkRef],
    view: Option<ViewName>,
) -> wire::ReadChunksRequest {
    let chunk = |chunk: &ChunkRef| wire::ChunkRef {
        document_id: chunk.document_id.to_string(),
        version: chunk.version.0,
        ordinal: chunk.ordinal,
    };
    let chunks = wanted.iter().map(chunk).collect();
    wire::ReadChunksRequest { shard: Some(shard.into()), chunks, view: ViewName::number(view) }
}

/// Chunks of a shard that a caller wants to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedChunks {
    /// The shard.
    pub shard: ShardRefWithAccess,
    /// The chunks.
    pub chunks: Vec<ChunkRef>,
    /// State of the shard in which they were found; `None` for the newest.
    pub view: Option<ViewName>,
}

/// Converts a request for chunks from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn chunk_refs_from_wire(
    request: wire::ReadChunksRequest,
    limits: &Limits,
) -> Result<WantedChunks, Error> {
    if request.chunks.len() > limits.results {
        let (most, got) = (limits.results, request.chunks.len());
        return Err(Error::invalid("chunks", format!("expected at most {most}, got {got}")));
    }
    let chunk = |chunk: wire::ChunkRef| {
        let (version, ordinal) = (Version(chunk.version), chunk.ordinal);
        Ok(ChunkRef { document_id: chunk.document_id.parse()?, version, ordinal })
    };
    let chunks = request.chunks.into_iter().map(chunk).collect::<Result<_, Error>>()?;
    let (shard, view) = (shard_from_wire(request.shard)?, ViewName::new(request.view));
    Ok(WantedChunks { shard, chunks, view })
}

/// Converts chunks with their texts for the wire, to messages of about `message_bytes` each.
pub fn chunks_to_wire(
    chunks: Vec<(ChunkRef, ChunkText)>,
    message_bytes: usize,
) -> Vec<wire::ReadChunksResponse> {
    let chunk = |(chunk, shown): (ChunkRef, ChunkText)| {
        let ChunkRef { document_id, version, ordinal } = chunk;
        let (document_id, version) = (document_id.into(), version.0);
        let chunk = wire::Chunk { document_id, version, ordinal, ..wire::Chunk::default() };
        with_text(chunk, shown)
    };
    let messages = in_messages(chunks.into_iter().map(chunk), message_bytes);
    messages.into_iter().map(|chunks| wire::ReadChunksResponse { chunks }).collect()
}

/// Converts chunks with their texts from the messages of a response.
///
/// # Errors
/// Returns an error if a chunk is malformed.
pub fn chunks_from_wire(
    messages: impl IntoIterator<Item = wire::ReadChunksResponse>,
) -> Result<Vec<(ChunkRef, ChunkText)>, Error> {
    let chunk = |mut chunk: wire::Chunk| {
        let shown = text_from_wire(&mut chunk)?.ok_or_else(|| malformed("a chunk without span"))?;
        let document_id = chunk.document_id.parse()?;
        let (version, ordinal) = (Version(chunk.version), chunk.ordinal);
        Ok((ChunkRef { document_id, version, ordinal }, shown))
    };
    messages.into_iter().flat_map(|message| message.chunks).map(chunk).collect()
}

/// Divides parts among messages of about `message_bytes` each.
pub(super) fn in_messages<T: prost::Message>(
    parts: impl IntoIterator<Item = T>,
    message_bytes: usize,
) -> Vec<Vec<T>> {
    let mut messages = vec![Vec::new()];
    let mut bytes = 0;
    for part in parts {
        bytes += part.encoded_len();
        if bytes > message_bytes {
            messages.push(Vec::new());
            bytes = 0;
        }
        if let Some(last) = messages.last_mut() {
            last.push(part);
        }
    }
    messages
}

fn hit_from_wire(mut chunk: wire::Chunk) -> Result<Hit, Error> {
    let chunk_id = chunk.chunk_id.parse().map_err(|_| malformed("a chunk id"))?;
    let shown = text_from_wire(&mut chunk)?;
    let document_id: DocumentId = chunk.document_id.parse()?;
    let (version, ordinal) = (Version(chunk.version), chunk.ordinal);
    Ok(Hit { chunk_id, document_id, version, ordinal, score: 0.0, shown })
}

/// Converts a question to a shard's memories for the wire.
pub fn clue_query_to_wire(
    shard: &ShardRefWithAccess,
    query: &ClueQuery,
) -> wire::DraftCluesRequest {
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
) -> Result<(ShardRefWithAccess, ClueQuery), Error> {
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

#[cfg(test)]
mod tests {
    use clew_core::{ChunkId, ErrorKind, Filter, Grouping, SearchMode, Span, Timestamp};
    use proptest::prelude::*;

    use super::*;
    use crate::convert::shard::tests::shard;

    fn hit(number: u32, score: f32) -> Hit {
        let document_id: DocumentId = format!("d{number}").parse().unwrap();
        let corpus = "notes".parse().unwrap();
        Hit {
            chunk_id: ChunkId::derive(&corpus, &document_id, Version(1), number),
            document_id,
            version: Version(1),
            ordinal: number,
            score,
            shown: (!number.is_multiple_of(3)).then(|| shown(number)),
        }
    }

    fn shown(number: u32) -> ChunkText {
        ChunkText {
            span: Span::new(1, 9),
            text: "x".repeat(number as usize),
            title: "t".to_owned(),
            event_time: Some(Timestamp::from_micros(5)),
        }
    }

    proptest! {
        #[test]
        fn candidates_survive_the_wire_in_messages_of_any_size(
            dense in proptest::collection::btree_map(0u32..60, -1f32..1.0, 0..40),
            sparse in proptest::collection::btree_map(0u32..60, 0f32..30.0, 0..40),
            view in 0u32..3,
            message_bytes in 1usize..2000,
        ) {
            let hits = |scores: std::collections::BTreeMap<u32, f32>| {
                scores.into_iter().map(|(number, score)| hit(number, score)).collect::<Vec<_>>()
            };
            let (dense, sparse, view) = (hits(dense), hits(sparse), ViewName::new(view));
            let found = Candidates { dense, sparse, attainable: Some(3.0), view };
            let messages = found_to_wire(found.clone(), message_bytes);
            prop_assert_eq!(found_from_wire(messages).unwrap(), found);
        }

        #[test]
        fn candidates_of_several_searches_survive_the_wire_in_messages_of_any_size(
            numbers in proptest::collection::vec(
                proptest::collection::btree_set(0u32..60, 0..20), 0..5),
            message_bytes in 1usize..2000,
        ) {
            let candidates = |numbers: &std::collections::BTreeSet<u32>| Candidates {
                dense: numbers.iter().map(|number| hit(*number, 0.5)).collect(),
                ..Candidates::default()
            };
            let found: Vec<Candidates> = numbers.iter().map(candidates).collect();
            let messages = found_for_all_to_wire(found.clone(), message_bytes);
            let by_search = found_by_search(messages, found.len()).into_iter();
            let back: Result<Vec<_>, Error> = by_search.map(found_from_wire).collect();
            prop_assert_eq!(back.unwrap(), found);
        }

        #[test]
        fn chunks_survive_the_wire_in_messages_of_any_size(
            numbers in proptest::collection::btree_set(0u32..60, 0..40),
            view in 0u32..3,
            message_bytes in 1usize..2000,
        ) {
            let chunk = |number: u32| ChunkRef {
                document_id: format!("d{number}").parse().unwrap(),
                version: Version(u64::from(number)),
                ordinal: number,
            };
            let refs: Vec<ChunkRef> = numbers.iter().copied().map(chunk).collect();
            let view = ViewName::new(view);
            let asked = chunk_refs_to_wire(&shard(), &refs, view);
            let back = chunk_refs_from_wire(asked.clone(), &Limits::default()).unwrap();
            let wanted = WantedChunks { shard: shard(), chunks: refs.clone(), view };
            prop_assert_eq!(back, wanted);
            let few = Limits { results: 0, ..Limits::default() };
            prop_assert_eq!(chunk_refs_from_wire(asked, &few).is_ok(), refs.is_empty());
            let found: Vec<_> =
                numbers.iter().map(|&number| (chunk(number), shown(number))).collect();
            let messages = chunks_to_wire(found.clone(), message_bytes);
            prop_assert_eq!(chunks_from_wire(messages).unwrap(), found);
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
            with_texts: false,
            view: SearchedView::Newest,
        };
        let views = [None, ViewName::new(7), ViewName::new(u32::MAX)].map(SearchedView::after);
        for view in [SearchedView::Newest].into_iter().chain(views) {
            let asked = CandidateQuery { view, ..asked.clone() };
            let back = candidates_from_wire(candidates_to_wire(&shard(), &asked)).unwrap();
            assert_eq!(back, (shard(), asked));
        }
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
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["mode", "grouping", "filter.document_ids[1]"]);
    }

    #[test]
    fn several_searches_survive_the_wire_in_messages_of_any_size() {
        let asked = |text: &str| CandidateQuery {
            encoder: String::new(),
            text: text.to_owned(),
            vector: None,
            mode: SearchMode::Sparse,
            filter: Filter::default(),
            grouping: Grouping::Chunks,
            limit: 10,
            exact: false,
            with_texts: true,
            view: SearchedView::Newest,
        };
        let all = [asked("who?"), asked("when?"), asked("where?")];
        for message_bytes in [1, 16, 1 << 20] {
            let mut back = Vec::new();
            for message in candidates_batch_to_wire(&shard(), &all, message_bytes) {
                let (to, asked) = candidates_batch_from_wire(message, &Limits::default()).unwrap();
                assert_eq!(to, shard());
                back.extend(asked);
            }
            assert_eq!(back, all);
        }
        let message = candidates_batch_to_wire(&shard(), &all, 1 << 20).remove(0);
        let few = Limits { searches: 2, ..Limits::default() };
        let error = candidates_batch_from_wire(message.clone(), &few).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["searches"]);
        let mut bad = message;
        bad.searches[1].mode = 17;
        let error = candidates_batch_from_wire(bad, &Limits::default()).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["mode"]);
        // An incomplete response is an error of the search that it leaves out.
        let found = found_for_all_to_wire(vec![Candidates::default()], 100);
        let by_search: Vec<_> =
            found_by_search(found, 2).into_iter().map(found_from_wire).collect();
        assert!(by_search[0].is_ok() && by_search[1].is_err());
    }

    #[test]
    fn malformed_candidates_are_errors_and_not_panics() {
        let ranked = vec![wire::Ranked { chunk: 0, score: 1.0 }];
        let rankings = Some(wire::Rankings { dense: ranked, ..Default::default() });
        let message = wire::FindCandidatesResponse { rankings, ..Default::default() };
        assert_eq!(found_from_wire([message]).unwrap_err().kind(), ErrorKind::Internal);
        assert!(found_from_wire([]).is_err());
    }
}
