//! Report of the answers of a run: mean quality with 95 % intervals, and cost.

mod colours;
mod compare;
mod html;
mod plot;
mod runs;
mod table;

use std::collections::BTreeMap;
use std::fmt;

pub use compare::{Comparison, compare};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::answers::{Metric, pair_accuracy};
use crate::bootstrap::intervals_95;
use crate::report::{BOOTSTRAP_SEED, Entries};
use crate::{AnswerCost, AnswerRecord, Error, JudgeCost, RunIdentity};

/// Name of the group of all questions of a run.
const OVERALL: &str = "overall";

/// Function that reads one cost of an answer.
type CostOf = fn(&AnswerCost) -> f64;

/// Costs by name, in the order of reports.
const COSTS: [(&str, CostOf); 6] = [
    ("model_calls", |cost| cost.model_calls as f64),
    ("prompt_tokens", |cost| cost.prompt_tokens as f64),
    ("completion_tokens", |cost| cost.completion_tokens as f64),
    ("embedded_tokens", |cost| cost.embedded_tokens as f64),
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
/// {"f1": {"n", "mean", "ci95": [low, high]}, …}, "cost": {"model_calls": {"mean", "total"}, …},
/// "judge_cost": {"model_calls": {"mean", "total"}, …}}, "<type>": {…}}}` with fractions from 0 to
/// 1, costs per question and in total, and keys in a stable order. Costs of judging are per judged
/// question, and are left out if no question was judged. As text: tables, with quality in per cent.
/// As a page: [`AnswerReport::to_html`].
///
/// The `n` of a metric is the number of questions that have it; for `pair-accuracy`, the number of
/// complete pairs. A group of the data set that is called `all`, or that holds every question, is
/// not shown separately: the questions that `all` leaves out, LongMemEval's abstention questions,
/// have answers too.
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
    costs: [Total; COSTS.len()],
    /// Costs of judging the judged answers, in the order of [`JUDGE_COSTS`]; empty if no answer was
    /// judged.
    judge_costs: Vec<Total>,
}

/// Mean of a metric, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MetricMean {
    /// Number of questions, or of pairs.
    pub n: usize,
    /// Mean, from 0 to 1.
    pub mean: f64,
    /// Lower and upper end of the 95 % interval (percentile bootstrap).
    pub ci95: [f64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Total {
    mean: f64,
    total: f64,
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
        let estimates =
            scores.into_iter().map(|(metric, scores)| (metric, MetricMean::of(&scores)));
        let costs = COSTS.map(|(_, cost)| {
            Total::of(records.iter().map(|record| cost(&record.cost)), records.len())
        });
        let judged: Vec<_> = records.iter().filter_map(|record| record.judge_cost).collect();
        let judge_costs = JUDGE_COSTS.iter().filter(|_| !judged.is_empty());
        let judge_costs =
            judge_costs.map(|(_, cost)| Total::of(judged.iter().map(cost), judged.len()));
        Self {
            name: name.to_owned(),
            n: records.len(),
            metrics: estimates.collect(),
            costs,
            judge_costs: judge_costs.collect(),
        }
    }

    /// Returns the mean per question of the cost of that name.
    fn mean_cost(&self, name: &str) -> f64 {
        let costs = COSTS.iter().zip(&self.costs);
        costs.filter(|((known, _), _)| *known == name).map(|(_, total)| total.mean).sum()
    }
}

impl Total {
    /// Computes the total of `n` costs.
    fn of(costs: impl Iterator<Item = f64>, n: usize) -> Self {
        let total: f64 = costs.sum();
        Self { mean: total / n as f64, total }
    }
}

impl MetricMean {
    /// Computes the estimate of at least one score.
    fn of(scores: &[f64]) -> Self {
        let rows: Vec<_> = scores.iter().map(|&score| vec![score]).collect();
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        let ci95 = intervals_95(&rows, BOOTSTRAP_SEED).first().copied().unwrap_or([mean; 2]);
        Self { n: scores.len(), mean, ci95 }
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
        if !self.judge_costs.is_empty() {
            let costs = JUDGE_COSTS.iter().zip(&self.judge_costs);
            let costs = costs.map(|((name, _), total)| (*name, total));
            map.serialize_entry("judge_cost", &Entries(costs.collect()))?;
        }
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
        table::quality("group", &self.metrics(), &self.rows()).fmt(f)?;
        table::write_costs(f, "group", &self.rows())
    }
}

impl AnswerReport {
    fn rows(&self) -> Vec<(String, &Group)> {
        self.groups.iter().map(|group| (group.name.clone(), group)).collect()
    }
}

#[cfg(test)]
mod tests;
