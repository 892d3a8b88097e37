//! Typed client of Clew's services.
//!
//! Requests are domain values, which the server validates. Responses are messages of the wire.
//! Errors are [`clew_core::Error`]s with kind, reason and offending fields. A client also
//! implements [`clew_core::GraphBuilder`] by calling the server.

mod failed;
mod graph_builder;
mod place;
pub mod receipt;
mod services;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use clew_core::{
    CorpusName, Document, DocumentId, Error, ErrorKind, Filter, GraphQuery, IfThere, MemoryUse,
    PartReport, Partial, Query, RunName, SnapshotName, Subgraph, Task, Timestamp, TreeNode,
    TreeNodeId,
};
use clew_proto::auth::v1::access_service_client::AccessServiceClient;
use clew_proto::chat::v1::chat_service_client::ChatServiceClient;
use clew_proto::cluster::v1::cluster_service_client::ClusterServiceClient;
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::convert::{
    chat as convert_chat, ingest as convert_ingest, memory as convert_memory,
    query as convert_query, run as convert_run, timestamp_to_wire,
};
use clew_proto::corpus::v1::corpus_service_client::CorpusServiceClient;
use clew_proto::ingest::v1::ingest_service_client::IngestServiceClient;
use clew_proto::memory::v1::memory_service_client::MemoryServiceClient;
use clew_proto::query::v1::query_service_client::QueryServiceClient;
use clew_proto::{
    auth::v1 as auth, chat::v1 as chat, cluster::v1 as cluster, corpus::v1 as corpus,
    ingest::v1 as ingest, memory::v1 as memory, query::v1 as query,
};
use futures::{Stream, StreamExt, stream};
use tonic::Request;

use self::failed::failed;
pub use self::place::{address_of, name_of};
pub use self::services::Services;
pub use self::wire::{Credentials, Wire};

const PAGE_SIZE: u32 = 1000;
/// Maximum size in bytes of a message with a part of a graph.
pub const MAX_GRAPH_BYTES: usize = 64 << 20;
/// Number of attempts to read a text in parts if the document is replaced meanwhile.
const READ_ATTEMPTS: usize = 10;

/// A connection to a server. Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    corpora: CorpusServiceClient<Wire>,
    documents: IngestServiceClient<Wire>,
    queries: QueryServiceClient<Wire>,
    memories: MemoryServiceClient<Wire>,
    chats: ChatServiceClient<Wire>,
    access: AccessServiceClient<Wire>,
    cluster: ClusterServiceClient<Wire>,
    wire: Wire,
    patience: Duration,
}

/// A question to answer.
#[derive(Clone, Debug, Default)]
pub struct QuestionRequest {
    /// The question, or the subject to summarise.
    pub text: String,
    /// Kind of result that is wanted.
    pub task: Task,
    /// Time at which it is asked, if that matters.
    pub asked_at: Option<Timestamp>,
    /// Name of the strategy. Empty for the default.
    pub strategy: String,
    /// Maximum number of passages to read. `None` for the default of the strategy.
    pub k: Option<u32>,
    /// Maximum number of tokens of the passages to read.
    pub evidence_tokens: Option<u32>,
    /// Number of candidates that a reranker scores in each search. `None` for no reranking.
    pub rerank: Option<u32>,
    /// Restriction of what may be found.
    pub filter: Filter,
    /// Use of compressed memories, if the strategy reads them.
    pub memory_use: MemoryUse,
    /// Whether citations come with the attributes of their documents.
    pub with_attributes: bool,
}

/// Page of a search that is wanted. The default is the first, without attributes.
#[derive(Clone, Debug, Default)]
pub struct SearchPage {
    /// `next_page_token` of the previous page. Empty for the first page.
    pub page_token: String,
    /// Whether the evidence comes with the attributes of its documents.
    pub with_attributes: bool,
}

impl Client {
    /// Connects to `endpoint`, such as `http://127.0.0.1:7421`. Each call may take `patience`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid, and
    /// [`ErrorKind::Unavailable`] if no server answers there.
    pub async fn connect(endpoint: &str, patience: Duration) -> Result<Self, Error> {
        Self::connect_as(&Credentials::default(), endpoint, patience).await
    }

    /// Connects with credentials. An `https://` endpoint must prove its identity with a certificate
    /// for its host.
    ///
    /// # Errors
    /// Returns the errors of [`Client::connect`], and [`ErrorKind::InvalidInput`] if a file of the
    /// credentials cannot be used.
    pub async fn connect_as(
        credentials: &Credentials,
        endpoint: &str,
        patience: Duration,
    ) -> Result<Self, Error> {
        Ok(Self::over(Wire::connect(endpoint, credentials).await?, patience))
    }

