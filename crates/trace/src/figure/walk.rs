//! Rendering of a walk as the part of the tree that it visited.

use clew_text::display_line;

use super::pen::{Face, Panel, accent};
use super::{MOST_LEVELS, MOST_NODES};
use crate::step::TraceStep;
use crate::walk::{Visit, visits};
use crate::words::{count, score};

const BOX: (f64, f64) = (264.0, 62.0);
/// Distance between two levels.
const PITCH: f64 = 350.0;
/// Width of the place where the walk begins.
const START: f64 = 96.0;
const BETWEEN: f64 = 22.0;
/// Height of the legend above the tree.
const TOP: f64 = 56.0;

/// A visit that is drawn.
struct Node<'v> {
    visit: &'v Visit<'v>,
    parent: Option<usize>,
    level: usize,
    notes: Vec<Note>,
    /// Height of its box with the notes below it.
    own: f64,
    /// Height of its box and notes with everything that hangs from it.
    all: f64,
    /// Distance from the upper end of that whole to the box.
    up: f64,
    /// Upper end of its box.
    y: f64,
}

/// A line below a box.
struct Note {
    text: String,
    colour: &'static str,
}

pub(super) fn panel(steps: &[TraceStep]) -> Panel {
    let visits = visits(steps);
    let mut nodes = drawn(&visits);
    place(&mut nodes);
    let mut panel = Panel::default();
    legend(&mut panel, &nodes);
    let bottom = nodes.iter().map(|node| node.y + node.own).fold(TOP, f64::max);
    let roots = nodes.iter().filter(|node| node.parent.is_none());
    let (low, high) = roots.fold((f64::MAX, 0.0_f64), |(low, high), node| {
        let middle = node.y + BOX.1 / 2.0;
        (low.min(middle), high.max(middle))
    });
    let start = (40.0, (low + high) / 2.0);
    for behind in [true, false] {
        // Edges outside the path to the answer are drawn first, behind the path.
        for node in nodes.iter().filter(|node| node.visit.is_on_path != behind) {
            let from = node.parent.map_or((start.0 + 8.0, start.1), |parent| nodes[parent].right());
            edge(&mut panel, node, from);
        }
    }
    panel.circle(start, 8.0, accent::INK, "");
    panel.text(0.0, start.1 + 4.0, Face::small(), "start");
    for node in &nodes {
        draw(&mut panel, node);
    }
    let right = nodes.iter().map(|node| node.x() + BOX.0).fold(0.0, f64::max);
    panel.covers(right + 2.0, bottom);
    let left_out = visits.len() - nodes.len();
    if left_out > 0 {
        let more = count(left_out as u64, "more node is", "more nodes are");
        panel.text(0.0, bottom + 20.0, Face::plain().bold(), &format!("{more} not shown"));
        panel.covers(0.0, bottom + 26.0);
    }
    panel
}

/// Returns the visits to draw: those on the path to the answer, then the others in order, up to the
/// maximum number.
fn drawn<'v>(visits: &'v [Visit<'v>]) -> Vec<Node<'v>> {
    let mut levels: Vec<usize> = Vec::with_capacity(visits.len());
    for visit in visits {
        levels.push(visit.parent.map_or(0, |parent| levels[parent] + 1));
    }
    let mut chosen: Vec<usize> = (0..visits.len()).filter(|&at| levels[at] < MOST_LEVELS).collect();
    // A node comes after its parent, so truncation never removes only the parent.
    chosen.sort_by_key(|&at| (!visits[at].is_on_path, at));
    chosen.truncate(MOST_NODES);
    chosen.sort_unstable();
    let node = |&at: &usize| {
        let visit = &visits[at];
        let parent = visit.parent.and_then(|parent| chosen.binary_search(&parent).ok());
        let notes = notes(visit);
        let own = BOX.1 + Face::small().leading() * notes.len() as f64 + 4.0;
        Node { visit, parent, level: levels[at], notes, own, all: own, up: 0.0, y: 0.0 }
    };
    chosen.iter().map(node).collect()
}

fn notes(visit: &Visit<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |label: &str, text: &str, most: usize, colour: &'static str| {
        let text = display_line(text);
        if text.is_empty() {
            return;
        }
        let text = format!("{label} {text}");
        let lines = Face::small().lines(&text, BOX.0 - 8.0, most);
        notes.extend(lines.into_iter().map(|text| Note { text, colour }));
    };
    note("why:", visit.reason, 2, accent::SOFT);
    match visit.leaf {
        Some((true, reason)) => note("✓ answers:", reason, 3, accent::ANSWER),
        Some((false, reason)) => note("✗ does not answer:", reason, 3, accent::MISSING),
        None => {}
    }
    note("↩ back:", visit.back_reason().unwrap_or_default(), 2, accent::MISSING);
    notes
}

