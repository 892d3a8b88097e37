//! A typed client of Clew's services.
//!
//! Requests are domain values and are checked by the server; responses are the wire's messages, and
//! errors are [`clew_core::Error`]s with kind, reason and the fields at fault. A client is a
//! [`clew_core::GraphBuilder`], too: the server's.

pub mod graph_builder;
mod wire;

use std::time::Duration;

use clew_core::{
    CorpusName, Document, DocumentId, Error, ErrorKind, Filter, GraphQuery, IfThere, MemoryUse,
    NodeId, Partial, Query, SnapshotName, Subgraph, Task, Timestamp, TreeNode,
};
use clew_proto::chat::v1::chat_service_client::ChatServiceClient;
use clew_proto::cluster::v1::cluster_service_client::ClusterServiceClient;
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::convert::{
    chat as convert_chat, ingest as convert_ingest, memory as convert_memory,
    query as convert_query, timestamp_to_wire,
};
use clew_proto::corpus::v1::corpus_service_client::CorpusServiceClient;
use clew_proto::ingest::v1::ingest_service_client::IngestServiceClient;
use clew_proto::memory::v1::memory_service_client::MemoryServiceClient;
use clew_proto::query::v1::query_service_client::QueryServiceClient;
use clew_proto::{
    chat::v1 as chat, cluster::v1 as cluster, corpus::v1 as corpus, from_status,
    ingest::v1 as ingest, memory::v1 as memory, query::v1 as query,
};
use futures::{Stream, StreamExt};
use tonic::Request;

pub use self::wire::{Credentials, Wire};

const PAGE_SIZE: u32 = 1000;
/// Largest part of a graph that is taken.
const MAX_GRAPH_BYTES: usize = 64 << 20;
/// How often a text that comes in parts is begun anew because it was replaced in between.
const READ_ATTEMPTS: usize = 10;

/// A connection to a server. Cheap to clone; calls share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    corpora: CorpusServiceClient<Wire>,
    documents: IngestServiceClient<Wire>,
    queries: QueryServiceClient<Wire>,
    memories: MemoryServiceClient<Wire>,
    chats: ChatServiceClient<Wire>,
    cluster: ClusterServiceClient<Wire>,
    wire: Wire,
    patience: Duration,
}

/// A question to be answered.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The question, or what to summarise.
    pub text: String,
    /// What is wanted.
    pub task: Task,
    /// When it is asked, if that matters.
    pub asked_at: Option<Timestamp>,
    /// Name of the strategy; empty for the default.
    pub strategy: String,
    /// Most passages read; `None` for the strategy's default.
    pub k: Option<u32>,
    /// Most tokens of the passages that are read.
    pub evidence_tokens: Option<u32>,
    /// Candidates that a reranker reads in each search; `None`: none does.
    pub rerank: Option<u32>,
    /// What may be found.
    pub filter: Filter,
    /// What compressed memories do for an answer, where the strategy asks them.
    pub memory_use: MemoryUse,
}

impl Client {
    /// Connects to `endpoint`, such as `http://127.0.0.1:7421`. Each call may take `patience`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an address that is none; [`ErrorKind::Unavailable`] if no
    /// one answers there.
    pub async fn connect(endpoint: &str, patience: Duration) -> Result<Self, Error> {
        Self::connect_as(&Credentials::default(), endpoint, patience).await
    }

    /// Connects as whom the credentials say. An endpoint that begins with `https://` must prove that it is that
    /// host.
    ///
    /// # Errors
    /// As [`Client::connect`]; [`ErrorKind::InvalidInput`] also for files that cannot be used.
    pub async fn connect_as(
        credentials: &Credentials,
        endpoint: &str,
        patience: Duration,
    ) -> Result<Self, Error> {
        Ok(Self::over(Wire::connect(endpoint, credentials).await?, patience))
    }

