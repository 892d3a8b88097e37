//! The trait `Shard` over `ShardService`.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Accepting, CandidateQuery, Candidates, CheckQuery, Checked, ClueQuery, Counts, Document,
    DocumentId, DocumentStatus, DraftedClues, Erasure, Error, Evidence, ExportPage, GraphQuery,
    IfThere, Limits, ListQuery, MemoryRecord, Reembedded, SegmentId, Shard, ShardCopy, ShardIndex,
    SnapshotName, StoredDocument, Subgraph, TreeNode, TreeQuery,
};
use clew_proto::convert::shard::{self as convert, SeenShard};
use clew_proto::convert::{export, ingest, memory, snapshot};
use clew_proto::shard::v1 as wire;
use clew_proto::shard::v1::shard_service_client::ShardServiceClient;
use clew_runtime::admission::Gate;
use clew_runtime::deadline::request;
use clew_runtime::peer::Channel;
use futures::TryStreamExt;

use super::routes::Routes;
use crate::failed::failed;

/// Maximum size of a message with a part of a graph, or with a list of memories.
const MAX_GRAPH_BYTES: usize = 64 << 20;

/// A shard on whatever node owns it, as the caller's access shows it.
#[derive(Clone)]
pub(super) struct RemoteShard {
    pub seen: SeenShard,
    pub routes: Arc<Routes>,
    /// Gate for the bytes of documents that this gateway holds for all shards.
    pub accepting: Gate,
    pub limits: Limits,
}

impl RemoteShard {
    /// Asks the owner. `call` builds a new message for each attempt.
    async fn ask<T, F: Future<Output = Result<T, tonic::Status>>>(
        &self,
        deadline: Instant,
        doing: &str,
        call: impl Fn(ShardServiceClient<Channel>, Instant) -> F,
    ) -> Result<T, Error> {
        let on_channel = |channel| {
            // Boxed, because a client's futures are large and nested.
            let answer = Box::pin(call(ShardServiceClient::new(channel), deadline));
            async move { answer.await.map_err(failed) }
        };
        self.routes.on_owner(&self.seen.shard, deadline, doing, on_channel).await
    }

    fn shard_ref(&self) -> Option<wire::ShardRef> {
        Some((&self.seen).into())
    }
}

#[async_trait]
impl Shard for RemoteShard {
    fn index(&self) -> ShardIndex {
        self.seen.shard.shard
    }

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
                .ask(deadline, "accepting the document", |mut client, deadline| {
                    let messages = futures::stream::iter(messages.clone());
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
        let forgotten = self
            .ask(deadline, "forgetting", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { Ok(client.forget(request).await?.into_inner()) }
            })
            .await?;
        if forgotten.documents.len() != ids.len() {
            return Err(incomplete("documents"));
        }
        convert::erasure_from_wire(forgotten)
    }

