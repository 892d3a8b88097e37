//! The indexer: works off the difference between what was accepted and what is derived.
//!
//! The indexer keeps no list of jobs. Due documents come from the shard's state, which mirrors the
//! tables. However a batch ends, the next look finds what is still missing. Up to `derive_batches`
//! batches run at once, so that one is chunked while another is embedded and a third committed.
//!
//! Chunks come first, so that documents become searchable. Then come the trees and graph of
//! searchable documents. Once no tree is missing, the nodes above documents are made; earlier they
//! would be wasted, because new documents change them. Chunks that lack something, for example
//! while their corpus moves to another model, are made again after all that, one batch at a time
//! and throttled behind searches ([`Resources::behind`]).

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    Chunk, Clock, CorpusSettings, Document, DocumentId, Encoder, Encoders, Error, GraphBuilder,
    Priority, Reembedding, Stage, StoredDocument, TextKind, Timestamp,
};
use clew_index::{
    DerivedDocument, DueDocument, EmbeddedChunk, Failure, ShardReader, ShardSettings,
};
use clew_runtime::backoff::Backoff;
use clew_runtime::deadline::ask;
use clew_telemetry::{child, linked, metrics};
use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use crate::shard::actor::writer;
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
    /// A batch ended, successfully or not.
    BatchEnded { documents: Vec<DocumentId>, stored: bool },
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
/// Maximum number of chunks that one call embeds, so that a very long document does not fill the
/// encoder's queue.
const EMBED_CHUNKS: usize = 256;
/// The same behind searches: as many as one worker of the encoder takes at once, which is a tenth
/// of a second on a CPU.
const EMBED_CHUNKS_BEHIND: usize = 4;
/// Longest search for a model among the encoders.
const ENCODER_PATIENCE: Duration = Duration::from_secs(30);
/// Bound against a hung device, not an estimate: a batch takes seconds.
const EMBED_PATIENCE: Duration = Duration::from_secs(600);
const COMMIT_PATIENCE: Duration = Duration::from_secs(600);
/// Longest wait of an idle indexer before it looks again, in case a wake-up is missed.
const IDLE_LOOK: Duration = Duration::from_secs(10);
/// First and longest pause before a failed document is tried again.
const RETRY_DOCUMENT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
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
            Message::BatchEnded { documents, stored } => {
                state.batches -= 1;
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

    /// Returns the first documents from `waiting` that fit into one batch.
    fn next_batch(&self, waiting: Waiting) -> Vec<DueDocument> {
        let Arguments { reader, clock, derive_bytes, .. } = &self.arguments;
        within_bytes(waiting(reader, clock.now(), BATCH_DOCUMENTS, &self.busy), *derive_bytes)
    }

    /// Returns whether nothing is left to do in the state of this revision.
    fn is_done_at(&self, revision: u64) -> bool {
        let is_deriving = self.batches > 0 || self.is_remaking;
        let waits = self.arguments.reader.next_try().is_some();
        !is_deriving && !waits && self.structuring.is_done_at(revision)
    }

    fn start_batches(&mut self, myself: &ActorRef<Message>) {
        while self.batches < self.arguments.derive_batches {
            let batch = self.next_batch(ShardReader::due);
            if batch.is_empty() {
                self.start_structure(myself);
                self.start_remaking(myself);
                return;
            }
            self.batches += 1;
            let ended = |documents, stored| Message::BatchEnded { documents, stored };
            self.start_deriving(myself, Arc::clone(&self.deriver), batch, ended);
        }
    }

    /// Starts to make chunks again that lack something.
    fn start_remaking(&mut self, myself: &ActorRef<Message>) {
        if self.is_remaking {
            return;
        }
        let batch = self.next_batch(ShardReader::outdated);
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
        ended: fn(Vec<DocumentId>, bool) -> Message,
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
        let batch = self.next_batch(ShardReader::structure_due);
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
        ended: fn(Vec<DocumentId>, bool) -> Message,
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

/// Urgency of a deriver's work.
enum Pace {
    /// Callers wait for the work.
    Now,
    /// Background work, throttled behind searches.
    Behind(Resources),
}

impl Pace {
    /// Runs a piece of the work.
    async fn piece<T>(&self, work: impl Future<Output = T>) -> T {
        match self {
            Self::Now => work.await,
            Self::Behind(resources) => resources.behind(work).await,
        }
    }

    /// Returns the maximum number of chunks to embed as one piece.
    fn embed_chunks(&self) -> usize {
        match self {
            Self::Behind(resources) if resources.are_searched() => EMBED_CHUNKS_BEHIND,
            Self::Now | Self::Behind(_) => EMBED_CHUNKS,
        }
    }
}

/// Derives batches of documents.
struct Deriver {
    pace: Pace,
    structure_builder: StructureBuilder,
    settings: Arc<CorpusSettings>,
    reader: ShardReader,
    encoders: Arc<dyn Encoders>,
    writer: ActorRef<writer::Message>,
    clock: Arc<dyn Clock>,
}

/// Models that chunks are made with.
struct Models {
    /// Model whose tokens decide where chunks end.
    cutter: Arc<dyn Encoder>,
    /// Models that embed the chunks, one for each vector column.
    embedders: Vec<Arc<dyn Encoder>>,
}

/// Reason for which a document could not be derived.
struct Fault {
    stage: Stage,
    error: Error,
}

/// Creates the deriver for new documents, and the one that makes chunks again.
fn derivers(arguments: &Arguments) -> (Arc<Deriver>, Arc<Deriver>) {
    let behind = Pace::Behind(arguments.resources.clone());
    (Arc::new(Deriver::new(arguments, Pace::Now)), Arc::new(Deriver::new(arguments, behind)))
}

impl Deriver {
    fn new(arguments: &Arguments, pace: Pace) -> Self {
        let Arguments { settings, reader, encoders, writer, .. } = arguments.clone();
        let structure_builder = StructureBuilder {
            corpus: Arc::clone(&settings),
            reader: reader.clone(),
            builder: Arc::clone(&arguments.graph_builder),
            writer: writer.clone(),
        };
        let clock = Arc::clone(&arguments.clock);
        Self { pace, structure_builder, settings, reader, encoders, writer, clock }
    }

    /// Returns the model whose tokens decide where chunks and segments end.
    async fn cutter(&self) -> Result<Arc<dyn Encoder>, Error> {
        let deadline = Instant::now() + ENCODER_PATIENCE;
        self.encoders.of(self.settings.cutter(), deadline).await
    }

    /// Returns the models of the corpus. If one is missing, no document is at fault.
    async fn models(&self) -> Result<Models, Error> {
        let cutter = self.cutter().await?;
        let deadline = Instant::now() + ENCODER_PATIENCE;
        let mut embedders = Vec::new();
        for column in ShardSettings::of(&self.settings).vectors {
            embedders.push(self.encoders.of(&column.encoder, deadline).await?);
        }
        Ok(Models { cutter, embedders })
    }

    /// Derives and commits a batch.
    async fn try_run(&self, batch: Arc<[DueDocument]>) -> Result<(), Error> {
        let models = self.models().await?;
        let wanted: Vec<_> =
            batch.iter().map(|due| (due.document_id.clone(), due.version)).collect();
        let documents = self.pace.piece(self.reader.read_sources(&wanted)).await?;
        let mut derived = Vec::with_capacity(documents.len());
        let mut failures = Vec::new();
        for (stored, result) in self.derive(&models, documents).await? {
            match result {
                Ok(document) => derived.push(document),
                Err(fault) => failures.push(self.failure(&batch, &stored, &fault)),
            }
        }
        if !derived.is_empty() {
            let commit = async {
                let deadline = Instant::now() + COMMIT_PATIENCE;
                ask(&self.writer, deadline, "committing chunks", |reply| {
                    writer::Message::CommitDerived { documents: derived, reply }
                })
                .await
            };
            self.pace.piece(commit).await?;
        }
        self.record(failures).await
    }

    /// Makes the trees of all documents together. If a document makes that fail, makes each tree by
    /// itself.
    async fn try_structure(&self, batch: Arc<[DueDocument]>) -> Result<(), Error> {
        let cutter = self.cutter().await?;
        let deadline = Instant::now() + ENCODER_PATIENCE;
        let embedder = self.encoders.of(&self.settings.encoder, deadline).await?;
        let wanted: Vec<_> =
            batch.iter().map(|due| (due.document_id.clone(), due.version)).collect();
        let documents = self.reader.read_sources(&wanted).await?;
        match self.structure_builder.make(&cutter, &embedder, documents.clone()).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_retryable() => return Err(error),
            Err(_over_some_document) => {}
        }
        let mut failures = Vec::new();
        for stored in documents {
            match self.structure_builder.make(&cutter, &embedder, vec![stored.clone()]).await {
                Ok(()) => {}
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    let fault = Fault { stage: Stage::Structuring, error };
                    failures.push(self.failure(&batch, &stored, &fault));
                }
            }
        }
        self.record(failures).await
    }

    /// Makes the missing nodes above documents.
    async fn try_upper(&self) -> Result<(), Error> {
        let deadline = Instant::now() + ENCODER_PATIENCE;
        let embedder = self.encoders.of(&self.settings.encoder, deadline).await;
        if let Err(error) = &embedder {
            let error = error.chain();
            tracing::warn!(error, "nodes above documents are made without vectors");
        }
        self.structure_builder.make_upper(embedder.ok().as_deref()).await
    }

    async fn record(&self, failures: Vec<Failure>) -> Result<(), Error> {
        if failures.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + COMMIT_PATIENCE;
        ask(&self.writer, deadline, "recording failures", |reply| writer::Message::RecordFailures {
            failures,
            reply,
        })
        .await
    }

    /// Derives all documents together. If a document makes that fail, derives each by itself, so
    /// that it does not hold up the others. An error means that the service lacks something and no
    /// document is at fault.
    async fn derive(
        &self,
        models: &Models,
        documents: Vec<StoredDocument>,
    ) -> Result<Vec<(StoredDocument, Result<DerivedDocument, Fault>)>, Error> {
        match self.derive_together(models, &documents).await {
            Ok(derived) => {
                return Ok(documents.into_iter().zip(derived.into_iter().map(Ok)).collect());
            }
            Err(fault) if fault.error.is_retryable() => return Err(fault.error),
            Err(_over_some_document) => {}
        }
        let mut results = Vec::with_capacity(documents.len());
        for document in documents {
            match self.derive_together(models, std::slice::from_ref(&document)).await {
                Ok(derived) => {
                    results.extend(derived.into_iter().map(|one| (document.clone(), Ok(one))))
                }
                Err(fault) if fault.error.is_retryable() => return Err(fault.error),
                Err(fault) => results.push((document, Err(fault))),
            }
        }
        Ok(results)
    }

    async fn derive_together(
        &self,
        models: &Models,
        documents: &[StoredDocument],
    ) -> Result<Vec<DerivedDocument>, Fault> {
        let chunks = self.pace.piece(self.chunk(&models.cutter, documents)).await?;
        let keys: Vec<&str> =
            chunks.iter().flatten().map(|chunk| chunk.key_text.as_str()).collect();
        let ids: Vec<DocumentId> =
            documents.iter().map(|stored| stored.document.id.clone()).collect();
        let mut by_model = Vec::with_capacity(models.embedders.len());
        for encoder in &models.embedders {
            by_model.push(self.embed(encoder, &keys, &ids).await?.into_iter());
        }
        let recipe = self.settings.recipes().wanted;
        let mut vectors = || by_model.iter_mut().filter_map(Iterator::next).collect();
        let mut embedded = |chunk| EmbeddedChunk { chunk, vectors: vectors() };
        Ok(documents
            .iter()
            .zip(chunks)
            .map(|(stored, chunks)| DerivedDocument {
                document: stored.document.clone(),
                version: stored.version,
                recipe,
                chunks: chunks.into_iter().map(&mut embedded).collect(),
            })
            .collect())
    }

    /// Embeds texts with one model. Where chunks are made again, vectors that exist already are
    /// reused.
    async fn embed(
        &self,
        encoder: &Arc<dyn Encoder>,
        texts: &[&str],
        documents: &[DocumentId],
    ) -> Result<Vec<Vec<f32>>, Fault> {
        let fault = |error| Fault { stage: Stage::Embedding, error };
        let mut known = HashMap::new();
        let is_moving = self.settings.reembedding.as_ref().is_some_and(Reembedding::is_on);
        if is_moving && matches!(self.pace, Pace::Behind(_)) {
            let read = self.reader.vectors(encoder.identity(), documents);
            known = self.pace.piece(read).await.map_err(|error| fault(error.into()))?;
        }
        let missing: Vec<&str> =
            texts.iter().filter(|text| !known.contains_key(**text)).copied().collect();
        let mut made = Vec::with_capacity(missing.len());
        let mut missing = missing.as_slice();
        while !missing.is_empty() {
            let part;
            (part, missing) = missing.split_at(missing.len().min(self.pace.embed_chunks()));
            let embedding = async {
                let part = part.iter().map(ToString::to_string).collect();
                let deadline = Instant::now() + EMBED_PATIENCE;
                encoder.embed(part, TextKind::Passage, Priority::Bulk, deadline).await
            };
            let embedding = metrics::stage("embed", embedding);
            made.extend(self.pace.piece(embedding).await.map_err(fault)?);
        }
        let mut made = made.into_iter().map(|embedding| embedding.vector);
        let vector = |text: &&str| known.get(*text).cloned().or_else(|| made.next());
        let vectors: Option<Vec<Vec<f32>>> = texts.iter().map(vector).collect();
        vectors
            .ok_or_else(|| fault(Error::internal("the encoder returned fewer vectors than texts")))
    }

    /// Cuts documents into chunks where blocking is allowed, as `[documents][chunks]`.
    async fn chunk(
        &self,
        cutter: &Arc<dyn Encoder>,
        documents: &[StoredDocument],
    ) -> Result<Vec<Vec<Chunk>>, Fault> {
        let documents: Vec<_> = documents.iter().map(|stored| stored.document.clone()).collect();
        let (encoder, settings) = (Arc::clone(cutter), Arc::clone(&self.settings));
        let window = encoder.identity().max_tokens as usize;
        let cut = move || {
            let token_spans = |text: &str| encoder.token_spans(text);
            let chunks = |document: &Document| {
                let (chunking, spans) = (&settings.chunking, &token_spans);
                let keys = settings.chat_keys();
                if let Some(chunks) =
                    clew_chat::key_chunks(document, keys, chunking, spans, window)?
                {
                    return Ok(chunks);
                }
                let mut chunks = clew_text::chunk(document, chunking, spans, window);
                let count = chunks.len();
                chunks.extend(clew_chat::statement_chunks(document, count, spans, window));
                Ok(chunks)
            };
            documents.iter().map(chunks).collect::<Result<Vec<_>, Error>>()
        };
        let span = child(|| tracing::info_span!("derive.chunk"));
        let cutting = tokio::task::spawn_blocking(cut).instrument(span);
        let fault = |error| Fault { stage: Stage::Chunking, error };
        let chunks = metrics::stage("chunk", cutting).await.map_err(|panic| {
            fault(Error::internal("cutting the document panicked").with_source(panic))
        })?;
        let chunks = chunks.map_err(fault)?;
        if chunks.iter().any(Vec::is_empty) {
            return Err(fault(Error::internal("the document has no chunk that could be found")));
        }
        Ok(chunks)
    }

    fn failure(&self, batch: &[DueDocument], stored: &StoredDocument, fault: &Fault) -> Failure {
        let attempts = batch
            .iter()
            .find(|due| due.document_id == stored.document.id)
            .map_or(0, |due| due.attempts);
        let delay = Backoff::delay_after(RETRY_DOCUMENT.0, RETRY_DOCUMENT.1, attempts);
        tracing::warn!(
            document = stored.document.id.log_tag(),
            attempts = attempts + 1,
            error = fault.error.chain(),
            "a document could not be derived"
        );
        Failure {
            document_id: stored.document.id.clone(),
            version: stored.version,
            stage: fault.stage,
            kind: fault.error.kind(),
            message: fault.error.message().to_owned(),
            next_try: Some(self.clock.now().saturating_add(delay)),
        }
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