    /// A client over a connection that was made elsewhere.
    pub fn over(wire: impl Into<Wire>, patience: Duration) -> Self {
        let wire = wire.into();
        Self {
            corpora: CorpusServiceClient::new(wire.clone()),
            documents: IngestServiceClient::new(wire.clone()),
            queries: QueryServiceClient::new(wire.clone()),
            chats: ChatServiceClient::new(wire.clone()),
            memories: MemoryServiceClient::new(wire.clone())
                .max_decoding_message_size(MAX_GRAPH_BYTES),
            cluster: ClusterServiceClient::new(wire.clone()),
            wire,
            patience,
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        within(self.patience, message)
    }

    /// Makes a corpus.
    ///
    /// # Errors
    /// Those of `CorpusService.CreateCorpus`.
    pub async fn create_corpus(&self, new: NewCorpus) -> Result<corpus::Corpus, Error> {
        let request = self.request(corpus::CreateCorpusRequest::from(new));
        let response = self.corpora.clone().create_corpus(request).await.map_err(failed)?;
        response.into_inner().corpus.ok_or_else(|| incomplete("corpus"))
    }

    /// Describes a corpus.
    ///
    /// # Errors
    /// Those of `CorpusService.GetCorpus`.
    pub async fn corpus(&self, name: &CorpusName) -> Result<corpus::Corpus, Error> {
        let request = self.request(corpus::GetCorpusRequest { name: name.to_string() });
        let response = self.corpora.clone().get_corpus(request).await.map_err(failed)?;
        response.into_inner().corpus.ok_or_else(|| incomplete("corpus"))
    }

    /// Lists all corpora, by name.
    ///
    /// # Errors
    /// Those of `CorpusService.ListCorpora`.
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

    /// Deletes a corpus; tells how many documents went with it, and how many snapshots are kept.
    ///
    /// # Errors
    /// Those of `CorpusService.DeleteCorpus`.
    pub async fn delete_corpus(
        &self,
        name: &CorpusName,
    ) -> Result<corpus::DeleteCorpusResponse, Error> {
        let request = self.request(corpus::DeleteCorpusRequest { name: name.to_string() });
        let response = self.corpora.clone().delete_corpus(request).await.map_err(failed)?;
        Ok(response.into_inner())
    }

    /// Checks a page of a corpus' documents, beginning with an empty `page_token`; the answer has that
    /// of the next page, empty after the last.
    ///
    /// # Errors
    /// Those of `CorpusService.CheckCorpus`.
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

    /// Takes a snapshot of a corpus: how far it is, last the snapshot.
    ///
    /// # Errors
    /// Those of `CorpusService.SnapshotCorpus`.
    pub async fn snapshot_corpus(
        &self,
        name: &CorpusName,
        snapshot: &SnapshotName,
    ) -> Result<impl Stream<Item = Result<corpus::SnapshotCorpusResponse, Error>> + use<>, Error>
    {
        let (name, snapshot) = (name.to_string(), snapshot.to_string());
        let request = corpus::SnapshotCorpusRequest { name, snapshot };
        // Without a timeout: it takes as long as there is something to copy.
        let events = self.corpora.clone().snapshot_corpus(request).await.map_err(failed)?;
        Ok(events.into_inner().map(|event| event.map_err(failed)))
    }

    /// The whole snapshots of a corpus, by name.
    ///
    /// # Errors
    /// Those of `CorpusService.ListSnapshots`.
    pub async fn snapshots(&self, name: &CorpusName) -> Result<Vec<corpus::Snapshot>, Error> {
        let request = self.request(corpus::ListSnapshotsRequest { name: name.to_string() });
        let listed = self.corpora.clone().list_snapshots(request).await.map_err(failed)?;
        Ok(listed.into_inner().snapshots)
    }

    /// Deletes snapshots of a corpus; tells what became of each.
    ///
    /// # Errors
    /// Those of `CorpusService.DeleteSnapshots`.
    pub async fn delete_snapshots(
        &self,
        request: corpus::DeleteSnapshotsRequest,
    ) -> Result<Vec<corpus::SnapshotDeletion>, Error> {
        // Without a timeout: it takes as long as there are files to remove.
        let deleted = self.corpora.clone().delete_snapshots(request).await.map_err(failed)?;
        Ok(deleted.into_inner().snapshots)
    }

    /// All that a corpus holds, as tables of rows in parts.
    ///
    /// # Errors
    /// Those of `CorpusService.ExportCorpus`.
    pub async fn export_corpus(
        &self,
        name: &CorpusName,
    ) -> Result<impl Stream<Item = Result<corpus::ExportCorpusResponse, Error>> + use<>, Error>
    {
        let request = corpus::ExportCorpusRequest { name: name.to_string() };
        // Without a timeout: it takes as long as there is something to send.
        let messages = self.corpora.clone().export_corpus(request).await.map_err(failed)?;
        Ok(messages.into_inner().map(|message| message.map_err(failed)))
    }

    /// Restores a corpus out of a snapshot, without some documents: how far it is, last the corpus.
    ///
    /// # Errors
    /// Those of `CorpusService.RestoreCorpus`.
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
        // Without a timeout, as above.
        let events = self.corpora.clone().restore_corpus(request).await.map_err(failed)?;
        Ok(events.into_inner().map(|event| event.map_err(failed)))
    }

