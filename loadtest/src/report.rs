//! Report of a run, as data and as text. The HTML page is in [`page`].

pub mod page;
mod plot;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::metrics::ServerPart;
use crate::observe::Sample;
use crate::outcome::StatusKey;
use crate::record::{FlowCounts, Latency, LoadPoint};
use crate::verdict::ExpectationVerdict;

/// Maximum number of server histograms that are shown of a phase.
const MOST_SERVER_PARTS: usize = 12;

/// Results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Title of the scenario.
    pub title: String,
    /// Purpose of the scenario.
    pub about: String,
    /// Time at which the run began, in RFC 3339.
    pub began: String,
    /// Seed of the run.
    pub seed: u64,
    /// Number of cores of the machine that sent the requests.
    pub cores: usize,
    /// Reason why the run ended early. Empty if it did not.
    pub ended_early: String,
    /// Description of the content before the first request, for people.
    pub prepared: String,
    /// Phases, in order.
    pub phases: Vec<PhaseReport>,
    /// Flows over time.
    pub timelines: Vec<TimelineReport>,
    /// Samples of the server over time.
    pub samples: Vec<Sample>,
    /// Check of the documents that were acknowledged.
    pub kept: Vec<KeptReport>,
    /// Verdicts on the expectations.
    pub verdicts: Vec<ExpectationVerdict>,
}

/// Results of a phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PhaseReport {
    /// Name of the phase.
    pub name: String,
    /// Beginning in seconds from the beginning of the run.
    pub from_secs: f64,
    /// Length in seconds.
    pub secs: f64,
    /// Flows in the phase.
    pub flows: Vec<FlowReport>,
    /// Histograms of the servers for the phase, sorted by total time, the longest first.
    pub server: Vec<ServerPart>,
}

/// Results of a flow in a phase. Latencies count from when a request was due.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FlowReport {
    /// Name of the flow.
    pub flow: String,
    /// Number of requests that were due.
    pub scheduled: u64,
    /// Number of requests that were sent.
    pub sent: u64,
    /// Numbers of requests that were not sent, by reason.
    pub not_sent: Vec<(String, u64)>,
    /// Number of requests that were done.
    pub done: u64,
    /// Number of requests that the server refused for now (RESOURCE_EXHAUSTED).
    pub refused: u64,
    /// Number of requests that failed otherwise.
    pub failed: u64,
    /// Requests per second that were due.
    pub offered_per_sec: f64,
    /// Requests per second that were done, measured until the last of them was done.
    pub done_per_sec: f64,
    /// Documents per second that were acknowledged or forgotten.
    pub documents_per_sec: f64,
    /// Latency of requests that were done.
    pub latency: Latency,
    /// Latency of requests that were refused or failed.
    pub failed_latency: Latency,
    /// Parts of the latency of requests that were done.
    pub parts: Vec<PartTiming>,
    /// Numbers of occurrences of each status.
    pub statuses: Vec<StatusReport>,
    /// Share of right answers among those that can be judged.
    pub right_share: Option<f64>,
    /// Number of right answers.
    pub right: u64,
    /// Number of wrong answers.
    pub wrong: u64,
    /// Number of answers that said that they do not know, although they should.
    pub abstained: u64,
    /// Number of answers that miss shards.
    pub partial: u64,
}

/// Part of a latency.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PartTiming {
    /// Name of the part.
    pub part: &'static str,
    /// Distribution of its times.
    pub time: Latency,
}

/// Number of occurrences of a status.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatusReport {
    /// Status.
    #[serde(flatten)]
    pub status: StatusKey,
    /// Number of occurrences.
    pub count: u64,
    /// Shortest retry delay that it asked for, in milliseconds.
    pub least_delay_ms: Option<f64>,
    /// Longest retry delay that it asked for, in milliseconds.
    pub most_delay_ms: Option<f64>,
}

/// Flow over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TimelineReport {
    /// Name of the flow.
    pub flow: String,
    /// Points in order of time.
    pub points: Vec<LoadPoint>,
}

/// Check of the documents that were acknowledged to a tenant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KeptReport {
    /// Name of the tenant.
    pub tenant: String,
    /// Number of documents that must be stored.
    pub expected: u64,
    /// Number of these documents that are not stored.
    pub lost: u64,
    /// Number of documents that were forgotten but are still stored.
    pub undead: u64,
}

impl Report {
    /// Returns whether all expectations hold.
    pub fn holds(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds)
    }

    /// Returns the latency of a flow in a phase. Returns `None` if nothing was done in it.
    pub(crate) fn latency(&self, phase: &str, flow: &str) -> Option<&Latency> {
        let phase = self.phases.iter().find(|known| known.name == phase)?;
        Some(&phase.flow(flow)?.latency).filter(|latency| latency.count > 0)
    }
}

impl PhaseReport {
    pub(crate) fn flow(&self, name: &str) -> Option<&FlowReport> {
        self.flows.iter().find(|flow| flow.flow == name)
    }

    /// Returns the histograms of the servers that are worth showing.
    fn server_shown(&self) -> &[ServerPart] {
        &self.server[..self.server.len().min(MOST_SERVER_PARTS)]
    }
}

impl FlowReport {
    /// Returns the number of requests that were not sent.
    fn unsent(&self) -> u64 {
        self.not_sent.iter().map(|(_, count)| count).sum()
    }

