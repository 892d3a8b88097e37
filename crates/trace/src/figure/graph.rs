//! Rendering of a graph navigation as the entities that it reached and the edges that it followed.

use clew_text::display_line;

use super::pen::{Face, Panel, accent};
use super::{MOST_LEVELS, MOST_NODES};
use crate::route::{Hop, Route, Stop};
use crate::step::{TraceStep, edge};
use crate::words::{bytes, count, score};

const RADIUS: f64 = 15.0;
/// Length of the horizontal part of an edge, which holds its words.
const RUN: f64 = 210.0;
/// Distance between columns: the name below a circle, the bend of an edge, its horizontal part.
const PITCH: f64 = 84.0 + 80.0 + RUN + RADIUS;
/// Heights of an entity with outgoing edges, and of one at the end of a line.
const HEIGHTS: (f64, f64) = (92.0, 74.0);
/// Height of an entity without edges.
const ALONE: f64 = 46.0;
/// Width of the name of an entity at the end of a line.
const NAME: f64 = 170.0;
const TOP: f64 = 56.0;
const NOTE: f64 = 330.0;
const MOST_NOTES: usize = 24;

/// An entity that is drawn.
struct Node<'r> {
    stop: &'r Stop<'r>,
    parent: Option<usize>,
    is_end: bool,
    all: f64,
    y: f64,
}

pub(super) fn panel(steps: &[TraceStep]) -> Panel {
    let route = Route::of(steps);
    let (mut nodes, at) = drawn(&route);
    place(&mut nodes);
    let mut panel = Panel::default();
    let bottom = nodes.iter().map(|node| node.y + 48.0).fold(TOP, f64::max);
    let ends = |hop: &Hop<'_>| Some((&nodes[at[hop.head]?], &nodes[at[hop.tail]?]));
    for hop in route.hops.iter().filter(|hop| !hop.is_new) {
        // Drawn first, behind all others.
        if let Some(ends) = ends(hop) {
            again(&mut panel, ends);
        }
    }
    for (number, hop) in (1..).zip(&route.hops).filter(|(_, hop)| hop.is_new) {
        if let Some(ends) = ends(hop) {
            arrow(&mut panel, number, hop, ends);
        }
    }
    for node in &nodes {
        draw(&mut panel, node);
    }
    legend(&mut panel, &route, &nodes);
    let right = nodes.iter().map(Node::right).fold(panel.width, f64::max);
    panel.covers(right, bottom);
    let left_out = route.stops.len() - nodes.len();
    if left_out > 0 {
        let more = count(left_out as u64, "more entity is", "more entities are");
        panel.text(0.0, bottom + 20.0, Face::plain().bold(), &format!("{more} not shown"));
        panel.covers(0.0, bottom + 26.0);
    }
    let notes = notes(steps, &route);
    panel.put(&notes, right + 30.0, TOP - 22.0);
    panel.covers(right + 30.0 + NOTE, TOP - 22.0 + notes.height);
    panel
}

/// Returns the entities to draw, and the position of each stop among them. Entities with edges come
/// first, then the others, up to the maximum number.
fn drawn<'r>(route: &'r Route<'r>) -> (Vec<Node<'r>>, Vec<Option<usize>>) {
    let stops = &route.stops;
    let mut chosen: Vec<usize> =
        (0..stops.len()).filter(|&at| stops[at].column < MOST_LEVELS).collect();
    // An entity comes after the one that led to it, so truncation never removes only the latter.
    chosen.sort_by_key(|&at| (stops[at].by.is_none() && stops[at].children.is_empty(), at));
    chosen.truncate(MOST_NODES);
    chosen.sort_unstable();
    let mut nodes: Vec<Node<'r>> = Vec::new();
    let mut at = vec![None; stops.len()];
    for number in chosen {
        let stop = &stops[number];
        let parent = stop.by.and_then(|(_, from)| at[from]);
        at[number] = Some(nodes.len());
        nodes.push(Node { stop, parent, is_end: true, all: 0.0, y: 0.0 });
    }
    for parent in nodes.iter().filter_map(|node| node.parent).collect::<Vec<_>>() {
        nodes[parent].is_end = false;
    }
    (nodes, at)
}