    /// Takes a step of a corpus' move to another embedding model; `model` is the one to move to, for the first step
    /// only, empty for the one that the encoders offer besides that of the corpus.
    ///
    /// # Errors
    /// Those of `CorpusService.ReembedCorpus`.
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

    /// How far a corpus is with the vectors of its models.
    ///
    /// # Errors
    /// Those of `CorpusService.GetReembedding`.
    pub async fn reembedding(
        &self,
        name: &CorpusName,
    ) -> Result<corpus::GetReembeddingResponse, Error> {
        let request = self.request(corpus::GetReembeddingRequest { name: name.to_string() });
        let told = self.corpora.clone().get_reembedding(request).await.map_err(failed)?;
        Ok(told.into_inner())
    }

    /// Sends documents; yields one response for each, in order. The stream of documents is read no
    /// faster than the server takes them.
    ///
    /// # Errors
    /// Those of `IngestService.Ingest`. After one, send everything again: what was accepted is not
    /// accepted twice.
    pub async fn ingest(
        &self,
        corpus: &CorpusName,
        documents: impl Stream<Item = Document> + Send + 'static,
    ) -> Result<impl Stream<Item = Result<ingest::IngestResponse, Error>> + Send, Error> {
        self.ingest_if(corpus, documents, IfThere::Replace).await
    }

    /// Sends documents as [`Client::ingest`] does, and says what is to become of one whose id another has.
    ///
    /// # Errors
    /// As there; [`ErrorKind::InvalidInput`] if the server is of a release that replaces in any case.
    pub async fn ingest_if(
        &self,
        corpus: &CorpusName,
        documents: impl Stream<Item = Document> + Send + 'static,
        if_there: IfThere,
    ) -> Result<impl Stream<Item = Result<ingest::IngestResponse, Error>> + Send, Error> {
        let corpus = corpus.to_string();
        let messages = documents
            .flat_map(move |document| futures::stream::iter(in_parts(&corpus, document, if_there)));
        // Without a timeout: the stream takes as long as there are documents.
        let responses = self.documents.clone().ingest(messages).await.map_err(failed)?;
        Ok(responses.into_inner().map(|response| response.map_err(failed)))
    }

    /// A document's stored text and state, of one version.
    ///
    /// # Errors
    /// Those of `IngestService.GetDocument`; [`ErrorKind::LostRace`] if it was replaced again and
    /// again while it was read.
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

    /// Reads a text in parts; `None` if another version came up before the last.
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
                // The offset that the last part led to means nothing in another version's text.
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

