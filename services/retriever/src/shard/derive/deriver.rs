//! Deriving: makes the chunks of a batch of documents, and has them committed.
//!
//! A batch is small or a single document. The chunks of a large document are made and committed in
//! parts (`in_parts.rs`), so that what it takes in memory does not grow with the number of its
//! chunks.

mod cutting;
mod in_parts;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    Chunk, Clock, CorpusSettings, DocumentId, Encoder, Encoders, Error, Priority, Reembedding,
    Stage, StoredDocument, TextKind, Version,
};
use clew_index::{
    DerivedDocument, DueDocument, EmbeddedChunk, FailedAttempt, ShardReader, ShardSettings,
};
use clew_runtime::backoff::Backoff;
use clew_runtime::deadline::ask;
use clew_telemetry::{child, metrics};
use ractor::ActorRef;
use tracing::Instrument;

use crate::shard::actor::writer;
use crate::shard::derive::deriver::cutting::Cutting;
use crate::shard::derive::structure_builder::StructureBuilder;
use crate::shard::resources::Resources;

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
/// First and longest pause before a failed document is tried again.
const RETRY_DOCUMENT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Urgency of a deriver's work.
pub(crate) enum Pace {
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
pub(crate) struct Deriver {
    pub pace: Pace,
    pub structure_builder: StructureBuilder,
    pub settings: Arc<CorpusSettings>,
    pub reader: ShardReader,
    pub encoders: Arc<dyn Encoders>,
    pub writer: ActorRef<writer::Message>,
    pub clock: Arc<dyn Clock>,
    /// Maximum bytes of a text whose chunks are made and committed together. Those of a longer one
    /// are made in parts.
    pub whole_bytes: u64,
    /// Bytes of the key texts and vectors of a part.
    pub part_bytes: usize,
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

impl Deriver {
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
    pub(crate) async fn try_run(&self, batch: Arc<[DueDocument]>) -> Result<(), Error> {
        let models = self.models().await?;
        let wanted: Vec<_> =
            batch.iter().map(|due| (due.document_id.clone(), due.version)).collect();
        let mut documents = self.pace.piece(self.reader.read_sources(&wanted)).await?;
        if let [due] = &*batch
            && due.bytes > self.whole_bytes
            && let Some(large) = documents.pop()
        {
            return Box::pin(self.try_parts(&models, due, large)).await;
        }
        let mut derived = Vec::with_capacity(documents.len());
        let mut failures = Vec::new();
        for (stored, result) in self.derive(&models, documents).await? {
            match result {
                Ok(document) => derived.push(document),
                Err(fault) => failures.push(self.failure_of(&batch, &stored, &fault)),
            }
        }
        if !derived.is_empty() {
            self.commit(derived).await?;
        }
        self.record(failures).await
    }

    async fn commit(&self, derived: Vec<DerivedDocument>) -> Result<(), Error> {
        let deadline = Instant::now() + COMMIT_PATIENCE;
        let commit = ask(&self.writer, deadline, "committing chunks", |reply| {
            writer::Message::CommitDerived { documents: derived, reply }
        });
        self.pace.piece(commit).await.map(drop)
    }

    /// Makes the trees of all documents together. If a document makes that fail, makes each tree by
    /// itself.
    pub(crate) async fn try_structure(&self, batch: Arc<[DueDocument]>) -> Result<(), Error> {
        let cutter = self.cutter().await?;
        let deadline = Instant::now() + ENCODER_PATIENCE;
        let embedder = self.encoders.of(&self.settings.encoder, deadline).await?;
        let wanted: Vec<_> =
            batch.iter().map(|due| (due.document_id.clone(), due.version)).collect();
        let documents = self.reader.read_sources(&wanted).await?;
        let documents: Vec<Arc<StoredDocument>> = documents.into_iter().map(Arc::new).collect();
        match self.structure_builder.make(&cutter, &embedder, documents.clone()).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_retryable() => return Err(error),
            Err(_over_some_document) => {}
        }
        let mut failures = Vec::new();
        for stored in documents {
            match self.structure_builder.make(&cutter, &embedder, vec![Arc::clone(&stored)]).await {
                Ok(()) => {}
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    let fault = Fault { stage: Stage::Structuring, error };
                    failures.push(self.failure_of(&batch, &stored, &fault));
                }
            }
        }
        self.record(failures).await
    }

    /// Makes the missing nodes above documents.
    pub(crate) async fn try_upper(&self) -> Result<(), Error> {
        let deadline = Instant::now() + ENCODER_PATIENCE;
        let embedder = self.encoders.of(&self.settings.encoder, deadline).await;
        if let Err(error) = &embedder {
            let error = error.chain();
            tracing::warn!(error, "nodes above documents are made without vectors");
        }
        self.structure_builder.make_upper(embedder.ok().as_deref()).await
    }

    async fn record(&self, failures: Vec<FailedAttempt>) -> Result<(), Error> {
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
            let read = self.reader.vectors(encoder.identity(), documents, texts);
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

    /// Cuts documents into chunks, as `[documents][chunks]`.
    async fn chunk(
        &self,
        cutter: &Arc<dyn Encoder>,
        documents: &[StoredDocument],
    ) -> Result<Vec<Vec<Chunk>>, Fault> {
        let documents: Vec<_> = documents.iter().map(|stored| stored.document.clone()).collect();
        let (encoder, settings) = (Arc::clone(cutter), Arc::clone(&self.settings));
        let cut = move || {
            let chunks = |document| Ok(Cutting::of(document, &encoder, &settings)?.collect());
            documents.iter().map(chunks).collect::<Result<Vec<Vec<Chunk>>, Error>>()
        };
        let chunks = blocking(cut).await?;
        if chunks.iter().any(Vec::is_empty) {
            return Err(without_chunks());
        }
        Ok(chunks)
    }

    fn failure_of(
        &self,
        batch: &[DueDocument],
        stored: &StoredDocument,
        fault: &Fault,
    ) -> FailedAttempt {
        let due = batch.iter().find(|due| due.document_id == stored.document.id);
        let attempts = due.map_or(0, |due| due.attempts);
        self.failure(&stored.document.id, stored.version, attempts, fault)
    }

    fn failure(
        &self,
        id: &DocumentId,
        version: Version,
        attempts: u32,
        fault: &Fault,
    ) -> FailedAttempt {
        let delay = Backoff::delay_after(RETRY_DOCUMENT.0, RETRY_DOCUMENT.1, attempts);
        tracing::warn!(
            document = id.log_tag(),
            attempts = attempts + 1,
            error = fault.error.chain(),
            "a document could not be derived"
        );
        FailedAttempt {
            document_id: id.clone(),
            version,
            stage: fault.stage,
            kind: fault.error.kind(),
            message: fault.error.message().to_owned(),
            next_try: Some(self.clock.now().saturating_add(delay)),
        }
    }
}

/// Cuts where blocking is allowed.
async fn blocking<T: Send + 'static>(
    cut: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Fault> {
    let fault = |error| Fault { stage: Stage::Chunking, error };
    let span = child(|| tracing::info_span!("derive.chunk"));
    let cutting = tokio::task::spawn_blocking(cut).instrument(span);
    let cut = metrics::stage("chunk", cutting).await.map_err(|panic| {
        fault(Error::internal("cutting the document panicked").with_source(panic))
    })?;
    cut.map_err(fault)
}

fn without_chunks() -> Fault {
    let error = Error::internal("the document has no chunk that could be found");
    Fault { stage: Stage::Chunking, error }
}
