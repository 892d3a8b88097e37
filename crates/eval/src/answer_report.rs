//! Report of the answers of a run: mean quality with 95 % intervals, cost, calibration, and kinds
//! of wrong answers.

mod colours;
mod compare;
mod html;
mod plot;
mod runs;
mod tables;

use std::collections::BTreeMap;
use std::fmt;

pub use compare::{Comparison, compare};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::answers::{Metric, RecordedOutcome, pair_accuracy};
use crate::bootstrap::intervals_95;
use crate::calibration::{Calibration, Forecast};
use crate::report::{BOOTSTRAP_SEED, Entries};
use crate::{
    AnswerCost, AnswerLatency, AnswerRecord, Error, JudgeCost, MetricMean, MissKind, RunIdentity,
};

/// Name of the group of all questions of a run.
const OVERALL: &str = "overall";

/// Function that reads one cost of an answer.
type CostOf = fn(&AnswerCost) -> f64;

/// Costs by name, in the order of reports.
const COSTS: [(&str, CostOf); 7] = [
    ("model_calls", |cost| cost.model_calls as f64),
    ("prompt_tokens", |cost| cost.prompt_tokens as f64),
    ("completion_tokens", |cost| cost.completion_tokens as f64),
    ("embedded_tokens", |cost| cost.embedded_tokens as f64),
    ("reranked_tokens", |cost| cost.reranked_tokens as f64),
    (EVIDENCE_TOKENS, |cost| cost.evidence_tokens as f64),
    ("seconds", |cost| cost.seconds),
];
const EVIDENCE_TOKENS: &str = "evidence_tokens";

/// Function that reads one cost of judging an answer.
type JudgeCostOf = fn(&JudgeCost) -> f64;

/// Costs of judging by name, in the order of reports.
const JUDGE_COSTS: [(&str, JudgeCostOf); 3] = [
    ("model_calls", |cost| cost.model_calls as f64),
    ("prompt_tokens", |cost| cost.prompt_tokens as f64),
    ("completion_tokens", |cost| cost.completion_tokens as f64),
];

/// Averages of a run: over all its questions, over groups of several types and by type.
///
/// As JSON: `{"format", "data", "strategy", "settings": {…}, "groups": {"overall": {"n", "metrics":
/// {"f1": {"n", "mean", "ci95": [low, high]}, …}, "cost": {"model_calls": {"mean", "total", "ci95":
/// [low, high]}, …}, "latency": {"median", "p95"}, "judge_cost": {"model_calls": {…}, …},
/// "calibration": {…}, "misses": {"wrong-span": 3, …}}, "<type>": {…}}}` with fractions from 0 to
/// 1, costs per question and in total, latency in seconds, and keys in a stable order. Costs of
/// judging are per judged question, and are left out if no question was judged. As text: tables,
/// with quality in per cent. As a page: [`AnswerReport::to_html`].
///
/// The `n` of a metric is the number of questions that have it; for `pair-accuracy`, the number of
/// complete pairs; for `abstention-precision`, the number of questions that were refused. A group
/// of the data set that is called `all`, or that holds every question, is not shown separately: the
/// questions that `all` leaves out, LongMemEval's abstention questions, have answers too.
///
/// `calibration` is a [`Calibration`] of the confidence of answers that were given, with whether
/// they are right ([`AnswerRecord::is_right`]). It is left out if no such answer has a confidence.
/// `misses` has the number of wrong answers of each kind that occurs ([`AnswerRecord::miss`]).
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerReport {
    run: RunIdentity,
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq)]
struct Group {
    name: String,
    /// Number of questions.
    n: usize,
    metrics: BTreeMap<Metric, MetricMean>,
    /// Costs, in the order of [`COSTS`].
    costs: Vec<Total>,
    latency: AnswerLatency,
    /// Costs of judging the judged answers, in the order of [`JUDGE_COSTS`]; empty if no answer was
    /// judged.
    judge_costs: Vec<Total>,
    /// Calibration of the answers that were given.
    calibration: Option<Calibration>,
    /// Number of wrong answers by kind.
    misses: BTreeMap<MissKind, usize>,
}