    /// Lists the state of all documents at `stage` (unspecified: all), by id.
    ///
    /// # Errors
    /// Those of `IngestService.ListDocuments`.
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
            };
            let page = self.documents.clone().list_documents(self.request(request)).await;
            let page = page.map_err(failed)?.into_inner();
            all.extend(page.documents);
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            page_token = page.next_page_token;
        }
    }

    /// Watches indexing until nothing is pending.
    ///
    /// # Errors
    /// Those of `IngestService.WatchIngestion`.
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
    /// Those of `IngestService.ForgetDocuments`.
    pub async fn forget(
        &self,
        corpus: &CorpusName,
        ids: &[DocumentId],
    ) -> Result<ingest::ForgetDocumentsResponse, Error> {
        let request = ingest::ForgetDocumentsRequest {
            corpus: corpus.to_string(),
            document_ids: ids.iter().map(ToString::to_string).collect(),
        };
        let response = self.documents.clone().forget_documents(self.request(request)).await;
        Ok(response.map_err(failed)?.into_inner())
    }

    /// What ingesting would take.
    ///
    /// # Errors
    /// Those of `IngestService.EstimateIngestion`.
    pub async fn estimate(
        &self,
        request: ingest::EstimateIngestionRequest,
    ) -> Result<ingest::EstimateIngestionResponse, Error> {
        let response = self.documents.clone().estimate_ingestion(self.request(request)).await;
        Ok(response.map_err(failed)?.into_inner())
    }

    /// Finds evidence.
    ///
    /// # Errors
    /// Those of `QueryService.Search`.
    pub async fn search(
        &self,
        corpus: &CorpusName,
        query: Query,
    ) -> Result<query::SearchResponse, Error> {
        let request = self.request(convert_query::search_to_wire(corpus, query));
        let response = self.queries.clone().search(request).await.map_err(failed)?;
        Ok(response.into_inner())
    }

    /// Answers a question: trace events and text as they come, last the answer.
    ///
    /// # Errors
    /// Those of `QueryService.Answer`.
    pub async fn answer(
        &self,
        corpus: &CorpusName,
        question: Question,
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
        });
        let events = self.queries.clone().answer(request).await.map_err(failed)?;
        Ok(events.into_inner().map(|event| event.map_err(failed)))
    }

    /// Appends turns to a session of a user, and waits until they can be found.
    ///
    /// # Errors
    /// Those of `ChatService.AppendTurns`.
    pub async fn append_turns(
        &self,
        turns: convert_chat::Appended,
    ) -> Result<chat::AppendTurnsResponse, Error> {
        let request = self.request(convert_chat::append_to_wire(turns));
        Ok(self.chats.clone().append_turns(request).await.map_err(failed)?.into_inner())
    }

    /// What a user's conversations hold of a question.
    ///
    /// # Errors
    /// Those of `ChatService.Recall`.
    pub async fn recall(&self, asked: chat::RecallRequest) -> Result<chat::RecallResponse, Error> {
        Ok(self.chats.clone().recall(self.request(asked)).await.map_err(failed)?.into_inner())
    }

    /// Answers a question out of a user's conversations: trace events and text as they come, last the answer.
    ///
    /// # Errors
    /// Those of `ChatService.Answer`.
    pub async fn answer_of_chats(
        &self,
        asked: chat::AnswerRequest,
    ) -> Result<impl Stream<Item = Result<query::AnswerResponse, Error>> + use<>, Error> {
        let events = self.chats.clone().answer(self.request(asked)).await.map_err(failed)?;
        Ok(events.into_inner().map(|told| Ok(told.map_err(failed)?.event.unwrap_or_default())))
    }

    /// The turns of a user, or of one of the user's sessions.
    ///
    /// # Errors
    /// Those of `ChatService.ListTurns`.
    pub async fn list_turns(
        &self,
        asked: chat::ListTurnsRequest,
    ) -> Result<impl Stream<Item = Result<chat::ListTurnsResponse, Error>> + use<>, Error> {
        let turns = self.chats.clone().list_turns(self.request(asked)).await.map_err(failed)?;
        Ok(turns.into_inner().map(|turn| turn.map_err(failed)))
    }

    /// Forgets turns, and returns once nothing is left of them.
    ///
    /// # Errors
    /// Those of `ChatService.ForgetTurns`.
    pub async fn forget_turns(
        &self,
        asked: chat::ForgetTurnsRequest,
    ) -> Result<chat::ForgetTurnsResponse, Error> {
        Ok(self.chats.clone().forget_turns(self.request(asked)).await.map_err(failed)?.into_inner())
    }

    /// Nodes of the corpus' tree: the children of one, or those at the top; with the shards that did not answer.
    ///
    /// # Errors
    /// Those of `MemoryService.ReadTree`.
    pub async fn read_tree(
        &self,
        corpus: &CorpusName,
        parent: Option<&NodeId>,
    ) -> Result<Partial<Vec<TreeNode>>, Error> {
        let parent = parent.map(convert_memory::node_id_to_wire);
        let request = memory::ReadTreeRequest { corpus: corpus.to_string(), parent };
        let read = self.memories.clone().read_tree(self.request(request)).await.map_err(failed)?;
        convert_memory::tree_nodes_from_wire(read.into_inner())
    }

    /// The compressed memories of a corpus.
    ///
    /// # Errors
    /// Those of `MemoryService.ListMemories`.
    pub async fn memories(
        &self,
        corpus: &CorpusName,
    ) -> Result<memory::ListMemoriesResponse, Error> {
        let request = memory::ListMemoriesRequest { corpus: corpus.to_string() };
        let listed = self.memories.clone().list_memories(self.request(request)).await;
        Ok(listed.map_err(failed)?.into_inner())
    }

    /// The part of the corpus' graph around what `query` names; with the shards that did not answer.
    ///
    /// # Errors
    /// Those of `MemoryService.ReadGraph`.
    pub async fn read_graph(
        &self,
        corpus: &CorpusName,
        query: &GraphQuery,
    ) -> Result<Partial<Subgraph>, Error> {
        let query = Some(convert_memory::graph_query_to_wire(query));
        let request = memory::ReadGraphRequest { corpus: corpus.to_string(), query };
        let read = self.memories.clone().read_graph(self.request(request)).await.map_err(failed)?;
        convert_memory::read_graph_from_wire(read.into_inner())
    }

    /// Ways between two entities, by name.
    ///
    /// # Errors
    /// Those of `MemoryService.FindPaths`.
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

    /// Entities and segments by personalised PageRank from the entities that a text names.
    ///
    /// # Errors
    /// Those of `MemoryService.RankGraph`.
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

    /// What runs on each node of the cluster.
    ///
    /// # Errors
    /// Those of `ClusterService.GetTree`.
    pub async fn cluster_tree(&self) -> Result<cluster::GetTreeResponse, Error> {
        let request = self.request(cluster::GetTreeRequest {});
        let response = self.cluster.clone().get_tree(request).await.map_err(failed)?;
        Ok(response.into_inner())
    }

    /// The members of the cluster, and the shards with their owners.
    ///
    /// # Errors
    /// Those of `ClusterService.GetTopology`.
    pub async fn topology(&self) -> Result<cluster::GetTopologyResponse, Error> {
        let request = self.request(cluster::GetTopologyRequest {});
        let response = self.cluster.clone().get_topology(request).await.map_err(failed)?;
        Ok(response.into_inner())
    }

    /// Has a node hand over its work and take none.
    ///
    /// # Errors
    /// Those of `ClusterService.DrainNode`.
    pub async fn drain_node(&self, id: &str) -> Result<(), Error> {
        let request = self.request(cluster::DrainNodeRequest { id: id.to_owned() });
        self.cluster.clone().drain_node(request).await.map(drop).map_err(failed)
    }
}

