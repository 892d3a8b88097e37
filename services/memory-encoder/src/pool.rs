//! Encoder pool: implements `Encoder` over the devices of one model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Embedding, Encoder, EncoderIdentity, Error, Priority, Span, TextKind};
use clew_model::{EmbeddingModel, EncodedText, Scratch};
use clew_runtime::tree::RunningPart;
use clew_telemetry::{Severity, Trouble, child};
use tracing::Instrument;

use crate::EncoderConfig;
use crate::devices::{Computes, Devices, Names};

/// Maximum number of bytes of texts that are tokenised where they arrive. That takes at most about
/// a microsecond for each token, which is less than to wake another thread and to be woken by it.
const TOKENISED_IN_PLACE: usize = 1024;

/// Encoder that computes on this machine's devices. Cheap to share.
pub struct EncoderPool {
    model: Arc<EmbeddingModel>,
    devices: Devices<EmbeddingModel>,
    embedded_tokens: AtomicU64,
}

impl Computes for EmbeddingModel {
    type Text = EncodedText;
    type Result = Embedding;

    const NAMES: Names = Names {
        part: "encoder",
        queue: "the encoder's queue",
        doing: "embedding",
        stage: "compute",
        span: |texts| tracing::info_span!("encode.compute", texts),
        // Without embeddings there is neither search nor ingestion.
        severity: Severity::NotReady,
    };

    fn name(&self) -> &str {
        &self.identity().model
    }

    fn tokens(text: &EncodedText) -> usize {
        text.ids.len()
    }

    fn compute(
        &self,
        texts: &[EncodedText],
        scratch: &mut Scratch,
    ) -> Result<Vec<Embedding>, clew_model::Error> {
        self.embed(texts, scratch)
    }

    fn check(&self) -> Result<(), clew_model::Error> {
        self.check()
    }
}

impl EncoderPool {
    /// Loads the model in `folder` and starts the workers.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration or the folder cannot be
    /// used, and [`clew_core::ErrorKind::Internal`] if the actor system fails to start.
    pub async fn load(folder: PathBuf, config: &EncoderConfig) -> Result<Self, Error> {
        Self::start(load_model(folder, config).await?, config).await
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Internal`] if the actor system fails to start.
    pub async fn start(model: Arc<EmbeddingModel>, config: &EncoderConfig) -> Result<Self, Error> {
        let devices = Devices::start(Arc::clone(&model), config).await?;
        Ok(Self { model, devices, embedded_tokens: AtomicU64::new(0) })
    }

    /// Returns the number of tokens embedded since the start.
    pub fn embedded_tokens(&self) -> u64 {
        self.embedded_tokens.load(Ordering::Relaxed)
    }

    /// Returns how long the devices have computed since the start, summed over the workers.
    pub fn busy(&self) -> Duration {
        self.devices.busy()
    }

    /// Returns a readable description of the code that computes: path, kernel, precision and
    /// device.
    pub fn description(&self) -> String {
        self.model.describe().to_string()
    }

    /// Returns the model of the pool.
    pub fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    /// Returns the troubles of the pool's devices: they fail, or one does not finish a batch.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.devices.troubles()
    }

    /// Returns the pool's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        self.devices.node()
    }

    /// Stops the workers. Drops waiting batches; their callers get an error.
    pub async fn stop(&self) {
        self.devices.stop().await;
    }

    /// Tokenises on a thread where blocking is allowed, or at once if the texts are as short as a
    /// question.
    async fn encode(&self, texts: Vec<String>, kind: TextKind) -> Result<Vec<EncodedText>, Error> {
        let bytes: usize = texts.iter().map(String::len).sum();
        let model = Arc::clone(&self.model);
        let encode = move || texts.iter().map(|text| model.encode(text, kind)).collect();
        if bytes <= TOKENISED_IN_PLACE {
            let encoded = catch_unwind(AssertUnwindSafe(encode));
            return encoded.map_err(|_panic| Error::internal("the tokenizer panicked"));
        }
        tokio::task::spawn_blocking(encode)
            .await
            .map_err(|error| Error::internal("the tokenizer panicked").with_source(error))
    }

    async fn embed_texts(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let arrived = Instant::now();
        let encoded = self.encode(texts, kind).await?;
        let tokens: usize = encoded.iter().map(|text| text.ids.len()).sum();
        let embeddings = self.devices.compute(encoded, priority, arrived, deadline).await?;
        self.embedded_tokens.fetch_add(tokens as u64, Ordering::Relaxed);
        Ok(embeddings)
    }
}

#[async_trait]
impl Encoder for EncoderPool {
    fn identity(&self) -> &EncoderIdentity {
        self.model.identity()
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        self.model.token_spans(text)
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let span = child(|| tracing::info_span!("encode", texts = texts.len()));
        self.embed_texts(texts, kind, priority, deadline).instrument(span).await
    }
}

/// Loads the model in `folder`.
pub(crate) async fn load_model(
    folder: PathBuf,
    config: &EncoderConfig,
) -> Result<Arc<EmbeddingModel>, Error> {
    config.validate()?;
    let options = config.model_options()?;
    let loading = tokio::task::spawn_blocking(move || EmbeddingModel::load(&folder, &options));
    let loaded = loading
        .await
        .map_err(|panic| Error::internal("loading the model panicked").with_source(panic))?;
    Ok(loaded?)
}
