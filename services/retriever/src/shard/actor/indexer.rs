//! The indexer: works off the difference between what was accepted and what is derived.
//!
//! The indexer keeps no list of jobs. Due documents come from the shard's state, which mirrors the
//! tables. However a batch ends, the next look finds what is still missing. Up to `derive_batches`
//! batches run at once, so that one is chunked while another is embedded and a third committed. How
//! large they are depends on how long they take.
//!
//! Chunks come first, so that documents become searchable. Then come the trees and graph of
//! searchable documents. Once no tree is missing, the nodes above documents are made; earlier they
//! would be wasted, because new documents change them. Chunks that lack something, for example
//! while their corpus moves to another model, are made again after all that, one batch at a time
//! and throttled behind searches ([`Resources::behind`]).

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Clock, CorpusSettings, DocumentId, Encoders, Error, GraphBuilder, Timestamp};
use clew_index::{DueDocument, ShardReader};
use clew_runtime::backoff::Backoff;
use clew_telemetry::{linked, metrics};
use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use crate::shard::actor::writer;
use crate::shard::derive::batch_size::BatchSize;
use crate::shard::derive::deriver::{Deriver, Pace};
use crate::shard::derive::structure_builder::StructureBuilder;
use crate::shard::derive::structure_schedule::{StructureSchedule, Upper};
use crate::shard::idleness::{Idleness, Task};
use crate::shard::metrics::ShardGauges;
use crate::shard::resources::Resources;

/// The actor that derives chunks and structure.
pub(crate) struct Indexer;

/// Messages of [`Indexer`].
#[derive(Debug)]
pub(crate) enum Message {
    /// Look for due documents.
    Look,
    /// Derive with these settings from now on.
    Settled(Arc<CorpusSettings>),
    /// A batch of so many bytes of text ended, successfully or not.
    BatchEnded { documents: Vec<DocumentId>, stored: bool, bytes: u64, took: Duration },
    /// Making chunks again ended.
    RemakingEnded { documents: Vec<DocumentId>, stored: bool },
    /// Making trees, or nodes above documents, ended.
    StructureEnded { documents: Vec<DocumentId>, stored: bool },
    /// A batch panicked, so the set of busy documents is no longer known.
    BatchPanicked,
    /// The task that reports commits panicked.
    WakerPanicked,
}

/// Arguments of an [`Indexer`].
#[derive(Clone)]
pub(crate) struct Arguments {
    pub settings: Arc<CorpusSettings>,
    pub reader: ShardReader,
    pub encoders: Arc<dyn Encoders>,
    pub graph_builder: Arc<dyn GraphBuilder>,
    pub writer: ActorRef<writer::Message>,
    pub clock: Arc<dyn Clock>,
    pub derive_bytes: u64,
    pub derive_batches: usize,
    pub resources: Resources,
    pub seen: Arc<ShardGauges>,
    pub idleness: Idleness,
}

/// State of [`Indexer`].
pub(crate) struct State {
    arguments: Arguments,
    deriver: Arc<Deriver>,
    /// Deriver that makes chunks again.
    reembedder: Arc<Deriver>,
    busy: HashSet<DocumentId>,
    batches: usize,
    batch_size: BatchSize,
    is_remaking: bool,
    structuring: StructureSchedule,
    /// Running batches and the waker. All are aborted when the actor ends.
    tasks: JoinSet<()>,
    storing: Backoff,
    paused: bool,
}

/// Function that returns documents with something to make now: at most the given number, and no
/// busy ones.
type Waiting = fn(&ShardReader, Timestamp, usize, &HashSet<DocumentId>) -> Vec<DueDocument>;

