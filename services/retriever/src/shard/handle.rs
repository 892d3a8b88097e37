//! The handle by which everything else reaches a shard.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_cluster::Standing;
use clew_core::{CorpusName, CorpusSettings, Error, ErrorKind, ShardIndex};
use clew_index::Totals;
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::deadline::within;
use clew_runtime::supervise::{LineState, Needed, Supervised};
use clew_runtime::tree::RunningPart;
use ractor::ActorStatus;
use tokio::sync::{Mutex, watch};

use super::line::{Running, ShardLine};
use crate::seams::ShardSeams;
use crate::shard::actor::scrubber::Tally;
use crate::shard::claim::Claim;
use crate::shard::idleness::Resting;
use crate::shard::metrics::ShardGauges;
use crate::shard::resources::Resources;

/// Longest wait of a caller for a shard that is starting.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// Handle of a shard. Cheap to clone. Carries no access rights; use [`ShardHandle::with_access`] to
/// read or write on behalf of a caller.
#[derive(Clone)]
pub struct ShardHandle {
    pub(super) shard: ShardIndex,
    pub(super) settings: watch::Sender<Arc<CorpusSettings>>,
    pub(super) supervised: Supervised<Running>,
    pub(super) accepting: Gate,
    pub(super) searching: Gate,
    pub(super) resources: Resources,
    pub(super) claim: Claim,
    pub(super) tally: Arc<Tally>,
    pub(super) seen: Arc<ShardGauges>,
    pub(super) corpus: CorpusName,
    pub(super) resting: Resting,
    pub(super) seams: ShardSeams,
    /// Held while the shard is copied to a snapshot.
    pub(super) copying: Arc<Mutex<()>>,
}