/// Places each node so that its box is level with the middle of the boxes that hang from it.
fn place(nodes: &mut [Node<'_>]) {
    let mut children = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        if let Some(parent) = node.parent {
            children[parent].push(at);
        }
    }
    // Children come after their parent. First compute all sizes from the end, then all positions.
    for at in (0..nodes.len()).rev() {
        let mut below = 0.0;
        let mut boxes = Vec::new();
        for &child in &children[at] {
            boxes.push(below + nodes[child].up);
            below += nodes[child].all + BETWEEN;
        }
        let ends = boxes.first().zip(boxes.last());
        nodes[at].up = ends.map_or(0.0, |(first, last)| (first + last) / 2.0);
        nodes[at].all = (below - BETWEEN).max(nodes[at].up + nodes[at].own);
    }
    let mut roots = TOP;
    let mut next = vec![0.0; nodes.len()];
    for at in 0..nodes.len() {
        let top = match nodes[at].parent {
            Some(parent) => &mut next[parent],
            None => &mut roots,
        };
        let mine = *top;
        *top += nodes[at].all + BETWEEN;
        nodes[at].y = mine + nodes[at].up;
        next[at] = mine;
    }
}

impl Node<'_> {
    fn x(&self) -> f64 {
        START + self.level as f64 * PITCH
    }

    fn right(&self) -> (f64, f64) {
        (self.x() + BOX.0, self.y + BOX.1 / 2.0)
    }
}

/// Draws the line along which a node was entered, and the line back.
fn edge(panel: &mut Panel, node: &Node<'_>, (from_x, from_y): (f64, f64)) {
    let (to_x, to_y) = (node.x(), node.y + BOX.1 / 2.0);
    let (colour, wide) =
        if node.visit.is_on_path { (accent::PATH, 3.5) } else { (accent::LINE, 1.5) };
    let middle = (from_x + to_x) / 2.0;
    let tip = to_x - 2.0;
    panel.line(
        &format!(
            "M{from_x:.1} {from_y:.1}C{middle:.1} {from_y:.1} {middle:.1} {to_y:.1} {:.1} {to_y:.1}",
            tip - 8.0
        ),
        colour,
        wide,
        "",
    );
    panel.tip((tip, to_y), false, colour);
    if node.visit.back.is_some() {
        let (out, back) = (to_y + 16.0, from_y + 16.0);
        let path = format!(
            "M{to_x:.1} {out:.1}C{middle:.1} {out:.1} {middle:.1} {back:.1} {:.1} {back:.1}",
            from_x + 9.0
        );
        panel.line(&path, accent::MISSING, 1.2, "stroke-dasharray=\"4 3\"");
        panel.tip((from_x + 1.0, back), true, accent::MISSING);
    }
}

fn draw(panel: &mut Panel, node: &Node<'_>) {
    let Node { visit, y, .. } = *node;
    let (x, (wide, high)) = (node.x(), BOX);
    let (fill, stroke, ink, more) = if visit.answers() {
        (accent::ANSWER_FILL, accent::ANSWER, accent::INK, "stroke-width=\"3\"")
    } else if visit.is_on_path {
        (accent::PATH_FILL, accent::PATH, accent::INK, "stroke-width=\"2\"")
    } else if visit.back.is_some() {
        (accent::GREY_FILL, accent::LINE, accent::GREY, "stroke-dasharray=\"4 3\"")
    } else {
        (accent::WHITE, accent::LINE, accent::INK, "stroke-width=\"1\"")
    };
    let title = [visit.node, visit.summary, visit.reason].join(" — ");
    panel.titled(&title, |panel| {
        panel.rounded((x, y, wide, high), fill, stroke, more);
        let face = Face::plain().bold().coloured(ink);
        let score = visit.score.map(score).unwrap_or_default();
        let right = Face::small().coloured(ink).anchored("end");
        panel.text(x + wide - 10.0, y + 18.0, right, &score);
        let room = wide - 40.0 - right.width(&score);
        panel.text(x + 16.0, y + 18.0, face, &name(visit.node, face, room));
        let face = Face::small().coloured(ink);
        panel.wrapped((x + 16.0, y + 35.0), face, visit.summary, (wide - 26.0, 2));
        let mut below = y + high + 14.0;
        for note in &node.notes {
            let face = Face::small().coloured(note.colour);
            panel.text(x + 4.0, below, face, &note.text);
            below += face.leading();
        }
        let badge = if visit.is_on_path { accent::PATH } else { accent::GREY };
        let badge = if visit.answers() { accent::ANSWER } else { badge };
        if let Some(order) = visit.order {
            panel.badge((x, y), order, badge);
        }
    });
}

