//! Figures of graphs, as SVG.

mod layout;

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{EntityKey, EntityKind, EntityNode, RelationEdge, Subgraph};
use clew_text::escaped;

use self::layout::{Box2, Point, layout};

/// Maximum number of entities in a figure: more are not readable.
const MOST_ENTITIES: usize = 60;
/// Maximum number of characters of an entity's name.
const MOST_NAME: usize = 28;
/// Maximum number of characters of a relation's words.
const MOST_WORDS: usize = 34;
/// Minimum number of characters of a relation's words that still say something.
const LEAST_WORDS: usize = 5;
const NAME_SIZE: f64 = 14.0;
const WORDS_SIZE: f64 = 9.5;
/// Width of a character as a share of its height, on the high side for Helvetica.
const WIDTH: f64 = 0.56;
const MARGIN: f64 = 24.0;
/// Colours that colour-blind people can tell apart (Okabe and Ito).
const COLOURS: [(EntityKind, &str); 5] = [
    (EntityKind::Person, "#0072b2"),
    (EntityKind::Organisation, "#e69f00"),
    (EntityKind::Place, "#009e73"),
    (EntityKind::Time, "#cc79a7"),
    (EntityKind::Other, "#8a9099"),
];

/// Entity in the figure.
struct Shown<'g> {
    node: &'g EntityNode,
    name: String,
    radius: f64,
    is_seed: bool,
    is_highlighted: bool,
}

/// Relations between two entities in the figure.
struct Line<'g> {
    ends: (usize, usize),
    relations: Vec<&'g RelationEdge>,
}

/// Draws a graph as SVG. Entities are circles, coloured by kind, and larger the more segments
/// mention them. Relations are arrows with their words, which are shortened or left out if there is
/// no room. Seeds have a dark ring, and `highlighted` entities an orange one. The same graph gives
/// the same figure.
///
/// If there are more than sixty entities, the highlighted ones and seeds are shown first, then
/// those with most relations.
pub fn svg(graph: &Subgraph, highlighted: &[EntityKey]) -> String {
    let shown = shown(graph, highlighted);
    let lines = lines(graph, &shown);
    let boxes: Vec<Box2> = shown.iter().map(Shown::extent).collect();
    let ends: Vec<(usize, usize)> = lines.iter().map(|line| line.ends).collect();
    let places = layout(&boxes, &ends);
    let mut taken: Vec<Box2> =
        boxes.iter().zip(&places).map(|(extent, place)| extent.at(*place)).collect();
    let mut body = String::new();
    let mut words = String::new();
    for line in &lines {
        body.push_str(&line.arrow(&shown, &places));
        words.push_str(&line.words(&shown, &places, &mut taken));
    }
    body.push_str(&words);
    for (one, place) in shown.iter().zip(&places) {
        body.push_str(&one.circle(*place));
    }
    let frame = taken.iter().copied().reduce(Box2::around).unwrap_or_default();
    let left_out = graph.entities.len() - shown.len();
    framed(frame, &body, &legend(frame, &shown, left_out))
}

fn shown<'g>(graph: &'g Subgraph, highlighted: &[EntityKey]) -> Vec<Shown<'g>> {
    let mut degrees: BTreeMap<&EntityKey, usize> = BTreeMap::new();
    for end in graph.relations.iter().flat_map(|edge| [&edge.head, &edge.tail]) {
        *degrees.entry(end).or_default() += 1;
    }
    let mut shown: Vec<Shown<'g>> = graph
        .entities
        .iter()
        .map(|node| Shown {
            node,
            name: shortened(&node.name, MOST_NAME),
            radius: radius(node.mentioned_in),
            is_seed: graph.seeds.contains(&node.key),
            is_highlighted: highlighted.contains(&node.key),
        })
        .collect();
    let degree = |one: &Shown<'_>| degrees.get(&one.node.key).copied().unwrap_or_default();
    shown.sort_by_key(|one| {
        let importance = (one.is_highlighted, one.is_seed, degree(one), one.node.mentioned_in);
        (std::cmp::Reverse(importance), &one.node.key)
    });
    shown.truncate(MOST_ENTITIES);
    shown
}

/// Returns the radius of a circle. It grows with the logarithm, so that a hub does not cover the
/// rest.
fn radius(mentioned_in: u64) -> f64 {
    let bits = u64::BITS - mentioned_in.leading_zeros();
    (6.0 + 2.0 * f64::from(bits)).min(26.0)
}

