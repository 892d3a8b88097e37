//! The line of actors of a running shard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    Account, Budget, CorpusSettings, Error, MemoryEncoder, MemoryFailure, Owner, ShardIndex,
};
use clew_index::{SearchMemory, ShardReader, ShardSettings, ShardWriter, Storage};
use clew_runtime::deadline::within;
use clew_runtime::supervise::{Line, start_child};
use ractor::{ActorCell, ActorRef};
use tokio::sync::watch;

use crate::RetrieverConfig;
use crate::seams::ShardSeams;
use crate::shard::actor::indexer::{self, Indexer};
use crate::shard::actor::maintainer::{self, Maintainer};
use crate::shard::actor::scrubber::{self, Tally};
use crate::shard::actor::task_actor::keep;
use crate::shard::actor::writer::{self, Writer};
use crate::shard::actor::{retention, settings_watcher};
use crate::shard::claim::Claim;
use crate::shard::derive::memory_builder::{self, MemoryBuilder};
use crate::shard::graph::ShardGraph;
use crate::shard::idleness::{Idleness, Resting, Task};
use crate::shard::metrics::ShardGauges;
use crate::shard::resources::Resources;

/// Time limit for opening a shard. It reads the light columns of all rows: seconds for millions.
const OPEN_PATIENCE: Duration = Duration::from_secs(300);

/// Everything that a shard's line is built from, at any time.
pub(crate) struct ShardLine {
    pub place: Storage,
    pub shard: ShardIndex,
    /// Current settings. A restarted line begins with them.
    pub settings: watch::Sender<Arc<CorpusSettings>>,
    pub seams: ShardSeams,
    pub config: RetrieverConfig,
    pub claim: Claim,
    pub tally: Arc<Tally>,
    pub resting: Resting,
    /// CPU scheduling, shared by all shards of the process.
    pub resources: Resources,
    pub seen: Arc<ShardGauges>,
}

impl ShardLine {
    /// Creates a shard that is not opened yet.
    pub fn new(
        place: Storage,
        shard: ShardIndex,
        settings: Arc<CorpusSettings>,
        seams: ShardSeams,
        config: RetrieverConfig,
        claim: Claim,
        resources: Resources,
    ) -> Self {
        let capacity = config.accept_queue_bytes as usize;
        let (resting, clock) = (Resting::new(), Arc::clone(&seams.clock));
        let seen =
            ShardGauges::new(&settings, shard, claim.clone(), clock, resting.clone(), capacity);
        let (tally, settings) = (Arc::default(), watch::Sender::new(settings));
        Self { place, shard, settings, seams, config, claim, tally, resting, resources, seen }
    }
}

/// A running line.
#[derive(Clone)]
pub(crate) struct Running {
    pub writer: ActorRef<writer::Message>,
    pub indexer: ActorRef<indexer::Message>,
    pub maintainer: ActorRef<()>,
    pub maintenance: maintainer::Asking,
    pub reader: ShardReader,
    pub graph: ShardGraph,
    pub memory_encoder: Arc<dyn MemoryEncoder>,
    pub idleness: Idleness,
    /// Memories that could not be formed or stored so far.
    pub memory_failures: watch::Receiver<Arc<Vec<MemoryFailure>>>,
}

impl Line for ShardLine {
    type Handle = Running;

    fn name(&self) -> String {
        format!("{}/{}", self.settings.borrow().name, self.shard)
    }

