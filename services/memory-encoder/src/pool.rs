//! The pool: the `Encoder` seam over the queue and its workers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Embedding, Encoder, EncoderIdentity, Error, ErrorKind, Priority, Span, TextKind};
use clew_model::{EmbeddingModel, EncodedText, Scratch};
use clew_runtime::admission::Gate;
use clew_runtime::deadline::within;
use clew_runtime::supervise::{Line, Supervised, start_child};
use clew_runtime::timing::{Part, spent};
use clew_runtime::tree::TreeNode;
use clew_telemetry::{Severity, Trouble, child, metrics};
use ractor::ActorCell;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::EncoderConfig;
use crate::queue::{Batch, NAME, Queue, RETRY_AFTER};
use crate::worker::{Arguments, DeviceWorker};

/// Embeds on this machine's devices. Cheap to share.
pub struct EncoderPool {
    model: Arc<EmbeddingModel>,
    queue: Arc<Queue>,
    gate: Gate,
    question_wait: Duration,
    batch_tokens: usize,
    embedded_tokens: AtomicU64,
    workers: Supervised<()>,
}

/// After how long a batch, which takes seconds, will never be done.
const HUNG: Duration = Duration::from_secs(300);

/// The workers of one pool, restarted together.
struct Workers {
    model: Arc<EmbeddingModel>,
    queue: Arc<Queue>,
    gate: Gate,
    threads: usize,
}

impl Line for Workers {
    type Handle = ();

    fn name(&self) -> String {
        format!("encoders of `{}`", self.model.identity().model)
    }

    async fn start(&self, supervisor: ActorCell, _generation: u64) -> Result<(), Error> {
        for number in 0..self.threads {
            let (model, queue) = (Arc::clone(&self.model), Arc::clone(&self.queue));
            let (woken, gate) = (Arc::clone(&queue), self.gate.clone());
            let arguments = Arguments {
                name: format!("encoder-{number}"),
                work: Box::new(move |stopped| work(&model, &queue, &gate, stopped)),
                wake: Box::new(move || woken.wake()),
            };
            start_child(DeviceWorker, arguments, supervisor.clone()).await?;
        }
        Ok(())
    }
}

/// Embeds batches until the queue is closed or `stopped` says so.
fn work(model: &EmbeddingModel, queue: &Queue, gate: &Gate, stopped: &dyn Fn() -> bool) {
    let mut scratch = Scratch::default();
    while let Some(batch) = queue.next(stopped) {
        let started = Instant::now();
        gate.waited(started - batch.since);
        drop(batch.waiting);
        let texts = batch.texts.len();
        let span = batch.span.in_scope(|| child(|| tracing::info_span!("encode.compute", texts)));
        let computing = queue.begin(started);
        let embedded = span.in_scope(|| model.embed(&batch.texts, &mut scratch));
        drop(computing);
        drop((span, batch.span));
        let embedded = embedded.map_err(Error::from);
        queue.record_busy(started.elapsed());
        metrics::stage_ended("compute", started.elapsed(), embedded.is_err());
        // A caller that left meanwhile does not want the result.
        drop(batch.reply.send((started, embedded)));
        drop(batch.permit);
    }
}

