//! The seam: texts in, vectors from other nodes out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Embedding, Encoder, EncoderIdentity, Error, ErrorKind, Priority, Span, TextKind};
use clew_runtime::admission::Gate;
use clew_runtime::backoff::Backoff;
use clew_runtime::deadline::within;
use clew_runtime::peer::{PeerOptions, PeerState, Reach};
use clew_runtime::pool::Pool;
use clew_runtime::timing::{Part as Spending, measured};
use clew_runtime::tree::TreeNode;
use clew_telemetry::{child, trace_parent};
use futures::future::try_join_all;
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::RemoteEncoderConfig;
use crate::batch::{Bounds, Part, split};
use crate::board::{Board, Job, nobody};
use crate::courier::{Courier, Seen};
use crate::model::{Description, Model, check_same};

/// The gRPC service whose health tells whether a member takes work.
pub(crate) const SERVICE: &str = "clew.encoder.v1.EncoderService";
/// How often one batch may be lost with its member: after that it is suspected of being the cause.
const MAX_LOSSES: u32 = 3;
/// How often a batch that a person waits for may be refused by full members.
const MAX_REFUSALS: u32 = 2;
/// Pauses before a batch is handed in again.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// After how long a member whose queue is full is asked again, where it does not say.
const FULL_PAUSE: Duration = Duration::from_millis(200);

/// Embeds on other nodes. Dropping it ends its streams and connections.
pub struct RemoteEncoder {
    shared: Arc<Shared>,
    pool: Pool,
    config: RemoteEncoderConfig,
    gate: Gate,
    couriers: Mutex<Couriers>,
    model: Arc<Model>,
    embedded_tokens: AtomicU64,
}

/// What the couriers share.
pub(crate) struct Shared {
    pub board: Board,
    model: OnceLock<Arc<Model>>,
    expected: Option<EncoderIdentity>,
    known: watch::Sender<bool>,
}

#[derive(Default)]
struct Couriers {
    tasks: JoinSet<()>,
    /// By name and address: what ends the courier when it is dropped, and what is seen of it.
    by_member: HashMap<(String, String), (watch::Sender<()>, Arc<Seen>)>,
}

/// What to connect to.
#[derive(Clone, Debug)]
pub struct RemoteEncoderOptions {
    /// The members at first, as names and addresses.
    pub members: Vec<(String, String)>,
    /// The model they have to run; `None`: that of the first member that answers.
    pub expected: Option<EncoderIdentity>,
    /// Section `remote_encoder`.
    pub config: RemoteEncoderConfig,
    /// How they are reached.
    pub peers: Reach,
}

impl Shared {
    /// Admits a member that runs the model of the others. The first member's model becomes that of
    /// all, unless one is expected.
    ///
    /// # Errors
    /// [`ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH`; [`ErrorKind::InvalidInput`] for
    /// a tokenizer that cannot be used.
    pub(crate) async fn admit(&self, description: Description) -> Result<(), Error> {
        let identity = description.identity.clone();
        if let Some(expected) = &self.expected {
            check_same(expected, &identity)?;
        }
        if self.model.get().is_none() {
            // Two members that come at the same time both get here; one of them is first.
            let model =
                tokio::task::spawn_blocking(move || Model::try_new(description)).await.map_err(
                    |panic| Error::internal("the tokenizer panicked").with_source(panic),
                )??;
            self.model.get_or_init(|| Arc::new(model));
        }
        match self.model.get() {
            Some(model) => check_same(&model.identity, &identity)?,
            None => return Err(Error::internal("the model was set and is not there")),
        }
        self.known.send_replace(true);
        Ok(())
    }

    pub(crate) fn dimension(&self) -> u32 {
        self.model.get().map_or(0, |model| model.identity.dimension)
    }
}

impl RemoteEncoder {
    /// Connects to the members and waits until the first has described its model. The others follow
    /// by themselves.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a configuration or an address that cannot be used;
    /// [`ErrorKind::Unavailable`] if no member of the expected model answered until `deadline`.
    pub async fn connect(options: RemoteEncoderOptions, deadline: Instant) -> Result<Self, Error> {
        let RemoteEncoderOptions { members, expected, config, peers } = options;
        config.validate()?;
        peers.config.validate()?;
        let shared = Arc::new(Shared {
            board: Board::new(config.window),
            model: OnceLock::new(),
            expected,
            known: watch::Sender::new(false),
        });
        let credits = config.credits();
        let pool = Pool::new(
            "encoders",
            PeerOptions { service: SERVICE.to_owned(), credits, reach: peers },
        );
        let couriers = Mutex::default();
        follow(&shared, &pool, &couriers, members).await?;
        let mut known = shared.known.subscribe();
        let first = tokio::time::timeout_at(deadline.into(), known.wait_for(|known| *known)).await;
        let model = match (first, shared.model.get()) {
            (Ok(Ok(_)), Some(model)) => Arc::clone(model),
            _ => return Err(nobody()),
        };
        let gate =
            Gate::new("the queue for encoders", config.queue_tokens, Duration::from_millis(250))
                .seen_as("remote_encoder", "tokens");
        let embedded_tokens = AtomicU64::new(0);
        Ok(Self { shared, pool, config, gate, couriers, model, embedded_tokens })
    }

