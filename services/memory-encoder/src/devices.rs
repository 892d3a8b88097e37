//! Devices that compute with one model: a queue with a limit, supervised threads that take batches
//! from it, and a breaker that keeps work from devices that fail or hang. A thread computes small
//! batches of several callers as one, because a device computes many texts faster together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind, Priority};
use clew_model::Scratch;
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::breaker::{Breaker, BreakerLimits, Computation, DEVICE_FAILED};
use clew_runtime::deadline::within;
use clew_runtime::supervise::{Line, Supervised, start_child};
use clew_runtime::timing::{Part, spent};
use clew_runtime::tree::RunningPart;
use clew_telemetry::{Severity, Trouble, child, metrics};
use ractor::ActorCell;
use tokio::sync::oneshot;
use tracing::Span;

use crate::EncoderConfig;
use crate::queue::{Batch, Next, Queue, RETRY_AFTER, Reply, Sharing};
use crate::worker::{Arguments, DeviceWorker};

/// Names of the parts of a model's devices.
pub(crate) struct Names {
    /// Name of the part of the node, and of its queue in metrics.
    pub part: &'static str,
    /// Name of the queue in messages that it is full.
    pub queue: &'static str,
    /// Name of the operation that callers wait for.
    pub doing: &'static str,
    /// Name of the stage of one batch in metrics.
    pub stage: &'static str,
    /// Function that creates the tracing span of one batch.
    pub span: fn(usize) -> Span,
    /// What it means for the process that the devices do not work.
    pub severity: Severity,
}

/// Model that computes a result for each text of a batch. It blocks.
pub(crate) trait Computes: Send + Sync + 'static {
    /// Text in tokens.
    type Text: Send + 'static;
    /// Result for a text.
    type Result: Send + 'static;

    /// Names of the model's devices.
    const NAMES: Names;

    /// Returns the name of the model.
    fn name(&self) -> &str;

    /// Returns the number of tokens in a text.
    fn tokens(text: &Self::Text) -> usize;

    /// Computes a result for each text, in order.
    fn compute(
        &self,
        texts: &[Self::Text],
        scratch: &mut Scratch,
    ) -> Result<Vec<Self::Result>, clew_model::Error>;

    /// Checks that the device computes what it should.
    fn check(&self) -> Result<(), clew_model::Error>;
}

type QueueOf<M> = Queue<<M as Computes>::Text, <M as Computes>::Result>;

/// Devices of one model.
pub(crate) struct Devices<M: Computes> {
    queue: Arc<QueueOf<M>>,
    gate: Gate,
    breaker: Arc<Breaker>,
    question_wait: Duration,
    batch_tokens: usize,
    workers: Supervised<()>,
}

/// Workers of one model, which are restarted together.
struct Workers<M: Computes> {
    model: Arc<M>,
    queue: Arc<QueueOf<M>>,
    gate: Gate,
    breaker: Arc<Breaker>,
    threads: usize,
}

impl<M: Computes> Line for Workers<M> {
    type Handle = ();

    fn name(&self) -> String {
        format!("{}s of `{}`", M::NAMES.part, self.model.name())
    }

    async fn start(&self, supervisor: ActorCell, _generation: u64) -> Result<(), Error> {
        for number in 0..self.threads {
            let thread = Thread {
                model: Arc::clone(&self.model),
                queue: Arc::clone(&self.queue),
                gate: self.gate.clone(),
                breaker: Arc::clone(&self.breaker),
            };
            let woken = Arc::clone(&self.queue);
            let arguments = Arguments {
                name: format!("{}-{number}", M::NAMES.part),
                work: Box::new(move |stopped| thread.work(stopped)),
                wake: Box::new(move || woken.wake()),
            };
            start_child(DeviceWorker, arguments, supervisor.clone()).await?;
        }
        Ok(())
    }
}

/// Work of one thread.
struct Thread<M: Computes> {
    model: Arc<M>,
    queue: Arc<QueueOf<M>>,
    gate: Gate,
    breaker: Arc<Breaker>,
}

