//! One shard: its line of actors, and the handle by which everything else reaches it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Standing;
use clew_core::{
    Accepted, Accepting, Access, Account, Budget, CandidateQuery, Candidates, CheckQuery, Checked,
    ChunkId, ClueQuery, CorpusName, CorpusSettings, Counts, Document, DocumentId, DocumentStatus,
    DraftedClues, Erasure, Error, ErrorKind, Evidence, ExportPage, GraphQuery, IfThere, ListQuery,
    MemoryEncoder, MemoryRecord, Owner, Reembedded, SegmentId, ShardCopy, ShardIndex, SnapshotName,
    Span, StoredDocument, Subgraph, TreeNode, TreeQuery,
};
use clew_index::{Offer, Place, Shard, ShardReader, ShardSettings, ShardView};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::deadline::{ask, within};
use clew_runtime::supervise::{Line, LineState, Supervised, start_child};
use clew_runtime::tree::TreeNode as Shown;
use clew_telemetry::{child, metrics};
use ractor::{ActorCell, ActorRef, ActorStatus};
use tokio::sync::{Mutex, watch};
use tracing::Instrument;

use crate::RetrieverConfig;
use crate::checker::{self, Tally};
use crate::claim::Claim;
use crate::graph::ShardGraph;
use crate::indexer::{self, Indexer};
use crate::keeper::Keeper;
use crate::maintainer;
use crate::memoriser::{self, Memoriser};
use crate::metrics::Seen;
use crate::retention;
use crate::role::Seams;
use crate::settler;
use crate::snapshots;
use crate::turns::Turns;
use crate::writer::{self, Waits, Writer};

/// Everything that a shard's line is built from, at any time.
pub(crate) struct ShardLine {
    pub place: Place,
    pub shard: ShardIndex,
    /// Current settings. A restarted line begins with them.
    pub settings: watch::Sender<Arc<CorpusSettings>>,
    pub seams: Seams,
    pub config: RetrieverConfig,
    pub claim: Claim,
    pub tally: Arc<Tally>,
    /// CPU scheduling, shared by all shards of the process.
    pub turns: Turns,
    pub seen: Arc<Seen>,
}

impl ShardLine {
    /// Creates a shard that is not opened yet.
    pub fn new(
        place: Place,
        shard: ShardIndex,
        settings: Arc<CorpusSettings>,
        seams: Seams,
        config: RetrieverConfig,
        claim: Claim,
        turns: Turns,
    ) -> Self {
        let capacity = config.accept_queue_bytes as usize;
        let seen = Seen::new(&settings, shard, claim.clone(), Arc::clone(&seams.clock), capacity);
        let (tally, settings) = (Arc::default(), watch::Sender::new(settings));
        Self { place, shard, settings, seams, config, claim, tally, turns, seen }
    }
}

/// A running line.
#[derive(Clone)]
pub(crate) struct Running {
    writer: ActorRef<writer::Message>,
    indexer: ActorRef<indexer::Message>,
    maintainer: ActorRef<()>,
    reader: ShardReader,
    graph: ShardGraph,
    memory_encoder: Arc<dyn MemoryEncoder>,
}

impl Running {
    /// Returns the reader of the shard.
    pub fn reader(&self) -> &ShardReader {
        &self.reader
    }
}

/// Time limit for opening a shard. It reads the light columns of all rows: seconds for millions.
const OPEN_PATIENCE: Duration = Duration::from_secs(300);
/// Time after which one call stops copying to a snapshot. No file is removed while it copies, so
/// forgetting waits; its patience is longer than this.
const COPY_BUDGET: Duration = Duration::from_secs(2);
/// Longest wait of a caller for a shard that is starting.
const START_PATIENCE: Duration = Duration::from_secs(30);

impl Line for ShardLine {
    type Handle = Running;

    fn name(&self) -> String {
        format!("{}/{}", self.settings.borrow().name, self.shard)
    }