    /// Makes `members`, as names and addresses, the members. Those that are missing get no new work
    /// and finish what they have.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an address that is none; then nothing is changed.
    pub async fn update(&self, members: Vec<(String, String)>) -> Result<(), Error> {
        follow(&self.shared, &self.pool, &self.couriers, members).await
    }

    /// Tokens embedded since the start.
    pub fn embedded_tokens(&self) -> u64 {
        self.embedded_tokens.load(Ordering::Relaxed)
    }

    /// How it shows in the tree: the pool with its members, of which those that run another model
    /// are `refused`, and those whose stream is not open yet are `joining`.
    pub async fn node(&self) -> TreeNode {
        let mut node = self.pool.node().with_queue(self.gate.in_use(), self.gate.capacity());
        let couriers = self.couriers.lock().await;
        for member in &mut node.children {
            let mut seen = couriers.by_member.iter().filter(|((name, _), _)| *name == member.name);
            let Some((_, (_, seen))) = seen.next() else { continue };
            if seen.is_refused.load(Ordering::Relaxed) {
                member.state = "refused".into();
            } else if member.state == PeerState::Serving.word()
                && !seen.is_seated.load(Ordering::Relaxed)
            {
                member.state = "joining".into();
            }
        }
        node
    }

    async fn embed_part(
        &self,
        part: Part,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let Part { texts, tokens } = part;
        // Bulk work waits for room, which slows its producer down; a person is told at once.
        let _permit = match priority {
            Priority::Interactive => self.gate.try_enter(tokens)?,
            Priority::Bulk => self.gate.enter(tokens, deadline).await?,
        };
        let mut backoff = Backoff::new(RETRY_PAUSES.0, RETRY_PAUSES.1);
        let mut losses = 0;
        let mut refusals = 0;
        loop {
            self.somebody(deadline).await?;
            let (reply, result) = oneshot::channel();
            let texts = texts.clone();
            let trace_parent = trace_parent();
            let job = Job { texts, kind, priority, tokens, deadline, trace_parent, reply };
            self.shared.board.submit(job, losses > 0);
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
                // It is full or restarts its workers: bulk work waits, a person is told soon.
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
    async fn somebody(&self, deadline: Instant) -> Result<(), Error> {
        let patience = deadline.min(Instant::now() + self.pool.options().reach.config.wait());
        let mut seated = self.shared.board.seated();
        let waited =
            tokio::time::timeout_at(patience.into(), seated.wait_for(|seated| *seated > 0)).await;
        match waited {
            Ok(Ok(_)) => Ok(()),
            _ => Err(nobody()),
        }
    }
}

/// The result of a batch; a stream that is lost drops the sender.
async fn received(
    result: oneshot::Receiver<Result<Vec<Embedding>, Error>>,
) -> Result<Vec<Embedding>, Error> {
    result.await.unwrap_or_else(|_dropped| {
        let problem = "an encoder was lost with a batch; retry";
        Err(Error::new(ErrorKind::Unavailable, "PEER_LOST", problem))
    })
}

/// Has the pool and the couriers follow the members.
async fn follow(
    shared: &Arc<Shared>,
    pool: &Pool,
    couriers: &Mutex<Couriers>,
    members: Vec<(String, String)>,
) -> Result<(), Error> {
    let mut couriers = couriers.lock().await;
    pool.update(members).await?;
    while couriers.tasks.try_join_next().is_some() {}
    let members = pool.members();
    let Couriers { tasks, by_member } = &mut *couriers;
    by_member.retain(|(name, address), _| {
        members.iter().any(|peer| peer.name() == name && peer.address() == address)
    });
    for peer in members.iter() {
        let key = (peer.name().to_owned(), peer.address().to_owned());
        by_member.entry(key).or_insert_with(|| {
            let (stays, member) = watch::channel(());
            let seen = Arc::new(Seen::default());
            let (peer, shared) = (peer.clone(), Arc::clone(shared));
            tasks.spawn(Courier { peer, shared, seen: Arc::clone(&seen), member }.run());
            (stays, seen)
        });
    }
    Ok(())
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
        // Long texts are tokenised to be cut.
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