fn lines<'g>(graph: &'g Subgraph, shown: &[Shown<'_>]) -> Vec<Line<'g>> {
    let at: BTreeMap<&EntityKey, usize> =
        shown.iter().enumerate().map(|(at, one)| (&one.node.key, at)).collect();
    let mut lines: BTreeMap<(usize, usize), Vec<&RelationEdge>> = BTreeMap::new();
    for edge in graph.relations.iter().filter(|edge| edge.head != edge.tail) {
        if let (Some(&head), Some(&tail)) = (at.get(&edge.head), at.get(&edge.tail)) {
            // One line for both directions, in the direction of the first relation.
            let ends = if lines.contains_key(&(tail, head)) { (tail, head) } else { (head, tail) };
            lines.entry(ends).or_default().push(edge);
        }
    }
    let lines = lines.into_iter().map(|(ends, relations)| Line { ends, relations });
    let mut lines: Vec<Line<'_>> = lines.collect();
    // Lines of important entities come first, while there is room for words.
    lines.sort_by_key(|Line { ends: (head, tail), .. }| (*head.min(tail), *head.max(tail)));
    lines
}

impl Shown<'_> {
    /// Returns the box that it takes up around its centre: the circle, and the name below it.
    fn extent(&self) -> Box2 {
        let half = (width(&self.name, NAME_SIZE) / 2.0).max(self.radius) + 3.0;
        let below = self.radius + NAME_SIZE * 1.35;
        Box2 { left: -half, top: -self.radius - 3.0, right: half, bottom: below }
    }

    fn circle(&self, place: Point) -> String {
        let colour = COLOURS.iter().find(|(kind, _)| *kind == self.node.kind);
        let colour = colour.map_or("#8a9099", |(_, colour)| colour);
        let (ring, ring_width) = match (self.is_highlighted, self.is_seed) {
            (true, _) => ("#d55e00", 4.0),
            (false, true) => ("#1b1f24", 3.0),
            (false, false) => ("#ffffff", 1.5),
        };
        let weight = if self.is_seed || self.is_highlighted { "bold" } else { "normal" };
        let Point { x, y } = place;
        let (radius, below) = (self.radius, y + self.radius + NAME_SIZE);
        let (title, name) = (escaped(&tooltip(self.node)), escaped(&self.name));
        let wide = width(&self.name, NAME_SIZE);
        // Background of the name, so that lines do not run through it.
        let behind = format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{NAME_SIZE}\" \
             fill=\"#fbfbf8\" fill-opacity=\"0.75\"/>",
            x - wide / 2.0,
            below - NAME_SIZE * 0.8
        );
        format!(
            "<g><title>{title}</title><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" \
             fill=\"{colour}\" stroke=\"{ring}\" stroke-width=\"{ring_width}\"/>{behind}<text x=\"{x:.1}\" \
             y=\"{below:.1}\" font-size=\"{NAME_SIZE}\" font-weight=\"{weight}\" fill=\"#1b1f24\" \
             text-anchor=\"middle\">{name}</text></g>\n"
        )
    }
}

fn tooltip(node: &EntityNode) -> String {
    let segments = if node.mentioned_in == 1 { "segment" } else { "segments" };
    format!("{} ({}), in {} {segments}", node.name, node.kind.as_str(), node.mentioned_in)
}

