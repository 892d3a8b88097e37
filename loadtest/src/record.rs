//! Counts of a run: outcomes and times by phase and flow, and over time.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::outcome::{Done, Failure, Judgement, Outcome, StatusKey};

/// Target for the number of points of a plot over time. A plot has less than twice as many.
const MOST_POINTS: u64 = 300;
/// Number of significant digits that a histogram keeps of a time.
const DIGITS: u8 = 3;

/// Maximum time that a histogram records: a day. Longer times count as this.
const LONGEST_MICROS: u64 = 86_400_000_000;

/// Request that ended. All times are measured from the beginning of the run.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Time at which the request was due.
    pub scheduled: Duration,
    /// Time at which the request was sent.
    pub sent: Duration,
    /// Time at which the answer was complete.
    pub ended: Duration,
    pub outcome: Outcome,
}

/// Histogram of times in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new(DIGITS).expect("from 0 to 5 digits are possible"))
    }
}

impl Times {
    pub fn note(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(LONGEST_MICROS);
        self.0.record(micros).expect("it grows up to the longest time");
    }

    pub fn summary(&self) -> Latency {
        let at = |percentile: f64| self.0.value_at_percentile(percentile) as f64 / 1000.0;
        Latency {
            count: self.0.len(),
            mean_ms: self.0.mean() / 1000.0,
            p50_ms: at(50.0),
            p90_ms: at(90.0),
            p99_ms: at(99.0),
            p999_ms: at(99.9),
            max_ms: if self.0.is_empty() { 0.0 } else { self.0.max() as f64 / 1000.0 },
        }
    }
}

/// Distribution of times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Number of times.
    pub count: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Median: half of the times are not longer.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// Maximum.
    pub max_ms: f64,
}

impl Latency {
    /// Returns the time of a percentile.
    pub fn at(&self, percentile: Percentile) -> f64 {
        match percentile {
            Percentile::P50 => self.p50_ms,
            Percentile::P90 => self.p90_ms,
            Percentile::P99 => self.p99_ms,
            Percentile::P999 => self.p999_ms,
        }
    }
}

/// Percentiles that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Percentile {
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    #[default]
    P99,
    /// 99.9th percentile.
    P999,
}

/// Counts of one flow in one phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowCounts {
    pub scheduled: u64,
    pub sent: u64,
    pub not_sent: BTreeMap<&'static str, u64>,
    pub statuses: BTreeMap<StatusKey, StatusCount>,
    /// Time of the latest answer, from the beginning of the run.
    pub last_done: Duration,
    pub documents: u64,
    pub right: u64,
    pub wrong: u64,
    pub abstained: u64,
    pub partial: u64,
    /// Latencies of requests that were done, from when each was due to its answer.
    pub latency: Times,
    /// Latencies of requests that failed or were refused.
    pub failed_latency: Times,
    pub parts: Parts,
}

/// Parts of the latency of requests that were done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// Time from when a request was due until it was sent.
    pub late: Times,
    /// Time between sending and the answer outside of the server's own time: connections, their
    /// queues, and the client.
    pub wire: Times,
    pub queue: Times,
    pub compute: Times,
    pub store: Times,
    /// Time that the server spent otherwise.
    pub rest: Times,
}

/// Number of occurrences of a status, with the retry delays that it asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StatusCount {
    pub count: u64,
    pub least_delay: Option<Duration>,
    pub most_delay: Option<Duration>,
}

impl FlowCounts {
    /// Records the outcome of a request. `scheduled` is counted elsewhere, when the request is due.
    pub fn note(&mut self, request: &Ended) {
        if let Outcome::NotSent(why) = request.outcome {
            *self.not_sent.entry(why).or_default() += 1;
            return;
        }
        self.sent += 1;
        self.parts.late.note(request.sent.saturating_sub(request.scheduled));
        let latency = request.ended.saturating_sub(request.scheduled);
        match &request.outcome {
            Outcome::Done(done) => {
                self.latency.note(latency);
                self.statuses.entry(StatusKey::ok()).or_default().count += 1;
                self.last_done = self.last_done.max(request.ended);
                self.note_done(done, request.ended.saturating_sub(request.sent));
            }
            Outcome::Failed(failure) => {
                self.failed_latency.note(latency);
                self.note_failure(failure);
            }
            Outcome::NotSent(_) => {}
        }
    }

    fn note_done(&mut self, done: &Done, took: Duration) {
        self.documents += done.documents;
        self.partial += u64::from(done.is_partial);
        match done.judgement {
            Judgement::Right => self.right += 1,
            Judgement::Wrong => self.wrong += 1,
            Judgement::Abstained => self.abstained += 1,
            Judgement::None => {}
        }
        if let Some(timing) = done.timing {
            self.parts.wire.note(took.saturating_sub(timing.total));
            self.parts.queue.note(timing.queue);
            self.parts.compute.note(timing.compute);
            self.parts.store.note(timing.store);
            let told = timing.queue + timing.compute + timing.store;
            self.parts.rest.note(timing.total.saturating_sub(told));
        }
    }

    fn note_failure(&mut self, failure: &Failure) {
        let known = self.statuses.entry(failure.status.clone()).or_default();
        known.count += 1;
        if let Some(delay) = failure.retry_after {
            known.least_delay = Some(known.least_delay.map_or(delay, |least| least.min(delay)));
            known.most_delay = Some(known.most_delay.map_or(delay, |most| most.max(delay)));
        }
    }

    pub fn done(&self) -> u64 {
        self.statuses.get(&StatusKey::ok()).map_or(0, |ok| ok.count)
    }

