//! `ShardService`: the shards of this node, for gateways.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, IfThere, Limits, ListedMemories, ShardAdmin, ShardSearch, ShardStore};
use clew_proto::convert::shard::{self as convert, ShardRef, ShardRefWithAccess, WantedChunks};
use clew_proto::convert::{export, ingest, memory, snapshot};
use clew_proto::shard::v1 as wire;
use clew_proto::shard::v1::shard_service_server::ShardService;
use clew_proto::{respond, to_status};
use clew_runtime::deadline::{of_request, within};
use futures::{Stream, StreamExt, stream};
use tonic::{Request, Response, Status, Streaming};

use crate::shard::{ShardAccess, ShardHandle};

/// Lookup of the shards that run here.
pub(crate) trait Shards: Send + Sync + 'static {
    /// Returns the shard, if this node owns it.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Unavailable`] with the reason `NOT_OWNER` or `SHARD_OPENING`
    /// if it does not, and [`clew_core::ErrorKind::LostRace`] with `CORPUS_CHANGED` if the corpus
    /// is not the one meant. Returns the reason for which a corpus cannot be used.
    fn shard(&self, shard: &ShardRef) -> Result<ShardHandle, Error>;
}

/// Time limit of a call without a deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);
/// Approximate size of one message of a search's result.
const FOUND_BYTES: usize = 1 << 20;

