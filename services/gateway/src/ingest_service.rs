//! `IngestService`: accepting, reading, listing and forgetting documents, listing their chunks,
//! estimates of ingestions, and runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_auth::Caller;
use clew_core::{
    Accepting, Corpus, Counts, DocumentId, DocumentState, DocumentStatus, Erasure, Error,
    ErrorKind, Filter, Forgotten, HoldingSnapshot, ListQuery, Selection, Violations,
};
use clew_proto::convert::ingest::{self as convert, ChunkPage, DocumentsToForget, WhichDocuments};
use clew_proto::convert::{Page, document_id, shard as convert_shard, timestamp_to_wire};
use clew_proto::ingest::v1 as wire;
use clew_proto::ingest::v1::ingest_service_server::IngestService;
use clew_proto::{respond, to_status};
use clew_telemetry::{Origin, child, metrics};
use futures::{Stream, StreamExt, TryStreamExt};
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument, Span};

use crate::Backends;
use crate::corpus_service::describe::counts_to_wire;
use crate::described::{Described, MOST_DESCRIBED};
use crate::reading::{Responder, Responses, responses, while_read};
use crate::shards::Shards;

mod assemble;
mod estimate;
mod runs;

use assemble::{Assembled, Assembler};

/// Handler of `IngestService`.
pub(crate) struct Ingestion {
    pub backends: Arc<Backends>,
}

/// Longest time from a document's arrival in a stream to its acknowledgement.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(120);
/// Number of documents of a stream that are recorded in its trace.
const TRACED_DOCUMENTS: usize = 64;
/// Shortest time between two progress reports.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum bytes of text in one response.
const TEXT_PART_BYTES: usize = 1 << 20;

impl Ingestion {
    async fn corpus(
        &self,
        caller: &Caller,
        name: &str,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        self.backends.corpora.of(caller).get(&name.parse()?, deadline).await
    }