    /// Creates a client over an existing connection.
    pub fn over(wire: impl Into<Wire>, patience: Duration) -> Self {
        let wire = wire.into();
        Self {
            corpora: CorpusServiceClient::new(wire.clone()),
            documents: IngestServiceClient::new(wire.clone()),
            queries: QueryServiceClient::new(wire.clone()),
            chats: ChatServiceClient::new(wire.clone()),
            access: AccessServiceClient::new(wire.clone()),
            memories: MemoryServiceClient::new(wire.clone())
                .max_decoding_message_size(MAX_GRAPH_BYTES),
            cluster: ClusterServiceClient::new(wire.clone()),
            wire,
            patience,
        }
    }

    /// Returns the services over the same connection, for generated clients.
    pub fn services(&self) -> Services {
        self.wire.clone().into()
    }

    fn request<T>(&self, message: T) -> Request<T> {
        within(self.patience, message)
    }

    /// Returns who the server takes the caller for, and what the caller may do.
    ///
    /// # Errors
    /// Returns the errors of `AccessService.WhoAmI`.
    pub async fn who_am_i(&self) -> Result<auth::WhoAmIResponse, Error> {
        let request = self.request(auth::WhoAmIRequest {});
        Ok(self.access.clone().who_am_i(request).await.map_err(failed)?.into_inner())
    }

    /// Creates a corpus.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.CreateCorpus`.
    pub async fn create_corpus(&self, new: NewCorpus) -> Result<corpus::Corpus, Error> {
        let request = self.request(corpus::CreateCorpusRequest::from(new));
        let response = self.corpora.clone().create_corpus(request).await.map_err(failed)?;
        response.into_inner().corpus.ok_or_else(|| incomplete("corpus"))
    }

    /// Describes a corpus.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.GetCorpus`.
    pub async fn corpus(&self, name: &CorpusName) -> Result<corpus::Corpus, Error> {
        let request = self.request(corpus::GetCorpusRequest { name: name.to_string() });
        let response = self.corpora.clone().get_corpus(request).await.map_err(failed)?;
        response.into_inner().corpus.ok_or_else(|| incomplete("corpus"))
    }

