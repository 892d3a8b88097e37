//! Memory model of this machine: forms compressed memories, and drafts clues from memories that are
//! kept ready.
//!
//! ```text
//! draft ─► ready? ──────────────────┐
//!            └─ no: snapshot, once ─┤
//!                                   ├─► queue (drafts first) ─► thread ─► replies
//! form ──► permit by tokens ────────┤     a text is read in slices, with drafts in between
//! share ─► permit, one at a time ───┘
//! ```
//!
//! Long texts are read together with the peers, if there are some: the nodes compute the passes in
//! rotation ([`MemoryModel::read_together`]), and each peer is asked to read its share. If a peer
//! is lost, refuses or is late, the texts are read here alone.

mod config;
mod device;
mod error;
mod exchange;
mod peers;
mod queue;
mod ready;
mod settings;
mod single_flight;
mod worker;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Address;
use clew_core::{
    DraftTask, DraftedClues, Error, ErrorKind, FormTask, FormedMemory, KeptMemory, MemoryEncoder,
    MemoryModelIdentity, MemoryText, NoMemoryModel, check_counted,
};
use clew_model::memory::{
    MemoryModel, MemoryReader, MemorySnapshot, MemoryState, Share, SnapshotFormat,
};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::breaker::{Breaker, DEVICE_FAILED};
use clew_runtime::deadline::within;
use clew_runtime::peer::Reach;
use clew_runtime::supervise::Supervised;
use clew_runtime::tree::RunningPart;
use clew_telemetry::{Severity, Trouble};
use tokio::sync::{oneshot, watch};

use self::device::drafts_of;
use self::error::{lost, refused_snapshot};
use self::exchange::Received;
use self::peers::Peers;
use self::queue::{Ask, Brought, Form, Queue, Together};
use self::ready::Ready;
use self::settings::Settings;
use self::single_flight::{Flight, SingleFlight};
use self::worker::Worker;

pub use config::MemoryModelConfig;
pub(crate) use exchange::{Inbox, Outbox};
pub(crate) use peers::{MOST_NODES, most_bytes};

/// Typical duration of a draft, as the retry delay of callers that find no room.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Typical minimum number of bytes per token of a text, so that estimates of tokens are rather too
/// high.
const TOKEN_BYTES: usize = 3;
/// Typical number of tokens in the prompt around a question.
const PROMPT_TOKENS: usize = 64;
/// Unit in which arriving snapshots are counted, in bytes.
const ARRIVING_UNIT: u64 = 1 << 20;
/// Maximum number of bytes of all texts of one call, enough for the largest memory.
pub(crate) const TEXTS_BYTES: usize = 64 << 20;
/// Time that the thread may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(15);

/// Share of a text that this node is to read together with others.
pub(crate) struct ReadingTogether {
    /// Memory before the text.
    pub snapshot: Arc<Vec<u8>>,
    /// Tokens of the text.
    pub tokens: Vec<u32>,
    /// Share of this node.
    pub share: Share,
    /// Permits of [`MemoryPool::admit_share`].
    pub permits: [Permit; 2],
}

/// Memory model on this machine's device. Cheap to share.
pub struct MemoryPool {
    reader: Arc<MemoryReader>,
    settings: Settings,
    cache_bytes: u64,
    format: SnapshotFormat,
    queue: Arc<Queue>,
    ready: Arc<Ready<MemoryState>>,
    flights: SingleFlight,
    /// Tokens of texts that wait or are being read.
    forming: Gate,
    /// Tokens of questions and drafts that wait or are being generated, and slots of the memories
    /// that they bring.
    drafting: Gate,
    /// Mebibytes of messages that are being received.
    arriving: Gate,
    /// Shares of texts that other nodes lead the reading of.
    sharing: Gate,
    /// Nodes that read long texts together with this one.
    peers: Arc<Peers>,
    breaker: Arc<Breaker>,
    worker: Supervised<()>,
}

