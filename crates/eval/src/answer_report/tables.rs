//! Tables of a report in words.

use std::fmt::{self, Display};

use super::{COSTS, Group, JUDGE_COSTS, Total};
use crate::answers::Metric;
use crate::calibration::Calibration;
use crate::table::{Table, amount, per_cent, spread};
use crate::{AnswerLatency, MissKind};

/// Groups of a report, with the name under which each is shown.
type Rows<'a> = [(String, &'a Group)];

/// Names of the columns of latencies, in the order of [`latencies`].
pub(super) const LATENCIES: [&str; 2] = ["median seconds", "p95 seconds"];

/// Returns the latencies, in the order of [`LATENCIES`].
pub(super) fn latencies(latency: &AnswerLatency) -> [String; 2] {
    [latency.median, latency.p95].map(amount)
}

/// Returns the table of the metrics of groups, with the intervals on a line of their own.
pub(super) fn quality(first: &str, metrics: &[Metric], groups: &Rows<'_>) -> Table {
    let header = [first.to_owned(), "n".to_owned()];
    let header = header.into_iter().chain(metrics.iter().map(Metric::to_string)).collect();
    let mut rows: Vec<Vec<String>> = vec![header];
    for (name, group) in groups {
        let (mut means, mut spreads) =
            (vec![name.clone(), group.n.to_string()], vec![String::new(), String::new()]);
        for metric in metrics {
            let estimate = group.metrics.get(metric);
            means.push(estimate.map_or_else(String::new, |estimate| per_cent(estimate.mean)));
            spreads.push(estimate.map_or_else(String::new, |estimate| spread(estimate, group.n)));
        }
        rows.extend([means, spreads]);
    }
    Table::of(rows)
}

/// Writes under headings what groups cost, how well they are calibrated, and what kinds of wrong
/// answers they have. Tables without contents are left out.
pub(super) fn write_details(
    f: &mut fmt::Formatter<'_>,
    first: &str,
    groups: &Rows<'_>,
) -> fmt::Result {
    writeln!(f, "\ncost, mean per question, with 95 % intervals below\n")?;
    let names = COSTS.iter().map(|(name, _)| *name).chain(LATENCIES);
    let rows = groups.iter().map(|(name, group)| {
        let latency = latencies(&group.latency).to_vec();
        (name, &group.costs[..], latency)
    });
    costs(first, names, rows).fmt(f)?;
    if groups.iter().any(|(_, group)| !group.judge_costs.is_empty()) {
        writeln!(f, "\ncost of judging, mean per question, with 95 % intervals below\n")?;
        let rows = groups.iter().map(|(name, group)| (name, &group.judge_costs[..], Vec::new()));
        costs(first, JUDGE_COSTS.iter().map(|(name, _)| *name), rows).fmt(f)?;
    }
    let calibrated = groups
        .iter()
        .filter_map(|(name, group)| Some((name.as_str(), group.calibration.as_ref()?)));
    let calibrated: Vec<_> = calibrated.collect();
    if !calibrated.is_empty() {
        writeln!(f, "\nanswers given: share that is right, by confidence, per cent\n")?;
        Calibration::table(first, &calibrated).fmt(f)?;
    }
    let kinds = miss_kinds(groups.iter().map(|(_, group)| *group));
    if !kinds.is_empty() {
        writeln!(f, "\nwrong answers by kind\n")?;
        misses(first, &kinds, groups).fmt(f)?;
    }
    Ok(())
}

fn costs<'a>(
    first: &'a str,
    names: impl Iterator<Item = &'a str>,
    groups: impl Iterator<Item = (&'a String, &'a [Total], Vec<String>)>,
) -> Table {
    let header = std::iter::once(first).chain(names).map(|name| name.replace('_', " "));
    let mut rows: Vec<Vec<String>> = vec![header.collect()];
    for (name, totals, more) in groups {
        let blank = vec![String::new(); more.len()];
        let means = totals.iter().map(|cost| amount(cost.mean));
        let spreads = totals.iter().map(|cost| {
            let [low, high] = cost.ci95.map(amount);
            format!("{low}-{high}")
        });
        rows.push(std::iter::once(name.clone()).chain(means).chain(more).collect());
        rows.push(std::iter::once(String::new()).chain(spreads).chain(blank).collect());
    }
    Table::of(rows)
}

/// Returns the kinds of wrong answers that some group has, in order.
pub(super) fn miss_kinds<'a>(groups: impl Iterator<Item = &'a Group> + Clone) -> Vec<MissKind> {
    let occurs = |kind: &MissKind| groups.clone().any(|group| group.misses.contains_key(kind));
    MissKind::ALL.into_iter().filter(occurs).collect()
}

fn misses(first: &str, kinds: &[MissKind], groups: &Rows<'_>) -> Table {
    let header = [first.to_owned(), "wrong".to_owned()];
    let header = header.into_iter().chain(kinds.iter().map(MissKind::to_string));
    let mut rows: Vec<Vec<String>> = vec![header.collect()];
    for (name, group) in groups {
        rows.push(std::iter::once(name.clone()).chain(miss_counts(kinds, group)).collect());
    }
    Table::of(rows)
}

/// Returns the number of wrong answers of a group: in all, and of each of `kinds`.
pub(super) fn miss_counts(kinds: &[MissKind], group: &Group) -> Vec<String> {
    let of_kind = |kind: &MissKind| group.misses.get(kind).copied().unwrap_or(0);
    let all = group.misses.values().sum::<usize>();
    std::iter::once(all).chain(kinds.iter().map(of_kind)).map(|count| count.to_string()).collect()
}
