//! Implementation of the trait `Encoder` over encoders on other nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Embedding, Encoder, EncoderIdentity, Error, ErrorKind, Priority, Span, TextKind};
use clew_runtime::admission::Gate;
use clew_runtime::backoff::Backoff;
use clew_runtime::deadline::within;
use clew_runtime::timing::{Part as Spending, measured};
use clew_runtime::tree::RunningPart;
use clew_telemetry::{child, trace_parent};
use futures::future::try_join_all;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::batch::{Bounds, Part, split};
use super::dispatcher::Job;
use super::model::Model;
use super::model_pool::ModelPool;
use super::{RemoteEncoderConfig, RemoteEncoderOptions};

/// Number of times that a batch is sent again after it was lost with its member. After that, the
/// batch is suspected of being the cause.
const MAX_LOSSES: u32 = 3;
/// Number of times that an interactive batch is sent again after a full member refused it.
const MAX_REFUSALS: u32 = 2;
/// First and longest pause before a batch is submitted again.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Pause before a full member is asked again, if it does not say how long to wait.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// Encoder of one model on other nodes. Dropping it ends its streams and connections.
pub struct RemoteEncoder {
    model_pool: Arc<ModelPool>,
    model: Arc<Model>,
    config: RemoteEncoderConfig,
    gate: Gate,
    embedded_tokens: AtomicU64,
}

impl RemoteEncoder {
    /// Connects to the members and waits until the first has described its model. The other members
    /// join in the background. Members that do not offer the model are not used.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the configuration or an address is not valid,
    /// [`ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if an expected model is not
    /// offered, and [`ErrorKind::Unavailable`] if no member answered until `deadline`.
    pub async fn connect(options: RemoteEncoderOptions, deadline: Instant) -> Result<Self, Error> {
        let config = options.config.clone();
        let model_pool = Arc::new(ModelPool::gather(options).await?);
        let model = model_pool.model(deadline).await?;
        Ok(Self::new(model_pool, model, config))
    }

    /// Creates an encoder over a pool whose model is known.
    pub(crate) fn new(
        model_pool: Arc<ModelPool>,
        model: Arc<Model>,
        config: RemoteEncoderConfig,
    ) -> Self {
        let gate =
            Gate::new("the queue for encoders", config.queue_tokens, Duration::from_millis(250))
                .seen_as("remote_encoder", "tokens");
        Self { model_pool, model, config, gate, embedded_tokens: AtomicU64::new(0) }
    }

    /// Returns the members that the encoder works with.
    pub(crate) fn model_pool(&self) -> &Arc<ModelPool> {
        &self.model_pool
    }

    /// Replaces the members by `members`, given as names and addresses. Members that are gone get
    /// no new work and finish what they have.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if an address is not valid. Then nothing is changed.
    pub async fn update(&self, members: Vec<(String, String)>) -> Result<(), Error> {
        self.model_pool.update(members).await
    }

    /// Returns the number of tokens embedded since the start.
    pub fn embedded_tokens(&self) -> u64 {
        self.embedded_tokens.load(Ordering::Relaxed)
    }

    /// Returns the pool's node for the tree of running parts. Members that do not offer the model
    /// are `refused`, and those whose stream is not open yet are `joining`.
    pub async fn node(&self) -> RunningPart {
        self.model_pool.node().await.with_queue(self.gate.in_use(), self.gate.capacity())
    }

    async fn embed_part(
        &self,
        part: Part,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let Part { texts, tokens } = part;
        // Bulk work waits for room, which slows its producer down. Interactive work is refused at
        // once.
        let _permit = match priority {
            Priority::Interactive => self.gate.try_enter(tokens)?,
            Priority::Bulk => self.gate.enter(tokens, deadline).await?,
        };
        let mut backoff = Backoff::new(RETRY_PAUSES.0, RETRY_PAUSES.1);
        let mut losses = 0;
        let mut refusals = 0;
        loop {
            self.wait_for_peer(deadline).await?;
            let (reply, result) = oneshot::channel();
            let texts = texts.clone();
            let trace_parent = trace_parent();
            let job = Job { texts, kind, priority, tokens, deadline, trace_parent, reply };
            self.model_pool.shared.dispatcher.submit(job, losses > 0);
            let failed = match within(deadline, "embedding", received(result)).await {
                Ok(embeddings) => return Ok(embeddings),
                Err(error) => error,
            };
            let pause = match failed.kind() {
                ErrorKind::Unavailable if failed.reason() == "NO_PEER" => backoff.next_delay(),
                ErrorKind::Unavailable if failed.reason() == "PEER_LOST" && losses < MAX_LOSSES => {
                    losses += 1;
                    backoff.next_delay()
                }
                ErrorKind::Unavailable if failed.reason() == "PEER_LOST" => return Err(failed),
                // The member is full or restarts its workers: bulk work keeps trying, interactive
                // work soon fails.
                ErrorKind::Exhausted | ErrorKind::Unavailable
                    if priority == Priority::Bulk || refusals < MAX_REFUSALS =>
                {
                    refusals += 1;
                    failed.retry_after().unwrap_or(FULL_PAUSE).mul_f64(0.5 + fastrand::f64())
                }
                _ => return Err(failed),
            };
            if Instant::now() + pause >= deadline {
                return Err(failed);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits for a member that takes work, as long as configured.
    async fn wait_for_peer(&self, deadline: Instant) -> Result<(), Error> {
        let patience =
            deadline.min(Instant::now() + self.model_pool.pool.options().reach.config.wait());
        let mut ready = self.model_pool.shared.dispatcher.ready();
        let waited =
            tokio::time::timeout_at(patience.into(), ready.wait_for(|ready| *ready > 0)).await;
        match waited {
            Ok(Ok(_)) => Ok(()),
            _ => Err(self.model_pool.no_peer_error()),
        }
    }
}

/// Waits for the result of a batch. A stream that is lost drops the sender.
async fn received(
    result: oneshot::Receiver<Result<Vec<Embedding>, Error>>,
) -> Result<Vec<Embedding>, Error> {
    result.await.unwrap_or_else(|_dropped| {
        let problem = "an encoder was lost with a batch; retry";
        Err(Error::new(ErrorKind::Unavailable, "PEER_LOST", problem))
    })
}

#[async_trait]
impl Encoder for RemoteEncoder {
    fn identity(&self) -> &EncoderIdentity {
        &self.model.identity
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        self.model.tokenizer.spans(text)
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let model = Arc::clone(&self.model);
        let bounds = Bounds {
            tokens: self.config.batch_tokens,
            window_tokens: model.identity.max_tokens as usize,
            dimension: model.identity.dimension,
        };
        // Long texts have to be tokenised to be cut.
        let parts = tokio::task::spawn_blocking(move || {
            split(texts.into_iter().map(|text| model.cut(text)).collect(), bounds)
        })
        .await
        .map_err(|panic| Error::internal("the tokenizer panicked").with_source(panic))?;
        let parts = parts.into_iter().map(|part| {
            let texts = part.texts.len();
            let span = child(|| tracing::info_span!("embed", otel.kind = "client", texts));
            self.embed_part(part, kind, priority, deadline).instrument(span)
        });
        let embedded = measured(Spending::Compute, try_join_all(parts)).await?;
        let embeddings: Vec<Embedding> = embedded.into_iter().flatten().collect();
        let tokens: u64 = embeddings.iter().map(|embedding| u64::from(embedding.tokens)).sum();
        self.embedded_tokens.fetch_add(tokens, Ordering::Relaxed);
        Ok(embeddings)
    }
}
