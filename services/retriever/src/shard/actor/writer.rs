//! The writer: the only actor that commits to a shard's tables, one commit at a time.
//!
//! Documents that arrive while a commit runs are committed together by the next one. Each document
//! joins the group, and the first of a group sends the message that commits it. That message queues
//! behind everything in the mailbox, so all documents that wait there join the group.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Accepted, Access, Clock, DocumentId, Error, Forgotten, Version};
use clew_index::{
    Committed, CorpusTreeRow, DerivedDocument, DerivedPart, DocumentNodes, Done, FailedAttempt,
    Maintenance, MaintenancePlan, Next, Offer, ShardSettings, ShardWriter, StagedMemory, Traces,
};
use clew_runtime::admission::Permit;
use clew_telemetry::{Origin, child, linked, metrics};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tracing::{Instrument, Span};

use crate::shard::claim::Claim;
use crate::shard::idleness::Resting;
use crate::shard::metrics::{ShardGauges, Writing};

/// The actor that commits.
pub(crate) struct Writer;

/// Receipts of forgotten documents, and what the maintainer needs to erase them.
pub(crate) type ToErase = (Vec<Forgotten>, Box<Traces>);

/// Messages of [`Writer`].
#[derive(Debug)]
pub(crate) enum Message {
    /// Accept a document. Answered once it is committed and synced.
    Accept {
        offer: Box<Offer>,
        permit: Permit,
        waiting: Waits,
        reply: RpcReplyPort<Result<Accepted, Error>>,
    },
    /// Commit the group of documents.
    CommitAccepted,
    /// Commit derived chunks.
    CommitDerived { documents: Vec<DerivedDocument>, reply: RpcReplyPort<Result<Committed, Error>> },
    /// Commit some chunks of a large document. Answers whether they were taken.
    CommitPart { part: Box<DerivedPart>, reply: RpcReplyPort<Result<bool, Error>> },
    /// Give up what was committed of a large document's chunks, unless all of them were.
    AbandonParts {
        document_id: DocumentId,
        version: Version,
        reply: RpcReplyPort<Result<(), Error>>,
    },
    /// Commit nodes of documents' trees. Answers with the documents that were dropped.
    CommitNodes {
        documents: Vec<DocumentNodes>,
        reply: RpcReplyPort<Result<Vec<DocumentId>, Error>>,
    },
    /// Commit nodes above documents.
    CommitUpper { rows: Vec<CorpusTreeRow>, reply: RpcReplyPort<Result<(), Error>> },
    /// Commit a compressed memory, whose file is written, in place of others. Answers whether
    /// everything that it covers still exists.
    CommitMemory {
        memory: Box<StagedMemory>,
        replaced: Vec<String>,
        reply: RpcReplyPort<Result<bool, Error>>,
    },
    /// Remove compressed memories of documents that are gone. Answers with their number.
    SweepMemories { reply: RpcReplyPort<Result<usize, Error>> },
    /// Record that documents failed.
    RecordFailures { failures: Vec<FailedAttempt>, reply: RpcReplyPort<Result<(), Error>> },
    /// Forget those of the documents that the caller sees. Nothing finds them afterwards. Answers
    /// with what the maintainer needs to erase them.
    Forget { ids: Vec<DocumentId>, access: Access, reply: RpcReplyPort<Result<ToErase, Error>> },
    /// Apply changed settings of the corpus.
    Settle { settings: Box<ShardSettings>, reply: RpcReplyPort<Result<(), Error>> },
    /// Plan the maintenance that the tables need.
    PlanMaintenance { reply: RpcReplyPort<Result<MaintenancePlan, Error>> },
    /// Go on with maintenance as far as it needs the writer.
    Advance {
        maintenance: Box<Maintenance>,
        done: Option<Done>,
        reply: RpcReplyPort<Result<(Box<Maintenance>, Next), Error>>,
    },
}

impl Message {
    /// Returns the stage that the message's work is counted as.
    fn stage(&self) -> Option<&'static str> {
        Some(match self {
            // A group of them is one commit.
            Self::Accept { .. } | Self::CommitAccepted => return None,
            Self::CommitDerived { .. } | Self::CommitPart { .. } | Self::AbandonParts { .. } => {
                "commit_chunks"
            }
            Self::CommitNodes { .. } | Self::CommitUpper { .. } => "commit_nodes",
            Self::CommitMemory { .. } | Self::SweepMemories { .. } => "commit_memory",
            Self::RecordFailures { .. } => "record_failures",
            Self::Forget { .. } => "forget",
            Self::Settle { .. } => "settle",
            Self::PlanMaintenance { .. } | Self::Advance { .. } => "maintain",
        })
    }

    /// Returns a description of the work, for the log.
    fn name(&self) -> &'static str {
        match self {
            Self::Accept { .. } | Self::CommitAccepted => "accepting documents",
            Self::CommitDerived { .. } | Self::CommitPart { .. } | Self::AbandonParts { .. } => {
                "storing chunks"
            }
            Self::CommitNodes { .. } | Self::CommitUpper { .. } => "storing nodes",
            Self::CommitMemory { .. } | Self::SweepMemories { .. } => "storing memories",
            Self::RecordFailures { .. } => "recording failures",
            Self::Forget { .. } => "forgetting",
            Self::Settle { .. } => "taking over settings",
            Self::PlanMaintenance { .. } | Self::Advance { .. } => "maintenance",
        }
    }
}

