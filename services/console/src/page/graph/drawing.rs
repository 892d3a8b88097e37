//! The picture of a part of a graph: where it begins in the middle, and around it rings of what is
//! one relation further each. The same part gives the same picture.

use std::collections::BTreeMap;

use clew_proto::graph_builder::v1::EntityKind;
use clew_proto::memory::v1::Entity;
use maud::{Markup, html};

use super::part::{Part, kind};
use crate::picture::{Frame, Reading, picture, px, shortened, times};
use crate::text::counted;

/// Vertical distance of two names beside each other, so that each is a target for a finger.
const PITCH: f64 = 26.0;
/// Least radii of the first ring around one entity, across and down.
const FIRST: (f64, f64) = (250.0, 110.0);
/// Most radius across of the first ring. With more entities it grows in height alone.
const WIDEST: f64 = 380.0;
/// Distance between two rings. Names of the inner ring have room in it.
const GAP: (f64, f64) = (300.0, 70.0);
/// Most characters of a name.
const NAME: usize = 26;
/// Width of a character of a name, on the high side.
const CHARACTER: f64 = 8.6;
/// Most lines at which their words are written. More would cover each other.
const LINES_WITH_WORDS: usize = 16;
/// Most characters of a relation's words.
const WORDS: usize = 22;
/// Radius of the circle of an entity.
const RADIUS: f64 = 7.0;

/// Place of an entity.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    x: f64,
    y: f64,
    side: Side,
}

/// Side of an entity on which its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Below,
}

/// Relations between two entities, as indices of both.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    from: usize,
    to: usize,
    /// Index of the first of its relations among all.
    relation: usize,
    /// Words of its relations.
    words: Vec<String>,
    /// Whether a relation leads to `to`, and whether one leads to `from`.
    leads: (bool, bool),
}

/// Returns a part of a graph as a picture, in which an entity links to `around` it, and a line to
/// `relation` by its index.
pub(super) fn drawing(
    name: &str,
    part: &Part,
    around: impl Fn(&Entity) -> String,
    relation: impl Fn(usize) -> String,
) -> Markup {
    let lines = lines(part);
    let places = places(part, &lines);
    let words = words(part, &lines, &places);
    let drawn = html! {
        defs {
            marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
                markerUnits="userSpaceOnUse" orient="auto-start-reverse" {
                path class="arrow" d="M0 0L8 4L0 8z" {}
            }
        }
        @for line in &lines {
            @let ends = (places[line.from], places[line.to]);
            @let is_round = part.entities[line.from].ring == part.entities[line.to].ring;
            @let path = path(ends, is_round);
            a href=(relation(line.relation)) tabindex="-1" {
                title { (told(part, line)) }
                path class="reach" d=(path) {}
                path class="edge" d=(path) marker-end=[line.leads.0.then_some("url(#arrow)")]
                    marker-start=[line.leads.1.then_some("url(#arrow)")] {}
            }
        }
        @for (words, x, y) in &words {
            text class="words" x=(px(*x)) y=(px(*y)) text-anchor="middle" { (words) }
        }
        @for (shown, place) in part.entities.iter().zip(&places) {
            a href=(around(&shown.entity)) tabindex="-1" { (node(&shown.entity, shown.ring == 0, *place)) }
        }
    };
    picture(name, Reading::Links, frame(part, &places), &drawn)
}

/// Returns the symbol of a kind around a point.
pub(super) fn symbol(of: EntityKind, x: f64, y: f64, radius: f64) -> Markup {
    let (_, class) = kind(of);
    let corners = |corners: &[(f64, f64)]| {
        let corners: Vec<String> = corners
            .iter()
            .map(|(right, down)| format!("{:.1},{:.1}", x + right * radius, y + down * radius))
            .collect();
        corners.join(" ")
    };
    html! {
        @match of {
            EntityKind::Person | EntityKind::Other | EntityKind::Unspecified => {
                circle class=(class) cx=(px(x)) cy=(px(y)) r=(px(radius)) {}
            }
            EntityKind::Organisation => {
                polygon class=(class) points=(corners(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)])) {}
            }
            EntityKind::Place => {
                polygon class=(class) points=(corners(&[(0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)])) {}
            }
            EntityKind::Time => {
                polygon class=(class) points=(corners(&[(0.0, -1.1), (1.1, 0.9), (-1.1, 0.9)])) {}
            }
        }
    }
}

fn node(entity: &Entity, is_seed: bool, place: Place) -> Markup {
    let Place { x, y, side } = place;
    let radius = if is_seed { RADIUS * 1.5 } else { RADIUS };
    let (name_x, name_y, anchor) = match side {
        Side::Right => (x + radius + 6.0, y + 5.0, "start"),
        Side::Left => (x - radius - 6.0, y + 5.0, "end"),
        Side::Below => (x, y + radius + 18.0, "middle"),
    };
    let (kind, _) = kind(entity.kind());
    html! {
        title { (entity.name) ", " (kind) ", in " (counted(entity.mentioned_in, "segment")) }
        (symbol(entity.kind(), x, y, radius))
        text class=[is_seed.then_some("seed")] x=(px(name_x)) y=(px(name_y)) text-anchor=(anchor) {
            (shortened(&entity.name, NAME))
        }
    }
}

