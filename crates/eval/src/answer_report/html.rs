//! Report as one HTML page: tables and plots, without scripts and without anything to load.

use clew_text::escaped;

use super::colours::series;
use super::plot::{Bars, Point, bars, scatter};
use super::runs::{group_names, headline, labels, metrics};
use super::tables::{LATENCIES, latencies, miss_counts, miss_kinds};
use super::{AnswerReport, COSTS, EVIDENCE_TOKENS, Group, JUDGE_COSTS, OVERALL, Total};
use crate::MissKind;
use crate::answers::Metric;
use crate::calibration::Calibration;
use crate::table::{amount, interval, per_cent, spread};

const STYLE: &str = include_str!("style.css");

/// Returns the page of `reports`: at least one, all of the same data.
pub(super) fn page(reports: &[&AnswerReport]) -> String {
    let labels = labels(reports);
    let format = reports.first().map_or("", |report| &report.run.format);
    let data = reports.first().map_or("", |report| &report.run.data);
    let title = match &labels[..] {
        [label] => format!("{format}: {label}"),
        labels => format!("{format}: {} runs", labels.len()),
    };
    let mut body = format!("<h1>{}</h1>\n<p>Data {}.", escaped(&title), escaped(data));
    body += " Quality in per cent, with 95 % intervals over questions; costs per question.</p>\n";
    if reports.iter().any(|report| report.questions() != reports[0].questions()) {
        body += "<p><strong>The runs answered different numbers of questions.</strong></p>\n";
    }
    let metric = headline(reports);
    if reports.len() > 1 {
        body += &runs(reports, &labels);
        let title = format!("{metric} against evidence");
        let x_name = "evidence tokens per question";
        body += &figure(&title, &scatter(&title, x_name, &points(reports, &labels, metric)));
    }
    let title = format!("{metric} by type");
    let groups: Vec<_> = group_names(reports)
        .into_iter()
        .map(|group| Bars {
            group,
            runs: reports.iter().map(|report| report.estimate(group, metric)).collect(),
        })
        .filter(|bars: &Bars<'_>| bars.runs.iter().any(Option::is_some))
        .collect();
    body += &figure(&title, &bars(&title, &labels, &groups));
    if reports.len() > 1 {
        body += "<h2>each run</h2>\n";
    }
    for (index, (report, label)) in reports.iter().zip(&labels).enumerate() {
        let details = details(report);
        body += &if reports.len() > 1 {
            let (number, label) = (index + 1, escaped(label));
            format!("<details>\n<summary>{number} {label}</summary>\n{details}</details>\n")
        } else {
            details
        };
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escaped(&title),
    )
}

/// Returns the tables of all runs over all questions.
fn runs(reports: &[&AnswerReport], labels: &[String]) -> String {
    let named: Vec<_> = reports
        .iter()
        .zip(labels)
        .enumerate()
        .map(|(index, (report, label))| {
            let dot = format!("<span class=\"dot {}\"></span>", series(index));
            (format!("{dot}{} {}", index + 1, escaped(label)), report.overall())
        })
        .collect();
    let quality = quality_table(&metrics(reports), "run", named.iter().cloned());
    format!("<h2>{OVERALL}</h2>\n{quality}{}", detail_tables("run", &named))
}

fn points(reports: &[&AnswerReport], labels: &[String], metric: Metric) -> Vec<Point> {
    let point = |(report, label): (&&AnswerReport, &String)| {
        let y = report.estimate(OVERALL, metric)?;
        Some(Point { label: label.clone(), x: report.overall().mean_cost(EVIDENCE_TOKENS), y })
    };
    reports.iter().zip(labels).filter_map(point).collect()
}

/// Returns the settings and tables of one run.
fn details(report: &AnswerReport) -> String {
    let groups = report.groups.iter().map(|group| (escaped(&group.name), group));
    let groups: Vec<_> = groups.collect();
    let quality = quality_table(&report.metrics(), "group", groups.iter().cloned());
    format!("{}{quality}{}", settings(report), detail_tables("group", &groups))
}

fn settings(report: &AnswerReport) -> String {
    let items = report.run.settings.iter();
    let items =
        items.map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value)));
    let items: String = items.collect();
    if items.is_empty() { items } else { format!("<dl>{items}</dl>\n") }
}