/// Places each entity at the middle of the entities that it leads to.
fn place(nodes: &mut [Node<'_>]) {
    let mut below = vec![0.0_f64; nodes.len()];
    for at in (0..nodes.len()).rev() {
        let own = match (nodes[at].is_end, nodes[at].parent) {
            (false, _) => HEIGHTS.0,
            (true, Some(_)) => HEIGHTS.1,
            (true, None) => ALONE,
        };
        nodes[at].all = below[at].max(own);
        if let Some(parent) = nodes[at].parent {
            below[parent] += nodes[at].all;
        }
    }
    let mut roots = TOP;
    let mut next = vec![0.0; nodes.len()];
    for at in 0..nodes.len() {
        let all = nodes[at].all;
        let top = match nodes[at].parent {
            Some(parent) => &mut next[parent],
            None => &mut roots,
        };
        let mine = *top;
        *top += all;
        // Words need more room above the line than below it.
        nodes[at].y = mine + all / 2.0;
        next[at] = mine + (all - below[at]) / 2.0;
    }
}

impl Node<'_> {
    fn x(&self) -> f64 {
        // The name of an entity with outgoing edges stands below it and is wider.
        66.0 + self.stop.column as f64 * PITCH
    }

    fn right(&self) -> f64 {
        self.x() + if self.is_end { RADIUS + 8.0 + NAME } else { 80.0 }
    }
}

/// Draws the edge that led to a new entity, horizontal where its words are.
fn arrow(panel: &mut Panel, number: usize, hop: &Hop<'_>, (head, tail): (&Node<'_>, &Node<'_>)) {
    let is_reversed = tail.stop.column < head.stop.column;
    let (from, to) = if is_reversed { (tail, head) } else { (head, tail) };
    let (from_x, to_x) = (from.x() + RADIUS + 2.0, to.x() - RADIUS - 2.0);
    let (begin, level) = (from.x() + 84.0, to.x() - RADIUS - RUN);
    let end = level - 24.0;
    let bend = (begin + end) / 2.0;
    let path = format!(
        "M{from_x:.1} {0:.1}H{begin:.1}C{bend:.1} {0:.1} {bend:.1} {1:.1} {end:.1} {1:.1}H{to_x:.1}",
        from.y, to.y
    );
    let title = format!(
        "{}; looked for: {}",
        edge(head.stop.name, hop.relation, tail.stop.name),
        hop.reason
    );
    panel.titled(&title, |panel| {
        panel.line(&path, accent::PATH, 2.0, "");
        // Several edges begin together. An arrow against the direction of travel is drawn where its
        // edge is alone.
        let tip = if is_reversed { level - 18.0 } else { to_x };
        panel.tip((tip, to.y), is_reversed, accent::PATH);
        panel.badge((level + 4.0, to.y), number, accent::PATH);
        let face = Face::plain().coloured(accent::INK);
        let lines = face.lines(hop.relation, RUN - 28.0, 2);
        let mut y = to.y - 7.0 - face.leading() * (lines.len().max(1) - 1) as f64;
        for line in lines {
            panel.text(level + 18.0, y, face, &line);
            y += face.leading();
        }
        let score = format!("similarity {}", score(hop.score));
        panel.text(level + 18.0, to.y + 14.0, Face::small(), &score);
    });
}

/// Draws an edge between entities that were already drawn. Its words are in the notes.
fn again(panel: &mut Panel, (head, tail): (&Node<'_>, &Node<'_>)) {
    let (from, to) = ((head.x(), head.y), (tail.x(), tail.y));
    let bend = ((from.0 + to.0) / 2.0 + 30.0, (from.1 + to.1) / 2.0 - 34.0);
    let path =
        format!("M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}", from.0, from.1, bend.0, bend.1, to.0, to.1);
    panel.line(&path, accent::LINE, 1.5, "stroke-dasharray=\"2 3\"");
}