    pub fn refused(&self) -> u64 {
        let refusals = self.statuses.iter().filter(|(status, _)| status.is_refusal());
        refusals.map(|(_, known)| known.count).sum()
    }

    pub fn failed(&self) -> u64 {
        self.sent - self.done() - self.refused()
    }
}

/// Counts of one flow over time.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    width: Duration,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    scheduled: u64,
    refused: u64,
    failed: u64,
    not_sent: u64,
    done: u64,
    latency: Times,
}

impl Timeline {
    /// Creates a timeline for a run that takes about `length`.
    pub fn over(length: Duration) -> Self {
        let width = Duration::from_secs((length.as_secs() / MOST_POINTS).max(1));
        Self { width, buckets: Vec::new() }
    }

    pub fn note(&mut self, request: &Ended) {
        let bucket = self.bucket(request.scheduled);
        bucket.scheduled += 1;
        match &request.outcome {
            Outcome::Done(_) => {
                bucket.latency.note(request.ended.saturating_sub(request.scheduled));
                self.bucket(request.ended).done += 1;
            }
            Outcome::Failed(failure) if failure.status.is_refusal() => bucket.refused += 1,
            Outcome::Failed(_) => bucket.failed += 1,
            Outcome::NotSent(_) => bucket.not_sent += 1,
        }
    }

    fn bucket(&mut self, at: Duration) -> &mut Bucket {
        let index = (at.as_nanos() / self.width.as_nanos()) as usize;
        if self.buckets.len() <= index {
            self.buckets.resize_with(index + 1, Bucket::default);
        }
        &mut self.buckets[index]
    }

    pub fn points(&self) -> Vec<LoadPoint> {
        let width = self.width.as_secs_f64();
        let points = self.buckets.iter().enumerate().map(|(index, bucket)| {
            let per_sec = |count: u64| count as f64 / width;
            let latency = bucket.latency.summary();
            let has_latency = latency.count > 0;
            LoadPoint {
                at_secs: index as f64 * width,
                offered_per_sec: per_sec(bucket.scheduled),
                done_per_sec: per_sec(bucket.done),
                refused_per_sec: per_sec(bucket.refused),
                failed_per_sec: per_sec(bucket.failed),
                not_sent_per_sec: per_sec(bucket.not_sent),
                p50_ms: has_latency.then_some(latency.p50_ms),
                p99_ms: has_latency.then_some(latency.p99_ms),
            }
        });
        points.collect()
    }
}

/// Rates and latencies of a flow at a time. Latencies are those of requests that were due then.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LoadPoint {
    /// Seconds from the beginning of the run.
    pub at_secs: f64,
    /// Requests per second that were due.
    pub offered_per_sec: f64,
    /// Requests per second whose answer came.
    pub done_per_sec: f64,
    /// Requests per second that were due and were refused.
    pub refused_per_sec: f64,
    /// Requests per second that were due and failed otherwise.
    pub failed_per_sec: f64,
    /// Requests per second that were due and were not sent.
    pub not_sent_per_sec: f64,
    /// Median latency in milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the latency in milliseconds.
    pub p99_ms: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn done(scheduled: u64, sent: u64, ended: u64, timing: Option<ServerTime>) -> Ended {
        let outcome = Outcome::Done(Done { timing, ..Done::default() });
        Ended { scheduled: ms(scheduled), sent: ms(sent), ended: ms(ended), outcome }
    }

    use crate::outcome::ServerTime;

    #[test]
    fn latency_counts_from_when_a_request_was_due() {
        let mut counts = FlowCounts::default();
        counts.note(&done(0, 900, 1000, None));
        assert!((counts.latency.summary().p50_ms - 1000.0).abs() < 1.0);
        assert!((counts.parts.late.summary().p50_ms - 900.0).abs() < 1.0);
    }

    #[test]
    fn the_parts_of_a_request_add_up_to_it() {
        let timing = ServerTime { queue: ms(5), compute: ms(20), store: ms(30), total: ms(60) };
        let mut counts = FlowCounts::default();
        counts.note(&done(0, 10, 110, Some(timing)));
        let parts = &counts.parts;
        let all =
            [&parts.late, &parts.wire, &parts.queue, &parts.compute, &parts.store, &parts.rest];
        let sum: f64 = all.iter().map(|part| part.summary().p50_ms).sum();
        assert!((sum - 110.0).abs() < 1.0, "{sum}");
    }

    #[test]
    fn the_last_answer_is_the_latest_not_the_last_noted() {
        let mut counts = FlowCounts::default();
        counts.note(&done(0, 0, 900, None));
        counts.note(&done(900, 900, 1100, None));
        counts.note(&done(0, 0, 1000, None));
        assert_eq!((counts.done(), counts.last_done), (3, ms(1100)));
    }

    #[test]
    fn what_was_not_sent_is_counted_and_has_no_latency() {
        let mut counts = FlowCounts::default();
        let outcome = Outcome::NotSent(crate::outcome::CLIENT_LIMIT);
        counts.note(&Ended { scheduled: ms(1), sent: ms(1), ended: ms(1), outcome });
        assert_eq!((counts.sent, counts.latency.summary().count), (0, 0));
        assert_eq!(counts.not_sent[crate::outcome::CLIENT_LIMIT], 1);
    }

    #[test]
    fn a_long_run_has_no_more_points_than_a_plot_shows() {
        let mut timeline = Timeline::over(Duration::from_secs(3600));
        timeline.note(&done(3_599_000, 3_599_000, 3_599_500, None));
        assert_eq!(timeline.points().len() as u64, MOST_POINTS);
    }
}