impl ShardHandle {
    /// Starts a shard that rests until somebody needs it.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Internal`] if an actor cannot be started.
    pub(crate) async fn resting(line: ShardLine) -> Result<Self, Error> {
        let (shard, config, claim) = (line.shard, line.config.clone(), line.claim.clone());
        let (tally, seen) = (Arc::clone(&line.tally), Arc::clone(&line.seen));
        let settings = line.settings.clone();
        let corpus = settings.borrow().name.clone();
        let resources = line.resources.clone();
        let seams = line.seams.clone();
        let resting = line.resting.clone();
        let supervised = Supervised::resting(line).await?;
        let state = supervised.state();
        seen.follow(move || match &*state.borrow() {
            LineState::Starting => LineState::Starting,
            LineState::Running(running) => LineState::Running(running.reader.clone()),
            LineState::Failed(error) => LineState::Failed(Arc::clone(error)),
            LineState::Resting => LineState::Resting,
            LineState::Stopped => LineState::Stopped,
        });
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
            resources,
            claim,
            tally,
            seen,
            corpus,
            resting,
            seams,
            copying: Arc::default(),
        })
    }

    /// Hands changed settings of the corpus to the settings watcher, which applies them soon. If
    /// the shard rests, it is opened with them soon.
    pub(crate) fn settle(&self, settings: Arc<CorpusSettings>) {
        let changes = self.settings.send_if_modified(|known| {
            let changes = *known != settings;
            *known = settings;
            changes
        });
        if changes {
            self.resting.is_unseen();
        }
    }

    /// Returns the running line, which does not rest while the returned value exists. Opens a shard
    /// that rests, and waits for one that is opening.
    pub(super) async fn running(&self, deadline: Instant) -> Result<InUse, Error> {
        if self.is_resting() && self.claim.standing() == Standing::Lost {
            return Err(self.claim.refusal());
        }
        let needed = self.supervised.need();
        let running = self.started(deadline).await?;
        Ok(InUse { running, _needed: needed })
    }

    /// Returns whether the shard rests.
    pub(crate) fn is_resting(&self) -> bool {
        matches!(*self.supervised.state().borrow(), LineState::Resting)
    }

    /// Returns the running line if the shard is open.
    fn open(&self) -> Option<Running> {
        match &*self.supervised.state().borrow() {
            LineState::Running(running) => Some(running.clone()),
            _ => None,
        }
    }

    /// Returns the totals of the documents if the shard rests and this node surely owns it.
    pub(super) fn totals_at_rest(&self) -> Option<Totals> {
        let is_owned = self.claim.standing() == Standing::Held;
        (is_owned && self.is_resting()).then(|| self.resting.totals()).flatten()
    }

    /// Estimates the memory of the shard if it is open.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        self.open().map(|running| running.reader.memory_bytes())
    }

    /// Waits until the line runs, or does not start.
    pub(super) async fn started(&self, deadline: Instant) -> Result<Running, Error> {
        let mut state = self.supervised.state();
        let started =
            |state: &LineState<Running>| !matches!(state, LineState::Starting | LineState::Resting);
        let patience = deadline.min(Instant::now() + START_PATIENCE);
        let state = tokio::time::timeout_at(patience.into(), state.wait_for(started)).await;
        match state {
            Err(_elapsed) => Err(Error::deadline("the shard starts")),
            Ok(Err(_gone)) => Err(stopped()),
            Ok(Ok(state)) => match &*state {
                LineState::Running(running) => Ok(running.clone()),
                LineState::Failed(error) => Err(error.again()),
                LineState::Stopped | LineState::Starting | LineState::Resting => Err(stopped()),
            },
        }
    }

    pub(super) async fn admit(&self, bytes: usize, deadline: Instant) -> Result<Permit, Error> {
        if self.claim.standing() == Standing::Lost {
            return Err(self.claim.refusal());
        }
        self.accepting.enter(bytes, deadline).await
    }

    /// Stops accepting documents and finishes what was accepted. Committed data stays searchable.
    ///
    /// # Errors
    /// Returns [`ErrorKind::DeadlineExceeded`] if it had to be cut short.
    pub(crate) async fn finish_writing(&self, deadline: Instant) -> Result<(), Error> {
        self.accepting.close();
        let Some(running) = self.open() else { return Ok(()) };
        running.indexer.stop(None);
        running.maintainer.stop(None);
        let drained = self.accepting.drained(deadline).await;
        let patience = deadline.saturating_duration_since(Instant::now());
        let ended = running.writer.get_cell().drain_and_wait(Some(patience)).await;
        // A writer that has ended already has finished.
        let has_ended = ended.is_ok() || running.writer.get_status() == ActorStatus::Stopped;
        drained.and(if has_ended { Ok(()) } else { Err(Error::deadline("finishing commits")) })
    }

    /// Checks that nobody else can have written to the shard, see [`Claim::confirm`]. If it rests
    /// and another node may have had it, it is opened soon: that node may have left something to
    /// do.
    pub(crate) async fn confirm(&self, deadline: Instant) -> Result<(), Error> {
        let Some(running) = self.open() else {
            if self.claim.lapse().is_some() {
                self.resting.is_unseen();
            }
            return Ok(());
        };
        within(deadline, "asking the storage", self.claim.confirm(&running.reader)).await
    }

    /// Returns whether the shard is open and the last state that was read here is still the newest.
    pub(crate) async fn is_current(&self, deadline: Instant) -> bool {
        let Some(running) = self.open() else { return false };
        let checked = async { Ok(running.reader.is_current().await?) };
        within(deadline, "asking the storage", checked).await.unwrap_or(false)
    }

    /// Returns the shard's node for the tree of running parts.
    pub(crate) fn node(&self) -> RunningPart {
        let (accepting, searching) = (self.accepting.node(), self.searching.node());
        let parts = vec![accepting, searching, self.resources.searches.node(), self.tally.node()];
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

/// A running line that somebody uses. It does not rest meanwhile.
pub(super) struct InUse {
    running: Running,
    _needed: Needed,
}

impl Deref for InUse {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "SHUTTING_DOWN",
        "the shard is shutting down; ask another node or retry later",
    )
}
