//! Rendering of a trace as a text for a terminal.

use clew_text::display_line;

use crate::step::{TracePoint, TraceStep, edge};
use crate::trace::{Trace, TraceCitation, TraceCost};
use crate::walk::{Visit, is_of_walk, visits};
use crate::words::{cell, count, millis, score as score_of, share, shortened, width, wrapped};

/// Maximum width of a line in columns.
const MOST_COLUMNS: f64 = 100.0;
/// Number of levels that are indented. Deeper levels are not indented further, to leave room for
/// text.
const MOST_LEVELS: usize = 16;
/// Maximum number of lines of a summary, a reason or a quote.
const MOST_LINES: usize = 2;
/// Maximum number of points of a working memory.
const MOST_POINTS: usize = 24;
/// Maximum number of lines of a question and of an answer.
const MOST_ANSWER: usize = 24;

/// Renders a trace as text with lines of at most 100 columns: the question; the steps, with a walk
/// as the tree that it visited; the answer with its citations; the cost.
pub fn tree(trace: &Trace) -> String {
    let mut page = Page::default();
    page.put("", &trace.question, MOST_ANSWER);
    page.put("", &ending(trace), 2);
    page.line("");
    let visits = visits(&trace.trace);
    let mut is_walk_put = false;
    let mut hops = 0;
    for step in &trace.trace {
        if is_of_walk(step) {
            if !is_walk_put {
                is_walk_put = true;
                page.walk(&visits);
            }
        } else {
            page.step(step, &mut hops);
        }
    }
    page.line("");
    page.answer(trace);
    page.line("");
    page.put("cost: ", &cost(&trace.cost), 2);
    page.put("share: ", &share_of_text(trace), 2);
    page.0
}

