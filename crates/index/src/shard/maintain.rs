//! Maintains a shard: does the steps of a plan one by one.
//!
//! What takes long is done beside other writes: [`ShardWriter::advance`] does what needs the writer
//! and takes milliseconds, and returns [`Work`] that does not. So documents are accepted while the
//! tables are rewritten and indexed.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use clew_core::ErasureScan;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};

use crate::boxed;
use crate::error::{Error, Result};
use crate::read::resident::fragment::Fragment;
use crate::read::table_view::Handed;
use crate::read::view::Released;
use crate::shard::ShardWriter;
use crate::shard::plan::{
    MaintenancePlan, MaintenanceReport, MaintenanceStep, ShardStatistics, plan,
};
use crate::shard::scan::{Scan, Traces};
use crate::table::kind::TableKind;
use crate::table::removal::{Present, Removal};
use crate::table::rewriting::{Rewriting, Rewritten};
use crate::table::schema::IndexWanted;
use crate::table::statistics::besides_vectors;
use crate::table::tiers::{self, FragmentSize, Piece};
use crate::table::vectors::{StoredVectors, VectorColumn};

/// Maintenance that is under way.
#[derive(Debug)]
pub struct Maintenance {
    steps: VecDeque<MaintenanceStep>,
    /// What is left of the first of the steps, once it was begun.
    tasks: Option<VecDeque<Task>>,
    patience: Duration,
    /// Documents that are looked for once they are erased.
    traces: Option<Arc<Traces>>,
    report: MaintenanceReport,
}

impl Maintenance {
    /// Begins with the steps of a plan. A step that removes files waits up to `patience` for
    /// searches that may read them, and is postponed if they go on.
    pub fn new(plan: &MaintenancePlan, patience: Duration) -> Self {
        let steps = plan.steps.iter().copied().collect();
        Self { steps, tasks: None, patience, traces: None, report: MaintenanceReport::default() }
    }

    /// Begins to erase what was forgotten and to scan for what is left of it. The report has the
    /// result, unless erasing was postponed.
    pub fn erasing(traces: Traces, patience: Duration) -> Self {
        let plan = MaintenancePlan { steps: vec![MaintenanceStep::Erase] };
        Self { traces: Some(Arc::new(traces)), ..Self::new(&plan, patience) }
    }
}

/// A segment of a vector index has at least one so-manieth of the rows from which a table has a
/// vector index. Fewer vectors are compared one by one.
const VECTOR_SEGMENTS: u64 = 5;
/// Maximum number of further scans, each after another removal of what no version names.
const ROUNDS: u32 = 4;
/// Pause before each of them. An owner that lost the shard may still finish a file, which nothing
/// will ever name.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(400);

/// Part of a step.
#[derive(Debug)]
enum Task {
    /// Delete rows that are of no use. All of them, or those of one round.
    Sweep { is_whole: bool },
    /// Plan the erasure of the rows that are deleted now.
    PlanErasure,
    /// Rewrite fragments that have deleted rows, and segments that cover what is gone.
    Rewrite(TableKind, BTreeSet<u32>),
    /// Merge fragments, and index those that are not indexed.
    Merge(TableKind),
    /// Build indexes.
    Build(TableKind, Vec<IndexWanted>),
    /// Drop the vectors that are no longer wanted.
    DropVectors,
    /// Remove old versions.
    Prune(TableKind, Pruning),
    /// Note that what these first calls have forgotten is erased.
    NoteErased { forgotten: u64 },
    /// Scan for what is left of forgotten documents, after so many scans.
    Scan { traces: Arc<Traces>, round: u32 },
}

/// How far the removal of old versions is.
#[derive(Debug)]
enum Pruning {
    New,
    /// Waits for searches before anything is written.
    Waiting,
    Listing,
    /// Waits for searches of the version before the removal's own.
    Leaving(Removal, Present),
    Removing,
}

/// What comes next in maintenance.
#[derive(Debug)]
pub enum Next {
    /// Call again. Other writes may come first.
    Turn,
    /// Do this, and call again with its outcome. Other writes may come meanwhile.
    Work(Work),
    /// All steps are done or postponed.
    Finished(MaintenanceReport),
}

