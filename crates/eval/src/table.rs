//! Tables of text, with columns as wide as their contents.

use std::fmt::{self, Display};

use crate::MetricMean;

/// Table of text; the first row is the header. The first column is aligned to the left, the others
/// to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table whose first row is the header.
    pub(crate) fn of(rows: Vec<Vec<String>>) -> Self {
        Self { rows }
    }
}

/// Formats a fraction in per cent, such as `45.6`.
pub(crate) fn per_cent(fraction: f64) -> String {
    format!("{:.1}", 100.0 * fraction)
}

/// Formats an interval of fractions in per cent, such as `39-52`.
pub(crate) fn interval([low, high]: [f64; 2]) -> String {
    format!("{:.0}-{:.0}", 100.0 * low, 100.0 * high)
}

/// Formats an interval such as `39-52`, or `39-52 of 24` if only that many of the group's `n`
/// questions, or pairs, have the metric.
pub(crate) fn spread(estimate: &MetricMean, n: usize) -> String {
    let interval = interval(estimate.ci95);
    if estimate.n == n { interval } else { format!("{interval} of {}", estimate.n) }
}

/// Formats an amount: large amounts with few digits, small ones with more.
pub(crate) fn amount(amount: f64) -> String {
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