/// Cost of a group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Total {
    mean: f64,
    total: f64,
    /// Lower and upper end of the 95 % interval of the mean (percentile bootstrap).
    ci95: [f64; 2],
}

impl AnswerReport {
    /// Computes the averages of `records`, which are the answers of `run`.
    ///
    /// # Errors
    /// Returns [`Error::NothingToScore`] if there are none.
    pub fn new(run: RunIdentity, records: &[AnswerRecord]) -> Result<Self, Error> {
        if records.is_empty() {
            return Err(Error::NothingToScore);
        }
        let all: Vec<&AnswerRecord> = records.iter().collect();
        let mut wide: Vec<(&str, Vec<&AnswerRecord>)> = Vec::new();
        let mut by_kind: BTreeMap<&str, Vec<&AnswerRecord>> = BTreeMap::new();
        for record in records {
            for group in record.groups.iter().filter(|group| *group != "all") {
                match wide.iter_mut().find(|(name, _)| name == group) {
                    Some((_, members)) => members.push(record),
                    None => wide.push((group, vec![record])),
                }
            }
            by_kind.entry(&record.kind).or_default().push(record);
        }
        wide.retain(|(_, members)| members.len() < records.len());
        let mut groups = vec![Group::of(OVERALL, &all)];
        for (name, members) in wide.into_iter().chain(by_kind) {
            // A type may have the name of a wide group, which already holds its questions.
            if groups.iter().all(|group| group.name != name) {
                groups.push(Group::of(name, &members));
            }
        }
        Ok(Self { run, groups })
    }

    /// Returns the identity of the run.
    pub fn run(&self) -> &RunIdentity {
        &self.run
    }

    /// Returns the number of questions.
    pub fn questions(&self) -> usize {
        self.overall().n
    }

    /// Returns the average of `metric` in `group`, which is `overall`, another group or a type.
    /// Returns `None` if there is no such group, or none of its questions has the metric.
    pub fn estimate(&self, group: &str, metric: Metric) -> Option<MetricMean> {
        let group = self.groups.iter().find(|known| known.name == group)?;
        group.metrics.get(&metric).copied()
    }

    /// Returns the metric that stands for the quality of all answers: of those that any question
    /// has, the first in the order of [`Metric::ALL`].
    pub fn headline(&self) -> Metric {
        let known = |metric: &Metric| self.overall().metrics.contains_key(metric);
        Metric::ALL.into_iter().find(known).unwrap_or(Metric::Answered)
    }

    /// Returns one HTML page with tables and plots, which loads and runs nothing.
    pub fn to_html(&self) -> String {
        html::page(&[self])
    }

    fn overall(&self) -> &Group {
        self.groups.first().expect("`new` puts the group of all questions first")
    }

    /// Returns the metrics that some group has, in order.
    fn metrics(&self) -> Vec<Metric> {
        let known =
            |metric: &Metric| self.groups.iter().any(|group| group.metrics.contains_key(metric));
        Metric::ALL.into_iter().filter(known).collect()
    }
}