/// Returns the name of a node, shortened in the middle because its end says most.
fn name(node: &str, face: Face, room: f64) -> String {
    let node = display_line(node);
    if face.width(&node) <= room {
        return node;
    }
    let end = node.rfind('#').map_or("", |at| &node[at..]);
    let left = room - face.width(end);
    if end.is_empty() || left < room / 3.0 {
        return face.cut(&node, room);
    }
    format!("{}{end}", face.cut(&node, left))
}

/// Explains the marks that occur.
fn legend(panel: &mut Panel, nodes: &[Node<'_>]) {
    let title = Face::plain().bold().coloured(accent::INK);
    panel.text(
        0.0,
        12.0,
        title,
        "Walked the tree of summaries, from the top (left) down to segments of text",
    );
    let mut x = 10.0;
    let y = 30.0;
    let mut mark =
        |panel: &mut Panel, is_there: bool, text: &str, draw: &dyn Fn(&mut Panel, f64)| {
            if is_there {
                draw(panel, x);
                panel.text(x + 28.0, y + 4.0, Face::small(), text);
                x += 52.0 + Face::small().width(text);
            }
        };
    let any = |is: fn(&Visit<'_>) -> bool| nodes.iter().any(|node| is(node.visit));
    mark(
        panel,
        any(|visit| visit.order.is_some()),
        "order in which nodes were entered",
        &|panel, x| {
            panel.badge((x + 8.0, y), 1, accent::GREY);
        },
    );
    mark(panel, any(|visit| visit.is_on_path), "way to the answer", &|panel, x| {
        panel.line(&format!("M{x:.1} {y:.1}h20"), accent::PATH, 3.5, "");
    });
    mark(panel, any(|visit| visit.answers()), "segment that answers", &|panel, x| {
        let frame = (x, y - 7.0, 20.0, 14.0);
        panel.rounded(frame, accent::ANSWER_FILL, accent::ANSWER, "stroke-width=\"2\"");
    });
    mark(panel, any(|visit| visit.back.is_some()), "turned back", &|panel, x| {
        let line = format!("M{:.1} {y:.1}h14", x + 8.0);
        panel.line(&line, accent::MISSING, 1.2, "stroke-dasharray=\"4 3\"");
        panel.tip((x, y), true, accent::MISSING);
    });
    panel.covers(x, TOP);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_that_is_too_long_keeps_its_end() {
        let face = Face::small();
        let name = name("a-very-long-name-of-a-document#0.12", face, 120.0);
        assert!(name.starts_with("a-very") && name.ends_with("…#0.12"), "{name}");
        assert!(face.width(&name) <= 120.0);
    }

    proptest! {
        #[test]
        fn boxes_and_their_notes_do_not_cover_each_other(
            parents in prop::collection::vec((0..60_usize, any::<bool>()), 1..60),
        ) {
            let step = |(at, (parent, _)): (usize, &(usize, bool))| TraceStep::Entered {
                node: at.to_string(),
                parent: if *parent < at { parent.to_string() } else { String::new() },
                summary: "says what is below it".to_owned(),
                reason: "it may tell more of what was asked than the others".repeat(at % 3),
                score: None,
            };
            let mut steps: Vec<TraceStep> = parents.iter().enumerate().map(step).collect();
            for (at, (_, turned)) in parents.iter().enumerate() {
                if *turned {
                    let reason = "nothing below it answers".to_owned();
                    steps.push(TraceStep::TurnedBack { node: at.to_string(), reason });
                }
            }
            let visits = visits(&steps);
            let mut nodes = drawn(&visits);
            place(&mut nodes);
            for (at, one) in nodes.iter().enumerate() {
                for other in nodes[..at].iter().filter(|other| other.level == one.level) {
                    let is_apart = one.y + one.own < other.y || other.y + other.own < one.y;
                    prop_assert!(is_apart);
                }
            }
        }
    }
}