impl<M: Computes> Thread<M> {
    /// Computes batches until the queue is closed or `stopped` returns true. While the device
    /// fails, refuses them and checks the device.
    fn work(&self, stopped: &dyn Fn() -> bool) {
        let mut scratch = Scratch::default();
        loop {
            match self.queue.next(self.breaker.next_check(), stopped) {
                Next::Batches(batches) => match self.breaker.admit() {
                    Ok(()) => self.compute(batches, &mut scratch),
                    Err(refusal) => batches.into_iter().for_each(|it| it.refuse(refusal.again())),
                },
                Next::Time => {
                    self.breaker.check_if_due(|| self.model.check().map_err(Error::from));
                    if let Err(refusal) = self.breaker.admit() {
                        self.queue.refuse(&refusal);
                    }
                }
                Next::End => return,
            }
        }
    }

    /// Computes batches as one, and gives each caller its own results.
    fn compute(&self, batches: Vec<Batch<M::Text, M::Result>>, scratch: &mut Scratch) {
        let begun = Instant::now();
        let (mut texts, mut callers) = (Vec::new(), Vec::new());
        for batch in batches {
            self.gate.waited(begun - batch.since);
            drop(batch.waiting);
            let count = batch.texts.len();
            let computing = batch.span.in_scope(|| child(|| (M::NAMES.span)(count)));
            let Batch { reply, permit, span, .. } = batch;
            callers.push(Caller { texts: count, begun, reply, permit, computing, _span: span });
            texts.extend(batch.texts);
        }
        // Each caller's trace has a span of the computation. The first one has its details.
        let within = callers.first().map_or_else(Span::none, |first| first.computing.clone());
        let computed = within.in_scope(|| self.run(&texts, scratch));
        drop(within);
        match computed {
            Ok(results) => {
                let mut results = results.into_iter();
                for caller in callers {
                    let own = results.by_ref().take(caller.texts).collect();
                    caller.answer(Ok(own));
                }
            }
            // One caller's texts are at fault, and the others' are not to fail with them.
            Err(error) if callers.len() > 1 && error.reason() != DEVICE_FAILED => {
                let mut texts = texts.as_slice();
                for caller in callers {
                    let own;
                    (own, texts) = texts.split_at(caller.texts);
                    let computed = caller.computing.in_scope(|| self.run(own, scratch));
                    caller.answer(computed);
                }
            }
            Err(error) => {
                for caller in callers {
                    caller.answer(Err(error.again()));
                }
            }
        }
    }

    /// Computes a result for each text, in order.
    fn run(&self, texts: &[M::Text], scratch: &mut Scratch) -> Result<Vec<M::Result>, Error> {
        let began = Instant::now();
        let compute = |_: &Computation<'_>| {
            let results = self.model.compute(texts, scratch)?;
            match results.len() == texts.len() {
                true => Ok(results),
                false => Err(Error::internal("a model returned fewer results than texts")),
            }
        };
        let computed = self.breaker.run(compute);
        if computed.is_err() {
            // A panic may have left it in any state.
            *scratch = Scratch::default();
        }
        self.queue.record_busy(began.elapsed());
        metrics::stage_ended(M::NAMES.stage, began.elapsed(), computed.is_err());
        computed
    }
}

/// Caller of a batch that is being computed.
struct Caller<R> {
    /// Number of the caller's texts.
    texts: usize,
    begun: Instant,
    reply: Reply<R>,
    permit: Permit,
    /// Tracing span of the computation.
    computing: Span,
    /// The caller's own tracing span, which encloses that of the computation.
    _span: Span,
}

impl<R> Caller<R> {
    fn answer(self, computed: Result<Vec<R>, Error>) {
        let Self { begun, reply, permit, computing, _span, .. } = self;
        drop((computing, _span));
        // Fails if the caller left meanwhile; then nobody needs the result.
        drop(reply.send((begun, computed)));
        drop(permit);
    }
}

impl<M: Computes> Devices<M> {
    /// Starts the workers.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Internal`] if the actor system fails to start.
    pub async fn start(model: Arc<M>, config: &EncoderConfig) -> Result<Self, Error> {
        Self::start_within(BreakerLimits::default(), model, config).await
    }