impl Line<'_> {
    /// Returns the ends of the line, at the rims of the circles.
    fn rims(&self, shown: &[Shown<'_>], places: &[Point]) -> (Point, Point) {
        let (head, tail) = (places[self.ends.0], places[self.ends.1]);
        let along = head.towards(tail);
        let (from, to) = (shown[self.ends.0].radius + 2.0, shown[self.ends.1].radius + 4.0);
        (head.plus(along, from), tail.plus(along, -to))
    }

    fn arrow(&self, shown: &[Shown<'_>], places: &[Point]) -> String {
        let (from, to) = self.rims(shown, places);
        let most = 4.0;
        let width = (1.0 + 0.3 * f64::from(u8::try_from(self.relations.len()).unwrap_or(u8::MAX)))
            .min(most);
        let told: Vec<String> = self.relations.iter().map(|edge| edge.text.clone()).collect();
        let title = escaped(&told.join("; "));
        let ends = [&shown[self.ends.0], &shown[self.ends.1]];
        let matters = ends.iter().any(|end| end.is_seed || end.is_highlighted);
        let colour = if matters { "#98a2b0" } else { "#d3d8df" };
        format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width:.1}\" marker-end=\"url(#arrow)\"><title>{title}</title></line>\n",
            from.x, from.y, to.x, to.y
        )
    }

    /// Writes the words along the line if they have room and cover nothing. Then marks their space
    /// as taken.
    fn words(&self, shown: &[Shown<'_>], places: &[Point], taken: &mut Vec<Box2>) -> String {
        let (from, to) = self.rims(shown, places);
        let more = match self.relations.len() {
            0 | 1 => String::new(),
            count => format!(" (+{})", count - 1),
        };
        let text = self.relations.first().map(|edge| edge.text.as_str()).unwrap_or_default();
        let along = from.towards(to);
        let room = from.distance(to) - 14.0;
        for most in [MOST_WORDS, MOST_WORDS / 2, LEAST_WORDS * 2] {
            let words = format!("{}{more}", shortened(text, most));
            let length = width(&words, WORDS_SIZE);
            if length > room {
                continue;
            }
            for share in [0.5, 0.36, 0.64, 0.25, 0.75] {
                let middle = from.plus(along, from.distance(to) * share);
                let fits = length / 2.0 <= (room + 14.0) * share.min(1.0 - share);
                let covered = along_boxes(middle, along, length);
                if fits && !covered.iter().any(|one| taken.iter().any(|other| one.meets(*other))) {
                    taken.extend(covered);
                    return label(&words, middle, along, length);
                }
            }
        }
        String::new()
    }
}

/// Returns small boxes that together cover a text along a line.
fn along_boxes(middle: Point, along: Point, length: f64) -> Vec<Box2> {
    let half = WORDS_SIZE * 0.7;
    let extent = Box2 { left: -half, top: -half, right: half, bottom: half };
    let steps = [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0];
    steps.iter().map(|step| extent.at(middle.plus(along, step * length / 2.0))).collect()
}

fn label(words: &str, middle: Point, along: Point, length: f64) -> String {
    let angle = along.y.atan2(along.x).to_degrees();
    // Never upside down.
    let angle = if angle.abs() > 90.0 { angle + 180.0 } else { angle };
    let (left, height) = (-length / 2.0 - 2.0, WORDS_SIZE * 1.3);
    let words = escaped(words);
    format!(
        "<g transform=\"translate({:.1} {:.1}) rotate({angle:.1})\"><rect x=\"{left:.1}\" \
         y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"#fbfbf8\" \
         fill-opacity=\"0.9\"/><text y=\"{:.1}\" font-size=\"{WORDS_SIZE}\" fill=\"#4a5361\" \
         text-anchor=\"middle\">{words}</text></g>\n",
        middle.x,
        middle.y,
        -height / 2.0,
        length + 4.0,
        WORDS_SIZE * 0.34,
    )
}

/// Returns the legend of colours and rings, below the frame.
fn legend(frame: Box2, shown: &[Shown<'_>], left_out: usize) -> String {
    let kinds: BTreeSet<EntityKind> = shown.iter().map(|one| one.node.kind).collect();
    let kinds = COLOURS.iter().filter(|(kind, _)| kinds.contains(kind));
    let mut marks: Vec<(&str, &str, f64, &str)> =
        kinds.map(|(kind, colour)| (*colour, *colour, 1.0, kind.as_str())).collect();
    if shown.iter().any(|one| one.is_seed) {
        marks.push(("#fbfbf8", "#1b1f24", 3.0, "seed"));
    }
    if shown.iter().any(|one| one.is_highlighted) {
        marks.push(("#fbfbf8", "#d55e00", 4.0, "highlighted"));
    }
    let (mut x, y) = (frame.left + 8.0, frame.bottom + MARGIN);
    let mut legend = String::new();
    for (fill, ring, ring_width, text) in marks {
        legend.push_str(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\" fill=\"{fill}\" stroke=\"{ring}\" \
             stroke-width=\"{ring_width}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" \
             fill=\"#4a5361\">{text}</text>\n",
            x + 13.0,
            y + 4.0
        ));
        x += 40.0 + width(text, 12.0);
    }
    if left_out > 0 {
        legend.push_str(&format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"12\" fill=\"#4a5361\">{left_out} more not \
             shown</text>\n",
            y + 4.0
        ));
    }
    legend
}

