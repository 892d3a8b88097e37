//! Figures of the memory, as SVG.

mod pen;

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{EntityKey, PointFate};

use self::pen::{Ink, Pen, wrapped};
use crate::changes::Changes;
use crate::export::StepState;
use crate::point::{Point, PointId};

/// Maximum number of steps in a figure.
const MOST_STEPS: usize = 8;
/// Maximum number of points in a step: more are not readable.
const MOST_POINTS: usize = 24;
/// Maximum number of entities in a step.
const MOST_ENTITIES: usize = 60;
/// Maximum number of lines of a description.
const MOST_LINES: usize = 5;
const MARGIN: f64 = 24.0;
/// Width of a point's card.
const CARD: f64 = 290.0;
/// Space for the lines between points and entities.
const BETWEEN: f64 = 90.0;
/// Space for an entity's name, of eighteen capitals.
const NAME: f64 = 190.0;
/// Width of a step.
const STEP: f64 = CARD + BETWEEN + NAME;
/// Space between two steps.
const APART: f64 = 46.0;
/// Top of points and entities, below a step's title.
const TOP: f64 = 62.0;
/// Space between two cards.
const GAP: f64 = 16.0;
/// Minimum distance from one entity to the next.
const PITCH: f64 = 26.0;

/// Fates of a point in a step, in the order of the legend.
const FATES: [PointFate; 4] =
    [PointFate::Kept, PointFate::Updated, PointFate::Inserted, PointFate::Merged];

fn words(fate: PointFate) -> &'static str {
    match fate {
        PointFate::Kept => "as before",
        PointFate::Updated => "updated",
        PointFate::Inserted => "new",
        PointFate::Merged => "merged",
    }
}

/// Returns the colours of the line and of the area, which colour-blind people can tell apart (Okabe
/// and Ito).
fn colours(fate: PointFate) -> (&'static str, &'static str) {
    match fate {
        PointFate::Kept => ("#98a2b0", "#ffffff"),
        PointFate::Updated => ("#b35000", "#fdf1e3"),
        PointFate::Inserted => ("#0072b2", "#e8f2f9"),
        PointFate::Merged => ("#007a59", "#def3ec"),
    }
}

/// Draws the memory at the end of a step as SVG: points as cards with their descriptions, entities
/// as circles beside them, and a line from each point to each of its entities. Colour and words
/// distinguish new, updated and merged points. Entities that the graph did not know have a dashed
/// rim. The same snapshot gives the same figure.
///
/// If there are more than twenty-four points, those that the step changed are shown first. If there
/// are more than sixty entities, those of most points are shown first.
pub fn svg(step: &StepState) -> String {
    svg_steps(std::slice::from_ref(step))
}

/// Draws steps side by side, each as [`svg`] does. If there are more than eight, it draws the last
/// ones.
pub fn svg_steps(steps: &[StepState]) -> String {
    let Drawing { content, width, height } = figure(steps);
    pen::framed(&content, MARGIN, width, height)
}

/// Content of [`svg_steps`], for a larger figure.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// SVG elements, from 0, 0 on.
    pub content: String,
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
}

/// Draws steps side by side, as part of a larger figure.
pub fn figure(steps: &[StepState]) -> Drawing {
    let earlier = steps.len().saturating_sub(MOST_STEPS);
    let (mut pen, mut bottom) = (Pen::default(), TOP);
    for (number, step) in (0_u32..).zip(&steps[earlier..]) {
        let left = f64::from(number) * (STEP + APART);
        if number > 0 {
            let x = left - APART / 2.0;
            pen.arrow((x - 9.0, 6.0), (x + 9.0, 6.0));
        }
        bottom = draw(&mut pen, step, left).max(bottom);
    }
    let shown = u32::try_from(steps.len() - earlier).unwrap_or_default().max(1);
    let width = f64::from(shown) * (STEP + APART) - APART;
    legend(&mut pen, bottom + 22.0, earlier);
    Drawing { content: pen.into_content(), width, height: bottom + 30.0 }
}

