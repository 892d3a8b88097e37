//! Rendering of a step as a card.

use clew_text::display_line;

use super::graph::evidence;
use super::pen::{Face, Panel, accent};
use crate::step::TraceStep;
use crate::words::{count, millis, score, share};

const BAR: (f64, f64) = (300.0, 10.0);

/// Draws a step that is part of neither a walk nor a navigation.
pub(super) fn card(step: &TraceStep, width: f64) -> Panel {
    let (title, details) = words(step);
    let mut inner = Panel::default();
    inner.text(16.0, 22.0, Face::plain().bold().coloured(accent::INK), title);
    let mut y = 40.0;
    for (text, lines) in details {
        y = inner.wrapped((16.0, y), Face::plain(), &text, (width - 32.0, lines));
    }
    if let TraceStep::Judged { confidence, threshold, .. } = step {
        y = bar(&mut inner, y, *confidence, *threshold);
    }
    let mut panel = Panel::default();
    let frame = (0.0, 0.0, width, y - 4.0);
    panel.rounded(frame, accent::WHITE, accent::LINE, "stroke-width=\"1\"");
    panel.put(&inner, 0.0, 0.0);
    panel.covers(width, y - 4.0);
    panel
}

/// Returns a title, and texts with the maximum number of lines of each.
fn words(step: &TraceStep) -> (&'static str, Vec<(String, usize)>) {
    match step {
        TraceStep::Searched { query, mode, hits, best_dense_score, took_ms } => {
            let found = count(*hits, "passage", "passages");
            let best = best_dense_score.map(|best| format!(", best similarity {}", score(best)));
            let found = format!("{found} in {}{}", millis(*took_ms), best.unwrap_or_default());
            ("Searched", vec![(format!("{mode}: “{query}”"), 2), (found, 1)])
        }
        TraceStep::Read { passages, sentences, took_ms, places } => {
            let passages = count(*passages, "passage", "passages");
            let sentences = count(*sentences, "sentence", "sentences");
            let read = format!("{passages}, {sentences} in {}", millis(*took_ms));
            let place = |place: &crate::TraceRange| {
                format!("{} {}..{}", place.document_id, place.start, place.end)
            };
            let places: Vec<String> = places.iter().take(8).map(place).collect();
            ("Read", vec![(read, 1), (places.join(", "), 2)])
        }
        TraceStep::Judged { confidence, threshold, rationale } => {
            let is_enough = confidence >= threshold;
            let verdict = if is_enough { "Judged: supported" } else { "Judged: not supported" };
            (verdict, vec![(rationale.clone(), 3)])
        }
        TraceStep::Walked { nodes, turns, bytes_read, bytes_total, ended } => {
            let nodes = count(*nodes, "node", "nodes");
            let turns = count(*turns, "turn back", "turns back");
            let read = share(*bytes_read, *bytes_total);
            ("Walk ended", vec![(ended.clone(), 2), (format!("{nodes}, {turns}, {read}"), 1)])
        }
        TraceStep::Gathered { .. } => ("Gathered evidence", vec![(evidence(step), 1)]),
        TraceStep::Reflected { suffices, reason, missing } => {
            let verdict = if *suffices { "It suffices" } else { "It does not suffice" };
            let missing = display_line(missing);
            let missing = if missing.is_empty() { missing } else { format!("Missing: {missing}") };
            (verdict, vec![(reason.clone(), 2), (missing, 3)])
        }
        other => ("Step", vec![(other.line(), 2)]),
    }
}

/// Draws the confidence as a bar with a mark at the threshold. Returns the base line below it.
fn bar(panel: &mut Panel, y: f64, confidence: f32, threshold: f32) -> f64 {
    let share = |number: f32| if number > 0.0 { f64::from(number.min(1.0)) } else { 0.0 };
    let (wide, high) = BAR;
    let (x, top) = (16.0, y - 3.0);
    let colour = if confidence >= threshold { accent::ANSWER } else { accent::MISSING };
    panel.rounded((x, top, wide, high), accent::GREY_FILL, accent::LINE, "stroke-width=\"0.5\"");
    if share(confidence) > 0.0 {
        panel.rounded((x, top, wide * share(confidence), high), colour, colour, "");
    }
    let mark = x + wide * share(threshold);
    panel.line(&format!("M{mark:.1} {:.1}v{:.1}", top - 4.0, high + 8.0), accent::INK, 2.0, "");
    let text = format!("confidence {}, needed {}", score(confidence), score(threshold));
    panel.text(x + wide + 16.0, y + 6.0, Face::plain(), &text);
    y + 26.0
}