/// Returns the whole file: `frame` with its margins, and the legend.
fn framed(frame: Box2, body: &str, legend: &str) -> String {
    const LEGEND_WIDTH: f64 = 620.0;
    let (left, top) = (frame.left - MARGIN, frame.top - MARGIN);
    let width = (frame.right - frame.left).max(LEGEND_WIDTH) + 2.0 * MARGIN;
    let height = frame.bottom - frame.top + 3.0 * MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"{left:.1} {top:.1} {width:.1} {height:.1}\" font-family=\"Helvetica, Arial, \
         sans-serif\">\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
         markerWidth=\"7\" markerHeight=\"7\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path \
         d=\"M0 0L8 4L0 8z\" fill=\"#8a93a0\"/></marker></defs>\n<rect x=\"{left:.1}\" \
         y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         fill=\"#fbfbf8\"/>\n{body}{legend}</svg>\n"
    )
}

fn width(text: &str, size: f64) -> f64 {
    let characters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    f64::from(characters) * size * WIDTH
}

/// Shortens a text to at most `most` characters, after a whole word if possible.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    let ends_word = text[kept.len()..].starts_with(' ');
    let whole = kept.rsplit_once(' ').map(|(whole, _)| whole);
    let whole = whole.filter(|whole| !ends_word && whole.len() * 2 > most);
    format!("{}…", whole.unwrap_or(&kept).trim_end())
}

#[cfg(test)]
mod tests {
    use clew_core::{SegmentId, Span, Version};
    use proptest::prelude::*;

    use super::*;

    fn graph(entities: usize, relations: &[(usize, usize)], text: &str) -> Subgraph {
        let key = |number: usize| EntityKey(format!("n{number:03}"));
        let node = |number: usize| EntityNode {
            key: key(number),
            name: format!("{text} {number}"),
            kind: COLOURS[number % COLOURS.len()].0,
            aliases: Vec::new(),
            segments: Vec::new(),
            mentioned_in: number as u64 * 7,
            titled: Vec::new(),
            description: String::new(),
        };
        let edge = |(head, tail): &(usize, usize)| RelationEdge {
            head: key(*head),
            text: text.to_owned(),
            tail: key(*tail),
            segment: SegmentId {
                document_id: "d".parse().unwrap(),
                version: Version(1),
                ordinal: 0,
            },
            evidence: Span::new(0, 1),
        };
        Subgraph {
            seeds: vec![key(0)],
            entities: (0..entities).map(node).collect(),
            relations: relations.iter().map(edge).collect(),
            ..Subgraph::default()
        }
    }

    /// Returns whether all tags are closed and all references known.
    fn is_well_formed(svg: &str) -> bool {
        let mut reader = quick_xml::reader::Reader::from_str(svg);
        loop {
            match reader.read_event() {
                Ok(quick_xml::events::Event::Eof) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    #[test]
    fn a_figure_shows_what_matters_and_the_rest_as_a_number() {
        let graph = graph(70, &[(68, 69)], "<script>");
        let figure = svg(&graph, &[EntityKey("n067".to_owned())]);
        assert!(is_well_formed(&figure) && !figure.contains("<script>"));
        for shown in ["script&gt; 0<", "script&gt; 67<", "script&gt; 68<", "10 more not shown"] {
            assert!(figure.contains(shown), "{shown}");
        }
        assert!(is_well_formed(&svg(&Subgraph::default(), &[])));
    }

    #[test]
    fn words_are_shortened_between_words() {
        assert_eq!(shortened("gave a ball of thread to", 10), "gave a…");
        assert_eq!(shortened("gave a ball of thread to", 12), "gave a ball…");
        assert_eq!(shortened("gave a ball", 11), "gave a ball");
        assert_eq!(shortened("Llanfairpwllgwyngyll", 6), "Llanf…");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn names_do_not_cover_each_other(
            relations in prop::collection::vec((0..24_usize, 0..24_usize), 0..40),
        ) {
            let graph = graph(24, &relations, "Name of it");
            let shown = shown(&graph, &[]);
            let boxes: Vec<Box2> = shown.iter().map(Shown::extent).collect();
            let ends: Vec<_> = lines(&graph, &shown).iter().map(|line| line.ends).collect();
            let places = layout(&boxes, &ends);
            let put: Vec<Box2> =
                boxes.iter().zip(&places).map(|(extent, place)| extent.at(*place)).collect();
            for (at, one) in put.iter().enumerate() {
                prop_assert!(!put[..at].iter().any(|other| one.meets(*other)));
            }
            let figure = svg(&graph, &[]);
            prop_assert!(is_well_formed(&figure) && !figure.contains("NaN"));
            prop_assert_eq!(svg(&graph, &[]), figure);
        }
    }
}