/// Maximum number of documents in one batch.
const BATCH_DOCUMENTS: usize = 512;
/// Bytes of the key texts and vectors of a part of a large document, for each byte of a batch. Each
/// part is a fragment of the table, so smaller ones would mean more merging.
const PART_OF_BATCH: u64 = 40;
/// The most of them: 4,000 chunks with 384 dimensions. While it is committed, a part takes a few
/// times as much.
const MOST_PART_BYTES: usize = 8 << 20;
/// Longest wait of an idle indexer before it looks again, in case a wake-up is missed.
const IDLE_LOOK: Duration = Duration::from_secs(10);
/// First and longest pause after a failed commit.
const RETRY_STORING: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

impl Actor for Indexer {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let mut tasks = JoinSet::new();
        let (reader, clock) = (arguments.reader.clone(), Arc::clone(&arguments.clock));
        tasks.spawn(async move {
            let waking = wake_on_change(myself.clone(), reader, clock);
            if AssertUnwindSafe(waking).catch_unwind().await.is_err() {
                // Without a waker nobody looks again. Without an indexer there is nobody to tell.
                drop(myself.cast(Message::WakerPanicked));
            }
        });
        let (deriver, reembedder) = derivers(&arguments);
        Ok(State {
            deriver,
            reembedder,
            batch_size: BatchSize::new(arguments.derive_bytes),
            arguments,
            busy: HashSet::new(),
            batches: 0,
            is_remaking: false,
            structuring: StructureSchedule::new(
                Instant::now(),
                Backoff::new(RETRY_STORING.0, RETRY_STORING.1),
            ),
            tasks,
            storing: Backoff::new(RETRY_STORING.0, RETRY_STORING.1),
            paused: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Look => state.paused = false,
            // Work in progress with other settings is refused at its commit and becomes due again.
            Message::Settled(settings) => {
                state.arguments.idleness.runs(Task::Indexer);
                state.arguments.settings = settings;
                (state.deriver, state.reembedder) = derivers(&state.arguments);
            }
            Message::BatchEnded { documents, stored, bytes, took } => {
                state.batches -= 1;
                if stored {
                    state.batch_size.derived(bytes, took);
                }
                state.end(&myself, &documents, stored);
            }
            Message::RemakingEnded { documents, stored } => {
                state.is_remaking = false;
                state.end(&myself, &documents, stored);
            }
            Message::StructureEnded { documents, stored } => {
                state.free(&documents);
                let pause = state.structuring.end(Instant::now(), stored);
                myself.send_after(pause, || Message::Look);
            }
            Message::BatchPanicked => return Err("deriving a batch panicked".into()),
            Message::WakerPanicked => return Err("the waker panicked".into()),
        }
        if !state.paused {
            let revision = state.arguments.reader.revision();
            state.start_batches(&myself);
            if state.is_done_at(revision) {
                state.arguments.idleness.is_done(Task::Indexer, revision);
            }
        }
        Ok(())
    }
}

/// Wakes the indexer after each commit, and when a failed document is due again.
async fn wake_on_change(
    indexer: ActorRef<Message>,
    mut reader: ShardReader,
    clock: Arc<dyn Clock>,
) {
    loop {
        if indexer.cast(Message::Look).is_err() {
            return;
        }
        let until_retry = reader.next_try().map_or(IDLE_LOOK, |next| {
            next.saturating_since(clock.now()).clamp(Duration::from_millis(20), IDLE_LOOK)
        });
        tokio::select! {
            lives = reader.changed() => if !lives { return },
            () = tokio::time::sleep(until_retry) => {}
        }
    }
}

impl State {
    fn free(&mut self, documents: &[DocumentId]) {
        for document in documents {
            self.busy.remove(document);
        }
        // Keep the set of finished tasks from growing.
        while self.tasks.try_join_next().is_some() {}
    }

    /// Ends a batch of chunks. Pauses the indexer if the batch was not stored.
    fn end(&mut self, myself: &ActorRef<Message>, documents: &[DocumentId], stored: bool) {
        self.free(documents);
        if stored {
            self.storing.reset();
        } else {
            self.paused = true;
            myself.send_after(self.storing.next_delay(), || Message::Look);
        }
    }

