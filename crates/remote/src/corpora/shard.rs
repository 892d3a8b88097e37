//! The traits of a shard over `ShardService`.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Accepting, CandidateQuery, Candidates, CheckQuery, Checked, ChunkListQuery, ChunkRef,
    ChunkText, ClueQuery, ConversationQuery, Counts, DescribedDocument, Document, DocumentId,
    DocumentStatus, DraftedClues, Erasure, Error, Evidence, ExportPage, GraphQuery, IfThere,
    Limits, ListQuery, ListedChunks, ListedMemories, Reembedded, SegmentId, Selection, Shard,
    ShardAdmin, ShardCopy, ShardIndex, ShardSearch, ShardStore, SnapshotName, StoredDocument,
    StoredTurns, Subgraph, TreeNode, TreeQuery, ViewName,
};
use clew_proto::convert::shard::{self as convert, ShardRefWithAccess};
use clew_proto::convert::{export, ingest, memory, snapshot};
use clew_proto::shard::v1 as wire;
use clew_proto::shard::v1::shard_service_client::ShardServiceClient;
use clew_runtime::admission::Gate;
use clew_runtime::deadline::request;
use clew_runtime::peer::Channel;
use futures::{StreamExt, TryStreamExt, stream};
use tonic::{Code, Request, Response, Status, Streaming};

use super::routes::Routes;
use crate::failed::failed;

/// Maximum size of a message with a part of a graph, or with a list of memories.
const MAX_GRAPH_BYTES: usize = 64 << 20;
/// Approximate maximum size of a message with a batch of searches. A filter by a thousand documents
/// has as many ids.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Maximum number of searches of a batch that run at once on a node that does not know batches.
const EACH_AT_ONCE: usize = 4;

type Client = ShardServiceClient<Channel>;

/// A shard on whatever node owns it, as the caller's access shows it.
#[derive(Clone)]
pub(super) struct RemoteShard {
    pub seen: ShardRefWithAccess,
    pub routes: Arc<Routes>,
    /// Gate for the bytes of documents that this gateway holds for all shards.
    pub accepting: Gate,
    pub limits: Limits,
}

impl RemoteShard {
    /// Asks the owner. `call` builds a new message for each attempt.
    async fn ask<T, F: Future<Output = Result<T, Status>>>(
        &self,
        doing: &str,
        deadline: Instant,
        call: impl Fn(Client) -> F,
    ) -> Result<T, Error> {
        let on_channel = |channel| {
            // Boxed, because a client's futures are large and nested.
            let answer = Box::pin(call(ShardServiceClient::new(channel)));
            async move { answer.await.map_err(failed) }
        };
        self.routes.on_owner(&self.seen.shard, deadline, doing, on_channel).await
    }

    /// Asks the owner by a call with one message and one answer.
    async fn unary<Q: Clone, A, F: Future<Output = Result<Response<A>, Status>>>(
        &self,
        doing: &str,
        message: Q,
        deadline: Instant,
        call: impl Fn(Client, Request<Q>) -> F,
    ) -> Result<A, Error> {
        self.ask(doing, deadline, |client| {
            let answer = call(client, request(message.clone(), deadline));
            async move { Ok(answer.await?.into_inner()) }
        })
        .await
    }

    /// Asks the owner by a call with one message and an answer in parts.
    async fn streaming<Q: Clone, A, F: Future<Output = Result<Response<Streaming<A>>, Status>>>(
        &self,
        doing: &str,
        message: Q,
        deadline: Instant,
        call: impl Fn(Client, Request<Q>) -> F,
    ) -> Result<Vec<A>, Error> {
        self.ask(doing, deadline, |client| {
            let answer = call(client, request(message.clone(), deadline));
            async move { answer.await?.into_inner().try_collect().await }
        })
        .await
    }

    fn shard_ref(&self) -> Option<wire::ShardRef> {
        Some((&self.seen).into())
    }
}

impl Shard for RemoteShard {
    fn index(&self) -> ShardIndex {
        self.seen.shard.shard
    }
}