impl Group {
    /// Computes the averages of at least one answer.
    fn of(name: &str, records: &[&AnswerRecord]) -> Self {
        let mut scores: BTreeMap<Metric, Vec<f64>> = BTreeMap::new();
        for record in records {
            for (metric, score) in &record.scores {
                scores.entry(*metric).or_default().push(*score);
            }
        }
        let claims = records.iter().filter_map(|record| {
            Some((record.pair.as_deref()?, *record.scores.get(&Metric::Accuracy)?))
        });
        let pairs = pair_accuracy(claims);
        if !pairs.is_empty() {
            scores.insert(Metric::PairAccuracy, pairs);
        }
        let estimates = scores.into_iter();
        let mut metrics: BTreeMap<_, _> = estimates
            .filter_map(|(metric, scores)| Some((metric, MetricMean::of(&scores)?)))
            .collect();
        if metrics.contains_key(&Metric::Abstention) {
            let refused = records.iter().filter(|record| record.is_refusal());
            let refused_rightly = MetricMean::share(refused.map(|of| of.is_abstention()));
            let with_answer = records.iter().filter(|record| !record.is_abstention());
            let attempted = MetricMean::share(with_answer.map(|of| !of.is_refusal()));
            metrics.extend(refused_rightly.map(|of| (Metric::AbstentionPrecision, of)));
            metrics.extend(attempted.map(|of| (Metric::Attempted, of)));
        }
        let costs = records.iter().map(|of| COSTS.map(|(_, cost)| cost(&of.cost)).to_vec());
        let judged = records.iter().filter_map(|of| of.judge_cost);
        let judged = judged.map(|of| JUDGE_COSTS.map(|(_, cost)| cost(&of)).to_vec());
        let seconds = records.iter().map(|record| record.cost.seconds);
        let forecasts: Vec<_> = records.iter().filter_map(|record| forecast(record)).collect();
        let mut misses = BTreeMap::new();
        for kind in records.iter().filter_map(|record| record.miss()) {
            *misses.entry(kind).or_default() += 1;
        }
        Self {
            name: name.to_owned(),
            n: records.len(),
            metrics,
            costs: Total::of(&costs.collect::<Vec<_>>()),
            latency: AnswerLatency::of(seconds).expect("a group has at least one question"),
            judge_costs: Total::of(&judged.collect::<Vec<_>>()),
            calibration: Calibration::of(&forecasts),
            misses,
        }
    }

    /// Returns the mean per question of the cost of that name.
    fn mean_cost(&self, name: &str) -> f64 {
        let costs = COSTS.iter().zip(&self.costs);
        costs.filter(|((known, _), _)| *known == name).map(|(_, total)| total.mean).sum()
    }
}

/// Returns the confidence of an answer that was given, if it is known whether it is right.
fn forecast(record: &AnswerRecord) -> Option<Forecast> {
    if record.outcome != RecordedOutcome::Answered {
        return None;
    }
    Some(Forecast { probability: record.confidence?, is_so: record.is_right()? })
}

impl Total {
    /// Computes the totals of costs, `[questions][costs]`. There are none without questions.
    fn of(rows: &[Vec<f64>]) -> Vec<Self> {
        let intervals = intervals_95(rows, BOOTSTRAP_SEED).into_iter().enumerate();
        let total = |(cost, ci95): (usize, [f64; 2])| {
            let total: f64 = rows.iter().map(|row| row[cost]).sum();
            Self { mean: total / rows.len() as f64, total, ci95 }
        };
        intervals.map(total).collect()
    }
}

impl Serialize for AnswerReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            #[serde(flatten)]
            run: &'a RunIdentity,
            groups: Entries<'a, &'a Group>,
        }
        let groups = self.groups.iter().map(|group| (group.name.as_str(), group)).collect();
        Fields { run: &self.run, groups: Entries(groups) }.serialize(serializer)
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let costs = COSTS.iter().zip(&self.costs).map(|((name, _), total)| (*name, total));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("n", &self.n)?;
        map.serialize_entry("metrics", &self.metrics)?;
        map.serialize_entry("cost", &Entries(costs.collect()))?;
        map.serialize_entry("latency", &self.latency)?;
        if !self.judge_costs.is_empty() {
            let costs = JUDGE_COSTS.iter().zip(&self.judge_costs);
            let costs = costs.map(|((name, _), total)| (*name, total));
            map.serialize_entry("judge_cost", &Entries(costs.collect()))?;
        }
        if let Some(calibration) = &self.calibration {
            map.serialize_entry("calibration", calibration)?;
        }
        map.serialize_entry("misses", &self.misses)?;
        map.end()
    }
}

impl fmt::Display for AnswerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunIdentity { format, strategy, settings, .. } = &self.run;
        write!(f, "{format}, strategy {strategy}")?;
        for (name, value) in settings {
            write!(f, ", {name} {value}")?;
        }
        writeln!(f, "\nper cent, with 95 % intervals below\n")?;
        let rows = self.rows();
        tables::quality("group", &self.metrics(), &rows).fmt(f)?;
        tables::write_details(f, "group", &rows)
    }
}

impl AnswerReport {
    fn rows(&self) -> Vec<(String, &Group)> {
        self.groups.iter().map(|group| (group.name.clone(), group)).collect()
    }
}

#[cfg(test)]
mod tests;