    /// Returns the first documents from `waiting` that fit into one batch of `bytes`.
    fn next_batch(&self, waiting: Waiting, bytes: u64) -> Vec<DueDocument> {
        let Arguments { reader, clock, .. } = &self.arguments;
        within_bytes(waiting(reader, clock.now(), BATCH_DOCUMENTS, &self.busy), bytes)
    }

    /// Returns whether nothing is left to do in the state of this revision.
    fn is_done_at(&self, revision: u64) -> bool {
        let is_deriving = self.batches > 0 || self.is_remaking;
        let waits = self.arguments.reader.next_try().is_some();
        !is_deriving && !waits && self.structuring.is_done_at(revision)
    }

    fn start_batches(&mut self, myself: &ActorRef<Message>) {
        while self.batches < self.arguments.derive_batches {
            let batch = self.next_batch(ShardReader::due, self.batch_size.bytes());
            if batch.is_empty() {
                self.start_structure(myself);
                self.start_remaking(myself);
                return;
            }
            self.batches += 1;
            let (began, bytes) = (Instant::now(), batch.iter().map(|due| due.bytes).sum());
            let ended = move |documents, stored| Message::BatchEnded {
                documents,
                stored,
                bytes,
                took: began.elapsed(),
            };
            self.start_deriving(myself, Arc::clone(&self.deriver), batch, ended);
        }
    }

    /// Starts to make chunks again that lack something.
    fn start_remaking(&mut self, myself: &ActorRef<Message>) {
        if self.is_remaking {
            return;
        }
        let batch = self.next_batch(ShardReader::outdated, self.arguments.derive_bytes);
        if batch.is_empty() {
            return;
        }
        self.is_remaking = true;
        let ended = |documents, stored| Message::RemakingEnded { documents, stored };
        self.start_deriving(myself, Arc::clone(&self.reembedder), batch, ended);
    }

    fn start_deriving(
        &mut self,
        myself: &ActorRef<Message>,
        deriver: Arc<Deriver>,
        batch: Vec<DueDocument>,
        ended: impl FnOnce(Vec<DocumentId>, bool) -> Message + Send + 'static,
    ) {
        let span = self.span("shard.derive", &batch);
        let run = move |batch| {
            metrics::stage("derive", async move { deriver.try_run(batch).await }).instrument(span)
        };
        self.start(myself, batch, ended, run);
    }

    /// Starts to make trees. If no tree is missing and no chunks are in progress, starts to make
    /// nodes above documents.
    fn start_structure(&mut self, myself: &ActorRef<Message>) {
        let now = Instant::now();
        if !self.structuring.may_begin(now) {
            return;
        }
        let batch = self.next_batch(ShardReader::structure_due, self.arguments.derive_bytes);
        let is_upper = batch.is_empty();
        if is_upper && self.batches > 0 {
            return;
        }
        if is_upper {
            match self.structuring.upper(now, self.arguments.reader.revision()) {
                Upper::Whole => return,
                Upper::Waits(wait) => {
                    myself.send_after(wait, || Message::Look);
                    return;
                }
                Upper::Due => {}
            }
        }
        self.structuring.begin();
        let deriver = Arc::clone(&self.deriver);
        let ended = |documents, stored| Message::StructureEnded { documents, stored };
        let (name, stage) = match is_upper {
            true => ("shard.structure_upper", "structure_upper"),
            false => ("shard.structure", "structure"),
        };
        let span = self.span(name, &batch);
        let run = move |batch| {
            let structure = async move {
                match is_upper {
                    true => deriver.try_upper().await,
                    false => deriver.try_structure(batch).await,
                }
            };
            metrics::stage(stage, structure).instrument(span)
        };
        self.start(myself, batch, ended, run);
    }