    /// Reads documents from the stream, waits for room for each, and answers in order. Nothing is
    /// read ahead beyond the window and the shards' queues, so the connection's flow control slows
    /// a fast producer down. Each document may take [`ACCEPT_PATIENCE`], and none longer than
    /// until `deadline`.
    fn accept(
        &self,
        caller: Caller,
        requests: impl Stream<Item = Result<wire::IngestRequest, Status>>
        + Unpin
        + Send
        + Sync
        + 'static,
        deadline: Option<Instant>,
    ) -> impl Stream<Item = Result<wire::IngestResponse, Status>> + Send + 'static {
        let backends = Arc::clone(&self.backends);
        let patience = self.backends.config.reader_patience();
        let assembler =
            Assembler::new(requests, backends.limits, backends.arriving.clone(), patience);
        let pending = futures::stream::unfold((Some(assembler), 0), move |(assembler, read)| {
            let (backends, caller) = (Arc::clone(&backends), caller.clone());
            async move {
                let mut assembler = assembler?;
                match assembler.next().await {
                    None => None,
                    Some(Ok(assembled)) => {
                        let span = span_of(read);
                        let patience = Instant::now() + ACCEPT_PATIENCE;
                        let until = deadline.map_or(patience, |deadline| deadline.min(patience));
                        let offered = offer(&backends, &caller, assembled, until)
                            .instrument(span.clone())
                            .await;
                        Some(((offered, span), (Some(assembler), read + 1)))
                    }
                    Some(Err(broken)) => {
                        Some(((Offered::Broken(broken), Span::none()), (None, read)))
                    }
                }
            }
        });
        let finish = |(offered, span): (Offered, Span)| {
            metrics::stage("accept", offered.finish()).instrument(span)
        };
        pending.map(finish).buffered(self.backends.config.ingest_window)
    }

    /// Accepts the documents of one message as those of a stream.
    async fn ingest_together(
        &self,
        request: Request<wire::IngestDocumentsRequest>,
    ) -> Result<wire::IngestDocumentsResponse, Status> {
        let caller = Caller::of(&request).map_err(|error| to_status(&error))?;
        let deadline = self.backends.config.deadline(&request);
        let messages = convert::documents_in_messages(request.into_inner());
        let messages = messages.map_err(|error| to_status(&error))?.into_iter().map(Ok);
        let results = self.accept(caller, futures::stream::iter(messages), Some(deadline));
        let results = Box::pin(results).try_collect().await?;
        Ok(wire::IngestDocumentsResponse { results })
    }

    async fn get(
        &self,
        request: Request<wire::GetDocumentRequest>,
    ) -> Result<wire::GetDocumentResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let corpus = self.corpus(&caller, &request.corpus, deadline).await?;
        let id = document_id("document_id", &request.document_id)?;
        let found = corpus.shard_of(&id).document(&id, deadline).await?;
        let (stored, status) = found.ok_or_else(|| Error::not_found("document", &id))?;
        let mut document = stored.document;
        let mut state = status_to_wire(&status);
        state.version = stored.version.0;
        state.source_version = document.source_version.map(|number| number.0);
        state.text_bytes = document.text.len() as u64;
        document.text = text_part(&document.text, request.text_offset)?.to_owned();
        Ok(wire::GetDocumentResponse {
            document: Some(convert::document_to_wire(document)),
            state: Some(state),
        })
    }

    async fn list(
        &self,
        request: Request<wire::ListDocumentsRequest>,
    ) -> Result<wire::ListDocumentsResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let corpus = self.corpus(&caller, &request.corpus, deadline).await?;
        let page = Page::from_wire(request.page_size, &request.page_token)?;
        let after = match page.after.as_str() {
            "" => None,
            after => Some(document_id("page_token", after)?),
        };
        let states = match wire::DocumentStage::try_from(request.stage) {
            Ok(stage) => states_of(stage),
            Err(_) => return Err(Error::invalid("stage", "expected pending, indexed or failed")),
        };
        let mut violations = Violations::default();
        let selection = convert::selection_from_wire(
            request.filter,
            &request.id_prefix,
            &self.backends.limits,
            &mut violations,
        );
        violations.into_result()?;
        let size = match request.with_attributes {
            true => page.size.min(MOST_DESCRIBED),
            false => page.size,
        };
        let mut found = Vec::new();
        for shard in corpus.shards() {
            for &state in states {
                found.extend(match selection.is_everything() {
                    true => {
                        let query = ListQuery { after: after.clone(), limit: size, state };
                        shard.list(&query, deadline).await?
                    }
                    false => {
                        let selection = Selection { state, ..selection.clone() };
                        shard.select(&selection, after.as_ref(), size, deadline).await?
                    }
                });
            }
        }
        found.sort_by(|a, b| a.document_id.cmp(&b.document_id));
        let more = found.len() >= size;
        found.truncate(size);
        let next_page_token = match found.last() {
            Some(last) if more => Page::token_after(last.document_id.as_str()),
            _ => String::new(),
        };
        let mut documents: Vec<_> = found.iter().map(status_to_wire).collect();
        if request.with_attributes {
            let shards = Shards::over(&self.backends, corpus);
            let ids = documents.iter().map(|document| document.id.as_str());
            let described = Box::pin(Described::of(&shards, ids, deadline)).await?.complete()?;
            for document in &mut documents {
                document.title = described.title(&document.id);
                document.attributes = described.attributes(&document.id);
            }
        }
        Ok(wire::ListDocumentsResponse { documents, next_page_token })
    }

    async fn list_chunks(
        &self,
        request: Request<wire::ListChunksRequest>,
    ) -> Result<wire::ListChunksResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let ChunkPage { query, version } = convert::chunk_page_from_wire(&request)?;
        let corpus = self.corpus(&caller, &request.corpus, deadline).await?;
        let id = &query.document_id;
        let listed = corpus.shard_of(id).chunks_of(&query, deadline).await?;
        let listed = listed.ok_or_else(|| Error::not_found("document", id))?;
        if version.is_some_and(|version| Some(version) != listed.version) {
            let problem = format!("document `{id}` was replaced between two pages; begin again");
            return Err(Error::new(ErrorKind::LostRace, "DOCUMENT_REPLACED", problem));
        }
        Ok(convert::chunk_page_to_wire(&corpus.settings().name, id, listed))
    }

    async fn watch(
        &self,
        request: Request<wire::WatchIngestionRequest>,
    ) -> Result<Responses<wire::WatchIngestionResponse>, Error> {
        let caller = Caller::of(&request)?;
        let deadline = Instant::now() + ACCEPT_PATIENCE;
        let request = request.into_inner();
        let corpus = self.corpus(&caller, &request.corpus, deadline).await?;
        let (progress, read) = responses(1, self.backends.config.reader_patience());
        tokio::spawn(report_progress(
            async move || corpus.counts(Instant::now() + ACCEPT_PATIENCE).await,
            request.until_idle,
            progress,
        ));
        Ok(read)
    }

    async fn forget(
        &self,
        request: Request<wire::ForgetDocumentsRequest>,
    ) -> Result<wire::ForgetDocumentsResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let DocumentsToForget { corpus, which, preview } =
            convert::forget_from_wire(request.into_inner(), &self.backends.limits)?;
        let corpus = self.backends.corpora.of(&caller).get(&corpus, deadline).await?;
        let (ids, selected) = match which {
            WhichDocuments::Named(ids) if preview => {
                let filter = Filter { documents: ids.clone(), ..Filter::default() };
                let named = Selection { filter, ..Selection::default() };
                let there = self.selected(&corpus, &named, deadline).await?;
                return Ok(preview_of(&ids, &there, ids.len() as u64));
            }
            WhichDocuments::Named(ids) => {
                let selected = ids.len() as u64;
                (ids, selected)
            }
            WhichDocuments::Selected(selection) => {
                let mut selected = 0;
                for shard in corpus.shards() {
                    selected += shard.count_selected(&selection, deadline).await?;
                }
                let ids = self.selected(&corpus, &selection, deadline).await?;
                if preview {
                    return Ok(preview_of(&ids, &ids, selected));
                }
                (ids, selected)
            }
        };
        let Erasure { documents, scan, snapshots } = forget(&corpus, &ids, deadline).await?;
        Ok(wire::ForgetDocumentsResponse {
            selected,
            documents: documents.iter().map(convert_shard::forgotten_to_wire).collect(),
            verified: scan.is_clean(),
            forgotten_at: Some(timestamp_to_wire(self.backends.clock.now())),
            scan: Some(convert_shard::scan_to_wire(scan)),
            snapshots: snapshots.into_iter().map(convert_shard::holding_to_wire).collect(),
        })
    }
}

