//! Retention: forgets documents that are older than their corpus retains.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Access, Clock, ErasureScan, Error, Leftover, Timestamp};
use clew_index::{ShardReader, Traces};
use clew_runtime::deadline::ask;
use ractor::ActorRef;

use crate::shard::actor::maintainer::Asking;
use crate::shard::actor::writer;
use crate::shard::graph::ShardGraph;
use crate::shard::idleness::{Idleness, Resting, Task};

/// Number of documents that are forgotten at once.
const DOCUMENTS: usize = 256;
/// Bound against a hung disk, not an estimate.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Arguments of [`keep_forgetting`].
pub(crate) struct Arguments {
    /// Name of the shard, for the log.
    pub name: String,
    pub retained: Duration,
    pub writer: ActorRef<writer::Message>,
    pub reader: ShardReader,
    pub graph: ShardGraph,
    pub maintenance: Asking,
    pub clock: Arc<dyn Clock>,
    pub interval: Duration,
    pub idleness: Idleness,
    pub resting: Resting,
}

/// Forgets old documents at every interval, for as long as the task runs.
pub(crate) async fn keep_forgetting(arguments: Arguments) {
    loop {
        match arguments.forget().await {
            Ok(0) => arguments.tell_next().await,
            Ok(documents) => {
                tracing::info!(
                    shard = arguments.name,
                    documents,
                    "forgot what is retained no longer"
                );
                arguments.tell_next().await;
            }
            Err(error) => {
                let error = error.chain();
                tracing::warn!(shard = arguments.name, error, "retention waits for the next time");
            }
        }
        tokio::time::sleep(arguments.interval).await;
    }
}

/// Logs what a scan still found of forgotten documents.
pub(crate) fn warn_of_leftovers(shard: &str, scan: &ErasureScan) {
    for Leftover { place, problem } in &scan.left {
        tracing::warn!(shard, place, problem, "something is left of forgotten documents");
    }
}

impl Arguments {
    /// Notes when the next document is to be forgotten, for the time at which the shard rests.
    async fn tell_next(&self) {
        let revision = self.reader.revision();
        if self.idleness.is_done_at(Task::Retention, revision) {
            return;
        }
        match self.reader.oldest().await {
            Ok(oldest) => {
                self.resting.is_due(oldest.map(|oldest| oldest.saturating_add(self.retained)));
                self.idleness.is_done(Task::Retention, revision);
            }
            Err(error) => {
                let error = Error::from(error).chain();
                tracing::debug!(shard = self.name, error, "it is not known what is oldest");
            }
        }
    }

    /// Forgets the documents that are too old by now. Returns their number.
    async fn forget(&self) -> Result<usize, Error> {
        let now = self.clock.now().as_micros();
        let retained = i64::try_from(self.retained.as_micros()).unwrap_or(i64::MAX);
        let oldest = Timestamp::from_micros(now.saturating_sub(retained));
        let (mut forgotten, mut traces) = (0, None::<Traces>);
        let mut is_stuck = false;
        while !is_stuck {
            let ids = self.reader.older_than(oldest, DOCUMENTS).await?;
            if ids.is_empty() {
                break;
            }
            let (documents, in_graph) = (ids.len(), ids.clone());
            let deadline = Instant::now() + PATIENCE;
            let (receipts, found) =
                ask(&self.writer, deadline, "forgetting what is old", |reply| {
                    writer::Message::Forget { ids, access: Access::all(), reply }
                })
                .await?;
            self.graph.remove(&in_graph).await;
            traces = Some(traces.unwrap_or_default().and(*found));
            forgotten += documents;
            is_stuck = receipts.iter().all(|receipt| receipt.versions == 0);
        }
        if let Some(traces) = traces {
            // All of them at once.
            let scan = self.maintenance.erase(traces, Instant::now() + PATIENCE).await?;
            warn_of_leftovers(&self.name, &scan);
        }
        match is_stuck {
            true => Err(Error::internal("what is to be forgotten is found again and again")),
            false => Ok(forgotten),
        }
    }
}