/// Draws a step from `left` on. Returns its lower end.
fn draw(pen: &mut Pen, step: &StepState, left: f64) -> f64 {
    let changes = &step.changes;
    pen.text((left, 10.0), Ink::title(), &format!("Step {}", changes.step));
    pen.text((left, 30.0), Ink::small(), &about(step));
    pen.text((left, 45.0), Ink::small(), &done(changes));
    let points = shown_points(step);
    let cards: Vec<Card<'_>> = Card::stacked(&points, changes, left);
    let entities = shown_entities(step, &cards);
    let places = places(&entities);
    let x = left + CARD + BETWEEN;
    for card in &cards {
        for (key, y) in entities.iter().map(|(key, _)| *key).zip(&places) {
            if card.point.entities.contains(key) {
                pen.tie((left + CARD, card.middle()), (x - 7.0, *y), colours(card.fate).0);
            }
        }
    }
    for card in &cards {
        card.draw(pen, step);
    }
    for ((key, _), y) in entities.iter().zip(&places) {
        let vertex = step.vertices.get(*key);
        let name = vertex.map_or(&key.0, |vertex| &vertex.name);
        let is_inserted = vertex.is_some_and(|vertex| vertex.is_inserted);
        pen.titled(name, |pen| {
            pen.circle((x, *y), is_inserted);
            let line = wrapped(name, Ink::plain().columns(NAME - 14.0), 1);
            pen.text((x + 13.0, *y + 4.0), Ink::plain(), &line.concat());
        });
    }
    let cards_end = cards.last().map_or(TOP, Card::bottom);
    let entities_end = places.last().map_or(TOP, |y| y + PITCH / 2.0);
    let left_out = [
        (step.points.len() - cards.len(), "points"),
        (step.vertices.len().saturating_sub(entities.len()), "entities"),
    ];
    let bottom = cards_end.max(entities_end);
    let left_out = left_out.iter().filter(|(number, _)| *number > 0);
    let words: Vec<String> = left_out.map(|(number, of)| format!("{number} more {of}")).collect();
    if words.is_empty() {
        return bottom;
    }
    pen.text((left, bottom + 18.0), Ink::small(), &format!("{} not shown", words.join(", ")));
    bottom + 22.0
}

/// Returns a line about the size of the memory.
fn about(step: &StepState) -> String {
    let points = count(step.points.len(), "point", "points");
    let vertices = count(step.vertices.len(), "entity", "entities");
    let changes = &step.changes;
    let (before, now) = (changes.entities_per_point_before, changes.entities_per_point);
    format!("{points}, {vertices}; entities per point: {now:.1}, before {before:.1}")
}

/// Returns a line about the changes of the step.
fn done(changes: &Changes) -> String {
    let into = &changes.merged;
    let from: usize = into.iter().map(|merging| merging.from.len()).sum();
    let merged = format!("{from} merged into {}", into.len());
    let parts = [
        (changes.updated.len(), format!("{} updated", changes.updated.len())),
        (changes.inserted.len(), format!("{} inserted", changes.inserted.len())),
        (from, merged),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, words)| words);
    let words = parts.collect::<Vec<_>>().join(", ");
    if words.is_empty() { "nothing changed".to_owned() } else { words }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns as many points as can be drawn, by number: those that the step changed, then the oldest.
fn shown_points(step: &StepState) -> Vec<&Point> {
    let mut points: Vec<&Point> = step.points.iter().collect();
    points.sort_by_key(|point| (step.changes.fate(point.id) == PointFate::Kept, point.id));
    points.truncate(MOST_POINTS);
    points.sort_by_key(|point| point.id);
    points
}

/// Returns as many entities of the cards as can be drawn, each with the mean height of its points,
/// from top to bottom, so that few lines cross.
fn shown_entities<'s>(step: &'s StepState, cards: &[Card<'s>]) -> Vec<(&'s EntityKey, f64)> {
    let mut heights: BTreeMap<&EntityKey, Vec<f64>> = BTreeMap::new();
    for card in cards {
        for key in &card.point.entities {
            heights.entry(key).or_default().push(card.middle());
        }
    }
    let mut entities: Vec<_> = heights.into_iter().collect();
    entities.sort_by_key(|(key, heights)| {
        let is_new = step.changes.entities_inserted.contains(*key);
        (std::cmp::Reverse((heights.len(), is_new)), *key)
    });
    entities.truncate(MOST_ENTITIES);
    let mean = |heights: &[f64]| heights.iter().sum::<f64>() / heights.len() as f64;
    let mut entities: Vec<(&EntityKey, f64)> =
        entities.into_iter().map(|(key, heights)| (key, mean(&heights))).collect();
    entities.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(b.0)));
    entities
}