    /// Returns the span of a batch. It belongs to the trace of the first document whose trace is
    /// known, with links to those of the others. If none is known, it starts a trace.
    fn span(&self, name: &'static str, batch: &[DueDocument]) -> Span {
        let (documents, bytes) = (batch.len(), batch.iter().map(|due| due.bytes).sum::<u64>());
        let span = tracing::info_span!(parent: None, "batch", otel.name = name, documents, bytes);
        let ids = batch.iter().map(|due| &due.document_id);
        let mut origins = self.arguments.seen.origins.of(ids).into_iter();
        if let Some(first) = origins.next() {
            first.parent_of(&span);
        }
        linked(&span, origins);
        span
    }

    fn start<R>(
        &mut self,
        myself: &ActorRef<Message>,
        batch: Vec<DueDocument>,
        ended: impl FnOnce(Vec<DocumentId>, bool) -> Message + Send + 'static,
        run: impl FnOnce(Arc<[DueDocument]>) -> R + Send + 'static,
    ) where
        R: Future<Output = Result<(), Error>> + Send,
    {
        let documents: Vec<_> = batch.iter().map(|due| due.document_id.clone()).collect();
        self.busy.extend(documents.iter().cloned());
        let indexer = myself.clone();
        self.tasks.spawn(async move {
            let message = match AssertUnwindSafe(run(batch.into())).catch_unwind().await {
                Ok(Ok(())) => ended(documents, true),
                Ok(Err(error)) => {
                    tracing::warn!(error = error.chain(), "a batch was not stored; it stays due");
                    ended(documents, false)
                }
                Err(_panic) => Message::BatchPanicked,
            };
            // Without an indexer there is nobody to tell.
            drop(indexer.cast(message));
        });
    }
}

/// Returns the first documents of `due` that fit into `bytes`, at least one.
fn within_bytes(due: Vec<DueDocument>, bytes: u64) -> Vec<DueDocument> {
    let mut total = 0;
    due.into_iter()
        .enumerate()
        .take_while(|(i, document)| {
            total += document.bytes;
            *i == 0 || total <= bytes
        })
        .map(|(_, document)| document)
        .collect()
}

/// Creates the deriver for new documents, and the one that makes chunks again.
fn derivers(arguments: &Arguments) -> (Arc<Deriver>, Arc<Deriver>) {
    let behind = Pace::Behind(arguments.resources.clone());
    (Arc::new(deriver(arguments, Pace::Now)), Arc::new(deriver(arguments, behind)))
}

fn deriver(arguments: &Arguments, pace: Pace) -> Deriver {
    let Arguments { settings, reader, encoders, writer, .. } = arguments.clone();
    let structure_builder = StructureBuilder {
        corpus: Arc::clone(&settings),
        reader: reader.clone(),
        builder: Arc::clone(&arguments.graph_builder),
        writer: writer.clone(),
    };
    let whole_bytes = arguments.derive_bytes;
    Deriver {
        pace,
        structure_builder,
        settings,
        reader,
        encoders,
        writer,
        clock: Arc::clone(&arguments.clock),
        whole_bytes,
        part_bytes: (whole_bytes.saturating_mul(PART_OF_BATCH) as usize).min(MOST_PART_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Version;

    use super::*;

    #[test]
    fn a_batch_holds_what_fits_and_always_something() {
        let due = |bytes: &[u64]| {
            let document = |(i, &bytes): (usize, &u64)| DueDocument {
                document_id: format!("d{i}").parse().unwrap(),
                version: Version(1),
                bytes,
                attempts: 0,
            };
            bytes.iter().enumerate().map(document).collect::<Vec<_>>()
        };
        for (sizes, expected) in
            [(&[][..], 0), (&[999], 1), (&[999, 1], 1), (&[40, 60, 1], 2), (&[10, 10, 10], 3)]
        {
            assert_eq!(within_bytes(due(sizes), 100).len(), expected, "{sizes:?}");
        }
    }
}
