//! Rendering of a trace as a figure.

mod card;
mod graph;
mod pen;
mod walk;

use clew_text::display_line;

use self::pen::{Face, Panel, accent};
use crate::memory::{is_of_memory, snapshots};
use crate::route::is_of_route;
use crate::step::TraceStep;
use crate::trace::{Trace, TraceOutcome};
use crate::tree::{cost, ending, share_of_text, source};
use crate::walk::is_of_walk;
use crate::words::count;

/// Maximum number of nodes or entities in the figure: more would not be readable.
const MOST_NODES: usize = 80;
/// Maximum number of levels of a tree, and of columns of a graph.
const MOST_LEVELS: usize = 12;
/// Maximum number of steps drawn as cards.
const MOST_CARDS: usize = 12;
/// Maximum number of citations.
const MOST_CITATIONS: usize = 6;
const MARGIN: f64 = 28.0;
/// Vertical distance between panels.
const GAP: f64 = 30.0;
/// Minimum width of a figure, without its margins.
const LEAST_WIDTH: f64 = 760.0;
/// Maximum width of a text: longer lines are hard to read.
const MOST_WIDTH: f64 = 1400.0;

/// Renders a trace as SVG. From top to bottom: the question; the steps in their order; the answer
/// with its citations.
///
/// A walk is drawn as the part of the tree that it visited, from left to right, with numbers that
/// show the order. The path to the segment that answers stands out, and nodes that the walk turned
/// back from are grey. A navigation of a graph is drawn as the entities that it reached and the
/// edges that it followed, with notes beside them about what it gathered and decided. A working
/// memory is drawn after each step, side by side. At most eighty nodes are drawn. The same trace
/// always gives the same figure.
pub fn svg(trace: &Trace) -> String {
    let steps = &trace.trace;
    let mut walk = steps.iter().any(is_of_walk).then(|| walk::panel(steps));
    let mut graph = steps.iter().any(is_of_route).then(|| graph::panel(steps));
    let mut memory = steps.iter().any(is_of_memory).then(|| memory_panel(steps));
    let has_graph = graph.is_some();
    let widths = [&walk, &graph, &memory].into_iter().flatten().map(|panel| panel.width);
    let width = widths.fold(LEAST_WIDTH, f64::max);
    let card_width = width.min(MOST_WIDTH);
    let mut panels = vec![heading(trace, card_width)];
    let (mut cards, mut left_out) = (0, 0);
    for step in steps {
        if is_of_walk(step) {
            panels.extend(walk.take());
        } else if is_of_memory(step) {
            panels.extend(memory.take());
        } else if is_of_route(step) || (has_graph && is_of_gathering(step)) {
            panels.extend(graph.take());
        } else if cards < MOST_CARDS {
            cards += 1;
            panels.push(card::card(step, card_width));
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        let mut panel = Panel::default();
        let more = count(left_out, "more step is", "more steps are");
        panel.text(0.0, 12.0, Face::plain().bold(), &format!("{more} not shown"));
        panel.covers(LEAST_WIDTH, 16.0);
        panels.push(panel);
    }
    panels.push(answer(trace, card_width));
    framed(&panels, width)
}

/// Returns whether `step` is shown in the notes beside a navigation, if there is one.
fn is_of_gathering(step: &TraceStep) -> bool {
    matches!(step, TraceStep::Gathered { .. } | TraceStep::Reflected { .. })
}

/// Draws a working memory after each of its steps.
fn memory_panel(steps: &[TraceStep]) -> Panel {
    let figure = clew_hypergraph::figure(&snapshots(steps));
    let inner = Panel { body: figure.content, ..Panel::default() };
    let mut panel = Panel::default();
    // Titles rise above the figure's edge, where the arrow from the previous panel ends.
    panel.put(&inner, 0.0, 8.0);
    panel.covers(figure.width, figure.height + 8.0);
    panel
}

fn heading(trace: &Trace, width: f64) -> Panel {
    let mut panel = Panel::default();
    let y = panel.wrapped((0.0, 20.0), Face::title(), &trace.question, (width, 4));
    let mut about = vec![ending(trace), share_of_text(trace), cost(&trace.cost)];
    about.retain(|part| !part.is_empty());
    let y = panel.wrapped((0.0, y), Face::plain(), &about.join("  ·  "), (width, 2));
    panel.covers(width, y - 10.0);
    panel
}

fn answer(trace: &Trace, width: f64) -> Panel {
    let (colour, fill) = match trace.outcome {
        TraceOutcome::Answered | TraceOutcome::AnsweredWithShardsMissing => {
            (accent::ANSWER, accent::ANSWER_FILL)
        }
        TraceOutcome::NotInMemory | TraceOutcome::Unspecified => (accent::GREY, accent::GREY_FILL),
    };
    let room = width - 40.0;
    let mut inner = Panel::default();
    inner.text(20.0, 26.0, Face::small().bold().coloured(colour), "ANSWER");
    let nothing = display_line(&trace.answer).is_empty();
    let text = if nothing { trace.outcome.words() } else { &trace.answer };
    let mut y = inner.wrapped((20.0, 47.0), Face::large(), text, (room, 8));
    for (number, citation) in (1..).zip(trace.citations.iter().take(MOST_CITATIONS)) {
        let from = format!("[{number}] {}", source(citation));
        y = inner.wrapped((20.0, y + 4.0), Face::plain().bold(), &from, (room, 1));
        let quote = display_line(&citation.quote);
        if !quote.is_empty() {
            let quote = format!("“{quote}”");
            y = inner.wrapped((38.0, y), Face::plain().italic(), &quote, (room - 18.0, 2));
        }
    }
    let more = trace.citations.len().saturating_sub(MOST_CITATIONS) as u64;
    if more > 0 {
        let more = count(more, "more citation", "more citations");
        y = inner.wrapped((20.0, y + 4.0), Face::small(), &more, (room, 1));
    }
    if !trace.shards_missing.is_empty() {
        let missing: Vec<String> = trace.shards_missing.iter().map(u32::to_string).collect();
        let missing = format!("without shards {}, which did not answer", missing.join(", "));
        y = inner.wrapped((20.0, y + 4.0), Face::small(), &missing, (room, 2));
    }
    let height = y;
    let mut panel = Panel::default();
    panel.rounded((0.0, 0.0, width, height), fill, colour, "stroke-width=\"1.5\"");
    panel.rounded((0.0, 0.0, 6.0, height), colour, colour, "");
    panel.put(&inner, 0.0, 0.0);
    panel.covers(width, height);
    panel
}

/// Returns the whole file: the panels below each other, with arrows between them.
fn framed(panels: &[Panel], width: f64) -> String {
    let mut page = Panel::default();
    let mut y = MARGIN;
    for (at, panel) in panels.iter().enumerate() {
        page.put(panel, MARGIN, y);
        y += panel.height;
        // No arrow below the heading, which is not a step.
        if at > 0 && at + 1 < panels.len() {
            page.down(MARGIN + 40.0, (y + 4.0, y + GAP - 4.0), accent::LINE);
        }
        y += GAP;
    }
    let (width, height) = (width + 2.0 * MARGIN, y - GAP + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.1} {height:.1}\" font-family=\"Helvetica, Arial, 'DejaVu Sans', \
         sans-serif\">\n<rect width=\"{width:.1}\" height=\"{height:.1}\" \
         fill=\"#fbfbf8\"/>\n{}</svg>\n",
        page.body
    )
}