    async fn start(&self, supervisor: ActorCell, _generation: u64) -> Result<Running, Error> {
        let Seams { encoders, graph_builders, memory_encoder, clock, .. } = self.seams.clone();
        let mut changes = self.settings.subscribe();
        let settings = Arc::clone(&changes.borrow_and_update());
        let deadline = Instant::now() + OPEN_PATIENCE;
        // Without its model, a corpus would accept documents that are never found.
        encoders.of(&settings.encoder, deadline).await?;
        let shard = within(deadline, "opening the shard", async {
            let settings = ShardSettings::of(&settings);
            let takeover = self.claim.takeover()?;
            // Boxed, because the storage engine's futures are large.
            let opened = Box::pin(Shard::open(&self.place, settings, takeover)).await;
            if let Err(clew_index::Error::LostRace { .. }) = &opened {
                self.claim.overtaken();
            }
            let opened = opened?;
            self.claim.confirm_takeover(deadline).await?;
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
            turns: self.turns.clone(),
            seen: Arc::clone(&self.seen),
        };
        let indexer = start_child(Indexer, arguments, supervisor.clone()).await?;
        let task =
            Box::pin(settler::keep_settled(self.name(), changes, writer.clone(), indexer.clone()));
        start_child(Keeper, task, supervisor.clone()).await?;
        let interval = self.config.maintenance_interval();
        let task = Box::pin(maintainer::maintain(writer.clone(), reader.clone(), interval));
        let maintainer = start_child(Keeper, task, supervisor.clone()).await?;
        let arguments = checker::Arguments {
            shard: self.shard,
            reader: reader.clone(),
            claim: self.claim.clone(),
            tally: Arc::clone(&self.tally),
            interval: self.config.check_interval(),
        };
        let task = Box::pin(checker::keep_checking(arguments));
        start_child(Keeper, task, supervisor.clone()).await?;
        let graph = ShardGraph::default();
        if let Some(retained) = settings.retained() {
            let arguments = retention::Arguments {
                name: self.name(),
                retained,
                writer: writer.clone(),
                reader: reader.clone(),
                graph: graph.clone(),
                clock,
                interval: self.config.retention_interval(),
            };
            let task = Box::pin(retention::keep_forgetting(arguments));
            start_child(Keeper, task, supervisor.clone()).await?;
        }
        if let Some(memory) = settings.memory {
            let memoriser = Memoriser {
                name: self.name(),
                settings: memory,
                reader: reader.clone(),
                encoder: Arc::clone(&memory_encoder),
                writer: writer.clone(),
                interval: self.config.memory_interval(),
            };
            let task = Box::pin(memoriser::keep_memorising(memoriser));
            start_child(Keeper, task, supervisor).await?;
        }
        Ok(Running { writer, indexer, maintainer, reader, graph, memory_encoder })
    }
}

/// Handle of a shard. Cheap to clone. Carries no access rights; use [`ShardHandle::seen_by`] to
/// read or write on behalf of a caller.
#[derive(Clone)]
pub struct ShardHandle {
    shard: ShardIndex,
    settings: watch::Sender<Arc<CorpusSettings>>,
    supervised: Supervised<Running>,
    accepting: Gate,
    searching: Gate,
    turns: Turns,
    claim: Claim,
    tally: Arc<Tally>,
    seen: Arc<Seen>,
    corpus: CorpusName,
    seams: Seams,
    /// Held while the shard is copied to a snapshot.
    copying: Arc<Mutex<()>>,
}

impl ShardHandle {
    pub(crate) async fn start(line: ShardLine) -> Result<Self, Error> {
        let (shard, config, claim) = (line.shard, line.config.clone(), line.claim.clone());
        let (tally, seen) = (Arc::clone(&line.tally), Arc::clone(&line.seen));
        let settings = line.settings.clone();
        let corpus = settings.borrow().name.clone();
        let turns = line.turns.clone();
        let seams = line.seams.clone();
        let supervised = Supervised::start(line).await?;
        seen.follow(supervised.state());
        let retry_after = Duration::from_millis(200);
        Ok(Self {
            shard,
            settings,
            supervised,
            accepting: Gate::new(
                "the shard's queue of documents",
                config.accept_queue_bytes,
                retry_after,
            )
            .seen_as("accept", "bytes"),
            searching: Gate::new("the shard's queue of searches", config.searches, retry_after)
                .seen_as("search", "requests"),
            turns,
            claim,
            tally,
            seen,
            corpus,
            seams,
            copying: Arc::default(),
        })
    }

    /// Hands changed settings of the corpus to the settler, which applies them soon.
    pub(crate) fn settle(&self, settings: Arc<CorpusSettings>) {
        self.settings.send_if_modified(|known| {
            let changes = *known != settings;
            *known = settings;
            changes
        });
    }

    /// Returns the running line. Waits for one that is starting.
    async fn running(&self, deadline: Instant) -> Result<Running, Error> {
        let mut state = self.supervised.state();
        let started = |state: &LineState<Running>| !matches!(state, LineState::Starting);
        let patience = deadline.min(Instant::now() + START_PATIENCE);
        let state = tokio::time::timeout_at(patience.into(), state.wait_for(started)).await;
        match state {
            Err(_elapsed) => Err(Error::deadline("the shard starts")),
            Ok(Err(_gone)) => Err(stopped()),
            Ok(Ok(state)) => match &*state {
                LineState::Running(running) => Ok(running.clone()),
                LineState::Failed(error) => Err(error.again()),
                LineState::Stopped | LineState::Starting => Err(stopped()),
            },
        }
    }

