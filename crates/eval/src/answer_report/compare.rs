//! Comparison of several runs on the same questions.

use std::fmt;

use serde::{Serialize, Serializer};

use super::runs::{group_names, headline, labels, metrics};
use super::{AnswerReport, Group, OVERALL, html, tables};
use crate::Error;
use crate::table::{Table, per_cent};

/// Reports on the same questions, in the order in which they were given.
///
/// As JSON: `{"runs": [<report>, …]}`. As text: tables over all questions with a row for each run,
/// and a table of the headline metric by type with a column for each run. As a page:
/// [`Comparison::to_html`].
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    reports: Vec<&'a AnswerReport>,
}

/// Compares `reports`. Unfinished runs can be compared too; their numbers of questions show it.
///
/// # Errors
/// Returns [`Error::NothingToScore`] if there are none, and [`Error::NotComparable`] if they are
/// not about the same data.
pub fn compare(reports: &[AnswerReport]) -> Result<Comparison<'_>, Error> {
    let first = reports.first().ok_or(Error::NothingToScore)?;
    for other in reports {
        let data = |report: &AnswerReport| {
            format!("format `{}` with data `{}`", report.run.format, report.run.data)
        };
        if data(first) != data(other) {
            let problem = format!("{} and {}", data(first), data(other));
            return Err(Error::NotComparable { problem });
        }
    }
    Ok(Comparison { reports: reports.iter().collect() })
}

impl Comparison<'_> {
    /// Returns one HTML page with tables and plots, which loads and runs nothing.
    pub fn to_html(&self) -> String {
        html::page(&self.reports)
    }
}

impl Serialize for Comparison<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("runs", &self.reports)])
    }
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = labels(&self.reports);
        let overall = self.reports.iter().map(|report| report.overall());
        let runs: Vec<(String, &Group)> = labels.iter().cloned().zip(overall).collect();
        let format = self.reports.first().map_or("", |report| &report.run.format);
        writeln!(f, "{format}, {OVERALL}, per cent, with 95 % intervals below\n")?;
        tables::quality("run", &metrics(&self.reports), &runs).fmt(f)?;
        tables::write_details(f, "run", &runs)?;
        let metric = headline(&self.reports);
        writeln!(f, "\n{metric} by type, per cent\n")?;
        let header = std::iter::once("group".to_owned()).chain(labels);
        let mut rows: Vec<Vec<String>> = vec![header.collect()];
        for name in group_names(&self.reports) {
            let cells = self.reports.iter().map(|report| {
                let estimate = report.estimate(name, metric);
                estimate.map_or_else(String::new, |estimate| per_cent(estimate.mean))
            });
            rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
        Table::of(rows).fmt(f)
    }
}