fn draw(panel: &mut Panel, node: &Node<'_>) {
    let (x, y) = (node.x(), node.y);
    let (fill, more) = if node.stop.is_chosen {
        (accent::CHOSEN, "stroke=\"#1b1f24\" stroke-width=\"3\"")
    } else {
        ("#56b4e9", "stroke=\"#0072b2\" stroke-width=\"1.5\"")
    };
    let face = Face::plain().coloured(accent::INK);
    let face = if node.stop.is_chosen { face.bold() } else { face };
    panel.titled(node.stop.name, |panel| {
        panel.circle((x, y), RADIUS, fill, more);
        if node.is_end {
            let lines = face.lines(node.stop.name, NAME, 2);
            let first = y + 4.0 - face.leading() / 2.0 * (lines.len().max(1) - 1) as f64;
            panel.wrapped((x + RADIUS + 8.0, first), face, node.stop.name, (NAME, 2));
        } else {
            let face = face.anchored("middle");
            panel.wrapped((x, y + RADIUS + 16.0), face, node.stop.name, (136.0, 2));
        }
    });
}

fn legend(panel: &mut Panel, route: &Route<'_>, nodes: &[Node<'_>]) {
    let title = Face::plain().bold().coloured(accent::INK);
    panel.text(0.0, 12.0, title, "Navigated the graph of entities");
    let y = 30.0;
    let mut x = 10.0;
    let mut mark = |panel: &mut Panel, text: &str, draw: &dyn Fn(&mut Panel, f64)| {
        draw(panel, x);
        panel.text(x + 28.0, y + 4.0, Face::small(), text);
        x += 48.0 + Face::small().width(text);
    };
    if nodes.iter().any(|node| node.stop.is_chosen) {
        mark(panel, "taken up", &|panel, x| {
            let more = "stroke=\"#1b1f24\" stroke-width=\"2\"";
            panel.circle((x + 10.0, y), 7.0, accent::CHOSEN, more);
        });
    }
    if !route.hops.is_empty() {
        mark(panel, "reached", &|panel, x| {
            panel.circle((x + 10.0, y), 7.0, "#56b4e9", "stroke=\"#0072b2\"");
        });
        mark(panel, "order of hops", &|panel, x| panel.badge((x + 12.0, y), 1, accent::PATH));
    }
    panel.covers(x, TOP);
}

/// Draws the notes: what the navigation gathered and decided, step by step.
fn notes(steps: &[TraceStep], route: &Route<'_>) -> Panel {
    let mut column = Panel::default();
    let mut hops = 0;
    let (mut y, mut told, mut left_out) = (0.0, 0, 0);
    for (at, step) in steps.iter().enumerate() {
        if let TraceStep::EdgeFollowed { .. } = step {
            hops += 1;
        }
        let before = at.checked_sub(1).and_then(|before| steps.get(before));
        let is_told = matches!(steps.get(at + 1), Some(TraceStep::Reflected { .. }));
        if is_told && matches!(step, TraceStep::Gathered { .. }) {
            continue;
        }
        let Some(note) = note(step, before, hops, route) else { continue };
        if told == MOST_NOTES {
            left_out += 1;
            continue;
        }
        told += 1;
        column.put(&note, 0.0, y);
        y += note.height + 10.0;
    }
    if left_out > 0 {
        let more = count(left_out, "more note", "more notes");
        column.text(4.0, y + 12.0, Face::small(), &more);
        y += 26.0;
    }
    column.covers(NOTE, y);
    column
}

