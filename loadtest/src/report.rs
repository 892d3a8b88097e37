//! What a run found: as data, and as text. The page is in [`page`].

pub mod page;
mod plot;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::metrics::ServerPart;
use crate::observe::Sample;
use crate::outcome::StatusKey;
use crate::record::{FlowCounts, Latency, Point};
use crate::verdict::Verdict;

/// Histograms of a server that are shown of a phase.
const MOST_SERVER_PARTS: usize = 12;

/// What a run found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Of the scenario.
    pub title: String,
    /// What the scenario is to find out.
    pub about: String,
    /// When the run began, RFC 3339.
    pub began: String,
    /// Seed that it was made of.
    pub seed: u64,
    /// Cores of the machine that asked.
    pub cores: usize,
    /// Why it ended before its time; empty if it did not.
    pub ended_early: String,
    /// What was there before the first request, for people.
    pub prepared: String,
    /// The phases, in order.
    pub phases: Vec<PhaseReport>,
    /// The flows over time.
    pub timelines: Vec<TimelineReport>,
    /// The server over time.
    pub samples: Vec<Sample>,
    /// What is left of what was acknowledged.
    pub kept: Vec<KeptReport>,
    /// Whether the expectations hold.
    pub verdicts: Vec<Verdict>,
}

/// A phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Seconds from the beginning of the run.
    pub from_secs: f64,
    /// Seconds that it took.
    pub secs: f64,
    /// The flows in it.
    pub flows: Vec<FlowReport>,
    /// What the servers' own histograms say of it; what took longest first.
    pub server: Vec<ServerPart>,
}

/// A flow in a phase. Latencies count from when a request was due.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub flow: String,
    /// Requests that were due.
    pub scheduled: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were not, by why.
    pub not_sent: Vec<(String, u64)>,
    /// Requests that were done.
    pub done: u64,
    /// Requests that the server refused for now (RESOURCE_EXHAUSTED).
    pub refused: u64,
    /// Requests that failed otherwise.
    pub failed: u64,
    /// Requests that were due, a second.
    pub offered_per_sec: f64,
    /// Requests that were done, a second, until the last of them was.
    pub done_per_sec: f64,
    /// Documents that were acknowledged or forgotten, a second.
    pub documents_per_sec: f64,
    /// Of requests that were done.
    pub latency: Latency,
    /// Of requests that were refused or failed.
    pub failed_latency: Latency,
    /// What that of requests that were done consists of.
    pub parts: Vec<PartReport>,
    /// How often each status came.
    pub statuses: Vec<StatusReport>,
    /// Of the answers that can be judged, the share that was right.
    pub right_share: Option<f64>,
    /// Answers that were right.
    pub right: u64,
    /// Answers that were wrong.
    pub wrong: u64,
    /// Answers that said that they do not know, though they should.
    pub abstained: u64,
    /// Answers that miss shards.
    pub partial: u64,
}

/// A part of a latency.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PartReport {
    /// Which.
    pub part: &'static str,
    /// How long.
    pub time: Latency,
}

/// A status.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatusReport {
    /// Which.
    #[serde(flatten)]
    pub status: StatusKey,
    /// How often it came.
    pub count: u64,
    /// Shortest delay after which it asked to be tried again, milliseconds.
    pub least_delay_ms: Option<f64>,
    /// Longest such delay.
    pub most_delay_ms: Option<f64>,
}

/// A flow over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TimelineReport {
    /// Its name.
    pub flow: String,
    /// In order.
    pub points: Vec<Point>,
}

/// What is left of what was acknowledged to a tenant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KeptReport {
    /// Whose.
    pub tenant: String,
    /// Documents that have to be there.
    pub expected: u64,
    /// Of those, how many are not.
    pub lost: u64,
    /// Documents that were forgotten and are there.
    pub undead: u64,
}

impl Report {
    /// Whether all expectations hold.
    pub fn holds(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds)
    }

    /// Latency of a flow in a phase; `None` if nothing was done then.
    pub(crate) fn latency(&self, phase: &str, flow: &str) -> Option<&Latency> {
        let phase = self.phases.iter().find(|known| known.name == phase)?;
        Some(&phase.flow(flow)?.latency).filter(|latency| latency.count > 0)
    }
}

impl PhaseReport {
    pub(crate) fn flow(&self, name: &str) -> Option<&FlowReport> {
        self.flows.iter().find(|flow| flow.flow == name)
    }

    /// The parts of the server's time that are worth showing.
    fn server_shown(&self) -> &[ServerPart] {
        &self.server[..self.server.len().min(MOST_SERVER_PARTS)]
    }
}

impl FlowReport {
    /// A flow in a phase that began at `from`.
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
            parts.into_iter().map(|(part, times)| PartReport { part, time: times.summary() });
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
            // What is still under way when a phase ends takes its time, too.
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
                let not_sent: u64 = flow.not_sent.iter().map(|(_, count)| count).sum();
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
                    not_sent
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
                for PartReport { part, time } in &flow.parts {
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
        for Verdict { expected, found, holds } in &self.verdicts {
            writeln!(f, "{} {expected}: {found}", if *holds { "holds " } else { "FAILS " })?;
        }
        Ok(())
    }
}

impl StatusReport {
    /// The status with the delays that it asked for, for people.
    fn shown(&self) -> String {
        let StatusKey { code, reason } = &self.status;
        // Most reasons of a refusal say what the code says.
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
