//! Report as one HTML page that loads nothing else.

use std::fmt::Write;

use clew_text::escaped;

use super::plot::{Bar, Line, Plot, Scale, bars_svg, number};
use super::{PhaseReport, Report};
use crate::observe::Figure;
use crate::record::LoadPoint;

const STYLE: &str = "\
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222 }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse; font-size: 13px } td, th { padding: 3px 9px; text-align: right }
th { border-bottom: 1px solid #999 } td.name, th.name { text-align: left }
tr:nth-child(even) { background: #f5f5f5 }
.holds { color: #007a55 } .fails { color: #c0392b; font-weight: bold }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); gap: 12px }
.scroll { overflow-x: auto }
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: #333 }
svg .heading { font-size: 14px; font-weight: bold } svg .grid { stroke: #ddd }
svg .mark { stroke: #aaa; stroke-dasharray: 3 3 } svg .line { fill: none; stroke-width: 1.6 }
";

/// Parts of a latency, in the order of the plot.
const PARTS: [&str; 6] = ["late", "wire", "queue", "compute", "store", "rest"];

/// Renders the page.
pub fn render(report: &Report) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escaped(&report.title)
    );
    let Report { about, began, seed, cores, prepared, ended_early, .. } = report;
    paragraph(&mut page, about);
    paragraph(&mut page, &format!("Began {began}, seed {seed}, {cores} cores. {prepared}."));
    if !ended_early.is_empty() {
        paragraph(&mut page, &format!("It ended early: {ended_early}."));
    }
    verdicts(&mut page, report);
    heading(&mut page, "Phases");
    phases(&mut page, report);
    heading(&mut page, "Plots");
    page.push_str("<div class=\"plots\">\n");
    for plot in plots(report) {
        page.push_str(&plot.svg());
    }
    page.push_str(&parts(report));
    page.push_str("</div>\n");
    heading(&mut page, "Where the time went");
    paragraph(
        &mut page,
        "Parts of the latency of requests that were done, milliseconds: late, from when a request was due \
         until it was sent; wire, outside the server's own time; queue, compute and store, within the \
         server; rest, what the server spent otherwise.",
    );
    part_table(&mut page, report);
    heading(&mut page, "Statuses");
    statuses(&mut page, report);
    if report.phases.iter().any(|phase| !phase.server.is_empty()) {
        heading(&mut page, "The servers' own histograms");
        server(&mut page, report);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn put(page: &mut String, part: std::fmt::Arguments<'_>) {
    writeln!(page, "{part}").expect("writing to a string cannot fail");
}

fn paragraph(page: &mut String, text: &str) {
    put(page, format_args!("<p>{}</p>", escaped(text)));
}

fn heading(page: &mut String, text: &str) {
    put(page, format_args!("<h2>{}</h2>", escaped(text)));
}

/// Writes a table, whose first `names` columns hold words.
fn table(page: &mut String, names: usize, heads: &[&str], rows: &[Vec<String>]) {
    page.push_str("<div class=\"scroll\"><table>\n<tr>");
    let class = |column: usize| if column < names { " class=\"name\"" } else { "" };
    for (column, head) in heads.iter().enumerate() {
        put(page, format_args!("<th{}>{}</th>", class(column), escaped(head)));
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            put(page, format_args!("<td{}>{}</td>", class(column), escaped(cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn verdicts(page: &mut String, report: &Report) {
    heading(page, "Expectations");
    page.push_str("<ul>\n");
    for verdict in &report.verdicts {
        let word = if verdict.holds { "holds" } else { "fails" };
        let (expected, found) = (escaped(&verdict.expected), escaped(&verdict.found));
        put(
            page,
            format_args!("<li><span class=\"{word}\">{word}</span> {expected}: {found}</li>"),
        );
    }
    page.push_str("</ul>\n");
}

fn phases(page: &mut String, report: &Report) {
    let heads = [
        "phase",
        "flow",
        "offered/s",
        "done/s",
        "documents/s",
        "refused",
        "failed",
        "unsent",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "right",
        "wrong",
        "not known",
    ];
    let mut rows = Vec::new();
    for phase in &report.phases {
        for flow in &phase.flows {
            let latency = flow.latency;
            let right =
                flow.right_share.map_or("–".to_owned(), |r| format!("{:.1} %", r * 100.0));
            let mut row = vec![phase.name.clone(), flow.flow.clone()];
            row.extend(
                [flow.offered_per_sec, flow.done_per_sec, flow.documents_per_sec].map(number),
            );
            row.extend([flow.refused, flow.failed, flow.unsent()].map(|count| count.to_string()));
            row.extend([latency.p50_ms, latency.p90_ms, latency.p99_ms].map(number));
            row.extend([latency.p999_ms, latency.max_ms].map(number));
            row.extend([right, flow.wrong.to_string(), flow.abstained.to_string()]);
            rows.push(row);
        }
    }
    table(page, 2, &heads, &rows);
}

fn part_table(page: &mut String, report: &Report) {
    let mut heads = vec!["phase".to_owned(), "flow".to_owned()];
    for part in PARTS {
        heads.extend([format!("{part} p50"), format!("{part} p99")]);
    }
    let mut rows = Vec::new();
    for phase in &report.phases {
        for flow in phase.flows.iter().filter(|flow| !flow.parts.is_empty()) {
            let mut row = vec![phase.name.clone(), flow.flow.clone()];
            for wanted in PARTS {
                let time = flow.parts.iter().find(|part| part.part == wanted).map(|part| part.time);
                let shown = |value: Option<f64>| value.map_or("–".to_owned(), number);
                row.extend([shown(time.map(|t| t.p50_ms)), shown(time.map(|t| t.p99_ms))]);
            }
            rows.push(row);
        }
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    table(page, 2, &heads, &rows);
}

fn statuses(page: &mut String, report: &Report) {
    let mut rows = Vec::new();
    for phase in &report.phases {
        for flow in &phase.flows {
            for status in &flow.statuses {
                let shown = (status.shown(), status.count.to_string());
                rows.push(vec![phase.name.clone(), flow.flow.clone(), shown.0, shown.1]);
            }
            for (why, count) in &flow.not_sent {
                let row = [phase.name.as_str(), &flow.flow, why, &count.to_string()];
                rows.push(row.map(str::to_owned).to_vec());
            }
        }
    }
    table(page, 3, &["phase", "flow", "status", "requests"], &rows);
}

fn server(page: &mut String, report: &Report) {
    let mut rows = Vec::new();
    for phase in &report.phases {
        for part in phase.server_shown() {
            let shown = |value: Option<f64>| value.map_or("–".to_owned(), number);
            let mut row = vec![phase.name.clone(), part.name.clone(), part.kind.to_owned()];
            row.extend([part.count.to_string(), number(part.total_secs), number(part.mean_ms)]);
            row.extend([shown(part.p50_ms), shown(part.p99_ms)]);
            rows.push(row);
        }
    }
    let heads =
        ["phase", "histogram", "kind", "times", "seconds", "mean ms", "p50 ms ≤", "p99 ms ≤"];
    table(page, 3, &heads, &rows);
}

/// Plots the mean parts of latencies, with a bar for each phase and flow.
fn parts(report: &Report) -> String {
    let mut bars = Vec::new();
    for phase in &report.phases {
        // Flows with a single part only show how late requests were sent.
        for flow in phase.flows.iter().filter(|flow| flow.parts.len() > 1) {
            let mean = |wanted| {
                let part = flow.parts.iter().find(|part| part.part == wanted);
                part.map_or(0.0, |part| part.time.mean_ms)
            };
            let name = format!("{}, {}", phase.name, flow.flow);
            bars.push(Bar { name, parts: PARTS.into_iter().map(mean).collect() });
        }
    }
    bars_svg("Parts of the latency, means", "ms", &PARTS, &bars)
}

fn plots(report: &Report) -> Vec<Plot> {
    let mut plots = by_rate(report);
    let marks: Vec<(f64, String)> =
        report.phases.iter().map(|phase| (phase.from_secs, phase.name.clone())).collect();
    let over_time = |title: String, scale: Scale, lines: Vec<Line>| Plot {
        title,
        x_title: "seconds from the beginning",
        scale,
        lines,
        marks: marks.clone(),
    };
    for timeline in &report.timelines {
        let line = |name: &str, value: fn(&LoadPoint) -> Option<f64>| Line {
            name: name.to_owned(),
            points: timeline.points.iter().map(|point| (point.at_secs, value(point))).collect(),
        };
        let latencies = vec![line("p50", |point| point.p50_ms), line("p99", |point| point.p99_ms)];
        let title = format!("{}: latency over time, ms", timeline.flow);
        plots.push(over_time(title, Scale::Logarithmic, latencies));
        let rates = vec![
            line("offered", |point| Some(point.offered_per_sec)),
            line("done", |point| Some(point.done_per_sec)),
            line("refused", |point| Some(point.refused_per_sec)),
            line("failed", |point| Some(point.failed_per_sec)),
            line("not sent", |point| Some(point.not_sent_per_sec)),
        ];
        let title = format!("{}: requests a second over time", timeline.flow);
        plots.push(over_time(title, Scale::Linear, rates));
    }
    for figure in Figure::ALL {
        let value = |sample| figure.of(sample).map(|value| figure.shown(value));
        let points: Vec<(f64, Option<f64>)> =
            report.samples.iter().map(|sample| (sample.at_secs, value(sample))).collect();
        if points.iter().any(|(_, value)| value.is_some()) {
            let lines = vec![Line { name: figure.title().to_owned(), points }];
            plots.push(over_time(format!("Server: {}", figure.title()), Scale::Linear, lines));
        }
    }
    plots
}

/// Plots the results of each flow against its rate, if it was offered at three or more rates.
fn by_rate(report: &Report) -> Vec<Plot> {
    type Value = fn(&super::FlowReport, &PhaseReport) -> Option<f64>;
    let mut plots = Vec::new();
    for timeline in &report.timelines {
        let mut steps: Vec<_> = report
            .phases
            .iter()
            .filter_map(|phase| Some((phase.flow(&timeline.flow)?, phase)))
            .collect();
        if steps.len() < 3 {
            continue;
        }
        steps.sort_by(|a, b| a.0.offered_per_sec.total_cmp(&b.0.offered_per_sec));
        let line = |name: &str, value: Value| Line {
            name: name.to_owned(),
            points: steps.iter().map(|(f, phase)| (f.offered_per_sec, value(f, phase))).collect(),
        };
        let plot = |title: &str, scale: Scale, lines: Vec<Line>| Plot {
            title: format!("{}: {title}", timeline.flow),
            x_title: "offered requests a second",
            scale,
            lines,
            marks: Vec::new(),
        };
        let latencies = vec![
            line("p50", |flow, _| Some(flow.latency.p50_ms)),
            line("p90", |flow, _| Some(flow.latency.p90_ms)),
            line("p99", |flow, _| Some(flow.latency.p99_ms)),
        ];
        plots.push(plot("latency by rate, ms", Scale::Logarithmic, latencies));
        let rates = vec![
            line("offered", |flow, _| Some(flow.offered_per_sec)),
            line("done", |flow, _| Some(flow.done_per_sec)),
            line("refused", |flow, phase| Some(flow.refused as f64 / phase.secs)),
            line("failed", |flow, phase| Some(flow.failed as f64 / phase.secs)),
        ];
        plots.push(plot("requests a second by rate", Scale::Linear, rates));
        let right = vec![line("right", |flow, _| flow.right_share.map(|share| share * 100.0))];
        plots.push(plot("right answers by rate, %", Scale::Linear, right));
    }
    plots
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::*;
    use crate::metrics::ServerPart;
    use crate::observe::Sample;
    use crate::outcome::StatusKey;
    use crate::record::Latency;
    use crate::report::{FlowReport, PartTiming, StatusReport, TimelineReport};
    use crate::verdict::ExpectationVerdict;

    /// Returns a report with some of everything, and with names that need escaping.
    fn full() -> Report {
        let nasty = "<a & \"b\"> \u{1}";
        let latency =
            Latency { count: 3, p50_ms: 2.0, p99_ms: 9.0, mean_ms: 3.0, ..Latency::default() };
        let flow = |rate: f64| FlowReport {
            flow: nasty.to_owned(),
            scheduled: 9,
            offered_per_sec: rate,
            done_per_sec: rate,
            latency,
            parts: ["late", "queue"].map(|part| PartTiming { part, time: latency }).to_vec(),
            statuses: vec![StatusReport {
                status: StatusKey { code: "OK", reason: nasty.to_owned() },
                count: 2,
                ..StatusReport::default()
            }],
            not_sent: vec![(nasty.to_owned(), 1)],
            right_share: Some(0.5),
            ..FlowReport::default()
        };
        let server = ServerPart {
            name: nasty.to_owned(),
            kind: "queue",
            count: 1,
            total_secs: 1.0,
            mean_ms: 1000.0,
            p50_ms: None,
            p99_ms: Some(5.0),
        };
        let phase = |number: u32| PhaseReport {
            name: format!("{nasty}{number}"),
            from_secs: f64::from(number),
            secs: 1.0,
            flows: vec![flow(f64::from(number + 1))],
            server: vec![server.clone()],
        };
        let point = LoadPoint {
            at_secs: 0.0,
            offered_per_sec: 1.0,
            done_per_sec: 1.0,
            refused_per_sec: 0.0,
            failed_per_sec: 0.0,
            not_sent_per_sec: 0.0,
            p50_ms: Some(1.0),
            p99_ms: None,
        };
        Report {
            title: nasty.to_owned(),
            ended_early: nasty.to_owned(),
            phases: (0..3).map(phase).collect(),
            timelines: vec![TimelineReport { flow: nasty.to_owned(), points: vec![point; 3] }],
            samples: vec![Sample { files: Some(3.0), ..Sample::default() }; 3],
            verdicts: vec![ExpectationVerdict {
                expected: nasty.to_owned(),
                found: nasty.to_owned(),
                holds: false,
            }],
            ..Report::default()
        }
    }

    /// Parses a page as XML and returns the names of its elements.
    fn elements(page: &str) -> Vec<String> {
        let mut reader = Reader::from_str(page);
        reader.config_mut().check_end_names = true;
        let (mut names, mut depth) = (Vec::new(), 0);
        loop {
            match reader.read_event().unwrap() {
                Event::Start(start) => {
                    depth += 1;
                    for attribute in start.attributes() {
                        attribute.unwrap();
                    }
                    names.push(String::from_utf8(start.name().as_ref().to_vec()).unwrap());
                }
                Event::Empty(empty) => {
                    names.push(String::from_utf8(empty.name().as_ref().to_vec()).unwrap());
                }
                Event::End(_) => depth -= 1,
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(depth, 0, "everything that is opened is closed");
        names
    }

    #[test]
    fn the_page_is_well_formed_and_shows_everything() {
        let page = render(&full());
        let names = elements(&page);
        let count = |name: &str| names.iter().filter(|found| *found == name).count();
        // Three by rate, two of the flow over time, one of the server over time, and the bars.
        assert_eq!(count("svg"), 7, "{page}");
        assert_eq!(count("table"), 4);
        assert!(!page.contains("<a & "), "names are escaped");
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = render(&full());
        for from_elsewhere in ["<script", "<link", "src=", "@import", "url("] {
            assert!(!page.contains(from_elsewhere), "{from_elsewhere}");
        }
    }

    #[test]
    fn a_report_of_nothing_is_a_page() {
        elements(&render(&Report::default()));
    }
}