    async fn admit(&self, bytes: usize, deadline: Instant) -> Result<Permit, Error> {
        if self.claim.standing() == Standing::Lost {
            return Err(self.claim.refusal());
        }
        self.accepting.enter(bytes, deadline).await
    }

    /// Returns the shard as the caller's access shows it.
    pub fn seen_by(&self, access: Access) -> SeenHandle {
        SeenHandle { handle: self.clone(), access }
    }

    async fn reader(&self, deadline: Instant) -> Result<ShardReader, Error> {
        Ok(self.running(deadline).await?.reader)
    }

    /// Stops accepting documents and finishes what was accepted. Committed data stays searchable.
    ///
    /// # Errors
    /// Returns [`ErrorKind::DeadlineExceeded`] if it had to be cut short.
    pub(crate) async fn finish_writing(&self, deadline: Instant) -> Result<(), Error> {
        self.accepting.close();
        let running = match &*self.supervised.state().borrow() {
            LineState::Running(running) => running.clone(),
            LineState::Starting | LineState::Failed(_) | LineState::Stopped => return Ok(()),
        };
        running.indexer.stop(None);
        running.maintainer.stop(None);
        let drained = self.accepting.drained(deadline).await;
        let patience = deadline.saturating_duration_since(Instant::now());
        let ended = running.writer.get_cell().drain_and_wait(Some(patience)).await;
        // A writer that has ended already has finished.
        let has_ended = ended.is_ok() || running.writer.get_status() == ActorStatus::Stopped;
        drained.and(if has_ended { Ok(()) } else { Err(Error::deadline("finishing commits")) })
    }

    /// Checks that nobody else can have written to the shard, see [`Claim::confirm`].
    pub(crate) async fn confirm(&self, deadline: Instant) -> Result<(), Error> {
        let reader = self.reader(deadline).await?;
        within(deadline, "asking the storage", self.claim.confirm(&reader)).await
    }

    /// Returns whether the last state that was read here is still the newest.
    pub(crate) async fn is_current(&self, deadline: Instant) -> bool {
        let checked = async {
            let reader = self.reader(deadline).await?;
            within(deadline, "asking the storage", async { Ok(reader.is_current().await?) }).await
        };
        checked.await.unwrap_or(false)
    }

    /// Returns the entry in the status tree.
    pub(crate) fn node(&self) -> Shown {
        let (accepting, searching) = (self.accepting.node(), self.searching.node());
        let parts = vec![accepting, searching, self.turns.searches.node(), self.tally.node()];
        self.supervised.node().with_children(parts)
    }

    /// Stops accepting documents, finishes what was accepted, and ends the actors. What is not
    /// derived yet stays due until the next start.
    ///
    /// # Errors
    /// Returns [`ErrorKind::DeadlineExceeded`] if it had to be cut short.
    pub async fn stop(&self, deadline: Instant) -> Result<(), Error> {
        let drained = self.finish_writing(deadline).await;
        let patience = deadline.saturating_duration_since(Instant::now());
        match self.supervised.stop(patience.max(Duration::from_millis(200))).await {
            true => drained,
            false => Err(Error::deadline("stopping the shard")),
        }
    }
}

/// A shard as a caller's access shows it. Cheap to clone.
#[derive(Clone)]
pub struct SeenHandle {
    handle: ShardHandle,
    access: Access,
}

impl SeenHandle {
    async fn view(&self, deadline: Instant) -> Result<ShardView, Error> {
        Ok(self.handle.reader(deadline).await?.seen_by(&self.access))
    }

    /// Takes room for a document of `bytes` in the shard's queue. Waits for it until `deadline`.
    pub(crate) async fn admit(&self, bytes: usize, deadline: Instant) -> Result<Permit, Error> {
        self.handle.admit(bytes, deadline).await
    }

    /// Accepts a document that has room in the queue.
    pub(crate) async fn accept_admitted(
        &self,
        document: Document,
        if_there: IfThere,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Accepted, Error> {
        let (bytes, shard) = (document.text.len(), self.handle.shard.0);
        let offer = Box::new(Offer { document, access: self.access.clone(), if_there });
        let accepting = child(|| tracing::info_span!("shard.accept", shard, bytes));
        let accept = async {
            let writer = self.handle.running(deadline).await?.writer;
            let span = child(|| tracing::info_span!("shard.queue"));
            let waiting = Waits { _writing: self.handle.seen.writes(bytes), _span: span };
            ask(&writer, deadline, "accepting the document", |reply| writer::Message::Accept {
                offer,
                permit,
                waiting,
                reply,
            })
            .await
        };
        accept.instrument(accepting).await
    }
}

#[async_trait]
impl clew_core::Shard for SeenHandle {
    fn index(&self) -> ShardIndex {
        self.handle.shard
    }