impl Ingestion {
    /// Returns the first documents by id that are selected, as many as one call forgets.
    async fn selected(
        &self,
        corpus: &Corpus,
        selection: &Selection,
        deadline: Instant,
    ) -> Result<Vec<DocumentId>, Error> {
        let most = self.backends.limits.document_ids;
        let mut selected = Vec::new();
        for shard in corpus.shards() {
            let of_shard = shard.select(selection, None, most, deadline).await?;
            selected.extend(of_shard.into_iter().map(|status| status.document_id));
        }
        selected.sort_unstable();
        selected.truncate(most);
        Ok(selected)
    }
}

/// Returns the receipt that tells what forgetting documents would find. `there` is in order.
fn preview_of(
    ids: &[DocumentId],
    there: &[DocumentId],
    selected: u64,
) -> wire::ForgetDocumentsResponse {
    let document = |id: &DocumentId| wire::ForgottenDocument {
        document_id: id.to_string(),
        found: there.binary_search(id).is_ok(),
        ..wire::ForgottenDocument::default()
    };
    let documents = ids.iter().map(document).collect();
    wire::ForgetDocumentsResponse { documents, selected, ..Default::default() }
}

/// Forgets documents. Returns the receipt of each in the order of `ids`, and what the scans of
/// their shards found.
pub(crate) async fn forget(
    corpus: &Corpus,
    ids: &[DocumentId],
    deadline: Instant,
) -> Result<Erasure, Error> {
    let mut forgotten: Vec<Option<Forgotten>> = vec![None; ids.len()];
    let mut erased = Erasure::default();
    for shard in corpus.shards() {
        let here: Vec<(usize, DocumentId)> = ids
            .iter()
            .enumerate()
            .filter(|(_, id)| corpus.shard_of(id).index() == shard.index())
            .map(|(place, id)| (place, id.clone()))
            .collect();
        if here.is_empty() {
            continue;
        }
        let (places, ids): (Vec<usize>, Vec<DocumentId>) = here.into_iter().unzip();
        let Erasure { documents, scan, snapshots } = shard.forget(&ids, deadline).await?;
        erased.scan.add(scan);
        HoldingSnapshot::unite(&mut erased.snapshots, snapshots);
        for (place, receipt) in places.into_iter().zip(documents) {
            forgotten[place] = Some(receipt);
        }
    }
    let forgotten: Option<Vec<Forgotten>> = forgotten.into_iter().collect();
    erased.documents =
        forgotten.ok_or_else(|| Error::internal("a document was in none of the shards"))?;
    Ok(erased)
}