/// Returns the lines between two different entities. Relations of the same two follow each other.
fn lines(part: &Part) -> Vec<Line> {
    let at = part.places();
    let mut lines: Vec<Line> = Vec::new();
    for (relation, edge) in part.relations.iter().enumerate() {
        let (Some(&head), Some(&tail)) = (at.get(&edge.head), at.get(&edge.tail)) else { continue };
        if head == tail {
            continue;
        }
        let (from, to) = (head.min(tail), head.max(tail));
        if lines.last().is_none_or(|line| (line.from, line.to) != (from, to)) {
            lines.push(Line { from, to, relation, words: Vec::new(), leads: (false, false) });
        }
        if let Some(line) = lines.last_mut() {
            line.words.push(edge.text.clone());
            match head < tail {
                true => line.leads.0 = true,
                false => line.leads.1 = true,
            }
        }
    }
    lines
}

/// Returns the words of lines between rings with their places, as far as they have room.
fn words(part: &Part, lines: &[Line], places: &[Place]) -> Vec<(String, f64, f64)> {
    let mut placed: Vec<(String, f64, f64)> = Vec::new();
    if lines.len() > LINES_WITH_WORDS {
        return placed;
    }
    for line in lines {
        if part.entities[line.from].ring == part.entities[line.to].ring {
            continue;
        }
        let words = shortest(line);
        let (from, to) = (places[line.from], places[line.to]);
        // Nearer to the outer end, where lines are further apart.
        let (x, y) = (from.x + (to.x - from.x) * 0.6, from.y + (to.y - from.y) * 0.6 + 4.0);
        let covers = |(other, other_x, other_y): &(String, f64, f64)| {
            let characters = words.chars().count() + other.chars().count();
            (x - other_x).abs() < times(characters) * CHARACTER / 2.0 && (y - other_y).abs() < 14.0
        };
        if !placed.iter().any(covers) {
            placed.push((words, x, y));
        }
    }
    placed
}

fn shortest(line: &Line) -> String {
    let first = line.words.first().map_or("", String::as_str);
    match line.words.len() {
        0 | 1 => shortened(first, WORDS),
        more => format!("{} +{}", shortened(first, WORDS - 4), more - 1),
    }
}

fn told(part: &Part, line: &Line) -> String {
    let [from, to] = [line.from, line.to].map(|end| part.entities[end].entity.name.as_str());
    format!("{from} – {to}: {}", line.words.join("; "))
}

/// Returns the places of a part's entities.
fn places(part: &Part, lines: &[Line]) -> Vec<Place> {
    let mut rings: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, shown) in part.entities.iter().enumerate() {
        rings.entry(shown.ring).or_default().push(at);
    }
    let middle = Place { x: 0.0, y: 0.0, side: Side::Below };
    let mut places = vec![middle; part.entities.len()];
    // Order of each entity around its ring.
    let mut turns = vec![usize::MAX; part.entities.len()];
    let mut radii: Option<(f64, f64)> = None;
    for ring in rings.values() {
        let mut ring = ring.clone();
        // Beside the entity of the inner ring that it is related to; in a stable order otherwise.
        let inner = |at: usize| {
            let ends = lines.iter().filter(|line| line.from == at || line.to == at);
            let others = ends.map(|line| line.from + line.to - at);
            others.filter(|other| turns[*other] != usize::MAX).min_by_key(|other| turns[*other])
        };
        let beside: BTreeMap<usize, Option<usize>> =
            ring.iter().map(|&at| (at, inner(at))).collect();
        let turn = |at: &usize| (beside[at].map_or(usize::MAX, |inner| turns[inner]), *at);
        ring.sort_by_key(turn);
        if ring.len() == 1 && radii.is_none() {
            turns[ring[0]] = 0;
            radii = Some((0.0, 0.0));
            continue;
        }
        let beside_side = |side| {
            let inner = ring.iter().filter_map(|at| beside[at]);
            inner.filter(|inner| places[*inner].side == side).count()
        };
        let right = match (beside_side(Side::Right), beside_side(Side::Left)) {
            (0, 0) => ring.len().div_ceil(2),
            // On the side of what they are related to, as far as both sides are used.
            (right, _) => right.clamp(ring.len() / 3, ring.len() - ring.len() / 3),
        };
        for (turn, &at) in ring.iter().enumerate() {
            turns[at] = turn;
        }
        let high = PITCH * times(right.max(ring.len() - right) + 1) / 2.0;
        let (across, down) = match radii {
            None => (high.clamp(60.0, WIDEST), high.max(40.0)),
            Some((0.0, _)) => (high.clamp(FIRST.0, WIDEST), high.max(FIRST.1)),
            Some(inner) => (inner.0 + GAP.0, high.max(inner.1 + GAP.1)),
        };
        for (at, place) in ring.iter().zip(around(ring.len(), right, across, down)) {
            places[*at] = place;
        }
        radii = Some((across, down));
    }
    places
}