/// Handler of `ShardService`.
pub(crate) struct ShardRpc<S> {
    pub shards: Arc<S>,
    pub limits: Limits,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl<S: Shards> ShardRpc<S> {
    /// Returns the shard as the caller's access shows it.
    fn seen(
        &self,
        ShardRefWithAccess { shard, access }: ShardRefWithAccess,
    ) -> Result<ShardAccess, Error> {
        Ok(self.shards.shard(&shard)?.with_access(access))
    }

    async fn accept(
        &self,
        request: Request<Streaming<wire::AcceptRequest>>,
    ) -> Result<wire::AcceptResponse, Error> {
        use wire::accept_request::Payload;
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let mut messages = request.into_inner();
        let (new, if_there) = match next(&mut messages, deadline).await? {
            Some(Payload::Document(new)) => (new, IfThere::Replace),
            Some(Payload::Addition(new)) => (new, IfThere::Refuse),
            Some(Payload::TextPart(_)) | None => {
                return Err(Error::invalid("payload", "expected a document first"));
            }
        };
        let shard = self.seen(convert::shard_from_wire(new.shard)?)?;
        let mut document =
            new.document.ok_or_else(|| Error::invalid("document", "expected a value"))?;
        let text_bytes = usize::try_from(new.text_bytes).unwrap_or(usize::MAX);
        if text_bytes > self.limits.document_bytes {
            let limit = self.limits.document_bytes;
            let problem = format!("expected at most {limit} bytes, got {text_bytes}");
            return Err(Error::invalid("document.text", problem));
        }
        // Reserve room before the rest of the text is read from the connection.
        let permit = shard.admit(text_bytes, deadline).await?;
        let mut text = Vec::with_capacity(text_bytes);
        text.extend_from_slice(&document.text);
        while text.len() < text_bytes {
            let Some(Payload::TextPart(part)) = next(&mut messages, deadline).await? else {
                return Err(Error::invalid("payload", "expected the text that was announced"));
            };
            text.extend_from_slice(&part);
        }
        if text.len() > text_bytes {
            return Err(Error::invalid("text_bytes", "expected the length of the text"));
        }
        document.text = text.into();
        let document = ingest::document_from_wire(document, &self.limits)?;
        let accepted = shard.accept_admitted(document, if_there, permit, deadline).await?;
        Ok(wire::AcceptResponse { accepted: Some(ingest::accepted_to_wire(&accepted)) })
    }

    async fn forget(
        &self,
        request: Request<wire::ForgetRequest>,
    ) -> Result<wire::ForgetResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, ids) = convert::forget_from_wire(request.into_inner())?;
        let erasure = self.seen(shard)?.forget(&ids, deadline).await?;
        Ok(convert::erasure_to_wire(erasure))
    }

    async fn find_candidates(
        &self,
        request: Request<wire::FindCandidatesRequest>,
    ) -> Result<Vec<wire::FindCandidatesResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) = convert::candidates_from_wire(request.into_inner())?;
        let found = self.seen(shard)?.candidates(&asked, deadline).await?;
        Ok(convert::found_to_wire(found, FOUND_BYTES))
    }

    async fn find_candidates_batch(
        &self,
        request: Request<wire::FindCandidatesBatchRequest>,
    ) -> Result<Vec<wire::FindCandidatesBatchResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) =
            convert::candidates_batch_from_wire(request.into_inner(), &self.limits)?;
        let found = self.seen(shard)?.candidates_of_all(&asked, deadline).await?;
        Ok(convert::found_for_all_to_wire(found, FOUND_BYTES))
    }

    async fn read_chunks(
        &self,
        request: Request<wire::ReadChunksRequest>,
    ) -> Result<Vec<wire::ReadChunksResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let WantedChunks { shard, chunks, view } =
            convert::chunk_refs_from_wire(request.into_inner(), &self.limits)?;
        let chunks = self.seen(shard)?.chunks(&chunks, view, deadline).await?;
        Ok(convert::chunks_to_wire(chunks, FOUND_BYTES))
    }

    async fn get_documents(
        &self,
        request: Request<wire::GetDocumentsRequest>,
    ) -> Result<Vec<wire::GetDocumentsResponse>, Error> {
        use wire::get_documents_response::Payload;
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, ids) = convert::documents_from_wire(request.into_inner())?;
        let shard = self.seen(shard)?;
        let mut payloads = Vec::with_capacity(ids.len());
        for (stored, status) in shard.documents(&ids, deadline).await? {
            let mut document = ingest::document_to_wire(stored.document.clone());
            let mut rest = std::mem::take(&mut document.text);
            document.text = ingest::next_text_part(&mut rest);
            payloads.push(Payload::Document(convert::stored_to_wire(&stored, document, &status)));
            while !rest.is_empty() {
                payloads.push(Payload::TextPart(ingest::next_text_part(&mut rest)));
            }
        }
        let message = |payload| wire::GetDocumentsResponse { payload: Some(payload) };
        Ok(payloads.into_iter().map(message).collect())
    }

    async fn list_documents(
        &self,
        request: Request<wire::ListDocumentsRequest>,
    ) -> Result<wire::ListDocumentsResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) = convert::list_from_wire(request.into_inner())?;
        let listed = self.seen(shard)?.list(&asked, deadline).await?;
        let documents = listed.iter().map(convert::status_to_wire).collect();
        Ok(wire::ListDocumentsResponse { documents })
    }

    async fn list_chunks(
        &self,
        request: Request<wire::ListChunksRequest>,
    ) -> Result<wire::ListChunksResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) = convert::chunk_list_from_wire(request.into_inner())?;
        let listed = self.seen(shard)?.chunks_of(&asked, deadline).await?;
        Ok(convert::listed_chunks_to_wire(listed))
    }

    async fn list_conversations(
        &self,
        request: Request<wire::ListConversationsRequest>,
    ) -> Result<wire::ListConversationsResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) = convert::conversations_from_wire(request.into_inner())?;
        let found = self.seen(shard)?.conversations(&asked, deadline).await?;
        Ok(convert::stored_turns_to_wire(found))
    }

    async fn describe_documents(
        &self,
        request: Request<wire::DescribeDocumentsRequest>,
    ) -> Result<Vec<wire::DescribeDocumentsResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, ids) = convert::describe_from_wire(request.into_inner(), &self.limits)?;
        let described = self.seen(shard)?.describe(&ids, deadline).await?;
        Ok(convert::described_to_wire(described, FOUND_BYTES))
    }

    async fn select_documents(
        &self,
        request: Request<wire::SelectDocumentsRequest>,
    ) -> Result<wire::SelectDocumentsResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let asked = convert::select_from_wire(request.into_inner(), &self.limits)?;
        let (shard, selection) = (self.seen(asked.shard)?, &asked.selection);
        let (mut documents, mut admitted) = (Vec::new(), 0);
        match asked.limit {
            0 => admitted = shard.count_selected(selection, deadline).await?,
            limit => {
                documents = shard.select(selection, asked.after.as_ref(), limit, deadline).await?;
            }
        }
        let documents = documents.iter().map(convert::status_to_wire).collect();
        Ok(wire::SelectDocumentsResponse { documents, admitted })
    }

    async fn count(
        &self,
        request: Request<wire::CountRequest>,
    ) -> Result<wire::CountResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let shard = convert::shard_from_wire(request.into_inner().shard)?;
        let counts = self.seen(shard)?.counts(deadline).await?;
        Ok(convert::counts_to_wire(counts))
    }

    async fn read_tree(
        &self,
        request: Request<wire::ReadTreeRequest>,
    ) -> Result<wire::ReadTreeResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) = convert::tree_query_from_wire(request.into_inner())?;
        let nodes = self.seen(shard)?.tree(&asked, deadline).await?;
        Ok(convert::tree_to_wire(nodes))
    }

    async fn read_graph(
        &self,
        request: Request<wire::ReadGraphRequest>,
    ) -> Result<wire::ReadGraphResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) = convert::graph_query_from_wire(request.into_inner(), &self.limits)?;
        let graph = self.seen(shard)?.subgraph(&asked, deadline).await?;
        Ok(wire::ReadGraphResponse { graph: Some(memory::subgraph_to_wire(graph)) })
    }

    async fn read_segments(
        &self,
        request: Request<wire::ReadSegmentsRequest>,
    ) -> Result<Vec<wire::ReadSegmentsResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, ids) = convert::segments_from_wire(request.into_inner(), &self.limits)?;
        let segments = self.seen(shard)?.segments(&ids, deadline).await?;
        let response = |segment| {
            let segment = Some(memory::segment_to_wire(segment));
            wire::ReadSegmentsResponse { segment }
        };
        Ok(segments.into_iter().map(response).collect())
    }

    async fn check_documents(
        &self,
        request: Request<wire::CheckDocumentsRequest>,
    ) -> Result<wire::CheckDocumentsResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) = convert::check_from_wire(request.into_inner())?;
        let checked = self.seen(shard)?.check(&asked, deadline).await?;
        Ok(convert::checked_to_wire(&checked))
    }

    async fn list_memories(
        &self,
        request: Request<wire::ListMemoriesRequest>,
    ) -> Result<wire::ListMemoriesResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let shard = convert::shard_from_wire(request.into_inner().shard)?;
        let ListedMemories { records, failures } = self.seen(shard)?.memories(deadline).await?;
        Ok(wire::ListMemoriesResponse {
            memories: records.into_iter().map(memory::record_to_wire).collect(),
            failures: failures.into_iter().map(memory::failure_to_wire).collect(),
        })
    }

    async fn draft_clues(
        &self,
        request: Request<wire::DraftCluesRequest>,
    ) -> Result<wire::DraftCluesResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let (shard, asked) = convert::clue_query_from_wire(request.into_inner())?;
        let drafted = self.seen(shard)?.clues(&asked, deadline).await?;
        Ok(convert::drafted_to_wire(drafted))
    }

    async fn get_reembedded(
        &self,
        request: Request<wire::GetReembeddedRequest>,
    ) -> Result<wire::GetReembeddedResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let shard = convert::shard_from_wire(request.into_inner().shard)?;
        let reembedded = self.seen(shard)?.reembedded(deadline).await?;
        Ok(convert::reembedded_to_wire(reembedded))
    }

    async fn maintain(
        &self,
        request: Request<wire::MaintainRequest>,
    ) -> Result<wire::MaintainResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let shard = convert::shard_from_wire(request.into_inner().shard)?;
        self.seen(shard)?.maintain(deadline).await?;
        Ok(wire::MaintainResponse {})
    }

    async fn export(
        &self,
        request: Request<wire::ExportRequest>,
    ) -> Result<Vec<wire::ExportResponse>, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let wire::ExportRequest { shard, after } = request.into_inner();
        let shard = self.seen(convert::shard_from_wire(shard)?)?;
        Ok(export::page_to_wire(shard.export(&after, deadline).await?))
    }

    async fn copy_to_snapshot(
        &self,
        request: Request<wire::CopyToSnapshotRequest>,
    ) -> Result<wire::CopyToSnapshotResponse, Error> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let wire::CopyToSnapshotRequest { shard, snapshot } = request.into_inner();
        let (shard, snapshot) = (convert::shard_from_wire(shard)?, snapshot.parse()?);
        let copy = self.seen(shard)?.copy_to_snapshot(&snapshot, deadline).await?;
        Ok(snapshot::shard_copy_to_wire(copy))
    }
}