/// Returns strategy, corpus, outcome and time on one line.
pub(crate) fn ending(trace: &Trace) -> String {
    let mut parts = Vec::new();
    if !trace.strategy.is_empty() {
        parts.push(trace.strategy.clone());
    }
    if !trace.corpus.is_empty() {
        parts.push(format!("on {}", trace.corpus));
    }
    let mut end = vec![trace.outcome.words().to_owned()];
    if trace.took_ms > 0.0 {
        end.push(format!("in {}", millis(trace.took_ms)));
    }
    let parts = [parts.join(" "), end.join(" ").trim().to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

/// Returns the cost in words for a person. Empty if nothing was spent.
pub(crate) fn cost(cost: &TraceCost) -> String {
    let TraceCost {
        embedded_tokens,
        reranked_tokens,
        model_calls,
        prompt_tokens,
        completion_tokens,
        shards_searched,
    } = *cost;
    let tokens = match (prompt_tokens, completion_tokens) {
        (0, 0) => String::new(),
        (sent, got) => format!(" ({sent} tokens sent, {got} received)"),
    };
    let parts = [
        (model_calls, count(model_calls, "model call", "model calls") + &tokens),
        (embedded_tokens, count(embedded_tokens, "token embedded", "tokens embedded")),
        (reranked_tokens, count(reranked_tokens, "token reranked", "tokens reranked")),
        (shards_searched, count(shards_searched, "shard searched", "shards searched")),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text);
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns how much of the text was read. Empty if the trace does not say.
pub(crate) fn share_of_text(trace: &Trace) -> String {
    let told = trace.trace.iter().rev().find_map(|step| match step {
        TraceStep::Walked { bytes_read, bytes_total, .. } => Some(share(*bytes_read, *bytes_total)),
        TraceStep::Gathered { bytes, .. } => Some(share(*bytes, 0)),
        _ => None,
    });
    told.unwrap_or_default()
}

/// Returns the source of a citation, without its quote.
pub(crate) fn source(citation: &TraceCitation) -> String {
    let TraceCitation { document_id, title, start, end, version, .. } = citation;
    let version = if *version > 0 { format!(" v{version}") } else { String::new() };
    let place = format!("{document_id}{version}, bytes {start}..{end}");
    if title.is_empty() { place } else { format!("{title} ({place})") }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    /// Writes a text after `label`, on at most `most` lines. Writes nothing if the text is empty.
    fn put(&mut self, label: &str, text: &str, most: usize) {
        self.put_below("", label, text, most);
    }

    /// Does the same as [`Page::put`], with each line after `prefix`.
    fn put_below(&mut self, prefix: &str, label: &str, text: &str, most: usize) {
        let indent = width(label, cell);
        let room = MOST_COLUMNS - width(prefix, cell) - indent;
        for (at, line) in wrapped(text, room, most, cell).iter().enumerate() {
            let label = if at == 0 { label.to_owned() } else { " ".repeat(label.chars().count()) };
            self.line(&format!("{prefix}{label}{line}"));
        }
    }

    fn walk(&mut self, visits: &[Visit<'_>]) {
        struct Task {
            visit: usize,
            prefix: String,
            level: usize,
            is_last: bool,
        }
        let below = |of: Vec<usize>, prefix: &str, level: usize| {
            let last = of.last().copied();
            let task = move |visit| Task {
                visit,
                prefix: prefix.to_owned(),
                level,
                is_last: last == Some(visit),
            };
            // The first one is popped first.
            of.into_iter().rev().map(task).collect::<Vec<_>>()
        };
        let roots = (0..visits.len()).filter(|&at| visits[at].parent.is_none()).collect();
        // An explicit stack, because the tree may be deeper than the thread's stack allows.
        let mut tasks = below(roots, "", 0);
        while let Some(Task { visit, prefix, level, is_last }) = tasks.pop() {
            let visit = &visits[visit];
            let branch = if is_last { "└─ " } else { "├─ " };
            let beside = if is_last { "   " } else { "│  " };
            let inner =
                if level < MOST_LEVELS { format!("{prefix}{beside}") } else { prefix.clone() };
            self.visit(visit, &format!("{prefix}{branch}"), &inner);
            tasks.extend(below(visit.children.clone(), &inner, level + 1));
        }
    }

    fn visit(&mut self, visit: &Visit<'_>, branch: &str, inner: &str) {
        let mut marks = String::new();
        if let Some(score) = visit.score {
            marks.push_str(&format!(" ({})", score_of(score)));
        }
        match visit.leaf {
            Some((true, _)) => marks.push_str(" [leaf] answers: yes"),
            Some((false, _)) => marks.push_str(" [leaf] answers: no"),
            None => {}
        }
        if visit.back.is_some() {
            marks.push_str(" ↩ turned back");
        }
        let order = visit.order.map(|order| format!("{order}. ")).unwrap_or_default();
        let taken = width(branch, cell) + width(&order, cell) + width(&marks, cell);
        let node = shortened(visit.node, MOST_COLUMNS - taken, cell);
        self.line(&format!("{branch}{order}{node}{marks}"));
        let beside = if visit.children.is_empty() { "   " } else { "│  " };
        let prefix = format!("{inner}{beside}");
        self.put_below(&prefix, "", visit.summary, MOST_LINES);
        self.put_below(&prefix, "why:  ", visit.reason, MOST_LINES);
        if let Some((_, reason)) = visit.leaf {
            self.put_below(&prefix, "read: ", reason, MOST_LINES);
        }
        self.put_below(&prefix, "back: ", visit.back_reason().unwrap_or_default(), MOST_LINES);
    }

    fn step(&mut self, step: &TraceStep, hops: &mut usize) {
        match step {
            TraceStep::EntitiesChosen { entities, reason } => {
                self.put("took up: ", &entities.join(", "), MOST_LINES * 2);
                self.put("  why: ", reason, MOST_LINES);
            }
            TraceStep::EdgeFollowed { head, relation, tail, score, .. } => {
                *hops += 1;
                let text = format!("{} ({})", edge(head, relation, tail), score_of(*score));
                self.put(&format!("hop {hops}: "), &text, MOST_LINES * 2);
            }
            TraceStep::Reflected { suffices, reason, missing } => {
                let suffices = if *suffices { "it suffices" } else { "it does not suffice" };
                self.line(&format!("reflected: {suffices}"));
                self.put("  why: ", reason, MOST_LINES);
                self.put("  missing: ", missing, MOST_LINES);
            }
            TraceStep::Evolved { points, .. } => {
                self.put("", &step.line(), MOST_LINES);
                for point in points.iter().take(MOST_POINTS) {
                    self.point(point);
                }
                if points.len() > MOST_POINTS {
                    self.line(&format!("  and {} more", points.len() - MOST_POINTS));
                }
            }
            TraceStep::Searched { query, mode, .. } => {
                self.put("", &step.line(), MOST_LINES);
                self.put(&format!("  {}: ", shortened(mode, 20.0, cell)), query, MOST_LINES);
            }
            TraceStep::Read { places, .. } => {
                self.put("", &step.line(), MOST_LINES);
                let place = |place: &crate::TraceRange| {
                    format!("{} {}..{}", place.document_id, place.start, place.end)
                };
                let places: Vec<String> = places.iter().map(place).collect();
                self.put("  from: ", &places.join(", "), MOST_LINES);
            }
            TraceStep::Drafted { answers, .. } => {
                self.put("", &step.line(), MOST_LINES);
                for answer in answers.iter().take(MOST_POINTS) {
                    self.put("  from memory: ", answer, MOST_LINES);
                }
            }
            TraceStep::Judged { .. } | TraceStep::Walked { .. } | TraceStep::Gathered { .. } => {
                self.put("", &step.line(), MOST_LINES * 2);
            }
            TraceStep::Entered { .. }
            | TraceStep::TurnedBack { .. }
            | TraceStep::LeafRead { .. } => {}
        }
    }

    fn point(&mut self, point: &TracePoint) {
        let from: Vec<String> =
            point.merged_from.iter().map(|number| format!("P{number}")).collect();
        let from =
            if from.is_empty() { String::new() } else { format!(" from {}", from.join(", ")) };
        let about = format!("{} ({}{from})", point.entities.join(", "), point.fate.words());
        self.put(&format!("  P{}: ", point.number), &about, MOST_LINES);
        self.put("      ", &point.text, MOST_LINES);
        self.put("      in ", &point.segments.join(", "), MOST_LINES);
    }

    fn answer(&mut self, trace: &Trace) {
        let nothing = display_line(&trace.answer).is_empty();
        let answer = if nothing { trace.outcome.words() } else { &trace.answer };
        self.put("answer: ", answer, MOST_ANSWER);
        for (number, citation) in (1..).zip(&trace.citations) {
            self.put(&format!("  [{number}] "), &source(citation), MOST_LINES);
            let quote = display_line(&citation.quote);
            if !quote.is_empty() {
                self.put("      ", &format!("\"{quote}\""), MOST_LINES);
            }
        }
        if !trace.shards_missing.is_empty() {
            let missing: Vec<String> = trace.shards_missing.iter().map(u32::to_string).collect();
            self.put("  without shards ", &missing.join(", "), MOST_LINES);
        }
    }
}