impl MemoryPool {
    /// Loads the configured model and starts its thread. Returns `None` if none is configured.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the configuration or the folder cannot be used, and
    /// [`ErrorKind::Internal`] if the actor system fails to start.
    pub async fn load(config: &MemoryModelConfig) -> Result<Option<Arc<Self>>, Error> {
        config.validate()?;
        let Some(options) = config.model_options() else { return Ok(None) };
        let prompts = config.prompts.clone();
        let loading = move || MemoryReader::load(&options, prompts.as_deref());
        let reader = tokio::task::spawn_blocking(loading).await.map_err(|panic| {
            Error::internal("loading the memory model panicked").with_source(panic)
        })??;
        Ok(Some(Arc::new(Self::start(Arc::new(reader), config).await?)))
    }

    /// Starts the thread of a model.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the configuration is invalid, and
    /// [`ErrorKind::Internal`] if the actor system fails to start.
    pub async fn start(
        reader: Arc<MemoryReader>,
        config: &MemoryModelConfig,
    ) -> Result<Self, Error> {
        config.validate()?;
        let settings = Settings {
            draft_tokens: config.draft_tokens,
            slot_bytes: reader.model().slot_bytes(1) as u64,
        };
        let queue = Arc::new(Queue::default());
        let ready = Arc::new(Ready::new(config.cache_bytes));
        let mut breaker = Breaker::new("memory model", reader.name(), Severity::Degraded);
        if !config.device.is_gpu() {
            breaker = breaker.of_processor();
        }
        let breaker = Arc::new(breaker);
        let peers = Arc::new(Peers::at(config.peers.clone()));
        let worker = Worker {
            reader: Arc::clone(&reader),
            queue: Arc::clone(&queue),
            ready: Arc::clone(&ready),
            breaker: Arc::clone(&breaker),
            peers: Arc::clone(&peers),
            settings,
        };
        // Every memory that may be kept may also arrive, with texts that continue it.
        let arriving = (config.cache_bytes + TEXTS_BYTES as u64) / ARRIVING_UNIT;
        let arriving = u32::try_from(arriving).unwrap_or(u32::MAX);
        let gate = |name, capacity| Gate::new(name, capacity, RETRY_AFTER);
        Ok(Self {
            reader,
            settings,
            cache_bytes: config.cache_bytes,
            format: config.snapshot,
            queue,
            ready,
            flights: SingleFlight::default(),
            forming: gate("the memory model's queue of texts", config.queue_tokens)
                .seen_as("memory_forming", "tokens"),
            drafting: gate("the memory model's queue of questions", config.queue_tokens)
                .seen_as("memory_drafting", "tokens"),
            arriving: gate("the room for snapshots on their way", arriving.max(1)),
            // The thread computes one at a time, and another would only keep its nodes waiting.
            sharing: gate("the memory model's room for texts of other nodes", 1),
            peers,
            breaker,
            worker: Supervised::start(worker).await?,
        })
    }

    /// Connects to the configured peers but the one at `own`, which is this node. Long texts are
    /// read together with them from then on. Call it once.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if an address has another scheme than the connections,
    /// and [`ErrorKind::Internal`] if the actor system fails or it was called before.
    pub async fn connect(&self, reach: Reach, own: Option<&Address>) -> Result<(), Error> {
        self.peers.connect(reach, own).await
    }

    pub(crate) fn model(&self) -> &MemoryModel {
        self.reader.model()
    }

    /// Returns the identity of the model.
    pub fn identity(&self) -> MemoryModelIdentity {
        let model = self.reader.model();
        MemoryModelIdentity {
            model: self.reader.name().to_owned(),
            fingerprint: model.fingerprint().to_owned(),
            // Settings bound the window to 2^20 tokens.
            window: u32::try_from(model.settings().window).unwrap_or(u32::MAX),
            slot_bytes: self.settings.slot_bytes,
            prompts: self.reader.prompts().id(),
            cache_bytes: Some(self.cache_bytes),
        }
    }

    /// Returns how many memories are ready, and how many bytes they take.
    pub fn ready(&self) -> (usize, u64) {
        self.ready.size()
    }