    async fn accept(
        &self,
        document: Document,
        if_there: IfThere,
        deadline: Instant,
    ) -> Result<Accepting, Error> {
        let permit = self.handle.admit(document.text.len(), deadline).await?;
        let seen = self.clone();
        Ok(Box::pin(
            async move { seen.accept_admitted(document, if_there, permit, deadline).await },
        ))
    }

    async fn forget(&self, ids: &[DocumentId], deadline: Instant) -> Result<Erasure, Error> {
        let Running { writer, graph, .. } = self.handle.running(deadline).await?;
        let forget = |reply| {
            let (ids, access) = (ids.to_vec(), self.access.clone());
            writer::Message::Forget { ids, access, reply }
        };
        let (documents, mut scan) = ask(&writer, deadline, "forgetting", forget).await?;
        graph.remove(ids).await;
        let ShardHandle { corpus, shard, .. } = &self.handle;
        retention::warn_of_leftovers(&format!("{corpus}/{shard}"), &scan);
        for left in &mut scan.left {
            left.place = format!("{shard}/{}", left.place);
        }
        let Seams { snapshots, .. } = &self.handle.seams;
        let snapshots = snapshots::holding(snapshots.as_ref(), corpus, ids, &self.access, deadline);
        Ok(Erasure { documents, scan, snapshots: snapshots.await })
    }

    async fn candidates(
        &self,
        query: &CandidateQuery,
        deadline: Instant,
    ) -> Result<Candidates, Error> {
        let shard = self.handle.shard.0;
        let span = child(|| tracing::info_span!("shard.search", shard));
        let search = async {
            let _permit = self.handle.searching.try_enter(1)?;
            let whose = self.handle.corpus.takes_turns_as();
            let _turn = self.handle.turns.searches.enter(whose, deadline).await?;
            let view = self.view(deadline).await?;
            within(deadline, "searching the shard", async {
                let found = view.candidates(query).await?;
                self.handle.claim.confirm(view.reader()).await?;
                Ok(found)
            })
            .await
        };
        metrics::stage("search_shard", Box::pin(search.instrument(span))).await
    }

    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error> {
        let view = self.view(deadline).await?;
        within(deadline, "reading documents", async {
            let found = view.get(ids).await?;
            self.handle.claim.confirm(view.reader()).await?;
            Ok(found)
        })
        .await
    }

    async fn list(
        &self,
        query: &ListQuery,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error> {
        let view = self.view(deadline).await?;
        let listed = view.list(query);
        within(deadline, "listing documents", self.handle.claim.confirm(view.reader())).await?;
        Ok(listed)
    }

    async fn counts(&self, deadline: Instant) -> Result<Counts, Error> {
        let view = self.view(deadline).await?;
        let counts = view.counts();
        within(deadline, "counting", self.handle.claim.confirm(view.reader())).await?;
        Ok(counts)
    }

    async fn check(&self, query: &CheckQuery, deadline: Instant) -> Result<Checked, Error> {
        let _permit = self.handle.searching.try_enter(1)?;
        let view = self.view(deadline).await?;
        let checking = self.handle.tally.check(self.handle.shard, &view, &self.handle.claim, query);
        within(deadline, "checking documents", checking).await
    }

    async fn tree(&self, query: &TreeQuery, deadline: Instant) -> Result<Vec<TreeNode>, Error> {
        let _permit = self.handle.searching.try_enter(1)?;
        let view = self.view(deadline).await?;
        within(deadline, "reading the tree", async {
            let nodes = match query {
                TreeQuery::Tops { first, limit } => {
                    Box::pin(view.tree_tops(self.handle.shard, first, *limit)).await?
                }
                TreeQuery::Roots(documents) => Box::pin(view.tree_roots(documents)).await?,
                TreeQuery::Children(node) => {
                    Box::pin(view.tree_children(self.handle.shard, node)).await?
                }
            };
            self.handle.claim.confirm(view.reader()).await?;
            Ok(nodes)
        })
        .await
    }

    async fn subgraph(&self, query: &GraphQuery, deadline: Instant) -> Result<Subgraph, Error> {
        let _permit = self.handle.searching.try_enter(1)?;
        let Running { reader, graph, .. } = self.handle.running(deadline).await?;
        let view = reader.seen_by(&self.access);
        within(deadline, "reading the graph", async {
            let found = Box::pin(graph.subgraph(&view, query)).await?;
            self.handle.claim.confirm(view.reader()).await?;
            Ok(found)
        })
        .await
    }

    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        let _permit = self.handle.searching.try_enter(1)?;
        let view = self.view(deadline).await?;
        within(deadline, "reading segments", async {
            let found = Box::pin(view.segment_texts(ids)).await?;
            self.handle.claim.confirm(view.reader()).await?;
            let segment = |(id, span, stored): (SegmentId, Span, Arc<StoredDocument>)| {
                let evidence = evidence(&self.handle.corpus, &id, span, &stored);
                (id, evidence)
            };
            Ok(found.into_iter().map(segment).collect())
        })
        .await
    }