    /// Summarises the counts of a flow in a phase that began at `from` and took `secs` seconds.
    pub(crate) fn of(flow: &str, counts: &FlowCounts, from: Duration, secs: f64) -> Self {
        let taken = counts.last_done.saturating_sub(from).as_secs_f64();
        let judged = counts.right + counts.wrong + counts.abstained;
        let parts = [
            ("late", &counts.parts.late),
            ("wire", &counts.parts.wire),
            ("queue", &counts.parts.queue),
            ("compute", &counts.parts.compute),
            ("store", &counts.parts.store),
            ("rest", &counts.parts.rest),
        ];
        let parts =
            parts.into_iter().map(|(part, times)| PartTiming { part, time: times.summary() });
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        let statuses = counts.statuses.iter().map(|(status, known)| StatusReport {
            status: status.clone(),
            count: known.count,
            least_delay_ms: known.least_delay.map(milliseconds),
            most_delay_ms: known.most_delay.map(milliseconds),
        });
        Self {
            flow: flow.to_owned(),
            scheduled: counts.scheduled,
            sent: counts.sent,
            not_sent: counts.not_sent.iter().map(|(why, n)| ((*why).to_owned(), *n)).collect(),
            done: counts.done(),
            refused: counts.refused(),
            failed: counts.failed(),
            offered_per_sec: counts.scheduled as f64 / secs,
            // Requests that are still under way when a phase ends take their time, too.
            done_per_sec: counts.done() as f64 / taken.max(secs),
            documents_per_sec: counts.documents as f64 / secs,
            latency: counts.latency.summary(),
            failed_latency: counts.failed_latency.summary(),
            parts: parts.filter(|part| part.time.count > 0).collect(),
            statuses: statuses.collect(),
            right_share: (judged > 0).then(|| counts.right as f64 / judged as f64),
            right: counts.right,
            wrong: counts.wrong,
            abstained: counts.abstained,
            partial: counts.partial,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (seed {}, {} cores, {})", self.title, self.seed, self.cores, self.began)?;
        writeln!(f, "{}", self.prepared)?;
        if !self.ended_early.is_empty() {
            writeln!(f, "ended early: {}", self.ended_early)?;
        }
        writeln!(
            f,
            "\n{:<12} {:<14} {:>9} {:>9} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>7}",
            "phase",
            "flow",
            "offered/s",
            "done/s",
            "refused",
            "failed",
            "unsent",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "max ms",
            "right"
        )?;
        for phase in &self.phases {
            for flow in &phase.flows {
                let Latency { p50_ms, p90_ms, p99_ms, max_ms, .. } = flow.latency;
                let right =
                    flow.right_share.map_or("-".to_owned(), |r| format!("{:.1}%", r * 100.0));
                writeln!(
                    f,
                    "{:<12} {:<14} {:>9.1} {:>9.1} {:>8} {:>7} {:>7} {p50_ms:>8.1} {p90_ms:>8.1} \
                     {p99_ms:>8.1} {max_ms:>8.1} {right:>7}",
                    phase.name,
                    flow.flow,
                    flow.offered_per_sec,
                    flow.done_per_sec,
                    flow.refused,
                    flow.failed,
                    flow.unsent()
                )?;
            }
        }
        writeln!(
            f,
            "\nwhere the time went, p50/p99 ms: late is before sending, wire outside the server"
        )?;
        for phase in &self.phases {
            for flow in phase.flows.iter().filter(|flow| !flow.parts.is_empty()) {
                write!(f, "{:<12} {:<14}", phase.name, flow.flow)?;
                for PartTiming { part, time } in &flow.parts {
                    write!(f, "  {part} {:.1}/{:.1}", time.p50_ms, time.p99_ms)?;
                }
                writeln!(f)?;
            }
        }
        writeln!(f, "\nstatuses")?;
        for phase in &self.phases {
            for flow in &phase.flows {
                write!(f, "{:<12} {:<14}", phase.name, flow.flow)?;
                for status in &flow.statuses {
                    write!(f, "  {} {}", status.count, status.shown())?;
                }
                for (why, count) in &flow.not_sent {
                    write!(f, "  {count} {why}")?;
                }
                writeln!(f)?;
            }
        }
        if self.phases.iter().any(|phase| !phase.server.is_empty()) {
            writeln!(f, "\nthe servers' own histograms, what took longest")?;
        }
        for phase in &self.phases {
            for part in phase.server_shown() {
                let ServerPart { name, kind, count, total_secs, mean_ms, .. } = part;
                writeln!(
                    f,
                    "{:<12} {kind:<8} {total_secs:>8.2} s {count:>8} times, mean {mean_ms:>8.2} ms  {name}",
                    phase.name
                )?;
            }
        }
        writeln!(f)?;
        for ExpectationVerdict { expected, found, holds } in &self.verdicts {
            writeln!(f, "{} {expected}: {found}", if *holds { "holds " } else { "FAILS " })?;
        }
        Ok(())
    }
}

impl StatusReport {
    /// Formats the status with its retry delays, for people.
    fn shown(&self) -> String {
        let StatusKey { code, reason } = &self.status;
        // Most reasons of a refusal repeat the code.
        let reason =
            if reason.is_empty() || reason == code { String::new() } else { format!(" {reason}") };
        let delay = match (self.least_delay_ms, self.most_delay_ms) {
            (Some(least), Some(most)) if least == most => format!(" (again in {least:.0} ms)"),
            (Some(least), Some(most)) => format!(" (again in {least:.0} to {most:.0} ms)"),
            _ => String::new(),
        };
        format!("{code}{reason}{delay}")
    }
}