/// Draws the note of a step, if it has one. A judgement also mentions what was gathered `before`.
fn note(
    step: &TraceStep,
    before: Option<&TraceStep>,
    hops: usize,
    route: &Route<'_>,
) -> Option<Panel> {
    let on = before.map(evidence).unwrap_or_default();
    let after = if hops == 0 { "Before hop 1".to_owned() } else { format!("After hop {hops}") };
    let after = if route.hops.is_empty() { String::new() } else { format!("{after}: ") };
    let plain = (accent::WHITE, accent::LINE, accent::INK);
    let (title, texts, colours) = match step {
        TraceStep::EntitiesChosen { entities, reason } => {
            let number = count(entities.len() as u64, "entity", "entities");
            (format!("Took up {number}"), vec![(reason.clone(), accent::SOFT)], plain)
        }
        TraceStep::Gathered { .. } => {
            ("Gathered evidence".to_owned(), vec![(evidence(step), accent::SOFT)], plain)
        }
        TraceStep::Reflected { suffices: true, reason, .. } => {
            let colours = (accent::ANSWER_FILL, accent::ANSWER, accent::ANSWER);
            let texts = vec![(on, accent::GREY), (reason.clone(), accent::SOFT)];
            (format!("{after}it suffices"), texts, colours)
        }
        TraceStep::Reflected { reason, missing, .. } => {
            let colours = (accent::MISSING_FILL, accent::MISSING, accent::MISSING);
            let missing = display_line(missing);
            let missing = if missing.is_empty() { missing } else { format!("Missing: {missing}") };
            let texts = vec![
                (on, accent::GREY),
                (reason.clone(), accent::SOFT),
                (missing, accent::MISSING),
            ];
            (format!("{after}it does not suffice"), texts, colours)
        }
        TraceStep::EdgeFollowed { head, relation, tail, .. } => {
            let is_again = route.hops.get(hops.checked_sub(1)?).is_some_and(|hop| !hop.is_new);
            if !is_again {
                return None;
            }
            let text = edge(head, relation, tail);
            (format!("Hop {hops}, to a known entity"), vec![(text, accent::SOFT)], plain)
        }
        _ => return None,
    };
    let (fill, stroke, ink) = colours;
    let mut inner = Panel::default();
    let face = Face::plain().bold().coloured(ink);
    let mut y = inner.wrapped((12.0, 20.0), face, &title, (NOTE - 24.0, 2));
    for (text, colour) in texts {
        let face = Face::small().coloured(colour);
        y = inner.wrapped((12.0, y), face, &text, (NOTE - 24.0, 4));
    }
    let mut note = Panel::default();
    let height = y - 4.0;
    note.rounded((0.0, 0.0, NOTE, height), fill, stroke, "stroke-width=\"1\"");
    note.put(&inner, 0.0, 0.0);
    note.covers(NOTE, height);
    Some(note)
}

/// Describes what was gathered. Empty for other steps.
pub(super) fn evidence(step: &TraceStep) -> String {
    let TraceStep::Gathered { segments, dropped, bytes: size } = step else { return String::new() };
    let segments = count(*segments, "segment", "segments");
    let dropped =
        if *dropped > 0 { format!(", {dropped} dropped for want of room") } else { String::new() };
    format!("{segments}, {}{dropped}", bytes(*size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn route(edges: &[(usize, usize)], seeds: usize) -> Vec<TraceStep> {
        let entities = (0..seeds).map(|seed| seed.to_string()).collect();
        let mut steps = vec![TraceStep::EntitiesChosen { entities, reason: String::new() }];
        steps.extend(edges.iter().map(|(head, tail)| TraceStep::EdgeFollowed {
            head: head.to_string(),
            relation: "leads to".to_owned(),
            tail: tail.to_string(),
            to: tail.to_string(),
            score: 0.5,
            reason: String::new(),
        }));
        steps
    }

    #[test]
    fn of_many_entities_those_that_edges_tie_are_drawn() {
        let steps = route(&[(99, 100)], 100);
        let route = Route::of(&steps);
        let (nodes, at) = drawn(&route);
        assert_eq!((nodes.len(), at[77], at[78], at[99]), (80, Some(77), None, Some(78)));
        assert_eq!(nodes[79].parent, Some(78));
    }

    proptest! {
        #[test]
        fn entities_and_their_names_do_not_cover_each_other(
            edges in prop::collection::vec((0..40_usize, 0..40_usize), 0..60),
            seeds in 0..9_usize,
        ) {
            let steps = route(&edges, seeds);
            let route = Route::of(&steps);
            let (mut nodes, _) = drawn(&route);
            place(&mut nodes);
            let mut columns: Vec<(usize, f64)> =
                nodes.iter().map(|node| (node.stop.column, node.y)).collect();
            columns.sort_by(|a, b| a.partial_cmp(b).unwrap());
            for pair in columns.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
                prop_assert!(pair[1].1 - pair[0].1 >= ALONE - 1e-6);
            }
        }
    }
}
