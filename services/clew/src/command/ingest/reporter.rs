//! Tells the server what a part of a named run has done.

use std::time::Duration;

use anyhow::Context;
use clew_client::Client;
use clew_core::{CorpusName, PartReport, PartStage, RunCounts, RunName};
use clew_formats::SourcePart;
use clew_proto::ingest::v1::GetRunResponse;
use tokio::time::Instant;

use crate::patience::patiently;

/// Time between two reports while documents are sent.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Reporter of a part of a run.
pub struct RunReporter {
    client: Client,
    corpus: CorpusName,
    run: RunName,
    parts: u32,
    report: PartReport,
    reported_at: Option<Instant>,
}

impl RunReporter {
    /// Creates a reporter for `part` of the run `run`.
    pub fn new(client: Client, corpus: CorpusName, run: RunName, part: SourcePart) -> Self {
        let report = PartReport {
            part: part.index(),
            attempt: fastrand::u64(1..),
            stage: PartStage::Listing,
            listed_all: false,
            counts: RunCounts::default(),
            problem: String::new(),
        };
        Self { client, corpus, run, parts: part.count(), report, reported_at: None }
    }

    /// Tells that the part has come to a stage. Waits for a server that restarts.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ReportRun`.
    pub async fn tell(&mut self, stage: PartStage, counts: RunCounts) -> anyhow::Result<()> {
        self.report.stage = stage;
        // Nothing is sent before the source is listed. A part that failed may have come that far.
        self.report.listed_all |= matches!(stage, PartStage::Sending | PartStage::Accepted);
        self.report.counts = counts;
        let Self { client, corpus, run, parts, report, .. } = self;
        let told = patiently(async || client.report_run(corpus, run, *parts, report).await).await;
        told.with_context(|| format!("cannot report to the run `{run}`"))?;
        self.reported_at = Some(Instant::now());
        Ok(())
    }

    /// Tells the counts while documents are sent, if the last report is some seconds old. Nothing
    /// depends on such a report, so one that fails is left to the next.
    pub async fn tell_now_and_then(&mut self, counts: RunCounts) {
        if self.reported_at.is_some_and(|at| at.elapsed() < REPORT_INTERVAL) {
            return;
        }
        self.report.counts = counts;
        let Self { client, corpus, run, parts, report, .. } = &*self;
        if let Err(error) = client.report_run(corpus, run, *parts, report).await {
            tracing::info!(error = error.chain(), "a report of the run was not taken");
        }
        self.reported_at = Some(Instant::now());
    }

    /// Tells that the part failed, as well as the server can be reached.
    pub async fn fail(&mut self, error: &anyhow::Error, counts: RunCounts) {
        self.report.problem = PartReport::problem_of(&error.to_string());
        if let Err(error) = self.tell(PartStage::Failed, counts).await {
            tracing::warn!(error = format!("{error:#}"), "the run does not know of the failure");
        }
    }

    /// Returns whether all parts have listed their sources, this one included.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.GetRun`.
    pub async fn have_all_listed(&self) -> anyhow::Result<bool> {
        let Self { client, corpus, run, .. } = self;
        let GetRunResponse { run, .. } = patiently(async || client.run(corpus, run).await).await?;
        Ok(run.is_some_and(|run| run.listed_all))
    }
}