/// A request that may take so long.
pub(crate) fn within<T>(patience: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(patience);
    request
}

pub(crate) fn failed(status: tonic::Status) -> Error {
    from_status(&status).with_source(status)
}

fn incomplete(field: &str) -> Error {
    Error::internal(format!("the server's response has no `{field}`"))
}

/// The messages that carry one document.
fn in_parts(corpus: &str, document: Document, if_there: IfThere) -> Vec<ingest::IngestRequest> {
    use ingest::ingest_request::Payload;
    let mut document = convert_ingest::document_to_wire(document);
    let mut rest = std::mem::take(&mut document.text);
    document.text = convert_ingest::next_text_part(&mut rest);
    let mut messages = vec![ingest::IngestRequest {
        corpus: corpus.to_owned(),
        continues: !rest.is_empty(),
        payload: Some(match if_there {
            IfThere::Replace => Payload::Document(document),
            IfThere::Refuse => Payload::Addition(document),
        }),
    }];
    while !rest.is_empty() {
        let part = convert_ingest::next_text_part(&mut rest);
        messages.push(ingest::IngestRequest {
            corpus: String::new(),
            continues: !rest.is_empty(),
            payload: Some(Payload::TextPart(part)),
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
        let document = Document {
            id: "a".parse().unwrap(),
            text: text.clone(),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes: Attributes::new(),
            event_time: None,
            labels: clew_core::Labels::default(),
        };
        for if_there in [IfThere::Replace, IfThere::Refuse] {
            let messages = in_parts("notes", document.clone(), if_there);
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