/// Arguments of a [`Writer`].
pub(crate) struct Arguments {
    pub shard: ShardWriter,
    pub clock: Arc<dyn Clock>,
    pub commit_bytes: usize,
    pub claim: Claim,
    pub seen: Arc<ShardGauges>,
    pub resting: Resting,
}

/// State of [`Writer`].
pub(crate) struct State {
    shard: ShardWriter,
    clock: Arc<dyn Clock>,
    commit_bytes: usize,
    group: Vec<Waiting>,
    group_ids: HashSet<DocumentId>,
    group_bytes: usize,
    claim: Claim,
    /// Whether another writer committed to the tables.
    is_overtaken: bool,
    /// Whether the current message failed.
    has_failed: bool,
    seen: Arc<ShardGauges>,
    resting: Resting,
}

struct Waiting {
    offer: Offer,
    reply: RpcReplyPort<Result<Accepted, Error>>,
    waiting: Waits,
    /// Span of the sender.
    span: Span,
    _permit: Permit,
}

/// A document's wait for its commit. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Waits {
    pub _writing: Writing,
    pub _span: Span,
}

/// Reason of a commit that was refused because another writer had committed.
const OVERTAKEN: &str = "SHARD_WRITTEN_BY_ANOTHER";

/// Duration of a write above which a warning is logged.
const SLOW: Duration = Duration::from_secs(5);

impl Actor for Writer {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        Arguments { shard, clock, commit_bytes, claim, seen, resting }: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State {
            shard,
            clock,
            commit_bytes,
            group: Vec::new(),
            group_ids: HashSet::new(),
            group_bytes: 0,
            claim,
            is_overtaken: false,
            has_failed: false,
            seen,
            resting,
        })
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.resting.leaves(state.shard.left().await);
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let (what, stage, began) = (message.name(), message.stage(), Instant::now());
        state.has_failed = false;
        match message {
            Message::Accept { offer, permit, waiting, reply } => {
                let span = Span::current();
                let waiting = Waiting { offer: *offer, reply, waiting, span, _permit: permit };
                state.gather(&myself, waiting).await?;
            }
            Message::CommitAccepted => state.commit_accepted().await,
            Message::CommitDerived { documents, reply } => {
                let committed =
                    state.shard.commit_derived(documents).instrument(commit("chunks")).await;
                state.answer(reply, committed);
            }
            Message::CommitPart { part, reply } => {
                let committing = Box::pin(state.shard.commit_part(&part));
                let committed = committing.instrument(commit("some chunks")).await;
                state.answer(reply, committed);
            }
            Message::AbandonParts { document_id, version, reply } => {
                let abandoned = Box::pin(state.shard.abandon_parts(&document_id, version)).await;
                state.answer(reply, abandoned);
            }
            Message::CommitNodes { documents, reply } => {
                let committed =
                    state.shard.commit_nodes(documents).instrument(commit("nodes")).await;
                state.answer(reply, committed);
            }
            Message::CommitUpper { rows, reply } => {
                let committed =
                    state.shard.commit_upper(rows).instrument(commit("upper nodes")).await;
                state.answer(reply, committed);
            }
            Message::CommitMemory { memory, replaced, reply } => {
                let committing = state.shard.commit_memory(*memory, &replaced);
                let committed = committing.instrument(commit("memory")).await;
                state.answer(reply, committed);
            }
            Message::SweepMemories { reply } => {
                let swept = state.shard.sweep_memories().await;
                state.answer(reply, swept);
            }
            Message::RecordFailures { failures, reply } => {
                let recorded =
                    state.shard.record_failures(failures).instrument(commit("failures")).await;
                state.answer(reply, recorded);
            }
            Message::Forget { ids, access, reply } => {
                // Documents that were offered before are forgotten too.
                state.commit_accepted().await;
                let forgotten = Box::pin(state.shard.forget_traced(&ids, &access)).await;
                let forgotten = forgotten.map(|(receipts, traces)| (receipts, Box::new(traces)));
                state.answer(reply, forgotten);
            }
            Message::Settle { settings, reply } => {
                let settled = state.shard.settle(*settings).await;
                state.answer(reply, settled);
            }
            Message::PlanMaintenance { reply } => {
                let planned = state.plan().await;
                state.answer(reply, planned);
            }
            Message::Advance { mut maintenance, done, reply } => {
                let next = Box::pin(state.shard.advance(&mut maintenance, done)).await;
                state.answer(reply, next.map(|next| (maintenance, next)));
            }
        }
        let took = began.elapsed();
        if let Some(stage) = stage {
            metrics::stage_ended(stage, took, state.has_failed);
            if stage.starts_with("commit") {
                state.seen.stored(!state.has_failed);
            }
        }
        if took > SLOW {
            tracing::warn!(
                what,
                ?took,
                "the storage is slow: all that is written next had to wait"
            );
        }
        match state.is_overtaken {
            // The state in memory no longer agrees with the tables. The process that may still
            // write opens them again.
            true => {
                state.claim.overtaken();
                Err("another writer committed to the shard".into())
            }
            false => Ok(()),
        }
    }
}