    /// Returns the troubles of the device: it fails, or does not go on.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.breaker.troubles()
    }

    /// Returns the pool's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        let gates = [&self.drafting, &self.forming, &self.arriving, &self.sharing].map(Gate::node);
        let children = gates.into_iter().chain(self.peers.node());
        self.worker.node().with_children(children.collect())
    }

    /// Stops the thread. Drops waiting work; its callers get an error.
    pub async fn stop(&self) {
        for gate in [&self.drafting, &self.forming, &self.arriving, &self.sharing] {
            gate.close();
        }
        self.queue.close();
        if !self.worker.stop(STOP_PATIENCE).await {
            tracing::warn!("the memory model's thread did not end in time");
        }
    }

    /// Reserves room for `bytes` that arrive in parts, until the permit is dropped.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] if there is no room.
    pub(crate) fn make_room(&self, bytes: u64) -> Result<Permit, Error> {
        self.arriving
            .try_enter(usize::try_from(bytes.div_ceil(ARRIVING_UNIT)).unwrap_or(usize::MAX))
    }

    /// Reads texts into a memory. Sends the number of tokens read so far to `progress`.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryEncoder::form`].
    pub async fn form_told(
        &self,
        task: FormTask,
        deadline: Instant,
        progress: watch::Sender<u64>,
    ) -> Result<FormedMemory, Error> {
        let FormTask { ratio, begun, texts } = task;
        let ratio = self.check_ratio(ratio)?;
        self.breaker.admit()?;
        let forming = async {
            let bytes: usize = texts.iter().map(|text| text.title.len() + text.text.len()).sum();
            let permit = self.forming.enter(bytes / TOKEN_BYTES + 1, deadline).await?;
            let begun = match begun {
                Some(begun) => Some(self.parse(begun).await?),
                None => None,
            };
            if let Some(begun) = &begun
                && let Some(other) = begun.extent.windows.iter().find(|other| **other != ratio)
            {
                let problem = format!("expected the ratio of the memory, {other}, got {ratio}");
                return Err(Error::invalid("ratio", problem));
            }
            let (reply, receiver) = oneshot::channel();
            self.queue.form(Form { ratio, begun, texts, deadline, progress, reply, permit });
            let snapshot = receiver.await.unwrap_or_else(|_dropped| Err(lost()))?;
            self.write(snapshot).await
        };
        within(deadline, "forming a memory", forming).await
    }

    /// Admits a share of a text of `tokens` tokens, until the permits are dropped. Other nodes wait
    /// for it, so it does not wait behind memories that are formed here.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] if another memory is formed here, and
    /// [`ErrorKind::Unavailable`] while the device fails.
    pub(crate) fn admit_share(&self, tokens: usize) -> Result<[Permit; 2], Error> {
        self.breaker.admit()?;
        let share = self.sharing.try_enter(1)?;
        if self.forming.in_use() > 0 {
            let problem = "the memory model forms another memory; retry, or ask another encoder";
            let busy = Error::new(ErrorKind::Exhausted, "RESOURCE_EXHAUSTED", problem);
            return Err(busy.with_retry_after(RETRY_AFTER));
        }
        Ok([share, self.forming.try_enter(tokens)?])
    }

    /// Reads this node's share of a text. Its slots go into `outbox`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the snapshot or the tokens cannot be read,
    /// [`ErrorKind::Unavailable`] if another node or the device is lost, and
    /// [`ErrorKind::DeadlineExceeded`].
    pub(crate) async fn read_together(
        &self,
        text: ReadingTogether,
        received: Received,
        outbox: Outbox,
        deadline: Instant,
    ) -> Result<(), Error> {
        let ReadingTogether { snapshot, tokens, share, permits } = text;
        let reading = async {
            let begun = self.parse(snapshot).await?;
            let (reply, receiver) = oneshot::channel();
            self.queue.together(Together {
                begun,
                tokens,
                share,
                received,
                outbox,
                deadline,
                reply,
                permits,
            });
            receiver.await.unwrap_or_else(|_dropped| Err(lost()))
        };
        within(deadline, "reading a text together", reading).await
    }

    fn check_ratio(&self, ratio: u32) -> Result<usize, Error> {
        let window = self.reader.model().settings().window;
        match usize::try_from(ratio) {
            Ok(ratio) if ratio > 0 && window.is_multiple_of(ratio) => Ok(ratio),
            _ => {
                let problem = format!("expected a divisor of the window, {window}, got {ratio}");
                Err(Error::invalid("ratio", problem))
            }
        }
    }

    /// Drafts from a memory that is ready. Returns `None` if it is not.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryEncoder::draft`].
    pub(crate) async fn draft_ready(
        &self,
        key: &str,
        task: &DraftTask,
        deadline: Instant,
    ) -> Result<Option<DraftedClues>, Error> {
        match self.holds(key) {
            true => self.ask(key, task, None, deadline).await,
            false => Ok(None),
        }
    }

    /// Waits until the caller may bring a memory.
    pub(crate) async fn flight(&self, key: &str) -> Flight {
        self.flights.take(key).await
    }

    /// Waits while another caller brings a memory.
    pub(crate) async fn brought(&self, key: &str) {
        if !self.holds(key) {
            self.flights.over(key).await;
        }
    }

    /// Returns whether a memory is ready now.
    pub(crate) fn holds(&self, key: &str) -> bool {
        self.ready.holds(key)
    }

    /// Drafts from a memory. If it is not ready, `bring` brings it; of several concurrent callers
    /// only one does. `flight` is the caller's right to bring it.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryEncoder::draft`] and of `bring`.
    pub(crate) async fn draft_brought(
        &self,
        mut flight: Flight,
        key: &str,
        task: &DraftTask,
        bring: impl Future<Output = Result<Arc<Vec<u8>>, Error>>,
        deadline: Instant,
    ) -> Result<DraftedClues, Error> {
        if self.holds(key) {
            // Ends the flight, so that waiting callers are drafted for side by side.
            drop(flight);
            if let Some(drafted) = self.ask(key, task, None, deadline).await? {
                return Ok(drafted);
            }
            // The memory was removed again at once, to make room for another.
            flight = self.flight(key).await;
        }
        let snapshot = self.parse(bring.await?).await?;
        let brought = Some(Brought { snapshot, flight });
        let drafted = self.ask(key, task, brought, deadline).await?;
        drafted.ok_or_else(|| Error::internal("a memory that was brought is missing"))
    }

    async fn ask(
        &self,
        key: &str,
        task: &DraftTask,
        brought: Option<Brought>,
        deadline: Instant,
    ) -> Result<Option<DraftedClues>, Error> {
        self.breaker.admit()?;
        let prompt = task.question.len() / TOKEN_BYTES + PROMPT_TOKENS;
        let slots = brought.as_ref().map_or(0, |brought| brought.snapshot.extent.slots());
        let tokens = drafts_of(task) * (prompt + self.settings.draft_tokens) + slots;
        let permit = self.drafting.try_enter(tokens)?;
        let (reply, receiver) = oneshot::channel();
        let (key, draft) = (key.to_owned(), task.clone());
        self.queue.ask(Ask { key, draft, brought, deadline, reply, permit });
        within(deadline, "drafting from a memory", async {
            receiver.await.unwrap_or_else(|_dropped| Err(lost()))
        })
        .await
    }

    /// Parses a snapshot of this model where blocking is allowed.
    async fn parse(&self, bytes: Arc<Vec<u8>>) -> Result<MemorySnapshot, Error> {
        let parsed =
            blocking(move || MemorySnapshot::from_bytes(&bytes).map_err(refused_snapshot)).await;
        let snapshot = parsed?;
        let own = self.reader.model().fingerprint();
        if snapshot.fingerprint != own {
            let problem = format!(
                "expected a memory of the model {own}, got one of {}; form it anew",
                snapshot.fingerprint
            );
            return Err(Error::invalid("snapshot", problem));
        }
        Ok(snapshot)
    }

    /// Serialises a snapshot where blocking is allowed.
    async fn write(&self, snapshot: MemorySnapshot) -> Result<FormedMemory, Error> {
        let (tokens, slots) = (snapshot.extent.tokens as u64, snapshot.extent.slots() as u64);
        let (model, format) = (snapshot.fingerprint.clone(), self.format);
        let written = blocking(move || {
            // The model computed the numbers, so it is not the caller's fault if they are not
            // finite.
            snapshot.to_bytes(format).map_err(|error| {
                let problem = "the memory model gave no usable memory";
                Error::new(ErrorKind::Unavailable, DEVICE_FAILED, problem).with_source(error)
            })
        })
        .await;
        let (snapshot, _off) = written.map_err(|error| match error.reason() == DEVICE_FAILED {
            true => {
                let error = self.breaker.failed(error);
                self.queue.look();
                error
            }
            false => error,
        })?;
        Ok(FormedMemory { model, snapshot, tokens, slots })
    }
}

