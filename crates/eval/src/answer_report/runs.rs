//! Common and different properties of several runs: labels, metrics and groups.

use super::AnswerReport;
use crate::answers::Metric;

/// Returns a label for each run that distinguishes it from the others: its strategy, and the
/// settings in which they differ.
pub(super) fn labels(reports: &[&AnswerReport]) -> Vec<String> {
    let differs = |name: &str| {
        let mut values = reports.iter().map(|report| report.run.settings.get(name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let label = |report: &&AnswerReport| {
        let settings = report.run.settings.iter().filter(|(name, _)| differs(name));
        let settings = settings.map(|(name, value)| format!(" {name}={value}"));
        format!("{}{}", report.run.strategy, settings.collect::<String>())
    };
    reports.iter().map(label).collect()
}

/// Returns the first metric, in the order of reports, that all runs have.
pub(super) fn headline(reports: &[&AnswerReport]) -> Metric {
    let common = |metric: &Metric| {
        reports.iter().all(|report| report.overall().metrics.contains_key(metric))
    };
    Metric::ALL.into_iter().find(common).unwrap_or(Metric::Answered)
}

/// Returns the names of the groups of any run, in the order of the first run that has them.
pub(super) fn group_names<'a>(reports: &[&'a AnswerReport]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for group in reports.iter().flat_map(|report| &report.groups) {
        if !names.contains(&&*group.name) {
            names.push(&group.name);
        }
    }
    names
}

/// Returns the metrics that any run has over all questions, in order.
pub(super) fn metrics(reports: &[&AnswerReport]) -> Vec<Metric> {
    let known = |metric: &Metric| {
        reports.iter().any(|report| report.overall().metrics.contains_key(metric))
    };
    Metric::ALL.into_iter().filter(known).collect()
}