/// Returns places on an ellipse, first down its right side and then up its left one. The heights of
/// a side are equally far apart, so that no name covers another.
fn around(count: usize, right: usize, across: f64, down: f64) -> Vec<Place> {
    let at = |turn: usize| {
        let (step, of, side) = match turn < right {
            true => (turn + 1, right, Side::Right),
            false => (count - turn, count - right, Side::Left),
        };
        let y = down * (2.0 * times(step) / times(of + 1) - 1.0);
        let x = across * (1.0 - (y / down).powi(2)).max(0.0).sqrt();
        Place { x: if side == Side::Right { x } else { -x }, y, side }
    };
    (0..count).map(at).collect()
}

/// Returns the line between two entities: straight between rings, and round within one, so that it
/// lies neither on the ring nor on the middle.
fn path((from, to): (Place, Place), is_round: bool) -> String {
    let middle = ((from.x + to.x) / 2.0, (from.y + to.y) / 2.0);
    let by = match is_round {
        false => middle,
        true => (middle.0 * 0.7 + (from.y - to.y) * 0.15, middle.1 * 0.7 + (to.x - from.x) * 0.15),
    };
    let begin = towards(from, by);
    let end = towards(to, by);
    format!("M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}", begin.0, begin.1, by.0, by.1, end.0, end.1)
}

/// Returns the point outside an entity's symbol in a direction.
fn towards(from: Place, to: (f64, f64)) -> (f64, f64) {
    let (x, y) = (to.0 - from.x, to.1 - from.y);
    let distance = x.hypot(y).max(1.0);
    let step = (RADIUS * 1.5 + 3.0).min(distance);
    (from.x + x / distance * step, from.y + y / distance * step)
}

fn frame(part: &Part, places: &[Place]) -> Frame {
    const MARGIN: f64 = 24.0;
    let (mut left, mut right, mut top, mut bottom) = (-60.0_f64, 60.0_f64, -40.0_f64, 50.0_f64);
    for (shown, Place { x, y, side }) in part.entities.iter().zip(places) {
        let name = times(shown.entity.name.chars().count().min(NAME)) * CHARACTER + RADIUS + 10.0;
        let (before, after) = match side {
            Side::Left => (name, RADIUS),
            Side::Right => (RADIUS, name),
            Side::Below => (name / 2.0, name / 2.0),
        };
        left = left.min(x - before);
        right = right.max(x + after);
        top = top.min(y - MARGIN);
        bottom = bottom.max(y + MARGIN);
    }
    Frame {
        left: left - MARGIN,
        top: top - MARGIN,
        width: right - left + 2.0 * MARGIN,
        height: bottom - top + 2.0 * MARGIN,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::graph;
    use super::*;

    fn star(count: usize) -> Part {
        let names: Vec<String> = (0..count).map(|number| format!("n{number:03}")).collect();
        let relations: Vec<(&str, &str)> =
            names.iter().map(|name| ("hub", name.as_str())).collect();
        Part::of(graph(&relations))
    }

    #[test]
    fn no_name_covers_another() {
        for count in [1, 2, 3, 12, 149] {
            let part = star(count);
            let places = places(&part, &lines(&part));
            let frame = frame(&part, &places);
            for (at, one) in places.iter().enumerate() {
                assert!(one.x > frame.left && one.x < frame.left + frame.width, "{one:?}");
                assert!(one.y > frame.top && one.y < frame.top + frame.height, "{one:?}");
                for other in &places[at + 1..] {
                    let is_apart = one.side != other.side || (one.y - other.y).abs() > PITCH - 0.1;
                    assert!(is_apart, "{count}: {one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn rings_lie_around_each_other_and_what_is_related_is_near() {
        let part = Part::of(graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "e"), ("e", "c")]));
        let lines = lines(&part);
        assert_eq!(lines.iter().filter(|line| line.leads == (true, true)).count(), 1);
        let places = places(&part, &lines);
        let far = |at: usize| places[at].x.hypot(places[at].y);
        assert_eq!(far(0), 0.0);
        assert!(far(1) > 100.0 && far(3) > far(1) + 100.0, "{places:?}");
        assert_eq!([places[1].side, places[3].side], [Side::Right; 2]);
        assert_eq!([places[2].side, places[4].side], [Side::Left; 2]);
    }

    #[test]
    fn names_are_escaped_and_links_lead_where_they_say() {
        let mut hostile = graph(&[("a", "b")]);
        hostile.entities[0].name = "<script>alert(1)</script> and more of it".to_owned();
        hostile.relations[0].text = "\"><img>".to_owned();
        let part = Part::of(hostile);
        let around = |entity: &Entity| format!("/around/{}", entity.key);
        let told = drawing("A & b", &part, around, |at| format!("#relation-{at}")).into_string();
        assert!(!told.contains("<script") && !told.contains("<img"), "{told}");
        for part in ["href=\"/around/a\"", "href=\"#relation-0\"", "role=\"group\"", "A &amp; b"] {
            assert!(told.contains(part), "no {part}: {told}");
        }
        assert!(told.contains("&quot;&gt;&lt;img&gt;"), "the words of a relation: {told}");
    }
}