#[async_trait]
impl ShardStore for RemoteShard {
    async fn accept(
        &self,
        document: Document,
        if_there: IfThere,
        deadline: Instant,
    ) -> Result<Accepting, Error> {
        let permit = self.accepting.enter(document.text.len(), deadline).await?;
        let shard = self.clone();
        Ok(Box::pin(async move {
            let messages = in_messages(shard.shard_ref(), document, if_there);
            let accepted = shard
                .ask("accepting the document", deadline, |mut client| {
                    let messages = stream::iter(messages.clone());
                    async move { Ok(client.accept(request(messages, deadline)).await?.into_inner()) }
                })
                .await?;
            drop(permit);
            let accepted = accepted.accepted.ok_or_else(|| incomplete("accepted"))?;
            Ok(ingest::accepted_from_wire(&accepted))
        }))
    }

    async fn forget(&self, ids: &[DocumentId], deadline: Instant) -> Result<Erasure, Error> {
        let message = wire::ForgetRequest {
            shard: self.shard_ref(),
            document_ids: ids.iter().map(ToString::to_string).collect(),
        };
        let forget = async |mut client: Client, request| client.forget(request).await;
        let forgotten = self.unary("forgetting", message, deadline, forget).await?;
        if forgotten.documents.len() != ids.len() {
            return Err(incomplete("documents"));
        }
        convert::erasure_from_wire(forgotten)
    }

    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error> {
        let mut read = Vec::with_capacity(ids.len());
        for ids in ids.chunks(convert::DOCUMENTS_AT_ONCE) {
            let message = convert::documents_to_wire(&self.seen, ids);
            let get = async |mut client: Client, request| client.get_documents(request).await;
            let parts = self.streaming("reading documents", message, deadline, get).await?;
            read.extend(from_messages(parts, &self.limits)?);
        }
        Ok(read)
    }

