//! Runs of ingestion: reports of their parts, and what becomes of them.

use std::time::Instant;

use clew_auth::Caller;
use clew_core::{
    Corpus, CorpusName, Counts, DocumentState, DocumentStatus, Error, ListQuery, RunEntry, RunName,
    RunSpan, Unfinished,
};
use clew_proto::convert::run::{
    RunReport, entry_to_wire, part_to_wire, place_of, report_from_wire, run_to_wire, token_after,
};
use clew_proto::convert::{Page, corpus_name};
use clew_proto::ingest::v1 as wire;
use tonic::Request;

use crate::Backends;

/// Number of documents that are looked at together.
const DOCUMENTS_AT_ONCE: usize = 1000;

/// Keeps a report.
pub(super) async fn report(
    backends: &Backends,
    request: Request<wire::ReportRunRequest>,
) -> Result<wire::ReportRunResponse, Error> {
    let caller = Caller::of(&request)?;
    let deadline = backends.config.deadline(&request);
    let RunReport { corpus, run, parts, report } = report_from_wire(request.into_inner())?;
    let corpora = backends.corpora.of(&caller);
    let part = corpora.report_run(&corpus, &run, parts, &report, deadline).await?;
    Ok(wire::ReportRunResponse { part: Some(part_to_wire(&part)) })
}

/// Returns a run with its stage.
pub(super) async fn get(
    backends: &Backends,
    request: Request<wire::GetRunRequest>,
) -> Result<wire::GetRunResponse, Error> {
    let caller = Caller::of(&request)?;
    let deadline = backends.config.deadline(&request);
    let wire::GetRunRequest { corpus, run } = request.into_inner();
    let (corpus, run): (CorpusName, RunName) = (corpus_name(&corpus)?, run.parse()?);
    let corpora = backends.corpora.of(&caller);
    let run = corpora.run(&corpus, &run, deadline).await?;
    let corpus = corpora.get(&corpus, deadline).await?;
    let counts = corpus.counts(deadline).await?;
    let unfinished = match run.span() {
        Some(span) => unfinished(&corpus, &counts, span, deadline).await?,
        None => Unfinished::default(),
    };
    Ok(wire::GetRunResponse {
        run: Some(run_to_wire(&run, Some(run.stage(unfinished)))),
        pending_documents: counts.pending.saturating_add(counts.retrying),
    })
}

/// Looks for documents that are not indexed and concern a run that took this time.
async fn unfinished(
    corpus: &Corpus,
    counts: &Counts,
    span: RunSpan,
    deadline: Instant,
) -> Result<Unfinished, Error> {
    // Counted after the run had ended, so nothing of it comes later.
    if counts.pending == 0 && counts.retrying == 0 && counts.set_aside == 0 {
        return Ok(Unfinished::default());
    }
    let any = async |state, is_it: &(dyn Fn(&DocumentStatus) -> bool + Sync)| {
        any(corpus, state, is_it, deadline).await
    };
    // In the order in which a document that fails goes through these states, so that none is missed
    // that changes from one to the next meanwhile.
    let waits_for = |document: &DocumentStatus| span.waits_for(document);
    let is_pending = any(DocumentState::Pending, &waits_for).await?
        || any(DocumentState::Retrying, &waits_for).await?;
    let has_failed = |document: &DocumentStatus| span.has_set_aside(document);
    let is_set_aside = any(DocumentState::SetAside, &has_failed).await?;
    Ok(Unfinished { is_pending, is_set_aside })
}

/// Returns whether any document of a corpus in this state is one that is looked for. Stops at the
/// first.
async fn any(
    corpus: &Corpus,
    state: DocumentState,
    is_it: &(dyn Fn(&DocumentStatus) -> bool + Sync),
    deadline: Instant,
) -> Result<bool, Error> {
    for shard in corpus.shards() {
        let mut query = ListQuery { after: None, limit: DOCUMENTS_AT_ONCE, state: Some(state) };
        loop {
            let page = shard.list(&query, deadline).await?;
            if page.iter().any(is_it) {
                return Ok(true);
            }
            match page.last() {
                Some(last) if page.len() == DOCUMENTS_AT_ONCE => {
                    query.after = Some(last.document_id.clone());
                }
                _ => break,
            }
        }
    }
    Ok(false)
}

/// Returns a page of runs.
pub(super) async fn list(
    backends: &Backends,
    request: Request<wire::ListRunsRequest>,
) -> Result<wire::ListRunsResponse, Error> {
    let caller = Caller::of(&request)?;
    let deadline = backends.config.deadline(&request);
    let wire::ListRunsRequest { corpus, page_size, page_token } = request.into_inner();
    let corpus = corpus_name(&corpus)?;
    let page = Page::from_wire(page_size, &page_token)?;
    let after = place_of(&page)?;
    let corpora = backends.corpora.of(&caller);
    let listed = corpora.runs(&corpus, after.as_ref(), page.size, deadline).await?;
    let last = listed.runs.last().filter(|_| listed.has_more);
    let next_page_token = last.map(RunEntry::place).as_ref().map(token_after).unwrap_or_default();
    let runs = listed.runs.into_iter().map(entry_to_wire).collect();
    Ok(wire::ListRunsResponse { runs, next_page_token })
}

/// Deletes what is kept of a run.
pub(super) async fn delete(
    backends: &Backends,
    request: Request<wire::DeleteRunRequest>,
) -> Result<wire::DeleteRunResponse, Error> {
    let caller = Caller::of(&request)?;
    let deadline = backends.config.deadline(&request);
    let wire::DeleteRunRequest { corpus, run } = request.into_inner();
    let (corpus, run): (CorpusName, RunName) = (corpus_name(&corpus)?, run.parse()?);
    backends.corpora.of(&caller).delete_run(&corpus, &run, deadline).await?;
    Ok(wire::DeleteRunResponse {})
}