/// Returns the span of a document of a stream in which `read` documents came before. A bulk load is
/// one stream: the trace records its first documents, and metrics count the others.
fn span_of(read: usize) -> Span {
    if read < TRACED_DOCUMENTS {
        return child(|| tracing::info_span!("ingest.document"));
    }
    let Some(origin) = Origin::current() else { return Span::none() };
    let span = tracing::info_span!(parent: None, "ingest.document");
    origin.unrecorded().parent_of(&span);
    span
}

/// State of one document of a stream.
enum Offered {
    Refused(String, Error),
    /// The document's shard has room for it.
    Admitted(String, Accepting),
    /// The stream itself cannot continue.
    Broken(Status),
}

async fn offer(
    backends: &Backends,
    caller: &Caller,
    assembled: Assembled,
    deadline: Instant,
) -> Offered {
    let Assembled { corpus, id, document, if_there, room: _room } = assembled;
    let corpus = match backends.corpora.of(caller).get(&corpus, deadline).await {
        Ok(corpus) => corpus,
        // The stream may bring documents of other corpora, which can be used.
        Err(unusable) if matches!(unusable.kind(), ErrorKind::DataLoss | ErrorKind::WrongState) => {
            return Offered::Refused(id, unusable);
        }
        Err(unknown) => return Offered::Broken(to_status(&unknown)),
    };
    let offered = async {
        let document = document?;
        caller.access().check_attached(&document.labels)?;
        backends.moderation.check(&document, deadline).await?;
        caller.take_bytes(document.text.len()).await?;
        corpus.shard_of(&document.id).accept(document, if_there, deadline).await
    };
    match offered.await {
        Ok(accepting) => Offered::Admitted(id, accepting),
        Err(error) => Offered::Refused(id, error),
    }
}

impl Offered {
    async fn finish(self) -> Result<wire::IngestResponse, Status> {
        use wire::ingest_response::Result as Wire;
        let (document_id, result) = match self {
            Self::Broken(status) => return Err(status),
            Self::Refused(id, error) => (id, Err(error)),
            Self::Admitted(id, accepting) => (id, accepting.await),
        };
        let result = match result {
            Ok(accepted) => Wire::Accepted(convert::accepted_to_wire(&accepted)),
            Err(error) => Wire::Refused(convert::refusal(&error)),
        };
        Ok(wire::IngestResponse { document_id, result: Some(result) })
    }
}

/// Returns the part of `text` from byte `offset` that fits one response. Never cuts a character.
fn text_part(text: &str, offset: u64) -> Result<&str, Error> {
    let rest =
        usize::try_from(offset).ok().and_then(|offset| text.get(offset..)).ok_or_else(|| {
            Error::invalid(
                "text_offset",
                format!(
                    "expected the start of a character within {} bytes, got {offset}",
                    text.len()
                ),
            )
        })?;
    Ok(&rest[..rest.floor_char_boundary(TEXT_PART_BYTES)])
}