    async fn list(
        &self,
        query: &ListQuery,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error> {
        let message = convert::list_to_wire(&self.seen, query);
        let list = async |mut client: Client, request| client.list_documents(request).await;
        let listed = self.unary("listing documents", message, deadline, list).await?;
        listed.documents.into_iter().map(convert::status_from_wire).collect()
    }

    async fn conversations(
        &self,
        query: &ConversationQuery,
        deadline: Instant,
    ) -> Result<Vec<StoredTurns>, Error> {
        let message = convert::conversations_to_wire(&self.seen, query);
        let list = async |mut client: Client, request| client.list_conversations(request).await;
        let listed = self.unary("listing conversations", message, deadline, list).await?;
        convert::stored_turns_from_wire(listed)
    }

    async fn select(
        &self,
        selection: &Selection,
        after: Option<&DocumentId>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error> {
        let message = convert::select_to_wire(&self.seen, selection, after, limit);
        let select = async |mut client: Client, request| client.select_documents(request).await;
        let selected = self.unary("selecting documents", message, deadline, select).await?;
        selected.documents.into_iter().map(convert::status_from_wire).collect()
    }

    async fn count_selected(&self, selection: &Selection, deadline: Instant) -> Result<u64, Error> {
        let message = convert::select_to_wire(&self.seen, selection, None, 0);
        let count = async |mut client: Client, request| client.select_documents(request).await;
        Ok(self.unary("counting documents", message, deadline, count).await?.admitted)
    }

    async fn describe(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<DescribedDocument>, Error> {
        let mut described = Vec::with_capacity(ids.len());
        for ids in ids.chunks(self.limits.document_ids) {
            let message = convert::describe_to_wire(&self.seen, ids);
            let read = async |mut client: Client, request| client.describe_documents(request).await;
            let parts = self.streaming("describing documents", message, deadline, read).await?;
            described.extend(convert::described_from_wire(parts)?);
        }
        Ok(described)
    }

    async fn counts(&self, deadline: Instant) -> Result<Counts, Error> {
        let message = wire::CountRequest { shard: self.shard_ref() };
        let count = async |mut client: Client, request| client.count(request).await;
        Ok(convert::counts_from_wire(self.unary("counting", message, deadline, count).await?))
    }
}

#[async_trait]
impl ShardSearch for RemoteShard {
    async fn candidates_of_all(
        &self,
        queries: &[CandidateQuery],
        deadline: Instant,
    ) -> Result<Vec<Candidates>, Error> {
        // All releases know how to search for one.
        if let [query] = queries {
            return Ok(vec![self.candidates(query, deadline).await?]);
        }
        let mut found = Vec::with_capacity(queries.len());
        for batch in convert::candidates_batch_to_wire(&self.seen, queries, MAX_BATCH_BYTES) {
            let find = |client| find_together_or_each(client, batch.clone(), deadline);
            let parts = self.ask("searching the shard", deadline, find).await?;
            let candidates = parts.into_iter().map(convert::found_from_wire);
            found.extend(candidates.collect::<Result<Vec<_>, Error>>()?);
        }
        Ok(found)
    }

    async fn candidates(
        &self,
        query: &CandidateQuery,
        deadline: Instant,
    ) -> Result<Candidates, Error> {
        let message = convert::candidates_to_wire(&self.seen, query);
        let find = async |mut client: Client, request| client.find_candidates(request).await;
        convert::found_from_wire(
            self.streaming("searching the shard", message, deadline, find).await?,
        )
    }

    async fn chunks(
        &self,
        wanted: &[ChunkRef],
        view: Option<ViewName>,
        deadline: Instant,
    ) -> Result<Vec<(ChunkRef, ChunkText)>, Error> {
        let mut chunks = Vec::with_capacity(wanted.len());
        // Only a batch of searches wants more chunks than one call may read.
        for wanted in wanted.chunks(self.limits.results) {
            let message = convert::chunk_refs_to_wire(&self.seen, wanted, view);
            let read = async |mut client: Client, request| client.read_chunks(request).await;
            let parts = self.streaming("reading chunks", message, deadline, read).await?;
            chunks.extend(convert::chunks_from_wire(parts)?);
        }
        Ok(chunks)
    }

    async fn chunks_of(
        &self,
        query: &ChunkListQuery,
        deadline: Instant,
    ) -> Result<Option<ListedChunks>, Error> {
        let message = convert::chunk_list_to_wire(&self.seen, query);
        let list = async |mut client: Client, request| client.list_chunks(request).await;
        let listed = self.unary("listing chunks", message, deadline, list).await?;
        convert::listed_chunks_from_wire(listed)
    }

    async fn tree(&self, query: &TreeQuery, deadline: Instant) -> Result<Vec<TreeNode>, Error> {
        let message = convert::tree_query_to_wire(&self.seen, query);
        let read = async |mut client: Client, request| client.read_tree(request).await;
        let read = self.unary("reading the tree", message, deadline, read).await?;
        convert::tree_from_wire(read)
    }

    async fn subgraph(&self, query: &GraphQuery, deadline: Instant) -> Result<Subgraph, Error> {
        let message = convert::graph_query_to_wire(&self.seen, query);
        // A part of ten thousand relations with long words takes some megabytes.
        let read = async |client: Client, request| large(client).read_graph(request).await;
        let read = self.unary("reading the graph", message, deadline, read).await?;
        memory::subgraph_from_wire(read.graph.ok_or_else(|| incomplete("graph"))?)
    }

    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        let message = convert::segments_to_wire(&self.seen, ids);
        let read = async |mut client: Client, request| client.read_segments(request).await;
        let parts = self.streaming("reading segments", message, deadline, read).await?.into_iter();
        let segment = |part: wire::ReadSegmentsResponse| {
            memory::segment_from_wire(part.segment.ok_or_else(|| incomplete("segment"))?)
        };
        parts.map(segment).collect()
    }

    async fn memories(&self, deadline: Instant) -> Result<ListedMemories, Error> {
        let message = wire::ListMemoriesRequest { shard: self.shard_ref() };
        // The description of a memory of thousands of documents takes some hundred kilobytes.
        let list = async |client: Client, request| large(client).list_memories(request).await;
        let listed = self.unary("listing memories", message, deadline, list).await?;
        let records = listed.memories.into_iter().map(memory::record_from_wire);
        let failures = listed.failures.into_iter().map(memory::failure_from_wire);
        let records = records.collect::<Result<_, Error>>()?;
        Ok(ListedMemories { records, failures: failures.collect::<Result<_, Error>>()? })
    }

    async fn clues(&self, query: &ClueQuery, deadline: Instant) -> Result<DraftedClues, Error> {
        let message = convert::clue_query_to_wire(&self.seen, query);
        let draft = async |mut client: Client, request| client.draft_clues(request).await;
        Ok(convert::drafted_from_wire(
            self.unary("drafting clues", message, deadline, draft).await?,
        ))
    }
}

#[async_trait]
impl ShardAdmin for RemoteShard {
    async fn check(&self, query: &CheckQuery, deadline: Instant) -> Result<Checked, Error> {
        let message = wire::CheckDocumentsRequest {
            shard: self.shard_ref(),
            after: query.after.as_ref().map(ToString::to_string).unwrap_or_default(),
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
        };
        let check = async |mut client: Client, request| client.check_documents(request).await;
        convert::checked_from_wire(
            self.unary("checking documents", message, deadline, check).await?,
        )
    }

    async fn maintain(&self, deadline: Instant) -> Result<(), Error> {
        let message = wire::MaintainRequest { shard: self.shard_ref() };
        let maintain = async |mut client: Client, request| client.maintain(request).await;
        self.unary("maintaining the tables", message, deadline, maintain).await.map(drop)
    }

    async fn reembedded(&self, deadline: Instant) -> Result<Reembedded, Error> {
        let message = wire::GetReembeddedRequest { shard: self.shard_ref() };
        let get = async |mut client: Client, request| client.get_reembedded(request).await;
        let reembedded =
            self.unary("asking for the shard's vectors", message, deadline, get).await?;
        Ok(convert::reembedded_from_wire(reembedded))
    }

    async fn export(&self, after: &str, deadline: Instant) -> Result<ExportPage, Error> {
        let message = wire::ExportRequest { shard: self.shard_ref(), after: after.to_owned() };
        let export = async |mut client: Client, request| client.export(request).await;
        let page = self.streaming("exporting the shard", message, deadline, export).await?;
        export::page_from_wire(page)
    }

    async fn copy_to_snapshot(
        &self,
        snapshot: &SnapshotName,
        deadline: Instant,
    ) -> Result<ShardCopy, Error> {
        let snapshot = snapshot.to_string();
        let message = wire::CopyToSnapshotRequest { shard: self.shard_ref(), snapshot };
        let copy = async |mut client: Client, request| client.copy_to_snapshot(request).await;
        let doing = "copying the shard to a snapshot";
        Ok(snapshot::shard_copy_from_wire(self.unary(doing, message, deadline, copy).await?))
    }
}

/// Finds the candidates of a batch of searches on one node. Returns the messages for each search.
async fn find_together_or_each(
    client: Client,
    batch: wire::FindCandidatesBatchRequest,
    deadline: Instant,
) -> Result<Vec<Vec<wire::FindCandidatesResponse>>, Status> {
    let wire::FindCandidatesBatchRequest { shard, searches } = batch.clone();
    let (mut of_all, asked) = (client.clone(), searches.len());
    let together = async {
        let found = of_all.find_candidates_batch(request(batch, deadline)).await?.into_inner();
        Ok(convert::found_by_search(found.try_collect::<Vec<_>>().await?, asked))
    };
    let each = searches.into_iter().map(|search| {
        let (mut client, shard) = (client.clone(), shard.clone());
        async move {
            let search = wire::FindCandidatesRequest { shard, ..search };
            client
                .find_candidates(request(search, deadline))
                .await?
                .into_inner()
                .try_collect()
                .await
        }
    });
    together_or_each(together, each.collect()).await
}

/// Returns the answer to a batch. A node of an earlier release does not know batches; then returns
/// its answers to the parts.
async fn together_or_each<T>(
    together: impl Future<Output = Result<Vec<T>, Status>>,
    each: Vec<impl Future<Output = Result<T, Status>>>,
) -> Result<Vec<T>, Status> {
    match together.await {
        Err(status) if status.code() == Code::Unimplemented => {
            stream::iter(each).buffered(EACH_AT_ONCE).try_collect().await
        }
        answer => answer,
    }
}

/// Returns a client that accepts messages with a part of a graph, or with a list of memories.
fn large(client: Client) -> Client {
    client.max_decoding_message_size(MAX_GRAPH_BYTES)
}

/// Returns the messages that carry one document.
fn in_messages(
    shard: Option<wire::ShardRef>,
    document: Document,
    if_there: IfThere,
) -> Vec<wire::AcceptRequest> {
    use wire::accept_request::Payload;
    let text_bytes = document.text.len() as u64;
    let mut document = ingest::document_to_wire(document);
    let mut rest = std::mem::take(&mut document.text);
    document.text = ingest::next_text_part(&mut rest);
    let first = wire::NewDocument { shard, document: Some(document), text_bytes };
    let mut payloads = vec![match if_there {
        IfThere::Replace => Payload::Document(first),
        IfThere::Refuse => Payload::Addition(first),
    }];
    while !rest.is_empty() {
        payloads.push(Payload::TextPart(ingest::next_text_part(&mut rest)));
    }
    payloads.into_iter().map(|payload| wire::AcceptRequest { payload: Some(payload) }).collect()
}

/// Assembles the documents that messages carry.
fn from_messages(
    messages: Vec<wire::GetDocumentsResponse>,
    limits: &Limits,
) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error> {
    use wire::get_documents_response::Payload;
    let mut documents: Vec<wire::StoredDocument> = Vec::new();
    let mut rest: Vec<u8> = Vec::new();
    for payload in messages.into_iter().filter_map(|message| message.payload) {
        match (payload, documents.last_mut()) {
            (Payload::Document(next), last) => {
                last.map(|last| append(last, &mut rest)).transpose()?;
                documents.push(next);
            }
            (Payload::TextPart(part), Some(_)) => rest.extend_from_slice(&part),
            (Payload::TextPart(_), None) => return Err(incomplete("document")),
        }
    }
    documents.last_mut().map(|last| append(last, &mut rest)).transpose()?;
    documents.into_iter().map(|stored| convert::stored_from_wire(stored, limits)).collect()
}

/// Appends the rest of its text to a document.
fn append(stored: &mut wire::StoredDocument, rest: &mut Vec<u8>) -> Result<(), Error> {
    let document = stored.document.as_mut().ok_or_else(|| incomplete("document"))?;
    if !rest.is_empty() {
        document.text = [&document.text, rest.as_slice()].concat().into();
        rest.clear();
    }
    Ok(())
}

fn incomplete(field: &str) -> Error {
    Error::internal(format!("a retriever's response has no `{field}`"))
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, Labels, MediaType};
    use clew_proto::convert::ingest::TEXT_PART_BYTES;
    use clew_proto::shard::v1::accept_request::Payload;

    use super::*;

    #[tokio::test]
    async fn a_node_that_does_not_know_batches_is_asked_for_each_search_and_another_is_not() {
        let each = || (0..9).map(|number| async move { Ok(number) }).collect::<Vec<_>>();
        let unknown = async { Err(Status::unimplemented("there is no such method")) };
        let found = together_or_each(unknown, each()).await.unwrap();
        assert_eq!(found, (0..9).collect::<Vec<_>>());
        let together = together_or_each(async { Ok(vec![7]) }, each()).await.unwrap();
        assert_eq!(together, [7]);
        let full = async { Err(Status::resource_exhausted("full")) };
        let error = together_or_each(full, each()).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        let unknown = async { Err(Status::unimplemented("there is no such method")) };
        let failing = |number| async move {
            if number == 1 { Err(Status::unavailable("gone")) } else { Ok(number) }
        };
        let error = together_or_each(unknown, (0..3).map(failing).collect()).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
    }

    #[test]
    fn a_long_document_is_carried_whole_in_small_messages() {
        let text = "é".repeat(TEXT_PART_BYTES + 3);
        let document = Document {
            id: "a".parse().unwrap(),
            text: text.clone(),
            media_type: MediaType::Plain,
            title: "t".to_owned(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::default(),
            source_version: None,
        };
        for if_there in [IfThere::Replace, IfThere::Refuse] {
            let messages = in_messages(None, document.clone(), if_there);
            assert_eq!(messages.len(), 3);
            let mut sent = Vec::new();
            for message in messages {
                match (message.payload.unwrap(), if_there) {
                    (Payload::Document(new), IfThere::Replace)
                    | (Payload::Addition(new), IfThere::Refuse) => {
                        assert_eq!(new.text_bytes, text.len() as u64);
                        sent.extend(new.document.unwrap().text);
                    }
                    (Payload::TextPart(part), _) => sent.extend(part),
                    (other, _) => panic!("{if_there:?}: {other:?}"),
                }
            }
            assert_eq!(sent, text.as_bytes());
        }
    }
}