    async fn memories(&self, deadline: Instant) -> Result<Vec<MemoryRecord>, Error> {
        let view = self.view(deadline).await?;
        within(deadline, "listing memories", self.handle.claim.confirm(view.reader())).await?;
        Ok(view.memories())
    }

    async fn clues(&self, query: &ClueQuery, deadline: Instant) -> Result<DraftedClues, Error> {
        let _permit = self.handle.searching.try_enter(1)?;
        let Running { reader, memory_encoder, .. } = self.handle.running(deadline).await?;
        let view = reader.seen_by(&self.access);
        within(deadline, "drafting clues", async {
            let encoder = memory_encoder.as_ref();
            let drafted = Box::pin(memoriser::draft(&view, encoder, query, deadline)).await?;
            // Do not return clues from documents that were forgotten meanwhile.
            self.handle.claim.confirm(view.reader()).await?;
            Ok(drafted)
        })
        .await
    }

    async fn reembedded(&self, deadline: Instant) -> Result<Reembedded, Error> {
        let reader = self.handle.reader(deadline).await?;
        within(deadline, "asking the storage", self.handle.claim.confirm(&reader)).await?;
        Ok(reader.reembedded())
    }

    async fn maintain(&self, deadline: Instant) -> Result<(), Error> {
        let writer = self.handle.running(deadline).await?.writer;
        ask(&writer, deadline, "maintaining the tables", |reply| writer::Message::Maintain {
            reply,
        })
        .await
    }

    async fn export(&self, after: &str, deadline: Instant) -> Result<ExportPage, Error> {
        if !self.access.is_all() {
            let problem = "an export holds all of a corpus: it needs a key that holds all labels";
            return Err(Error::new(ErrorKind::Denied, "LABEL_NOT_HELD", problem));
        }
        let _permit = self.handle.searching.try_enter(1)?;
        let reader = self.handle.reader(deadline).await?;
        within(deadline, "exporting the shard", async {
            let page = Box::pin(reader.export(after)).await?;
            self.handle.claim.confirm(&reader).await?;
            Ok(page)
        })
        .await
    }

    async fn copy_to_snapshot(
        &self,
        snapshot: &SnapshotName,
        deadline: Instant,
    ) -> Result<ShardCopy, Error> {
        let snapshots = self.handle.seams.snapshots()?;
        let Ok(_alone) = self.handle.copying.try_lock() else {
            return Err(Error::exhausted("the shard's copying to a snapshot", COPY_BUDGET));
        };
        let reader = self.handle.reader(deadline).await?;
        if reader.is_erasure_wanted() {
            // Forgetting was interrupted. Finish it first.
            self.maintain(deadline).await?;
        }
        within(deadline, "copying the shard to a snapshot", async {
            let copying =
                reader.copy_to_snapshot(snapshots, snapshot, self.handle.shard, COPY_BUDGET);
            Ok(Box::pin(copying).await?)
        })
        .await
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "SHUTTING_DOWN",
        "the shard is shutting down; ask another node or retry later",
    )
}

/// Converts a segment to a passage.
fn evidence(corpus: &CorpusName, id: &SegmentId, span: Span, stored: &StoredDocument) -> Evidence {
    let document = &stored.document;
    Evidence {
        chunk_id: ChunkId::of_segment(corpus, &id.document_id, id.version, id.ordinal),
        document_id: id.document_id.clone(),
        version: id.version,
        title: document.title.clone(),
        span,
        text: span.of(&document.text).unwrap_or_default().to_owned(),
        event_time: document.event_time,
        score: 0.0,
        dense_score: None,
        sparse_score: None,
    }
}

#[cfg(test)]
mod tests;