/// Returns the heights of the entities, each as near to its wanted height as those above it leave
/// room.
fn places(entities: &[(&EntityKey, f64)]) -> Vec<f64> {
    let mut places = Vec::with_capacity(entities.len());
    let mut free = TOP + PITCH / 2.0;
    for (at, (_, wanted)) in entities.iter().enumerate() {
        // Entities that want the same height stand around it.
        let same = entities[at..].iter().take_while(|(_, other)| other == wanted).count();
        let y = free.max(wanted - PITCH * (same - 1) as f64 / 2.0);
        places.push(y);
        free = y + PITCH;
    }
    places
}

/// Point in the figure.
struct Card<'s> {
    point: &'s Point,
    fate: PointFate,
    head: Vec<String>,
    lines: Vec<String>,
    left: f64,
    top: f64,
}

impl<'s> Card<'s> {
    fn stacked(points: &[&'s Point], changes: &Changes, left: f64) -> Vec<Self> {
        let mut top = TOP;
        let card = |point: &&'s Point| {
            let fate = changes.fate(point.id);
            let head = wrapped(&head(point, fate), Ink::small().bold().columns(CARD - 24.0), 2);
            let lines = wrapped(&point.description, Ink::plain().columns(CARD - 24.0), MOST_LINES);
            let card = Card { point, fate, head, lines, left, top };
            top = card.bottom() + GAP;
            card
        };
        points.iter().map(card).collect()
    }

    fn bottom(&self) -> f64 {
        let (head, lines) = (self.head.len() as f64, self.lines.len() as f64);
        self.top + 20.0 + Ink::small().leading() * head + Ink::plain().leading() * lines
    }

    fn middle(&self) -> f64 {
        f64::midpoint(self.top, self.bottom())
    }

    fn draw(&self, pen: &mut Pen, step: &StepState) {
        let (line, area) = colours(self.fate);
        let names: BTreeSet<&str> = self
            .point
            .entities
            .iter()
            .map(|key| step.vertices.get(key).map_or(&*key.0, |vertex| &*vertex.name))
            .collect();
        let names: Vec<&str> = names.into_iter().collect();
        let title = format!("{} [{}]", self.point.description, names.join("; "));
        pen.titled(&title, |pen| {
            pen.card((self.left, self.top), (CARD, self.bottom() - self.top), line, area);
            let ink = Ink::small().bold();
            // Grey text is hard to read.
            let ink = if self.fate == PointFate::Kept { ink } else { ink.coloured(line) };
            let mut y = self.top + 19.0;
            for words in &self.head {
                pen.text((self.left + 12.0, y), ink, words);
                y += Ink::small().leading();
            }
            y += 4.0;
            for words in &self.lines {
                pen.text((self.left + 12.0, y), Ink::plain(), words);
                y += Ink::plain().leading();
            }
        });
    }
}

/// Returns the text above a point's description.
fn head(point: &Point, fate: PointFate) -> String {
    let mut head = point.id.to_string();
    if fate != PointFate::Kept {
        head = format!("{head} · {}", words(fate));
    }
    if !point.merged_from.is_empty() {
        let from: Vec<String> = point.merged_from.iter().map(PointId::to_string).collect();
        head = format!("{head} from {}", from.join(", "));
    }
    format!("{head} · {}", count(point.segments.len(), "segment", "segments"))
}

/// Draws the legend of colours and rims.
fn legend(pen: &mut Pen, y: f64, earlier: usize) {
    let mut x = 0.0;
    for fate in FATES {
        let (line, area) = colours(fate);
        pen.card((x, y - 9.0), (18.0, 12.0), line, area);
        pen.text((x + 24.0, y + 1.0), Ink::small(), words(fate));
        x += 96.0;
    }
    pen.circle((x + 8.0, y - 3.0), true);
    pen.text((x + 22.0, y + 1.0), Ink::small(), "not in the graph");
    if earlier > 0 {
        let words = format!("{} not shown", count(earlier, "earlier step", "earlier steps"));
        pen.text((x + 140.0, y + 1.0), Ink::small().bold(), &words);
    }
}
