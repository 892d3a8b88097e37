//! Export of a graph as JSON.

use clew_core::{EntityKey, SegmentId, Subgraph};
use serde::Serialize;

#[derive(Serialize)]
struct Graph<'g> {
    seeds: &'g [EntityKey],
    entities: Vec<Entity<'g>>,
    relations: Vec<Relation<'g>>,
    is_cut: bool,
}

#[derive(Serialize)]
struct Entity<'g> {
    key: &'g EntityKey,
    name: &'g str,
    kind: &'static str,
    aliases: &'g [String],
    segments: Vec<Segment<'g>>,
    mentioned_in: u64,
}

#[derive(Serialize)]
struct Relation<'g> {
    head: &'g EntityKey,
    text: &'g str,
    tail: &'g EntityKey,
    segment: Segment<'g>,
    start: usize,
    end: usize,
}

#[derive(Serialize)]
struct Segment<'g> {
    document: &'g str,
    version: u64,
    ordinal: u32,
}

impl<'g> From<&'g SegmentId> for Segment<'g> {
    fn from(id: &'g SegmentId) -> Self {
        Self { document: id.document_id.as_str(), version: id.version.0, ordinal: id.ordinal }
    }
}

/// Writes a graph as JSON: an object with `seeds`, `entities`, `relations` and `is_cut`, whose
/// fields are those of [`Subgraph`]. The `start` and `end` of a relation are byte offsets in its
/// document.
pub fn to_json(graph: &Subgraph) -> String {
    let entities = graph.entities.iter().map(|node| Entity {
        key: &node.key,
        name: &node.name,
        kind: node.kind.as_str(),
        aliases: &node.aliases,
        segments: node.segments.iter().map(Segment::from).collect(),
        mentioned_in: node.mentioned_in,
    });
    let relations = graph.relations.iter().map(|edge| Relation {
        head: &edge.head,
        text: &edge.text,
        tail: &edge.tail,
        segment: Segment::from(&edge.segment),
        start: edge.evidence.start,
        end: edge.evidence.end,
    });
    let graph = Graph {
        seeds: &graph.seeds,
        entities: entities.collect(),
        relations: relations.collect(),
        is_cut: graph.is_cut,
    };
    serde_json::to_string(&graph).expect("strings and numbers can always be written")
}