#[async_trait]
impl MemoryEncoder for MemoryPool {
    async fn memory_model(&self, _deadline: Instant) -> Result<Option<MemoryModelIdentity>, Error> {
        Ok(Some(self.identity()))
    }

    async fn count_tokens(&self, texts: Vec<MemoryText>, deadline: Instant) -> Result<u64, Error> {
        check_counted(&texts)?;
        let reader = Arc::clone(&self.reader);
        let count = move || {
            let of = |text: &MemoryText| reader.count_read(&text.title, &text.text) as u64;
            texts.iter().map(of).sum()
        };
        let counting = async {
            tokio::task::spawn_blocking(count)
                .await
                .map_err(|panic| Error::internal("counting tokens panicked").with_source(panic))
        };
        within(deadline, "counting tokens", counting).await
    }

    async fn form(&self, task: FormTask, deadline: Instant) -> Result<FormedMemory, Error> {
        self.form_told(task, deadline, watch::Sender::new(0)).await
    }

    async fn draft(
        &self,
        memory: &dyn KeptMemory,
        task: &DraftTask,
        deadline: Instant,
    ) -> Result<DraftedClues, Error> {
        let key = memory.key();
        match self.draft_ready(key, task, deadline).await? {
            Some(drafted) => Ok(drafted),
            None => {
                let drafting = async {
                    let flight = self.flight(key).await;
                    let bring = memory.bytes(deadline);
                    self.draft_brought(flight, key, task, bring, deadline).await
                };
                within(deadline, "drafting from a memory", drafting).await
            }
        }
    }
}

