//! Tables of text, with columns as wide as their contents.

use std::fmt::{self, Display};

use super::{COSTS, Group, JUDGE_COSTS, MetricMean, Total};
use crate::answers::Metric;

/// Table of text; the first row is the header. The first column is aligned to the left, the others
/// to the right.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

/// Returns the table of the metrics of groups, with the intervals on a line of their own.
pub(super) fn quality(first: &str, metrics: &[Metric], groups: &[(String, &Group)]) -> Table {
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
    Table { rows }
}

/// Writes the mean costs of groups under headings: of answering and, if answers were judged, of
/// judging.
pub(super) fn write_costs(
    f: &mut fmt::Formatter<'_>,
    first: &str,
    groups: &[(String, &Group)],
) -> fmt::Result {
    writeln!(f, "\ncost, mean per question\n")?;
    let rows = groups.iter().map(|(name, group)| (name, &group.costs[..]));
    costs(first, COSTS.map(|(name, _)| name), rows).fmt(f)?;
    if groups.iter().all(|(_, group)| group.judge_costs.is_empty()) {
        return Ok(());
    }
    writeln!(f, "\ncost of judging, mean per question\n")?;
    let rows = groups.iter().map(|(name, group)| (name, &group.judge_costs[..]));
    costs(first, JUDGE_COSTS.map(|(name, _)| name), rows).fmt(f)
}

fn costs<'a, const N: usize>(
    first: &str,
    names: [&str; N],
    groups: impl Iterator<Item = (&'a String, &'a [Total])>,
) -> Table {
    let header = std::iter::once(first).chain(names).map(|name| name.replace('_', " "));
    let mut rows: Vec<Vec<String>> = vec![header.collect()];
    for (name, totals) in groups {
        let means = totals.iter().map(|cost| amount(cost.mean));
        rows.push(std::iter::once(name.clone()).chain(means).collect());
    }
    Table { rows }
}

impl Table {
    /// Creates a table whose first row is the header.
    pub(super) fn of(rows: Vec<Vec<String>>) -> Self {
        Self { rows }
    }
}

/// Formats a fraction in per cent, such as `45.6`.
pub(super) fn per_cent(fraction: f64) -> String {
    format!("{:.1}", 100.0 * fraction)
}

/// Formats an interval of fractions in per cent, such as `39-52`.
pub(super) fn interval(estimate: &MetricMean) -> String {
    let [low, high] = estimate.ci95;
    format!("{:.0}-{:.0}", 100.0 * low, 100.0 * high)
}

/// Formats an interval such as `39-52`, or `39-52 of 24` if only that many of the group's `n`
/// questions, or pairs, have the metric.
pub(super) fn spread(estimate: &MetricMean, n: usize) -> String {
    let interval = interval(estimate);
    if estimate.n == n { interval } else { format!("{interval} of {}", estimate.n) }
}

/// Formats an amount: large amounts with few digits, small ones with more.
pub(super) fn amount(amount: f64) -> String {
    let digits = match amount {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{amount:.digits$}")
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