    /// Lists all corpora, by name.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.ListCorpora`.
    pub async fn corpora(&self) -> Result<Vec<corpus::Corpus>, Error> {
        let mut all = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = corpus::ListCorporaRequest { page_size: PAGE_SIZE, page_token };
            let page = self.corpora.clone().list_corpora(self.request(request)).await;
            let page = page.map_err(failed)?.into_inner();
            all.extend(page.corpora);
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            page_token = page.next_page_token;
        }
    }

    /// Deletes a corpus. Returns how many documents it contained and how many snapshots remain.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.DeleteCorpus`.
    pub async fn delete_corpus(
        &self,
        name: &CorpusName,
    ) -> Result<corpus::DeleteCorpusResponse, Error> {
        let request = self.request(corpus::DeleteCorpusRequest { name: name.to_string() });
        let response = self.corpora.clone().delete_corpus(request).await.map_err(failed)?;
        Ok(response.into_inner())
    }

    /// Checks one page of a corpus' documents. Start with an empty `page_token`. The response has
    /// the token of the next page, which is empty after the last page.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.CheckCorpus`.
    pub async fn check_page(
        &self,
        name: &CorpusName,
        page_token: String,
    ) -> Result<corpus::CheckCorpusResponse, Error> {
        let request =
            corpus::CheckCorpusRequest { name: name.to_string(), page_size: 0, page_token };
        let page = self.corpora.clone().check_corpus(self.request(request)).await;
        Ok(page.map_err(failed)?.into_inner())
    }

    /// Takes a snapshot of a corpus. The stream reports progress and ends with the snapshot.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.SnapshotCorpus`.
    pub async fn snapshot_corpus(
        &self,
        name: &CorpusName,
        snapshot: &SnapshotName,
    ) -> Result<impl Stream<Item = Result<corpus::SnapshotCorpusResponse, Error>> + use<>, Error>
    {
        let (name, snapshot) = (name.to_string(), snapshot.to_string());
        let request = corpus::SnapshotCorpusRequest { name, snapshot };
        // No timeout, because the duration depends on how much there is to copy.
        let events = self.corpora.clone().snapshot_corpus(request).await.map_err(failed)?;
        Ok(events.into_inner().map(|event| event.map_err(failed)))
    }

    /// Returns the complete snapshots of a corpus, by name.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.ListSnapshots`.
    pub async fn snapshots(&self, name: &CorpusName) -> Result<Vec<corpus::Snapshot>, Error> {
        let request = self.request(corpus::ListSnapshotsRequest { name: name.to_string() });
        let listed = self.corpora.clone().list_snapshots(request).await.map_err(failed)?;
        Ok(listed.into_inner().snapshots)
    }

    /// Deletes snapshots of a corpus and returns the result for each.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.DeleteSnapshots`.
    pub async fn delete_snapshots(
        &self,
        request: corpus::DeleteSnapshotsRequest,
    ) -> Result<Vec<corpus::SnapshotDeletion>, Error> {
        // No timeout, because the duration depends on the number of files to remove.
        let deleted = self.corpora.clone().delete_snapshots(request).await.map_err(failed)?;
        Ok(deleted.into_inner().snapshots)
    }

    /// Exports the whole content of a corpus, as tables of rows in parts.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.ExportCorpus`.
    pub async fn export_corpus(
        &self,
        name: &CorpusName,
    ) -> Result<impl Stream<Item = Result<corpus::ExportCorpusResponse, Error>> + use<>, Error>
    {
        let request = corpus::ExportCorpusRequest { name: name.to_string() };
        // No timeout, because the duration depends on how much there is to send.
        let messages = self.corpora.clone().export_corpus(request).await.map_err(failed)?;
        Ok(messages.into_inner().map(|message| message.map_err(failed)))
    }

    /// Restores a corpus from a snapshot, without the documents in `leave_out`. The stream reports
    /// progress and ends with the corpus.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.RestoreCorpus`.
    pub async fn restore_corpus(
        &self,
        name: &CorpusName,
        snapshot: &SnapshotName,
        leave_out: &[DocumentId],
    ) -> Result<impl Stream<Item = Result<corpus::RestoreCorpusResponse, Error>> + use<>, Error>
    {
        let (name, snapshot) = (name.to_string(), snapshot.to_string());
        let leave_out = leave_out.iter().map(ToString::to_string).collect();
        let request = corpus::RestoreCorpusRequest { name, snapshot, leave_out };
        // No timeout, as for snapshots.
        let events = self.corpora.clone().restore_corpus(request).await.map_err(failed)?;
        Ok(events.into_inner().map(|event| event.map_err(failed)))
    }

    /// Performs one step of moving a corpus to another embedding model. Only the first step uses
    /// `model`, the model to move to. An empty `model` selects the other model that the encoders
    /// offer.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.ReembedCorpus`.
    pub async fn reembed_corpus(
        &self,
        name: &CorpusName,
        step: corpus::ReembedStep,
        model: &str,
    ) -> Result<corpus::ReembedCorpusResponse, Error> {
        let (name, step, model) = (name.to_string(), step.into(), model.to_owned());
        let request = self.request(corpus::ReembedCorpusRequest { name, step, model });
        let taken = self.corpora.clone().reembed_corpus(request).await.map_err(failed)?;
        Ok(taken.into_inner())
    }

    /// Returns the progress of computing a corpus' vectors for its models.
    ///
    /// # Errors
    /// Returns the errors of `CorpusService.GetReembedding`.
    pub async fn reembedding(
        &self,
        name: &CorpusName,
    ) -> Result<corpus::GetReembeddingResponse, Error> {
        let request = self.request(corpus::GetReembeddingRequest { name: name.to_string() });
        let told = self.corpora.clone().get_reembedding(request).await.map_err(failed)?;
        Ok(told.into_inner())
    }

    /// Sends documents and yields one response for each, in order. The stream of documents is read
    /// only as fast as the server accepts them.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.Ingest`. After an error, send everything again:
    /// documents that were accepted before are not accepted twice.
    pub async fn ingest(
        &self,
        corpus: &CorpusName,
        documents: impl Stream<Item = Document> + Send + 'static,
    ) -> Result<impl Stream<Item = Result<ingest::IngestResponse, Error>> + Send, Error> {
        self.ingest_if(corpus, documents, IfThere::Replace).await
    }

    /// Sends documents like [`Client::ingest`]. `if_there` says what to do if a document's id
    /// already exists. A document that the caller shares is not copied.
    ///
    /// # Errors
    /// Returns the errors of [`Client::ingest`], and [`ErrorKind::InvalidInput`] if `if_there` is
    /// not supported by the server's release.
    pub async fn ingest_if(
        &self,
        corpus: &CorpusName,
        documents: impl Stream<Item = impl Into<Arc<Document>>> + Send + 'static,
        if_there: IfThere,
    ) -> Result<impl Stream<Item = Result<ingest::IngestResponse, Error>> + Send, Error> {
        let corpus = corpus.to_string();
        let messages = documents
            .flat_map(move |document| stream::iter(in_parts(&corpus, &document.into(), if_there)));
        // No timeout, because the duration depends on the number of documents.
        let responses = self.documents.clone().ingest(messages).await.map_err(failed)?;
        Ok(responses.into_inner().map(|response| response.map_err(failed)))
    }

    /// Sends up to 100 documents in one message and returns one response for each, in order. All
    /// their texts have to fit into one message.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.IngestDocuments`. After an error, send all again, as
    /// with [`Client::ingest`].
    pub async fn ingest_documents(
        &self,
        corpus: &CorpusName,
        documents: Vec<Document>,
        if_there: IfThere,
    ) -> Result<Vec<ingest::IngestResponse>, Error> {
        let request = self.request(ingest::IngestDocumentsRequest {
            corpus: corpus.to_string(),
            documents: documents.into_iter().map(convert_ingest::document_to_wire).collect(),
            only_additions: if_there == IfThere::Refuse,
        });
        let response = self.documents.clone().ingest_documents(request).await.map_err(failed)?;
        Ok(response.into_inner().results)
    }

    /// Returns a document's stored text and state, both of the same version.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.GetDocument`, and [`ErrorKind::LostRace`] if the
    /// document was replaced during every attempt to read it.
    pub async fn document(
        &self,
        corpus: &CorpusName,
        id: &DocumentId,
    ) -> Result<(ingest::Document, ingest::DocumentState), Error> {
        for _ in 0..READ_ATTEMPTS {
            if let Some(read) = self.read_one_version(corpus, id).await? {
                return Ok(read);
            }
        }
        let problem = format!("document `{id}` was replaced whenever it was read; try again");
        Err(Error::new(ErrorKind::LostRace, "DOCUMENT_REPLACED", problem))
    }

    /// Reads a text in parts. Returns `None` if another version appeared before the last part.
    async fn read_one_version(
        &self,
        corpus: &CorpusName,
        id: &DocumentId,
    ) -> Result<Option<(ingest::Document, ingest::DocumentState)>, Error> {
        let mut text = Vec::new();
        let mut version = None;
        loop {
            let request = ingest::GetDocumentRequest {
                corpus: corpus.to_string(),
                document_id: id.to_string(),
                text_offset: text.len() as u64,
            };
            let response = self.documents.clone().get_document(self.request(request)).await;
            let response = match response.map_err(failed) {
                Ok(response) => response.into_inner(),
                // The offset after the last part is meaningless in the text of another version.
                Err(error) if !text.is_empty() && error.kind() == ErrorKind::InvalidInput => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let mut document = response.document.ok_or_else(|| incomplete("document"))?;
            let state = response.state.ok_or_else(|| incomplete("state"))?;
            if *version.get_or_insert(state.version) != state.version {
                return Ok(None);
            }
            let ended = document.text.is_empty();
            text.extend_from_slice(&document.text);
            if ended || text.len() as u64 >= state.text_bytes {
                document.text = text.into();
                return Ok(Some((document, state)));
            }
        }
    }

    /// Lists the state of all documents at `stage`, by id. An unspecified stage means all
    /// documents.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ListDocuments`.
    pub async fn documents(
        &self,
        corpus: &CorpusName,
        stage: ingest::DocumentStage,
    ) -> Result<Vec<ingest::DocumentState>, Error> {
        let mut all = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ingest::ListDocumentsRequest {
                corpus: corpus.to_string(),
                stage: stage.into(),
                page_size: PAGE_SIZE,
                page_token,
                ..Default::default()
            };
            let page = self.documents_page(request).await?;
            all.extend(page.documents);
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            page_token = page.next_page_token;
        }
    }

    /// Returns a page of the chunks of a document. The response has the token of the next page,
    /// which is empty after the last page.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ListChunks`.
    pub async fn chunks_page(
        &self,
        asked: ingest::ListChunksRequest,
    ) -> Result<ingest::ListChunksResponse, Error> {
        let listed = self.documents.clone().list_chunks(self.request(asked)).await;
        Ok(listed.map_err(failed)?.into_inner())
    }

    /// Returns one page of the documents that a request lists.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ListDocuments`.
    pub async fn documents_page(
        &self,
        request: ingest::ListDocumentsRequest,
    ) -> Result<ingest::ListDocumentsResponse, Error> {
        let page = self.documents.clone().list_documents(self.request(request)).await;
        Ok(page.map_err(failed)?.into_inner())
    }

    /// Reports the progress of indexing until nothing is pending.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.WatchIngestion`.
    pub async fn watch_until_idle(
        &self,
        corpus: &CorpusName,
    ) -> Result<impl Stream<Item = Result<ingest::WatchIngestionResponse, Error>> + use<>, Error>
    {
        let request =
            ingest::WatchIngestionRequest { corpus: corpus.to_string(), until_idle: true };
        let reports = self.documents.clone().watch_ingestion(request).await.map_err(failed)?;
        Ok(reports.into_inner().map(|report| report.map_err(failed)))
    }

    /// Forgets documents and returns the receipt.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ForgetDocuments`.
    pub async fn forget(
        &self,
        corpus: &CorpusName,
        ids: &[DocumentId],
    ) -> Result<ingest::ForgetDocumentsResponse, Error> {
        let request = ingest::ForgetDocumentsRequest {
            corpus: corpus.to_string(),
            document_ids: ids.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        self.forget_selected(request).await
    }

    /// Forgets the documents that a request names or selects, or tells what it would forget.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ForgetDocuments`.
    pub async fn forget_selected(
        &self,
        request: ingest::ForgetDocumentsRequest,
    ) -> Result<ingest::ForgetDocumentsResponse, Error> {
        let response = self.documents.clone().forget_documents(self.request(request)).await;
        Ok(response.map_err(failed)?.into_inner())
    }

    /// Estimates the cost of ingesting documents.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.EstimateIngestion`.
    pub async fn estimate(
        &self,
        request: ingest::EstimateIngestionRequest,
    ) -> Result<ingest::EstimateIngestionResponse, Error> {
        let response = self.documents.clone().estimate_ingestion(self.request(request)).await;
        Ok(response.map_err(failed)?.into_inner())
    }

    /// Reports what a part of a run of ingestion has done so far, and returns the part as the
    /// server keeps it. `parts` is the number of parts of the run.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ReportRun`.
    pub async fn report_run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
        parts: u32,
        report: &PartReport,
    ) -> Result<ingest::RunPart, Error> {
        let (corpus, run) = (corpus.to_string(), run.to_string());
        let part = Some(convert_run::part_report_to_wire(report));
        let request = self.request(ingest::ReportRunRequest { corpus, run, parts, part });
        let kept = self.documents.clone().report_run(request).await.map_err(failed)?;
        kept.into_inner().part.ok_or_else(|| incomplete("part"))
    }

    /// Returns a run of ingestion with its parts and its stage.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.GetRun`.
    pub async fn run(
        &self,
        corpus: &CorpusName,
        run: &RunName,
    ) -> Result<ingest::GetRunResponse, Error> {
        let (corpus, run) = (corpus.to_string(), run.to_string());
        let request = self.request(ingest::GetRunRequest { corpus, run });
        let found = self.documents.clone().get_run(request).await.map_err(failed)?;
        Ok(found.into_inner())
    }

    /// Lists all runs of ingestion of a corpus, the newest first, without their parts and stages.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ListRuns`.
    pub async fn runs(&self, corpus: &CorpusName) -> Result<Vec<ingest::Run>, Error> {
        let (mut all, mut page_token) = (Vec::new(), String::new());
        loop {
            let corpus = corpus.to_string();
            let request = ingest::ListRunsRequest { corpus, page_size: PAGE_SIZE, page_token };
            let page = self.documents.clone().list_runs(self.request(request)).await;
            let page = page.map_err(failed)?.into_inner();
            all.extend(page.runs);
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            page_token = page.next_page_token;
        }
    }

    /// Deletes what is kept of a run of ingestion. Its documents stay.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.DeleteRun`.
    pub async fn delete_run(&self, corpus: &CorpusName, run: &RunName) -> Result<(), Error> {
        let (corpus, run) = (corpus.to_string(), run.to_string());
        let request = self.request(ingest::DeleteRunRequest { corpus, run });
        self.documents.clone().delete_run(request).await.map_err(failed)?;
        Ok(())
    }

    /// Searches a corpus for passages.
    ///
    /// # Errors
    /// Returns the errors of `QueryService.Search`.
    pub async fn search(
        &self,
        corpus: &CorpusName,
        query: Query,
    ) -> Result<query::SearchResponse, Error> {
        self.search_for(convert_query::search_to_wire(corpus, query)).await
    }

    /// Searches a corpus for passages, which come with the attributes of their documents.
    ///
    /// # Errors
    /// Returns the errors of `QueryService.Search`.
    pub async fn search_with_attributes(
        &self,
        corpus: &CorpusName,
        query: Query,
    ) -> Result<query::SearchResponse, Error> {
        let request = convert_query::search_to_wire(corpus, query);
        self.search_for(query::SearchRequest { with_attributes: true, ..request }).await
    }

    /// Returns a page of up to `query.k` passages of a search. The response has the token of the
    /// next page, which is empty after the last one.
    ///
    /// # Errors
    /// Returns the errors of `QueryService.Search`, and [`ErrorKind::InvalidInput`] naming
    /// `page_token` if the token is not of an earlier page of this search.
    pub async fn search_page(
        &self,
        corpus: &CorpusName,
        query: Query,
        page: SearchPage,
    ) -> Result<query::SearchResponse, Error> {
        let SearchPage { page_token, with_attributes } = page;
        let request = convert_query::search_to_wire(corpus, query);
        self.search_for(query::SearchRequest { page_token, with_attributes, ..request }).await
    }

    /// Returns the pages of a search, of up to `query.k` passages each, one after another. Each is
    /// asked for when the stream is polled for it. After an error the stream ends.
    pub fn search_pages(
        &self,
        corpus: &CorpusName,
        query: Query,
    ) -> impl Stream<Item = Result<query::SearchResponse, Error>> + Send + use<> {
        let (client, corpus) = (self.clone(), corpus.clone());
        stream::try_unfold(Some(SearchPage::default()), move |page| {
            let (client, corpus, query) = (client.clone(), corpus.clone(), query.clone());
            async move {
                let Some(page) = page else { return Ok(None) };
                let found = client.search_page(&corpus, query, page).await?;
                let page_token = found.next_page_token.clone();
                let next = (!page_token.is_empty())
                    .then(|| SearchPage { page_token, ..SearchPage::default() });
                Ok(Some((found, next)))
            }
        })
    }

    async fn search_for(
        &self,
        request: query::SearchRequest,
    ) -> Result<query::SearchResponse, Error> {
        let response = self.queries.clone().search(self.request(request)).await;
        Ok(response.map_err(failed)?.into_inner())
    }

    /// Runs several searches of a corpus together.
    ///
    /// # Errors
    /// Returns the errors of `QueryService.SearchBatch`.
    pub async fn search_batch(
        &self,
        corpus: &CorpusName,
        queries: Vec<Query>,
    ) -> Result<query::SearchBatchResponse, Error> {
        let request = self.request(convert_query::search_batch_to_wire(corpus, queries));
        let response = self.queries.clone().search_batch(request).await.map_err(failed)?;
        Ok(response.into_inner())
    }

    /// Answers a question. The stream yields trace events and text as they come, and ends with the
    /// answer.
    ///
    /// # Errors
    /// Returns the errors of `QueryService.Answer`.
    pub async fn answer(
        &self,
        corpus: &CorpusName,
        question: QuestionRequest,
    ) -> Result<impl Stream<Item = Result<query::AnswerResponse, Error>> + use<>, Error> {
        let request = self.request(query::AnswerRequest {
            corpus: corpus.to_string(),
            question: question.text,
            strategy: question.strategy,
            k: question.k,
            filter: Some(convert_query::filter_to_wire(question.filter)),
            task: convert_query::task_to_wire(question.task).into(),
            asked_at: question.asked_at.map(timestamp_to_wire),
            evidence_tokens: question.evidence_tokens,
            memory_use: convert_query::memory_use_to_wire(question.memory_use).into(),
            rerank: question.rerank,
            with_attributes: question.with_attributes,
        });
        let events = self.queries.clone().answer(request).await.map_err(failed)?;
        Ok(events.into_inner().map(|event| event.map_err(failed)))
    }

    /// Lists the strategies of answering, the default first. `corpus` is the corpus that is to be
    /// asked, if that is known.
    ///
    /// # Errors
    /// Returns the errors of `QueryService.ListStrategies`.
    pub async fn strategies(
        &self,
        corpus: Option<&CorpusName>,
    ) -> Result<Vec<query::Strategy>, Error> {
        let corpus = corpus.map(ToString::to_string).unwrap_or_default();
        let request = self.request(query::ListStrategiesRequest { corpus });
        let listed = self.queries.clone().list_strategies(request).await.map_err(failed)?;
        Ok(listed.into_inner().strategies)
    }

    /// Appends turns to a session of a user, and waits until they can be found.
    ///
    /// # Errors
    /// Returns the errors of `ChatService.AppendTurns`.
    pub async fn append_turns(
        &self,
        turns: convert_chat::Appended,
    ) -> Result<chat::AppendTurnsResponse, Error> {
        let request = self.request(convert_chat::append_to_wire(turns));
        Ok(self.chats.clone().append_turns(request).await.map_err(failed)?.into_inner())
    }

    /// Recalls what a user's conversations say about a question.
    ///
    /// # Errors
    /// Returns the errors of `ChatService.Recall`.
    pub async fn recall(&self, asked: chat::RecallRequest) -> Result<chat::RecallResponse, Error> {
        Ok(self.chats.clone().recall(self.request(asked)).await.map_err(failed)?.into_inner())
    }

    /// Answers a question from a user's conversations. The stream yields trace events and text as
    /// they come, and ends with the answer.
    ///
    /// # Errors
    /// Returns the errors of `ChatService.Answer`.
    pub async fn answer_of_chats(
        &self,
        asked: chat::AnswerRequest,
    ) -> Result<impl Stream<Item = Result<query::AnswerResponse, Error>> + use<>, Error> {
        let events = self.chats.clone().answer(self.request(asked)).await.map_err(failed)?;
        Ok(events.into_inner().map(|told| Ok(told.map_err(failed)?.event.unwrap_or_default())))
    }

    /// Lists the turns of a user, or of one of the user's sessions.
    ///
    /// # Errors
    /// Returns the errors of `ChatService.ListTurns`.
    pub async fn list_turns(
        &self,
        asked: chat::ListTurnsRequest,
    ) -> Result<impl Stream<Item = Result<chat::ListTurnsResponse, Error>> + use<>, Error> {
        let turns = self.chats.clone().list_turns(self.request(asked)).await.map_err(failed)?;
        Ok(turns.into_inner().map(|turn| turn.map_err(failed)))
    }

    /// Returns a page of the users of whom turns are stored. The response has the token of the next
    /// page, which is empty after the last page.
    ///
    /// # Errors
    /// Returns the errors of `ChatService.ListUsers`.
    pub async fn users_page(
        &self,
        asked: chat::ListUsersRequest,
    ) -> Result<chat::ListUsersResponse, Error> {
        Ok(self.chats.clone().list_users(self.request(asked)).await.map_err(failed)?.into_inner())
    }

    /// Returns a page of the sessions of a user, as [`Client::users_page`] does of users.
    ///
    /// # Errors
    /// Returns the errors of `ChatService.ListSessions`.
    pub async fn sessions_page(
        &self,
        asked: chat::ListSessionsRequest,
    ) -> Result<chat::ListSessionsResponse, Error> {
        let listed = self.chats.clone().list_sessions(self.request(asked)).await;
        Ok(listed.map_err(failed)?.into_inner())
    }

    /// Forgets turns, and returns once nothing is left of them.
    ///
    /// # Errors
    /// Returns the errors of `ChatService.ForgetTurns`.
    pub async fn forget_turns(
        &self,
        asked: chat::ForgetTurnsRequest,
    ) -> Result<chat::ForgetTurnsResponse, Error> {
        Ok(self.chats.clone().forget_turns(self.request(asked)).await.map_err(failed)?.into_inner())
    }

    /// Returns the children of a tree node, or the top nodes of the corpus tree, and the shards
    /// that did not answer.
    ///
    /// # Errors
    /// Returns the errors of `MemoryService.ReadTree`.
    pub async fn read_tree(
        &self,
        corpus: &CorpusName,
        parent: Option<&TreeNodeId>,
    ) -> Result<Partial<Vec<TreeNode>>, Error> {
        let parent = parent.map(convert_memory::node_id_to_wire);
        let request =
            memory::ReadTreeRequest { corpus: corpus.to_string(), parent, ..Default::default() };
        let read = self.memories.clone().read_tree(self.request(request)).await.map_err(failed)?;
        convert_memory::tree_nodes_from_wire(read.into_inner())
    }

    /// Lists the compressed memories of a corpus.
    ///
    /// # Errors
    /// Returns the errors of `MemoryService.ListMemories`.
    pub async fn memories(
        &self,
        corpus: &CorpusName,
    ) -> Result<memory::ListMemoriesResponse, Error> {
        let request = memory::ListMemoriesRequest { corpus: corpus.to_string() };
        let listed = self.memories.clone().list_memories(self.request(request)).await;
        Ok(listed.map_err(failed)?.into_inner())
    }

    /// Returns the part of the corpus' graph around what `query` names, and the shards that did not
    /// answer.
    ///
    /// # Errors
    /// Returns the errors of `MemoryService.ReadGraph`.
    pub async fn read_graph(
        &self,
        corpus: &CorpusName,
        query: &GraphQuery,
    ) -> Result<Partial<Subgraph>, Error> {
        let query = Some(convert_memory::graph_query_to_wire(query));
        let request =
            memory::ReadGraphRequest { corpus: corpus.to_string(), query, ..Default::default() };
        let read = self.memories.clone().read_graph(self.request(request)).await.map_err(failed)?;
        convert_memory::read_graph_from_wire(read.into_inner())
    }

    /// Finds paths between two entities, given by name.
    ///
    /// # Errors
    /// Returns the errors of `MemoryService.FindPaths`.
    pub async fn find_paths(
        &self,
        corpus: &CorpusName,
        from: &str,
        to: &str,
        most_hops: u32,
        most: u32,
    ) -> Result<memory::FindPathsResponse, Error> {
        let (corpus, from, to) = (corpus.to_string(), from.to_owned(), to.to_owned());
        let request = memory::FindPathsRequest { corpus, from, to, most_hops, most };
        let found = self.memories.clone().find_paths(self.request(request)).await;
        Ok(found.map_err(failed)?.into_inner())
    }

    /// Ranks entities and segments by personalised PageRank from the entities that a text names.
    ///
    /// # Errors
    /// Returns the errors of `MemoryService.RankGraph`.
    pub async fn rank_graph(
        &self,
        corpus: &CorpusName,
        text: &str,
        k: u32,
    ) -> Result<memory::RankGraphResponse, Error> {
        let (corpus, text) = (corpus.to_string(), text.to_owned());
        let request = self.request(memory::RankGraphRequest { corpus, text, k });
        let ranked = self.memories.clone().rank_graph(request).await;
        Ok(ranked.map_err(failed)?.into_inner())
    }

    /// Returns the parts that run on each node of the cluster.
    ///
    /// # Errors
    /// Returns the errors of `ClusterService.GetTree`.
    pub async fn cluster_tree(&self) -> Result<cluster::GetTreeResponse, Error> {
        let request = self.request(cluster::GetTreeRequest {});
        let response = self.cluster.clone().get_tree(request).await.map_err(failed)?;
        Ok(response.into_inner())
    }

    /// Returns the members of the cluster, and the shards with their owners.
    ///
    /// # Errors
    /// Returns the errors of `ClusterService.GetTopology`.
    pub async fn topology(&self) -> Result<cluster::GetTopologyResponse, Error> {
        let request = self.request(cluster::GetTopologyRequest {});
        let response = self.cluster.clone().get_topology(request).await.map_err(failed)?;
        Ok(response.into_inner())
    }

    /// Tells a node to hand over its work and to accept no more.
    ///
    /// # Errors
    /// Returns the errors of `ClusterService.DrainNode`.
    pub async fn drain_node(&self, id: &str) -> Result<(), Error> {
        let request = self.request(cluster::DrainNodeRequest { id: id.to_owned() });
        self.cluster.clone().drain_node(request).await.map(drop).map_err(failed)
    }
}