/// Returns the memory encoder for the rest of the process: the loaded model, or [`NoMemoryModel`].
pub fn memory_encoder(pool: Option<&Arc<MemoryPool>>) -> Arc<dyn MemoryEncoder> {
    match pool {
        Some(pool) => Arc::clone(pool) as Arc<dyn MemoryEncoder>,
        None => Arc::new(NoMemoryModel),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| {
        Err(Error::internal("converting a snapshot panicked").with_source(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_told_as_a_loss_and_the_thread_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        clew_testkit::write_tiny_memory_model(folder.path(), 3).unwrap();
        let folder = Some(folder.path().to_owned());
        let config = MemoryModelConfig { folder, threads: 1, ..MemoryModelConfig::default() };
        let pool = MemoryPool::load(&config).await.unwrap().unwrap();
        let soon = || Instant::now() + Duration::from_secs(60);
        let task = || {
            let text = MemoryText { title: String::new(), text: "a clew ".repeat(20) };
            FormTask { ratio: 4, begun: None, texts: vec![text] }
        };
        let formed = pool.form(task(), soon()).await.unwrap();
        pool.ready.keep("left behind", Arc::new(pool.reader.begin(4).unwrap()), 1);
        pool.queue.panic();
        let again = pool.form(task(), soon()).await.unwrap();
        assert_eq!(again.snapshot, formed.snapshot, "what waited is done by the next thread");
        assert_eq!(pool.worker.restarts(), 1);
        assert_eq!(pool.ready().0, 0, "what the thread has left is not used");
        let forming = pool.form(task(), soon());
        let (_, lost) = tokio::join!(
            async {
                tokio::task::yield_now().await;
                pool.stop().await;
            },
            forming
        );
        if let Err(lost) = lost {
            assert_eq!(lost.kind(), ErrorKind::Unavailable);
        }
    }
}