impl State {
    async fn gather(
        &mut self,
        myself: &ActorRef<Message>,
        waiting: Waiting,
    ) -> Result<(), ActorProcessingErr> {
        // A commit holds one version of a document.
        let document = &waiting.offer.document;
        if self.group_ids.contains(&document.id) || self.group_bytes >= self.commit_bytes {
            self.commit_accepted().await;
        }
        if self.group.is_empty() {
            myself.cast(Message::CommitAccepted)?;
        }
        self.group_bytes += waiting.offer.document.text.len();
        self.group_ids.insert(waiting.offer.document.id.clone());
        self.group.push(waiting);
        Ok(())
    }

    async fn commit_accepted(&mut self) {
        let group = std::mem::take(&mut self.group);
        self.group_ids.clear();
        self.group_bytes = 0;
        if group.is_empty() {
            return;
        }
        let size = group.len();
        let mut replies = Vec::with_capacity(size);
        let mut offers: Vec<Offer> = Vec::with_capacity(size);
        // Each document's trace has a span for the commit. The details of the commit are in the
        // trace of the first document.
        let mut commits: Vec<Span> = Vec::with_capacity(size);
        for Waiting { offer, reply, waiting, span, _permit } in group {
            drop(waiting);
            let commit =
                span.in_scope(|| child(|| tracing::info_span!("shard.commit", documents = size)));
            if let Some(origin) = Origin::of(&span) {
                self.seen.origins.note(offer.document.id.clone(), origin);
            }
            if let Some(first) = commits.first().and_then(Origin::of) {
                linked(&commit, [first]);
            }
            offers.push(offer);
            replies.push((reply, _permit));
            commits.push(commit);
        }
        if let Some(first) = commits.first() {
            linked(first, commits[1..].iter().filter_map(Origin::of));
        }
        let within = commits.first().cloned().unwrap_or_else(Span::none);
        let accepting = Box::pin(self.shard.accept_offers(offers, self.clock.now()));
        let accepted = metrics::stage("commit_documents", accepting.instrument(within)).await;
        drop(commits);
        self.seen.stored(accepted.is_ok());
        match accepted {
            Ok(accepted) => {
                for ((reply, _permit), accepted) in replies.into_iter().zip(accepted) {
                    self.answer(reply, accepted);
                }
            }
            Err(error) => {
                let error = self.claim.blamed(Error::from(error));
                tracing::error!(error = error.chain(), "documents were not accepted");
                for (reply, _permit) in replies {
                    self.answer(reply, Err::<Accepted, _>(copy(&error)));
                }
            }
        }
    }

    /// Sends a result. A caller that left does not need it.
    fn answer<T: Send + 'static, E: Into<Error>>(
        &mut self,
        reply: RpcReplyPort<Result<T, Error>>,
        result: Result<T, E>,
    ) {
        let result = result.map_err(|error| self.claim.blamed(error.into()));
        if let Err(error) = &result {
            self.has_failed = true;
            self.is_overtaken |= error.reason() == OVERTAKEN;
        }
        drop(reply.send(result));
    }

    async fn plan(&mut self) -> Result<MaintenancePlan, Error> {
        let statistics = self.shard.statistics().await?;
        self.seen.note_tables(statistics);
        Ok(clew_index::plan(&statistics, &self.shard.settings().tuning))
    }
}

/// Returns the span of a commit, in the trace of its requester.
fn commit(kind: &'static str) -> Span {
    child(|| tracing::info_span!("shard.commit", kind))
}

/// Copies the error of a failed commit for each document of its group. The cause was logged once.
fn copy(error: &Error) -> Error {
    Error::new(error.kind(), error.reason().to_owned(), error.message())
}