impl EncoderPool {
    /// Loads the model in `folder` and starts the workers.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a configuration or a folder that cannot be used;
    /// [`ErrorKind::Internal`] if the actor system refuses.
    pub async fn load(folder: PathBuf, config: &EncoderConfig) -> Result<Self, Error> {
        Self::start(load_model(folder, config).await?, config).await
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the actor system refuses.
    pub async fn start(model: Arc<EmbeddingModel>, config: &EncoderConfig) -> Result<Self, Error> {
        let queue = Arc::new(Queue::default());
        let threads = config.worker_threads();
        let gate = Gate::new(NAME, config.queue_tokens, RETRY_AFTER).seen_as("encoder", "tokens");
        let workers = Workers {
            model: Arc::clone(&model),
            queue: Arc::clone(&queue),
            gate: gate.clone(),
            threads,
        };
        let workers = Supervised::start(workers).await?;
        Ok(Self {
            model,
            queue,
            gate,
            question_wait: Duration::from_millis(config.question_wait_ms),
            batch_tokens: config.batch_tokens,
            embedded_tokens: AtomicU64::new(0),
            workers,
        })
    }

    /// Tokens embedded since the start.
    pub fn embedded_tokens(&self) -> u64 {
        self.embedded_tokens.load(Ordering::Relaxed)
    }

    /// How long devices have computed since the start, summed over the workers.
    pub fn busy(&self) -> Duration {
        self.queue.busy()
    }

    /// Which code computes, for a person: path, kernel, precision, device.
    pub fn description(&self) -> String {
        self.model.describe().to_string()
    }

    /// The model that it runs.
    pub fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    /// What is wrong with it: a device that does not come back from a batch.
    pub fn troubles(&self) -> Vec<Trouble> {
        let hung = self.queue.longest().filter(|time| *time > HUNG);
        let trouble = |time: Duration| Trouble {
            part: "encoder".to_owned(),
            problem: format!("a device computes one batch for {} seconds", time.as_secs()),
            severity: Severity::Dead,
        };
        hung.map(trouble).into_iter().collect()
    }

    /// How it shows in the tree.
    pub fn node(&self) -> TreeNode {
        self.workers.node().with_queue(self.gate.in_use(), self.gate.capacity())
    }

    /// Ends the workers; what waits is dropped, which tells its callers.
    pub async fn stop(&self) {
        self.gate.close();
        self.queue.close();
        if !self.workers.stop(Duration::from_secs(15)).await {
            tracing::warn!("the encoder's workers did not end in time");
        }
    }

    /// Tokenises where blocking is allowed.
    async fn encode(&self, texts: Vec<String>, kind: TextKind) -> Result<Vec<EncodedText>, Error> {
        let model = Arc::clone(&self.model);
        tokio::task::spawn_blocking(move || {
            texts.iter().map(|text| model.encode(text, kind)).collect()
        })
        .await
        .map_err(|error| Error::internal("the tokenizer panicked").with_source(error))
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

impl EncoderPool {
    async fn embed_texts(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let arrived = Instant::now();
        let encoded = self.encode(texts, kind).await?;
        let lengths: Vec<usize> = encoded.iter().map(|text| text.ids.len()).collect();
        let mut texts: Vec<Option<EncodedText>> = encoded.into_iter().map(Some).collect();
        let mut replies = Vec::new();
        let queued = Instant::now();
        for members in by_length(&lengths, self.batch_tokens) {
            let tokens: usize = members.iter().map(|&i| lengths[i]).sum();
            // Bulk work waits for room, which slows its producer down; a person is told at once.
            let permit = match priority {
                Priority::Interactive => self.gate.try_enter(tokens)?,
                Priority::Bulk => self.gate.enter(tokens, deadline).await?,
            };
            let batch = members.iter().filter_map(|&i| texts[i].take()).collect();
            let (reply, receiver) = oneshot::channel();
            // The other batches of a call may wait for its first ones.
            let waits_until = match priority {
                Priority::Interactive if replies.is_empty() => Some(queued + self.question_wait),
                Priority::Interactive | Priority::Bulk => None,
            };
            let waiting = child(|| tracing::info_span!("encode.queue", tokens));
            let (span, since) = (tracing::Span::current(), Instant::now());
            let batch = Batch { texts: batch, reply, permit, waits_until, span, waiting, since };
            self.queue.push(batch, priority);
            replies.push((members, receiver));
        }
        let mut waited = Duration::ZERO;
        let mut embeddings: Vec<Option<Embedding>> = lengths.iter().map(|_| None).collect();
        for (members, reply) in replies {
            let (begun, batch) = within(deadline, "embedding", async {
                reply.await.map_err(|_dropped| worker_lost())
            })
            .await?;
            let batch = batch?;
            // The batches of a call wait at the same time.
            waited = waited.max(begun.saturating_duration_since(queued));
            for (i, embedding) in members.into_iter().zip(batch) {
                embeddings[i] = Some(embedding);
            }
        }
        spent(Part::Queue, waited);
        spent(Part::Compute, arrived.elapsed().saturating_sub(waited));
        let tokens: usize = lengths.iter().sum();
        self.embedded_tokens.fetch_add(tokens as u64, Ordering::Relaxed);
        embeddings
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::internal("the encoder returned fewer vectors than texts"))
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

/// Groups the indices of texts of similar length, each group up to `budget` tokens, longest first
/// so that no thread is left with a long batch at the end.
fn by_length(lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(lengths[i]));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut tokens = 0;
    for i in order {
        match groups.last_mut() {
            Some(group) if tokens + lengths[i] <= budget => group.push(i),
            _ => {
                groups.push(vec![i]);
                tokens = 0;
            }
        }
        tokens += lengths[i];
    }
    groups
}

fn worker_lost() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "UNAVAILABLE",
        "the encoder is restarting or shutting down; retry",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_the_budget_and_hold_every_text_once() {
        let lengths = [5, 300, 7, 1, 90, 90, 64];
        let groups = by_length(&lengths, 128);
        let mut all: Vec<usize> = groups.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
        for group in &groups {
            let tokens: usize = group.iter().map(|&i| lengths[i]).sum();
            assert!(tokens <= 128 || group.len() == 1, "{group:?}");
        }
    }
}