fn states_of(stage: wire::DocumentStage) -> &'static [Option<DocumentState>] {
    match stage {
        wire::DocumentStage::Unspecified => &[None],
        wire::DocumentStage::Pending => {
            &[Some(DocumentState::Pending), Some(DocumentState::Retrying)]
        }
        wire::DocumentStage::Indexed => &[Some(DocumentState::Indexed)],
        wire::DocumentStage::Failed => &[Some(DocumentState::SetAside)],
    }
}

fn status_to_wire(status: &DocumentStatus) -> wire::DocumentState {
    let (stage, waits_for) = match status.state {
        DocumentState::Indexed => (wire::DocumentStage::Indexed, String::new()),
        DocumentState::Pending => {
            (wire::DocumentStage::Pending, "its turn to be cut and embedded".to_owned())
        }
        DocumentState::Retrying => {
            let next = status.failure.as_ref().and_then(|failure| failure.next_try);
            let at = next.map_or_else(String::new, |time| format!(" at {time}"));
            (wire::DocumentStage::Pending, format!("its next try{at}"))
        }
        DocumentState::SetAside => (
            wire::DocumentStage::Failed,
            "a new version of the document, or to be forgotten".to_owned(),
        ),
    };
    wire::DocumentState {
        id: status.document_id.to_string(),
        version: status.version.0,
        live_version: status.live_version.map_or(0, |version| version.0),
        stage: stage.into(),
        attempts: status.failure.as_ref().map_or(0, |failure| failure.attempts),
        last_error: status.failure.as_ref().map_or_else(String::new, |f| f.message.clone()),
        waits_for,
        text_bytes: status.bytes,
        nodes: status.nodes,
        chunks: count(status.chunks),
        accepted_at: Some(timestamp_to_wire(status.accepted_at)),
        labels: convert::labels_to_wire(&status.labels),
        title: String::new(),
        attributes: Vec::new(),
        source_version: status.source_version.map(|number| number.0),
    }
}