    async fn candidates(
        &self,
        query: &CandidateQuery,
        deadline: Instant,
    ) -> Result<Candidates, Error> {
        let message = convert::candidates_to_wire(&self.seen, query);
        let found: Vec<_> = self
            .ask(deadline, "searching the shard", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { client.find_candidates(request).await?.into_inner().try_collect().await }
            })
            .await?;
        convert::found_from_wire(found)
    }

    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error> {
        let mut read = Vec::with_capacity(ids.len());
        for ids in ids.chunks(convert::DOCUMENTS_AT_ONCE) {
            let message = convert::documents_to_wire(&self.seen, ids);
            let parts: Vec<_> = self
                .ask(deadline, "reading documents", |mut client, deadline| {
                    let request = request(message.clone(), deadline);
                    async move {
                        client.get_documents(request).await?.into_inner().try_collect().await
                    }
                })
                .await?;
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
        let listed = self
            .ask(deadline, "listing documents", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { Ok(client.list_documents(request).await?.into_inner()) }
            })
            .await?;
        listed.documents.into_iter().map(convert::status_from_wire).collect()
    }

    async fn counts(&self, deadline: Instant) -> Result<Counts, Error> {
        let message = wire::CountRequest { shard: self.shard_ref() };
        let counts = self
            .ask(deadline, "counting", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { Ok(client.count(request).await?.into_inner()) }
            })
            .await?;
        Ok(convert::counts_from_wire(counts))
    }

    async fn check(&self, query: &CheckQuery, deadline: Instant) -> Result<Checked, Error> {
        let message = wire::CheckDocumentsRequest {
            shard: self.shard_ref(),
            after: query.after.as_ref().map(ToString::to_string).unwrap_or_default(),
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
        };
        let checked = self
            .ask(deadline, "checking documents", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { Ok(client.check_documents(request).await?.into_inner()) }
            })
            .await?;
        convert::checked_from_wire(checked)
    }

    async fn tree(&self, query: &TreeQuery, deadline: Instant) -> Result<Vec<TreeNode>, Error> {
        let message = convert::tree_query_to_wire(&self.seen, query);
        let read = self
            .ask(deadline, "reading the tree", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { Ok(client.read_tree(request).await?.into_inner()) }
            })
            .await?;
        read.nodes.into_iter().map(memory::tree_node_from_wire).collect()
    }

    async fn subgraph(&self, query: &GraphQuery, deadline: Instant) -> Result<Subgraph, Error> {
        let message = convert::graph_query_to_wire(&self.seen, query);
        let read = self
            .ask(deadline, "reading the graph", |client, deadline| {
                let request = request(message.clone(), deadline);
                async move {
                    // A part of ten thousand relations with long words takes some megabytes.
                    let mut client = client.max_decoding_message_size(MAX_GRAPH_BYTES);
                    Ok(client.read_graph(request).await?.into_inner())
                }
            })
            .await?;
        memory::subgraph_from_wire(read.graph.ok_or_else(|| incomplete("graph"))?)
    }

    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        let message = convert::segments_to_wire(&self.seen, ids);
        let read: Vec<_> = self
            .ask(deadline, "reading segments", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { client.read_segments(request).await?.into_inner().try_collect().await }
            })
            .await?;
        read.into_iter()
            .map(|read| {
                memory::segment_from_wire(read.segment.ok_or_else(|| incomplete("segment"))?)
            })
            .collect()
    }

    async fn memories(&self, deadline: Instant) -> Result<Vec<MemoryRecord>, Error> {
        let message = wire::ListMemoriesRequest { shard: self.shard_ref() };
        let listed = self
            .ask(deadline, "listing memories", |client, deadline| {
                let request = request(message.clone(), deadline);
                async move {
                    // The description of a memory of thousands of documents takes some hundred
                    // kilobytes.
                    let mut client = client.max_decoding_message_size(MAX_GRAPH_BYTES);
                    Ok(client.list_memories(request).await?.into_inner())
                }
            })
            .await?;
        listed.memories.into_iter().map(memory::record_from_wire).collect()
    }

    async fn clues(&self, query: &ClueQuery, deadline: Instant) -> Result<DraftedClues, Error> {
        let message = convert::clue_query_to_wire(&self.seen, query);
        let drafted = self
            .ask(deadline, "drafting clues", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { Ok(client.draft_clues(request).await?.into_inner()) }
            })
            .await?;
        Ok(convert::drafted_from_wire(drafted))
    }

    async fn reembedded(&self, deadline: Instant) -> Result<Reembedded, Error> {
        let message = wire::GetReembeddedRequest { shard: self.shard_ref() };
        let reembedded = self
            .ask(deadline, "asking for the shard's vectors", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { Ok(client.get_reembedded(request).await?.into_inner()) }
            })
            .await?;
        Ok(convert::reembedded_from_wire(reembedded))
    }

    async fn maintain(&self, deadline: Instant) -> Result<(), Error> {
        let message = wire::MaintainRequest { shard: self.shard_ref() };
        self.ask(deadline, "maintaining the tables", |mut client, deadline| {
            let request = request(message.clone(), deadline);
            async move { client.maintain(request).await.map(drop) }
        })
        .await
    }

    async fn export(&self, after: &str, deadline: Instant) -> Result<ExportPage, Error> {
        let message = wire::ExportRequest { shard: self.shard_ref(), after: after.to_owned() };
        let page: Vec<_> = self
            .ask(deadline, "exporting the shard", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { client.export(request).await?.into_inner().try_collect().await }
            })
            .await?;
        export::page_from_wire(page)
    }

    async fn copy_to_snapshot(
        &self,
        snapshot: &SnapshotName,
        deadline: Instant,
    ) -> Result<ShardCopy, Error> {
        let snapshot = snapshot.to_string();
        let message = wire::CopyToSnapshotRequest { shard: self.shard_ref(), snapshot };
        let copied = self
            .ask(deadline, "copying the shard to a snapshot", |mut client, deadline| {
                let request = request(message.clone(), deadline);
                async move { Ok(client.copy_to_snapshot(request).await?.into_inner()) }
            })
            .await?;
        Ok(snapshot::shard_copy_from_wire(copied))
    }
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
