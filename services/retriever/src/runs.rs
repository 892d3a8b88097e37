//! Runs of ingestion that the registry keeps.

use std::time::Instant;

use clew_core::{CorpusName, Error, IngestRun, PartReport, RunName, RunPage, RunPart, RunPlace};
use clew_index::{Registry, Reported};
use clew_runtime::deadline::within;

use crate::seams::ShardSeams;
use crate::shard::metrics;

/// Keeps what a part of a run has done so far, and counts what that changed.
pub(crate) async fn report(
    registry: &Registry,
    seams: &ShardSeams,
    corpus: &CorpusName,
    run: &RunName,
    parts: u32,
    report: &PartReport,
    deadline: Instant,
) -> Result<RunPart, Error> {
    let now = seams.clock.now();
    let Reported { part, entered, added } = within(deadline, "keeping the report", async {
        Ok(registry.report_run(corpus, run, parts, report, now).await?)
    })
    .await?;
    metrics::run_reported(entered, added);
    Ok(part)
}

/// Returns a run.
pub(crate) async fn get(
    registry: &Registry,
    corpus: &CorpusName,
    run: &RunName,
    deadline: Instant,
) -> Result<IngestRun, Error> {
    within(deadline, "reading the run", async { Ok(registry.run(corpus, run).await?) }).await
}

/// Returns a page of runs, the newest first.
pub(crate) async fn list(
    registry: &Registry,
    corpus: &CorpusName,
    after: Option<&RunPlace>,
    limit: usize,
    deadline: Instant,
) -> Result<RunPage, Error> {
    let listing = async { Ok(registry.runs(corpus, after, limit).await?) };
    within(deadline, "listing the runs", listing).await
}

/// Deletes what is kept of a run.
pub(crate) async fn delete(
    registry: &Registry,
    corpus: &CorpusName,
    run: &RunName,
    deadline: Instant,
) -> Result<(), Error> {
    let deleting = async { Ok(registry.delete_run(corpus, run).await?) };
    within(deadline, "deleting the run", deleting).await
}