/// Part of maintenance that does not need the writer.
#[derive(Debug)]
pub struct Work(Kind);

#[derive(Debug)]
enum Kind {
    Rewrite(Box<Rewriting>, ReadAhead),
    Wait(Released, Duration),
    List(Removal),
    Remove(Removal, Present),
    Scan(Box<Scan>, Arc<Traces>),
    Pause,
}

/// Outcome of [`Work`].
#[derive(Debug)]
pub struct Done(Outcome);

#[derive(Debug)]
enum Outcome {
    Rewritten(Box<Rewritten>, Vec<Arc<Fragment>>),
    Released(bool),
    Listed(Present),
    Removed,
    Scanned(Box<ErasureScan>),
    Paused,
}

/// What searches have in memory of a table, so that they have it of new fragments from the start.
#[derive(Debug)]
struct ReadAhead {
    handed: Option<Handed>,
    vectors: Vec<StoredVectors>,
}

impl Work {
    /// Does the work. A future that is dropped leaves files that later maintenance removes.
    ///
    /// # Errors
    /// Returns a storage error. Nothing changed then, and the shard may be maintained anew.
    pub fn run(self) -> BoxFuture<'static, Result<Done>> {
        self.outcome().map_ok(Done).boxed()
    }

    async fn outcome(self) -> Result<Outcome> {
        Ok(match self.0 {
            Kind::Rewrite(rewriting, ahead) => {
                let rewritten = Box::pin(rewriting.run()).await?;
                let (new, mut read) = (rewritten.new_fragments(), Vec::new());
                if let Some(handed) = ahead.handed {
                    let (kind, after) = (rewritten.kind(), &rewritten.after);
                    read = handed.read_ahead(kind, after, &new, &ahead.vectors).await?;
                }
                Outcome::Rewritten(Box::new(rewritten), read)
            }
            Kind::Wait(released, patience) => Outcome::Released(released.within(patience).await),
            Kind::List(removal) => Outcome::Listed(removal.list().await?),
            Kind::Remove(removal, present) => {
                removal.remove(present).await?;
                Outcome::Removed
            }
            Kind::Scan(scan, traces) => {
                Outcome::Scanned(Box::new(Box::pin(scan.of(&traces)).await?))
            }
            Kind::Pause => {
                tokio::time::sleep(BETWEEN_ROUNDS).await;
                Outcome::Paused
            }
        })
    }
}

/// What a task needs next.
enum Step {
    Work(Kind),
    Turn,
    Finished,
    Postponed,
    /// These tasks in its place.
    Into(Vec<Task>),
    /// Nothing; it has found this.
    Scanned(Box<ErasureScan>),
}