/// Returns the payload of the next message, or `None` at the end.
async fn next(
    messages: &mut Streaming<wire::AcceptRequest>,
    deadline: Instant,
) -> Result<Option<wire::accept_request::Payload>, Error> {
    within(deadline, "reading the document", async {
        let message =
            messages.message().await.map_err(|status| clew_proto::from_status(&status))?;
        Ok(message.and_then(|message| message.payload))
    })
    .await
}

fn answers<T: Send + 'static>(messages: Vec<T>) -> Answers<T> {
    stream::iter(messages).map(Ok).boxed()
}

#[tonic::async_trait]
impl<S: Shards> ShardService for ShardRpc<S> {
    async fn accept(
        &self,
        request: Request<Streaming<wire::AcceptRequest>>,
    ) -> Result<Response<wire::AcceptResponse>, Status> {
        respond(self.accept(request).await)
    }

    async fn forget(
        &self,
        request: Request<wire::ForgetRequest>,
    ) -> Result<Response<wire::ForgetResponse>, Status> {
        respond(self.forget(request).await)
    }

    type FindCandidatesStream = Answers<wire::FindCandidatesResponse>;

    async fn find_candidates(
        &self,
        request: Request<wire::FindCandidatesRequest>,
    ) -> Result<Response<Self::FindCandidatesStream>, Status> {
        let found = self.find_candidates(request).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(answers(found)))
    }

    type FindCandidatesBatchStream = Answers<wire::FindCandidatesBatchResponse>;

    async fn find_candidates_batch(
        &self,
        request: Request<wire::FindCandidatesBatchRequest>,
    ) -> Result<Response<Self::FindCandidatesBatchStream>, Status> {
        let found = self.find_candidates_batch(request).await;
        Ok(Response::new(answers(found.map_err(|error| to_status(&error))?)))
    }

    type GetDocumentsStream = Answers<wire::GetDocumentsResponse>;

    async fn get_documents(
        &self,
        request: Request<wire::GetDocumentsRequest>,
    ) -> Result<Response<Self::GetDocumentsStream>, Status> {
        let found = self.get_documents(request).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(answers(found)))
    }

    async fn list_documents(
        &self,
        request: Request<wire::ListDocumentsRequest>,
    ) -> Result<Response<wire::ListDocumentsResponse>, Status> {
        respond(self.list_documents(request).await)
    }

    async fn list_chunks(
        &self,
        request: Request<wire::ListChunksRequest>,
    ) -> Result<Response<wire::ListChunksResponse>, Status> {
        respond(self.list_chunks(request).await)
    }

    async fn list_conversations(
        &self,
        request: Request<wire::ListConversationsRequest>,
    ) -> Result<Response<wire::ListConversationsResponse>, Status> {
        respond(self.list_conversations(request).await)
    }

    type DescribeDocumentsStream = Answers<wire::DescribeDocumentsResponse>;

    async fn describe_documents(
        &self,
        request: Request<wire::DescribeDocumentsRequest>,
    ) -> Result<Response<Self::DescribeDocumentsStream>, Status> {
        let described = self.describe_documents(request).await;
        Ok(Response::new(answers(described.map_err(|error| to_status(&error))?)))
    }

    async fn select_documents(
        &self,
        request: Request<wire::SelectDocumentsRequest>,
    ) -> Result<Response<wire::SelectDocumentsResponse>, Status> {
        respond(self.select_documents(request).await)
    }

    async fn count(
        &self,
        request: Request<wire::CountRequest>,
    ) -> Result<Response<wire::CountResponse>, Status> {
        respond(self.count(request).await)
    }

    async fn check_documents(
        &self,
        request: Request<wire::CheckDocumentsRequest>,
    ) -> Result<Response<wire::CheckDocumentsResponse>, Status> {
        respond(self.check_documents(request).await)
    }

    async fn read_tree(
        &self,
        request: Request<wire::ReadTreeRequest>,
    ) -> Result<Response<wire::ReadTreeResponse>, Status> {
        respond(self.read_tree(request).await)
    }

    async fn read_graph(
        &self,
        request: Request<wire::ReadGraphRequest>,
    ) -> Result<Response<wire::ReadGraphResponse>, Status> {
        respond(self.read_graph(request).await)
    }

    type ReadChunksStream = Answers<wire::ReadChunksResponse>;

    async fn read_chunks(
        &self,
        request: Request<wire::ReadChunksRequest>,
    ) -> Result<Response<Self::ReadChunksStream>, Status> {
        let found = self.read_chunks(request).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(answers(found)))
    }

    type ReadSegmentsStream = Answers<wire::ReadSegmentsResponse>;

    async fn read_segments(
        &self,
        request: Request<wire::ReadSegmentsRequest>,
    ) -> Result<Response<Self::ReadSegmentsStream>, Status> {
        let found = self.read_segments(request).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(answers(found)))
    }

    async fn list_memories(
        &self,
        request: Request<wire::ListMemoriesRequest>,
    ) -> Result<Response<wire::ListMemoriesResponse>, Status> {
        respond(self.list_memories(request).await)
    }

    async fn draft_clues(
        &self,
        request: Request<wire::DraftCluesRequest>,
    ) -> Result<Response<wire::DraftCluesResponse>, Status> {
        respond(self.draft_clues(request).await)
    }

    async fn get_reembedded(
        &self,
        request: Request<wire::GetReembeddedRequest>,
    ) -> Result<Response<wire::GetReembeddedResponse>, Status> {
        respond(self.get_reembedded(request).await)
    }

    async fn maintain(
        &self,
        request: Request<wire::MaintainRequest>,
    ) -> Result<Response<wire::MaintainResponse>, Status> {
        respond(self.maintain(request).await)
    }

    type ExportStream = Answers<wire::ExportResponse>;

    async fn export(
        &self,
        request: Request<wire::ExportRequest>,
    ) -> Result<Response<Self::ExportStream>, Status> {
        let page = self.export(request).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(answers(page)))
    }

    async fn copy_to_snapshot(
        &self,
        request: Request<wire::CopyToSnapshotRequest>,
    ) -> Result<Response<wire::CopyToSnapshotResponse>, Status> {
        respond(self.copy_to_snapshot(request).await)
    }
}
