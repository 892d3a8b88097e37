//! Summary of several reports of retrieval: a row for each.

use std::fmt::Write;

use crate::RetrievalReport;

/// Metrics of a row, as far as they were measured.
const METRICS: [&str; 7] = ["any@5", "all@5", "frac@5", "ndcg@5", "all@10", "frac@10", "ndcg@10"];
/// Name of the group of all questions.
const ALL: &str = "all";
/// Type whose questions ask about times ("LongMemEval", table 4).
const TEMPORAL: &str = "temporal-reasoning";

/// Returns the reports as a table over all questions, with one row each, in per cent with 95 %
/// intervals. If reports differ by the use of times, a second table has the questions that ask
/// about times. Settings that all reports share are written once, above. Returns an empty text for
/// fewer than two reports, which leave nothing to compare.
pub fn summary(reports: &[RetrievalReport]) -> String {
    let [first, _, ..] = reports else { return String::new() };
    let settings: Vec<_> = reports.iter().map(|report| report.run().settings()).collect();
    let differs = |column: &usize| settings.iter().any(|row| row[*column] != settings[0][*column]);
    let (columns, same): (Vec<usize>, Vec<usize>) = (0..settings[0].len()).partition(differs);
    let same = same.iter().map(|column| settings[0][*column]);
    let same: String = same.map(|(name, value)| format!(", {name} {value}")).collect();
    let mut text = format!("{}{same}\n", first.run().format);
    let varies_time = columns.iter().any(|column| settings[0][*column].0 == "time");
    for group in if varies_time { &[ALL, TEMPORAL][..] } else { &[ALL] } {
        if reports.iter().any(|report| report.questions(group) > 0) {
            let rows = rows(reports, group, &columns);
            // Writing to a string cannot fail.
            let _ = write!(text, "{group}, per cent with 95 % intervals\n\n{}\n", aligned(&rows));
        }
    }
    text
}

/// Returns a header, and a row for each report.
fn rows(reports: &[RetrievalReport], group: &str, columns: &[usize]) -> Vec<Vec<String>> {
    let is_measured = |metric: &&str| reports.iter().any(|one| one.mean(group, metric).is_some());
    let metrics: Vec<&str> = METRICS.into_iter().filter(is_measured).collect();
    let names = |report: &RetrievalReport| report.run().settings().map(|(name, _)| name);
    let mut header: Vec<String> = Vec::new();
    if let Some(report) = reports.first() {
        header.extend(columns.iter().map(|column| names(report)[*column].to_owned()));
    }
    header.push("n".to_owned());
    header.extend(metrics.iter().map(|metric| (*metric).to_owned()));
    let row = |report: &RetrievalReport| {
        let settings = report.run().settings();
        let mut row: Vec<String> =
            columns.iter().map(|column| settings[*column].1.to_owned()).collect();
        row.push(report.questions(group).to_string());
        row.extend(metrics.iter().map(|metric| cell(report, group, metric)));
        row
    };
    std::iter::once(header).chain(reports.iter().map(row)).collect()
}

/// Formats a mean and its interval as `64.4 58-70`; empty if nothing was measured.
fn cell(report: &RetrievalReport, group: &str, metric: &str) -> String {
    let (mean, interval) = (report.mean(group, metric), report.interval(group, metric));
    let Some((mean, [low, high])) = mean.zip(interval) else { return String::new() };
    format!("{:.1} {:.0}-{:.0}", 100.0 * mean, 100.0 * low, 100.0 * high)
}

fn aligned(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Scoring;
    use crate::{EvalQuestion, Run, Tally, UnitKind};

    fn report(keys: &str, time: &str, kind: &str, ranking: &[&str]) -> RetrievalReport {
        let mut tally = Tally::new("5,10".parse().unwrap());
        let question = EvalQuestion {
            id: "q".to_owned(),
            text: "?".to_owned(),
            kind: kind.to_owned(),
            groups: vec!["all".to_owned()],
            gold: ["a", "b"].map(|id| id.parse().unwrap()).to_vec(),
            asked_at: None,
            is_abstention: false,
            references: Vec::new(),
            scoring: Scoring::Squad,
        };
        let ranking: Vec<_> = ranking.iter().map(|id| id.parse().unwrap()).collect();
        tally.add(&question, &ranking);
        let run = Run {
            format: "longmemeval".to_owned(),
            unit: UnitKind::Round,
            keys: keys.to_owned(),
            merging: "key".to_owned(),
            mode: "hybrid".to_owned(),
            smoothing: "none".to_owned(),
            time: time.to_owned(),
            strategy: "search".to_owned(),
        };
        tally.report(run).unwrap()
    }

    #[test]
    fn what_differs_is_in_the_rows_and_the_rest_above() {
        let reports = [
            report("value", "ignore", "multi-session", &["a", "b"]),
            report("value+fact", "ignore", "multi-session", &["x", "b"]),
        ];
        let expected = "\
longmemeval, unit round, merging key, mode hybrid, smoothing none, time ignore, strategy search
all, per cent with 95 % intervals

keys        n  any@5          all@5          frac@5         ndcg@5         all@10         frac@10        ndcg@10
value       1  100.0 100-100  100.0 100-100  100.0 100-100  100.0 100-100  100.0 100-100  100.0 100-100  100.0 100-100
value+fact  1  100.0 100-100  0.0 0-0        50.0 50-50     38.7 39-39     0.0 0-0        50.0 50-50     38.7 39-39

";
        assert_eq!(summary(&reports), expected);
    }

    #[test]
    fn where_time_is_varied_the_questions_on_times_have_a_table_of_their_own() {
        let reports =
            |kind: &str| ["ignore", "filter"].map(|time| report("value", time, kind, &["a"]));
        let tables = summary(&reports(TEMPORAL));
        assert_eq!(tables.matches("\ntime ").count(), 2, "{tables}");
        assert!(tables.contains("\ntemporal-reasoning, per cent"), "{tables}");
        // There may be no such question.
        assert_eq!(summary(&reports("multi-session")).matches("\ntime ").count(), 1);
    }

    #[test]
    fn one_report_is_its_own_summary() {
        assert_eq!(summary(&[]), "");
        assert_eq!(summary(&[report("value", "ignore", "multi-session", &["a"])]), "");
    }
}