impl ShardWriter {
    /// Returns how much maintenance the shard needs. Reads a few small files.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn statistics(&self) -> Result<ShardStatistics> {
        Ok(ShardStatistics {
            sources: self.sources.statistics().await?,
            chunks: self.chunks.statistics().await?,
            nodes: self.nodes.statistics().await?,
            failures: self.failures.statistics().await?,
            vector_indexes_missing: self.vector_indexes_missing().await?.len() as u64,
            idle_vectors: self.idle_vectors().await?.len() as u64,
            unswept_documents: self.catalogue.unswept().count() as u64,
            is_erasure_wanted: self.is_erasure_wanted(),
        })
    }

    /// Returns the plan for the shard as it is now.
    ///
    /// # Errors
    /// Returns a storage error.
    #[boxed]
    pub async fn maintenance_plan(&self) -> Result<MaintenancePlan> {
        Ok(plan(&self.statistics().await?, &self.settings.tuning))
    }

    /// Does the steps of a plan while nothing else is written. See [`Maintenance::new`].
    ///
    /// # Errors
    /// Returns a storage error. The steps before it were done.
    #[boxed]
    pub async fn maintain(
        &mut self,
        plan: &MaintenancePlan,
        patience: Duration,
    ) -> Result<MaintenanceReport> {
        self.finish(Maintenance::new(plan, patience)).await
    }

    /// Does maintenance while nothing else is written.
    pub(crate) async fn finish(
        &mut self,
        mut maintenance: Maintenance,
    ) -> Result<MaintenanceReport> {
        let mut done = None;
        loop {
            match Box::pin(self.advance(&mut maintenance, done.take())).await? {
                Next::Turn => {}
                Next::Work(work) => done = Some(work.run().await?),
                Next::Finished(report) => return Ok(report),
            }
        }
    }

    /// Goes on with maintenance as far as it needs the writer. `done` is the outcome of the work
    /// that the call before returned. One maintenance at a time.
    ///
    /// # Errors
    /// Returns a storage error. The steps before it were done; this maintenance is over.
    #[boxed]
    pub async fn advance(
        &mut self,
        maintenance: &mut Maintenance,
        done: Option<Done>,
    ) -> Result<Next> {
        let mut done = done.map(|Done(outcome)| outcome);
        while let Some(&step) = maintenance.steps.front() {
            let tasks = match &mut maintenance.tasks {
                Some(tasks) => tasks,
                tasks => {
                    let mut of_step: VecDeque<Task> = self.tasks(step).await?.into();
                    let traces = maintenance.traces.clone();
                    of_step.extend(traces.map(|traces| Task::Scan { traces, round: 0 }));
                    tasks.insert(of_step)
                }
            };
            let Some(task) = tasks.front_mut() else {
                maintenance.report.done.push(step);
                maintenance.steps.pop_front();
                maintenance.tasks = None;
                continue;
            };
            let next = self.step(task, done.take(), maintenance.patience).await?;
            match next {
                Step::Work(kind) => return Ok(Next::Work(Work(kind))),
                Step::Turn => return Ok(Next::Turn),
                Step::Finished => drop(tasks.pop_front()),
                Step::Into(parts) => {
                    tasks.pop_front();
                    parts.into_iter().rev().for_each(|part| tasks.push_front(part));
                }
                Step::Scanned(scan) => {
                    tasks.pop_front();
                    maintenance.report.scan = Some(*scan);
                }
                Step::Postponed => {
                    maintenance.report.postponed.push(step);
                    maintenance.steps.pop_front();
                    maintenance.tasks = None;
                }
            }
        }
        Ok(Next::Finished(std::mem::take(&mut maintenance.report)))
    }

    /// Returns what a step consists of.
    async fn tasks(&mut self, step: MaintenanceStep) -> Result<Vec<Task>> {
        let tasks = match step {
            MaintenanceStep::Sweep => vec![Task::Sweep { is_whole: false }],
            MaintenanceStep::Erase if !self.is_erasure_wanted() => Vec::new(),
            MaintenanceStep::Erase => vec![Task::Sweep { is_whole: true }, Task::PlanErasure],
            MaintenanceStep::Prune(kind) => vec![Task::Prune(kind, Pruning::New)],
            MaintenanceStep::BuildIndexes(kind) => {
                vec![Task::Build(kind, self.table(kind).missing_indexes().await?)]
            }
            MaintenanceStep::BuildVectorIndex => {
                let missing = self.vector_indexes_missing().await?;
                vec![Task::Build(TableKind::Chunks, missing)]
            }
            MaintenanceStep::DropVectors => vec![Task::DropVectors],
            MaintenanceStep::Compact(kind) => vec![Task::Merge(kind)],
        };
        Ok(tasks)
    }

    /// Returns the tasks that erase what is deleted now. The rows that are deleted later are for
    /// the next erasure.
    async fn plan_erasure(&mut self) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for kind in TableKind::ALL {
            let table = self.table(kind);
            if !table.has_data().await? {
                continue;
            }
            let has_deleted = |size: &&FragmentSize| size.deleted > 0;
            let sizes = table.sizes().await?;
            let scope = sizes.iter().filter(has_deleted).map(|size| size.id).collect();
            tasks.extend([Task::Rewrite(kind, scope), Task::Prune(kind, Pruning::New)]);
        }
        tasks.push(Task::NoteErased { forgotten: self.forgotten });
        Ok(tasks)
    }

    /// Goes on with a task.
    async fn step(
        &mut self,
        task: &mut Task,
        done: Option<Outcome>,
        patience: Duration,
    ) -> Result<Step> {
        if let Some(Outcome::Rewritten(rewritten, read)) = done {
            let is_build = matches!(task, Task::Build(..));
            let is_done = self.commit_rewritten(*rewritten, read).await?;
            return Ok(if is_build && is_done { Step::Finished } else { Step::Turn });
        }
        match task {
            Task::Sweep { is_whole } => {
                let has_more = self.sweep().await?;
                Ok(if *is_whole && has_more { Step::Turn } else { Step::Finished })
            }
            Task::Rewrite(kind, scope) => {
                let table = self.table(*kind);
                let piece = tiers::next_rewrite(&table.sizes().await?, scope);
                if piece.is_empty() && !table.has_stale_segments().await? {
                    return Ok(Step::Finished);
                }
                self.rewrite(*kind, piece, None).await
            }
            Task::Merge(kind) => {
                let table = self.table(*kind);
                let indexes = besides_vectors(&table.indexes().await?);
                let covered = table.covered(&indexes).await?;
                let piece = tiers::next_merge(&table.sizes().await?, &covered);
                if piece.is_empty() {
                    return Ok(Step::Finished);
                }
                self.rewrite(*kind, piece, None).await
            }
            Task::Build(_, indexes) if indexes.is_empty() => Ok(Step::Finished),
            Task::Build(kind, indexes) => {
                let covered = self.table(*kind).sizes().await?.iter().map(|of| of.id).collect();
                let piece = Piece { covered, ..Piece::default() };
                self.rewrite(*kind, piece, Some(indexes.clone())).await
            }
            Task::DropVectors => {
                self.begin_write().await?;
                let idle = self.idle_vectors().await?;
                self.chunks.drop_columns(&idle).await?;
                self.chunks.sync().await?;
                self.publish().await?;
                self.end_write();
                Ok(Step::Finished)
            }
            Task::Prune(kind, state) => self.prune_on(*kind, state, done, patience).await,
            Task::NoteErased { forgotten } => {
                // Something that was forgotten meanwhile keeps the mark.
                if self.forgotten == *forgotten {
                    self.erasure.clear().await?;
                }
                Ok(Step::Finished)
            }
            Task::PlanErasure => Ok(Step::Into(self.plan_erasure().await?)),
            Task::Scan { traces, round } => self.scan_on(Arc::clone(traces), *round, done).await,
        }
    }

    /// Begins a piece of rewriting. `indexes` are those that get segments; all that there are by
    /// default.
    async fn rewrite(
        &mut self,
        kind: TableKind,
        piece: Piece,
        indexes: Option<Vec<IndexWanted>>,
    ) -> Result<Step> {
        self.begin_write().await?;
        let vectors = self.chunks.vectors(&self.settings.first).await?;
        let min_vectors = self.settings.tuning.vector_index_rows / VECTOR_SEGMENTS;
        let table = self.table(kind);
        let indexes = match indexes {
            Some(indexes) => indexes,
            None => table.indexes().await?,
        };
        let rewriting = Box::new(table.begin_rewriting(piece, indexes, min_vectors).await?);
        self.end_write();
        let handed = self.handed.of(kind).filter(|handed| handed.has_fragments()).cloned();
        Ok(Step::Work(Kind::Rewrite(rewriting, ReadAhead { handed, vectors })))
    }

    /// Commits what was rewritten. Returns whether it did.
    async fn commit_rewritten(
        &mut self,
        rewritten: Rewritten,
        read: Vec<Arc<Fragment>>,
    ) -> Result<bool> {
        let kind = rewritten.kind();
        self.begin_write().await?;
        let table = self.table(kind);
        let is_committed = table.commit_rewritten(rewritten).await?;
        table.sync().await?;
        if let Some(handed) = self.handed.of(kind).filter(|_| is_committed) {
            handed.adopt(read);
        }
        self.publish().await?;
        // They would keep the rows and vectors of the old fragments in memory.
        self.publisher.kept().let_go();
        self.end_write();
        Ok(is_committed)
    }

    /// Goes on with the removal of a table's old versions.
    async fn prune_on(
        &mut self,
        kind: TableKind,
        state: &mut Pruning,
        done: Option<Outcome>,
        patience: Duration,
    ) -> Result<Step> {
        let (next, work) = match (std::mem::replace(state, Pruning::New), done) {
            (Pruning::New, _) => {
                self.begin_write().await?;
                self.publish().await?;
                self.end_write();
                (Pruning::Waiting, Kind::Wait(self.publisher.old_snapshots(), patience))
            }
            (Pruning::Waiting, Some(Outcome::Released(true))) => {
                (Pruning::Listing, Kind::List(self.table(kind).removal().await?))
            }
            (Pruning::Listing, Some(Outcome::Listed(present))) => {
                self.begin_write().await?;
                let removal = self.table(kind).commit_removal().await?;
                // That commit made a new version. Readers move to it before the version that they
                // read is removed.
                self.publish().await?;
                self.end_write();
                let wait = Kind::Wait(self.publisher.old_snapshots(), patience);
                (Pruning::Leaving(removal, present), wait)
            }
            (Pruning::Leaving(removal, present), Some(Outcome::Released(true))) => {
                (Pruning::Removing, Kind::Remove(removal, present))
            }
            (Pruning::Removing, Some(Outcome::Removed)) => {
                self.table(kind).lost_versions();
                return Ok(Step::Finished);
            }
            _ => return Ok(Step::Postponed),
        };
        *state = next;
        Ok(Step::Work(work))
    }

    /// Goes on with the scan for what is left of forgotten documents, after so many rounds.
    async fn scan_on(
        &mut self,
        traces: Arc<Traces>,
        round: u32,
        done: Option<Outcome>,
    ) -> Result<Step> {
        match done {
            Some(Outcome::Scanned(scan)) if scan.is_clean() || round >= ROUNDS => {
                // If something is left, the next write reads the tables again.
                self.is_in_doubt |= !scan.is_clean();
                Ok(Step::Scanned(scan))
            }
            // Also of tables that were not erased just now: nothing tells whose text a file holds
            // that no version names.
            Some(Outcome::Scanned(_)) => {
                let prune = TableKind::ALL.map(|kind| Task::Prune(kind, Pruning::New));
                let again = Task::Scan { traces, round: round + 1 };
                Ok(Step::Into(prune.into_iter().chain([again]).collect()))
            }
            None if round > 1 => Ok(Step::Work(Kind::Pause)),
            _ => Ok(Step::Work(Kind::Scan(Box::new(self.begin_scan().await?), traces))),
        }
    }

    /// Does one step.
    ///
    /// # Errors
    /// Returns [`Error::ReadersActive`] if it was postponed, or a storage error.
    pub(crate) async fn do_now(&mut self, step: MaintenanceStep, patience: Duration) -> Result<()> {
        let plan = MaintenancePlan { steps: vec![step] };
        match self.maintain(&plan, patience).await?.postponed.is_empty() {
            true => Ok(()),
            false => Err(Error::ReadersActive),
        }
    }

    /// Returns the indexes that vector columns lack. An index is trained on the vectors that exist
    /// when it is built. So the index for a model that the corpus moves to is built only once all
    /// chunks have vectors of that model.
    async fn vector_indexes_missing(&self) -> Result<Vec<IndexWanted>> {
        let is_filled = self.catalogue.reembedded().outdated == 0;
        let mut missing = Vec::new();
        for VectorColumn { encoder, name } in &self.settings.vectors {
            let wanted = IndexWanted::of_vectors(name.clone());
            let is_wanted = is_filled || encoder.fingerprint() == self.settings.searched;
            // The index packs dimensions by eight. Vectors of other dimensions are compared one by
            // one.
            let is_wanted = is_wanted && encoder.dimension.is_multiple_of(8);
            if is_wanted && !self.chunks.has_index(&wanted).await? {
                missing.push(wanted);
            }
        }
        Ok(missing)
    }

    /// Returns the vector columns that have not been wanted for a while.
    async fn idle_vectors(&self) -> Result<Vec<String>> {
        if self.settled_for() < self.settings.tuning.vectors_linger {
            return Ok(Vec::new());
        }
        let there = self.chunks.vectors(&self.settings.first).await?;
        let names = there.into_iter().map(|column| column.name);
        let is_wanted = |name: &String| self.settings.vectors.iter().any(|it| it.name == *name);
        Ok(names.filter(|name| !is_wanted(name)).collect())
    }
}