/// Returns the table of metrics. Rows are names, as HTML, and their groups.
fn quality_table<'a>(
    metrics: &[Metric],
    first: &str,
    rows: impl Iterator<Item = (String, &'a Group)>,
) -> String {
    let header: Vec<_> =
        ["n".to_owned()].into_iter().chain(metrics.iter().map(Metric::to_string)).collect();
    let rows = rows.map(|(name, group)| {
        let cells = metrics.iter().map(|metric| {
            group.metrics.get(metric).map_or_else(String::new, |estimate| {
                format!("{} <small>{}</small>", per_cent(estimate.mean), spread(estimate, group.n))
            })
        });
        (name, std::iter::once(group.n.to_string()).chain(cells).collect())
    });
    table("Quality", first, &header, rows)
}

/// Returns the tables below that of quality: of costs and, where there is something to show, of
/// judging, of calibration and of kinds of wrong answers.
fn detail_tables(first: &str, groups: &[(String, &Group)]) -> String {
    let rows = groups.iter().map(|(name, group)| {
        let latency = latencies(&group.latency).to_vec();
        (name, &group.costs[..], latency)
    });
    let names = COSTS.iter().map(|(name, _)| *name).chain(LATENCIES);
    let mut tables = cost_table("Cost per question", first, names, rows);
    if groups.iter().any(|(_, group)| !group.judge_costs.is_empty()) {
        let rows = groups.iter().map(|(name, group)| (name, &group.judge_costs[..], Vec::new()));
        let names = JUDGE_COSTS.iter().map(|(name, _)| *name);
        tables += &cost_table("Cost of judging per question", first, names, rows);
    }
    if groups.iter().any(|(_, group)| group.calibration.is_some()) {
        tables += &reliability_table(first, groups);
    }
    let kinds = miss_kinds(groups.iter().map(|(_, group)| *group));
    if !kinds.is_empty() {
        let header =
            std::iter::once("wrong".to_owned()).chain(kinds.iter().map(MissKind::to_string));
        let rows = groups.iter().map(|(name, group)| (name.clone(), miss_counts(&kinds, group)));
        tables += &table("Wrong answers by kind", first, &header.collect::<Vec<_>>(), rows);
    }
    tables
}

fn cost_table<'a>(
    caption: &str,
    first: &str,
    names: impl Iterator<Item = &'a str>,
    rows: impl Iterator<Item = (&'a String, &'a [Total], Vec<String>)>,
) -> String {
    let header: Vec<_> = names.map(|name| name.replace('_', " ")).collect();
    let rows = rows.map(|(name, totals, more)| {
        let cells = totals.iter().map(|cost| {
            let [low, high] = cost.ci95.map(amount);
            format!("{} <small>{low}-{high}</small>", amount(cost.mean))
        });
        let mut cells: Vec<String> = cells.chain(more).collect();
        cells.resize(header.len(), String::new());
        (name.clone(), cells)
    });
    table(caption, first, &header, rows)
}

/// Returns the table of the calibration of each group.
fn reliability_table(first: &str, groups: &[(String, &Group)]) -> String {
    let header = ["n", "ece", "confidence", "right"].map(str::to_owned);
    let header: Vec<_> = header.into_iter().chain(Calibration::bin_names()).collect();
    let rows = groups.iter().filter_map(|(name, group)| {
        let calibration = group.calibration.as_ref()?;
        let Calibration { n, ece, confidence, right, .. } = calibration;
        let mut cells = vec![n.to_string(), per_cent(*ece), per_cent(*confidence)];
        cells.push(format!("{} <small>{}</small>", per_cent(right.mean), interval(right.ci95)));
        cells.extend(calibration.all_bins().map(|bin| {
            bin.map_or_else(String::new, |bin| {
                format!("{} <small>of {}</small>", per_cent(bin.right.mean), bin.n)
            })
        }));
        Some((name.clone(), cells))
    });
    let caption = "Answers given: share that is right, by confidence";
    table(caption, first, &header, rows)
}

/// Returns a table of HTML cells with a name for each row.
fn table(
    caption: &str,
    first: &str,
    header: &[String],
    rows: impl Iterator<Item = (String, Vec<String>)>,
) -> String {
    let header: String =
        header.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let rows: String = rows
        .map(|(name, cells)| {
            let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
            format!("<tr><th scope=\"row\">{name}</th>{cells}</tr>\n")
        })
        .collect();
    format!(
        "<div class=\"wide\"><table>\n<caption>{caption}</caption>\n\
         <thead><tr><th scope=\"col\">{first}</th>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

fn figure(title: &str, svg: &str) -> String {
    format!("<figure>\n<figcaption>{}</figcaption>\n{svg}</figure>\n", escaped(title))
}