    async fn start_within(
        limits: BreakerLimits,
        model: Arc<M>,
        config: &EncoderConfig,
    ) -> Result<Self, Error> {
        let Names { part, queue, severity, .. } = M::NAMES;
        let gate = Gate::new(queue, config.queue_tokens, RETRY_AFTER).seen_as(part, "tokens");
        let sharing =
            Sharing { threads: config.worker_threads(), tokens: config.tokens_of_a_batch() };
        let queue = Arc::new(Queue::new(queue, sharing));
        let breaker = Breaker::new(part, model.name(), severity).with_limits(limits);
        let breaker = Arc::new(breaker);
        let workers = Workers {
            model,
            queue: Arc::clone(&queue),
            gate: gate.clone(),
            breaker: Arc::clone(&breaker),
            threads: sharing.threads,
        };
        Ok(Self {
            queue,
            gate,
            breaker,
            question_wait: Duration::from_millis(config.question_wait_ms),
            batch_tokens: sharing.tokens,
            workers: Supervised::start(workers).await?,
        })
    }

    /// Returns how long the devices have computed since the start, summed over the workers.
    pub fn busy(&self) -> Duration {
        self.queue.busy()
    }

    /// Returns the troubles of the devices: they fail, or one does not finish a batch.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.breaker.troubles()
    }

    /// Returns the devices' node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        self.workers.node().with_queue(self.gate.in_use(), self.gate.capacity())
    }

    /// Stops the workers. Drops waiting batches; their callers get an error.
    pub async fn stop(&self) {
        self.gate.close();
        self.queue.close();
        if !self.workers.stop(Duration::from_secs(15)).await {
            tracing::warn!(part = M::NAMES.part, "workers did not end in time");
        }
    }

    /// Computes a result for each of `texts`, in order, for a caller that has waited since
    /// `arrived`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] if the queue is full, [`ErrorKind::DeadlineExceeded`] if
    /// the deadline passes, and [`ErrorKind::Unavailable`] if the devices fail or workers restart
    /// or end. Returns the errors of the model.
    pub async fn compute(
        &self,
        texts: Vec<M::Text>,
        priority: Priority,
        arrived: Instant,
        deadline: Instant,
    ) -> Result<Vec<M::Result>, Error> {
        if let Err(refusal) = self.breaker.admit() {
            // The threads cannot refuse what waits if all of them hang.
            self.queue.refuse(&refusal);
            return Err(refusal);
        }
        let lengths: Vec<usize> = texts.iter().map(M::tokens).collect();
        let mut texts: Vec<Option<M::Text>> = texts.into_iter().map(Some).collect();
        let mut replies = Vec::new();
        let queued = Instant::now();
        for members in by_length(&lengths, self.batch_tokens) {
            let tokens: usize = members.iter().map(|&i| lengths[i]).sum();
            // Bulk work waits for room, which slows its producer down. Interactive work is refused
            // at once.
            let permit = match priority {
                Priority::Interactive => self.gate.try_enter(tokens)?,
                Priority::Bulk => self.gate.enter(tokens, deadline).await?,
            };
            let texts = members.iter().filter_map(|&i| texts[i].take()).collect();
            let (reply, receiver) = oneshot::channel();
            // Only the first batch is refused after a wait; the others of the call may wait behind
            // it.
            let waits_until = match priority {
                Priority::Interactive if replies.is_empty() => Some(queued + self.question_wait),
                Priority::Interactive | Priority::Bulk => None,
            };
            let waiting = child(|| tracing::info_span!("encode.queue", tokens));
            let (span, since) = (Span::current(), Instant::now());
            let batch = Batch { texts, tokens, reply, permit, waits_until, span, waiting, since };
            self.queue.push(batch, priority);
            replies.push((members, receiver));
        }
        let mut waited = Duration::ZERO;
        let mut results: Vec<Option<M::Result>> = lengths.iter().map(|_| None).collect();
        for (members, reply) in replies {
            let (begun, batch) = within(deadline, M::NAMES.doing, async {
                reply.await.map_err(|_dropped| worker_lost(M::NAMES.part))
            })
            .await?;
            let batch = batch?;
            // The batches of a call wait at the same time.
            waited = waited.max(begun.saturating_duration_since(queued));
            for (i, result) in members.into_iter().zip(batch) {
                results[i] = Some(result);
            }
        }
        spent(Part::Queue, waited);
        spent(Part::Compute, arrived.elapsed().saturating_sub(waited));
        results
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::internal("a model returned fewer results than texts"))
    }
}

/// Groups the indices of texts of similar length, each group up to `budget` tokens, longest first,
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

fn worker_lost(part: &str) -> Error {
    let message = format!("the {part} is restarting or shutting down; retry");
    Error::new(ErrorKind::Unavailable, "UNAVAILABLE", message)
}

#[cfg(test)]
mod tests;