    async fn start(&self, supervisor: ActorCell, _generation: u64) -> Result<Running, Error> {
        let ShardSeams { encoders, graph_builders, memory_encoder, clock, .. } = self.seams.clone();
        let mut changes = self.settings.subscribe();
        let settings = Arc::clone(&changes.borrow_and_update());
        let deadline = Instant::now() + OPEN_PATIENCE;
        let idleness = Idleness::new();
        // Without its model, a corpus would accept documents that are never found.
        encoders.of(&settings.encoder, deadline).await?;
        let shard = within(deadline, "opening the shard", async {
            let _turn = self.resources.turn_to_open().await;
            let memory = SearchMemory::clone(&self.resources.memory);
            let settings = ShardSettings { memory, ..ShardSettings::of(&settings) };
            let (lapse, takeover) =
                (self.claim.lapse(), self.claim.takeover(self.resting.comes_back())?);
            // Boxed, because the storage engine's futures are large.
            let opened = Box::pin(ShardWriter::open(&self.place, settings, takeover)).await;
            if let Err(clew_index::Error::LostRace { .. }) = &opened {
                self.claim.overtaken();
            }
            let opened = opened?;
            self.claim.confirm_takeover(lapse, deadline).await?;
            Ok(opened)
        })
        .await?;
        // Nobody waits for derived data, so only the budget of each text bounds it. Replies of a
        // model are cached for this tenant only.
        let owner = Owner::of(settings.name.tenant());
        let account = Account::open(owner, Budget::UNBOUNDED);
        let reader = shard.reader();
        let arguments = writer::Arguments {
            shard,
            clock: Arc::clone(&clock),
            commit_bytes: self.config.commit_bytes,
            claim: self.claim.clone(),
            seen: Arc::clone(&self.seen),
            resting: self.resting.clone(),
        };
        let writer = start_child(Writer, arguments, supervisor.clone()).await?;
        let arguments = indexer::Arguments {
            settings: Arc::clone(&settings),
            reader: reader.clone(),
            encoders,
            graph_builder: graph_builders.on(&account),
            writer: writer.clone(),
            clock: Arc::clone(&clock),
            derive_bytes: self.config.derive_bytes,
            derive_batches: self.config.derive_batches,
            resources: self.resources.clone(),
            seen: Arc::clone(&self.seen),
            idleness: idleness.clone(),
        };
        let indexer = start_child(Indexer, arguments, supervisor.clone()).await?;
        let (to_write, to_derive) = (writer.clone(), indexer.clone());
        let watching = settings_watcher::keep_settled(self.name(), changes, to_write, to_derive);
        keep(&supervisor, watching).await?;
        let interval = self.config.maintenance_interval();
        let resources = self.resources.clone();
        let (maintaining, maintenance) =
            Maintainer::new(writer.clone(), reader.clone(), resources, interval, idleness.clone());
        let maintainer = keep(&supervisor, maintaining.run()).await?;
        let arguments = scrubber::Arguments {
            shard: self.shard,
            reader: reader.clone(),
            claim: self.claim.clone(),
            tally: Arc::clone(&self.tally),
            interval: self.config.check_interval(),
        };
        keep(&supervisor, scrubber::keep_checking(arguments)).await?;
        let graph = ShardGraph::default();
        let memory_clock = Arc::clone(&clock);
        if let Some(retained) = settings.retained() {
            idleness.runs(Task::Retention);
            let arguments = retention::Arguments {
                name: self.name(),
                retained,
                writer: writer.clone(),
                reader: reader.clone(),
                graph: graph.clone(),
                maintenance: maintenance.clone(),
                clock,
                interval: self.config.retention_interval(),
                idleness: idleness.clone(),
                resting: self.resting.clone(),
            };
            keep(&supervisor, retention::keep_forgetting(arguments)).await?;
        }
        let (failures, memory_failures) = watch::channel(Arc::default());
        if let Some(memory) = settings.memory {
            idleness.runs(Task::MemoryBuilder);
            let builder = MemoryBuilder {
                name: self.name(),
                settings: memory,
                reader: reader.clone(),
                encoder: Arc::clone(&memory_encoder),
                writer: writer.clone(),
                clock: memory_clock,
                interval: self.config.memory_interval(),
                failures,
                idleness: idleness.clone(),
            };
            keep(&supervisor, memory_builder::keep_building(builder)).await?;
        }
        Ok(Running {
            writer,
            indexer,
            maintainer,
            maintenance,
            reader,
            graph,
            memory_encoder,
            idleness,
            memory_failures,
        })
    }

    fn may_rest(&self, running: &Running) -> bool {
        let reader = &running.reader;
        let rests = running.idleness.is_idle_at(reader.revision()) && !reader.is_erasure_wanted();
        if rests {
            self.resting.begins(reader.totals());
        }
        rests
    }
}