fn count(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Reports the progress of an ingestion until the client leaves or does not read, or the counts
/// cannot be known. With `until_idle`, ends once nothing is left to index.
async fn report_progress(
    counts: impl AsyncFn() -> Result<Counts, Error>,
    until_idle: bool,
    mut progress: Responder<wire::WatchIngestionResponse>,
) {
    loop {
        let counts = counts().await;
        let is_idle = counts.as_ref().is_ok_and(|c| c.pending == 0 && c.retrying == 0);
        let has_failed = counts.is_err();
        let report = counts.map(|counts| progress_to_wire(&counts_to_wire(&counts)));
        let is_read = progress.send(report.map_err(|error| to_status(&error))).await;
        if !is_read || has_failed || (is_idle && until_idle) {
            return;
        }
        tokio::select! {
            () = progress.closed() => return,
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
        }
    }
}

fn progress_to_wire(counts: &clew_proto::corpus::v1::CorpusCounts) -> wire::WatchIngestionResponse {
    wire::WatchIngestionResponse {
        documents: counts.documents,
        indexed_documents: counts.indexed_documents,
        pending_documents: counts.pending_documents,
        failed_documents: counts.failed_documents,
        chunks: counts.chunks,
        tokens: counts.tokens,
    }
}

#[tonic::async_trait]
impl IngestService for Ingestion {
    type IngestStream = Responses<wire::IngestResponse>;

    async fn ingest(
        &self,
        request: Request<Streaming<wire::IngestRequest>>,
    ) -> Result<Response<Self::IngestStream>, Status> {
        let caller = Caller::of(&request).map_err(|error| to_status(&error))?;
        let results = self.accept(caller, request.into_inner(), None);
        Ok(Response::new(while_read(results, self.backends.config.reader_patience())))
    }

    async fn ingest_documents(
        &self,
        request: Request<wire::IngestDocumentsRequest>,
    ) -> Result<Response<wire::IngestDocumentsResponse>, Status> {
        self.ingest_together(request).await.map(Response::new)
    }

    async fn get_document(
        &self,
        request: Request<wire::GetDocumentRequest>,
    ) -> Result<Response<wire::GetDocumentResponse>, Status> {
        respond(self.get(request).await)
    }

    async fn list_documents(
        &self,
        request: Request<wire::ListDocumentsRequest>,
    ) -> Result<Response<wire::ListDocumentsResponse>, Status> {
        respond(self.list(request).await)
    }

    async fn list_chunks(
        &self,
        request: Request<wire::ListChunksRequest>,
    ) -> Result<Response<wire::ListChunksResponse>, Status> {
        respond(self.list_chunks(request).await)
    }

    type WatchIngestionStream = Responses<wire::WatchIngestionResponse>;

    async fn watch_ingestion(
        &self,
        request: Request<wire::WatchIngestionRequest>,
    ) -> Result<Response<Self::WatchIngestionStream>, Status> {
        respond(self.watch(request).await)
    }

    async fn forget_documents(
        &self,
        request: Request<wire::ForgetDocumentsRequest>,
    ) -> Result<Response<wire::ForgetDocumentsResponse>, Status> {
        respond(self.forget(request).await)
    }

    async fn estimate_ingestion(
        &self,
        request: Request<wire::EstimateIngestionRequest>,
    ) -> Result<Response<wire::EstimateIngestionResponse>, Status> {
        respond(estimate::estimate(&self.backends, request).await)
    }

    async fn report_run(
        &self,
        request: Request<wire::ReportRunRequest>,
    ) -> Result<Response<wire::ReportRunResponse>, Status> {
        respond(runs::report(&self.backends, request).await)
    }

    async fn get_run(
        &self,
        request: Request<wire::GetRunRequest>,
    ) -> Result<Response<wire::GetRunResponse>, Status> {
        respond(runs::get(&self.backends, request).await)
    }

    async fn list_runs(
        &self,
        request: Request<wire::ListRunsRequest>,
    ) -> Result<Response<wire::ListRunsResponse>, Status> {
        respond(runs::list(&self.backends, request).await)
    }

    async fn delete_run(
        &self,
        request: Request<wire::DeleteRunRequest>,
    ) -> Result<Response<wire::DeleteRunResponse>, Status> {
        respond(runs::delete(&self.backends, request).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_nobody_reads_does_not_end_as_if_all_was_indexed() {
        // Fewer are accepted than are pending: counts of another node that cannot be.
        let busy = Counts { pending: 1, ..Counts::default() };
        let (progress, read) = responses(1, Duration::from_secs(60));
        report_progress(async || Ok(busy), true, progress).await;
        let mut read: Vec<_> = read.collect().await;
        assert_eq!(read.pop().unwrap().unwrap_err().code(), tonic::Code::DeadlineExceeded);
        assert!(
            read.iter()
                .all(|report| report.as_ref().is_ok_and(|report| report.pending_documents == 1))
        );

        let (progress, read) = responses(1, Duration::from_secs(60));
        report_progress(async || Ok(Counts::default()), true, progress).await;
        let read: Vec<_> = read.collect().await;
        assert!(matches!(read.as_slice(), [Ok(report)] if report.pending_documents == 0));
    }

    #[test]
    fn long_texts_come_in_parts_that_never_cut_a_character() {
        let text = "é".repeat(TEXT_PART_BYTES);
        let mut whole = String::new();
        while whole.len() < text.len() {
            let part = text_part(&text, whole.len() as u64).unwrap();
            assert!(!part.is_empty() && part.len() <= TEXT_PART_BYTES);
            whole.push_str(part);
        }
        assert_eq!(whole, text);
        assert!(text_part(&text, 1).is_err());
        assert!(text_part(&text, u64::MAX).is_err());
        assert_eq!(text_part("ab", 2).unwrap(), "");
    }
}
