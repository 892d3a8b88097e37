//! The scrubber: compares the stored data of a shard with the promises, a page of documents at a
//! time, for as long as the shard runs, and counts breaches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clew_core::{Access, Breach, CheckQuery, Checked, Error, Invariant, ShardIndex};
use clew_index::{ShardReader, ShardView};
use clew_runtime::deadline::within;
use clew_runtime::tree::RunningPart;
use clew_telemetry::metrics::stage;

use crate::shard::claim::Claim;
use crate::shard::metrics;

/// Number of documents in a page: few, so that searches are hardly affected.
const PAGE: usize = 100;
/// Bound against a hung disk, not an estimate.
const PATIENCE: Duration = Duration::from_secs(600);

/// Results of all checks of a shard since this process owns it: its own and those on request.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    documents: AtomicU64,
    breaches: [AtomicU64; Invariant::ALL.len()],
}

impl Tally {
    /// Checks a page of documents, counts it, and logs every breach.
    pub async fn check(
        &self,
        shard: ShardIndex,
        view: &ShardView,
        claim: &Claim,
        query: &CheckQuery,
    ) -> Result<Checked, Error> {
        let checked = Box::pin(view.check(query)).await?;
        // A breach counts only if this process still owned the shard when it read.
        claim.confirm(view.reader()).await?;
        self.documents.fetch_add(checked.documents, Ordering::Relaxed);
        metrics::checked(checked.documents);
        for Breach { invariant, document_id, detail } in &checked.breaches {
            self.count(*invariant).fetch_add(1, Ordering::Relaxed);
            metrics::breached(*invariant);
            let invariant = invariant.as_str();
            let document = document_id.log_tag();
            tracing::error!(%shard, document, invariant, detail, "a promise does not hold");
        }
        Ok(checked)
    }

    fn count(&self, invariant: Invariant) -> &AtomicU64 {
        let place = Invariant::ALL.iter().position(|known| *known == invariant).unwrap_or_default();
        &self.breaches[place]
    }

    /// Returns the scrubber's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        let documents = self.documents.load(Ordering::Relaxed);
        let broken = Invariant::ALL.iter().filter_map(|invariant| {
            let count = self.count(*invariant).load(Ordering::Relaxed);
            (count > 0).then(|| format!("{} {count}", invariant.as_str()))
        });
        let broken: Vec<String> = broken.collect();
        let state = match broken.is_empty() {
            true => format!("kept in {documents} checks"),
            false => format!("broken in {documents} checks: {}", broken.join(", ")),
        };
        RunningPart::new("promises", "invariants", state)
    }
}

/// Arguments of [`keep_checking`].
pub(crate) struct Arguments {
    pub shard: ShardIndex,
    pub reader: ShardReader,
    pub claim: Claim,
    pub tally: Arc<Tally>,
    pub interval: Duration,
}

/// Checks page after page, for as long as the task runs.
pub(crate) async fn keep_checking(Arguments { shard, reader, claim, tally, interval }: Arguments) {
    let view = reader.with_access(&Access::all());
    let mut query = CheckQuery { after: None, limit: PAGE };
    loop {
        tokio::time::sleep(interval).await;
        let checking = tally.check(shard, &view, &claim, &query);
        let checking = Box::pin(stage("check", checking));
        match within(Instant::now() + PATIENCE, "checking documents", checking).await {
            // After the last page it starts again with the first.
            Ok(checked) => query.after = checked.last,
            Err(error) => tracing::debug!(error = error.chain(), "a check is tried again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_says_what_is_broken_and_how_often() {
        let tally = Tally::default();
        assert_eq!(tally.node().state, "kept in 0 checks");
        tally.documents.fetch_add(7, Ordering::Relaxed);
        for invariant in [Invariant::StateTrue, Invariant::TextWhole, Invariant::StateTrue] {
            tally.count(invariant).fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(tally.node().state, "broken in 7 checks: text_whole 1, state_true 2");
    }
}