/// Returns a request with a timeout of `patience`.
pub(crate) fn within<T>(patience: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(patience);
    request
}

fn incomplete(field: &str) -> Error {
    Error::internal(format!("the server's response has no `{field}`"))
}

/// Returns the messages that carry one document.
fn in_parts(
    corpus: &str,
    document: &Arc<Document>,
    if_there: IfThere,
) -> Vec<ingest::IngestRequest> {
    use ingest::ingest_request::Payload;
    let text_bytes = document.text.len() as u64;
    let mut document = convert_ingest::shared_document_to_wire(document);
    let mut rest = std::mem::take(&mut document.text);
    document.text = convert_ingest::next_text_part(&mut rest);
    let mut messages = vec![ingest::IngestRequest {
        corpus: corpus.to_owned(),
        continues: !rest.is_empty(),
        payload: Some(match if_there {
            IfThere::Replace => Payload::Document(document),
            IfThere::Refuse => Payload::Addition(document),
        }),
        text_bytes: if rest.is_empty() { 0 } else { text_bytes },
    }];
    while !rest.is_empty() {
        let part = convert_ingest::next_text_part(&mut rest);
        messages.push(ingest::IngestRequest {
            corpus: String::new(),
            continues: !rest.is_empty(),
            payload: Some(Payload::TextPart(part)),
            text_bytes: 0,
        });
    }
    messages
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, MediaType};
    use clew_proto::convert::ingest::TEXT_PART_BYTES;
    use clew_proto::ingest::v1::ingest_request::Payload;

    use super::*;

    #[test]
    fn long_texts_are_sent_in_parts_that_add_up() {
        let text = "x".repeat(TEXT_PART_BYTES * 2 + 7);
        let document = Arc::new(Document {
            id: "a".parse().unwrap(),
            text: text.clone(),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes: Attributes::new(),
            event_time: None,
            labels: clew_core::Labels::default(),
            source_version: None,
        });
        for if_there in [IfThere::Replace, IfThere::Refuse] {
            let messages = in_parts("notes", &document, if_there);
            assert_eq!(messages[0].text_bytes, text.len() as u64);
            let continues: Vec<bool> = messages.iter().map(|message| message.continues).collect();
            assert_eq!(continues, [true, true, false]);
            let mut sent = Vec::new();
            for message in messages {
                match (message.payload, if_there) {
                    (Some(Payload::Document(document)), IfThere::Replace)
                    | (Some(Payload::Addition(document)), IfThere::Refuse) => {
                        sent.extend(document.text);
                    }
                    (Some(Payload::TextPart(part)), _) => sent.extend(part),
                    (other, _) => panic!("{if_there:?}: {other:?}"),
                }
            }
            assert_eq!(sent, text.as_bytes());
        }
    }
}
