//! The edges that lead out of a set of entities, and their similarity to a text.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{
    EntityKey, EntityNode, Error, RelationEdge, SegmentId, Span, Subgraph, TextKind, TraceEvent,
};

use crate::admitted::Admitted;
use crate::work::{Work, cosine};

/// Maximum number of edges that are embedded at once. Of more, those that share the most words with
/// the text to compare with.
const MAX_EMBEDDED: usize = 128;

/// Edge from a known entity to another.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    /// Name of the head.
    head: String,
    /// Name of the tail.
    tail: String,
    /// Words of the relation.
    relation: String,
    /// Head, relation and tail as one text.
    text: String,
    /// Segments that state it: several if it was fused.
    pub(super) segments: Vec<SegmentId>,
    /// Range of the document that states it; of the first edge if it was fused.
    pub(super) evidence: Span,
    /// Known entity.
    from: EntityKey,
    /// Entity that is not known yet.
    pub(super) to: EntityNode,
}

impl Edge {
    /// Returns its parts as one text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns its two ends.
    pub(super) fn ends(&self) -> (&EntityKey, &EntityKey) {
        (&self.from, &self.to.key)
    }

    /// Returns the names of its two ends.
    pub(super) fn subject(&self) -> String {
        format!("{} and {}", self.head, self.tail)
    }

    /// Returns one edge in place of several between the same two entities, with `description` as
    /// its text.
    pub(super) fn fused(edges: &[Self], description: String) -> Option<Self> {
        let mut segments: Vec<SegmentId> =
            edges.iter().flat_map(|edge| &edge.segments).cloned().collect();
        segments.sort();
        segments.dedup();
        let first = edges.first()?.clone();
        Some(Self { relation: description.clone(), text: description, segments, ..first })
    }

    pub(super) fn followed(&self, score: f32, reason: &str) -> TraceEvent {
        TraceEvent::EdgeFollowed {
            head: self.head.clone(),
            relation: self.relation.clone(),
            tail: self.tail.clone(),
            to: self.to.name.clone(),
            score,
            reason: reason.to_owned(),
        }
    }
}

/// Returns the edges of `around` between an entity in `known` and one that is not, if an admitted
/// document states them.
pub(super) fn leading_out(
    around: &Subgraph,
    known: &BTreeSet<EntityKey>,
    admitted: &Admitted,
) -> Vec<Edge> {
    let entities: BTreeMap<&EntityKey, &EntityNode> =
        around.entities.iter().map(|entity| (&entity.key, entity)).collect();
    let edge = |relation: &RelationEdge| {
        let (head, tail) = (entities.get(&relation.head)?, entities.get(&relation.tail)?);
        let (from, to) = match (known.contains(&relation.head), known.contains(&relation.tail)) {
            (true, false) => (head, tail),
            (false, true) => (tail, head),
            (true, true) | (false, false) => return None,
        };
        Some(Edge {
            head: head.name.clone(),
            tail: tail.name.clone(),
            relation: relation.text.clone(),
            text: format!("{} {} {}", head.name, relation.text, tail.name),
            segments: vec![relation.segment.clone()],
            evidence: relation.evidence,
            from: from.key.clone(),
            to: (*to).clone(),
        })
    };
    let is_stated = |relation: &&RelationEdge| admitted.has(&relation.segment.document_id);
    around.relations.iter().filter(is_stated).filter_map(edge).collect()
}

/// Vectors of the edges seen so far. Most edges stay from one trial to the next.
#[derive(Debug, Default)]
pub(super) struct EdgeVectors(BTreeMap<String, Vec<f32>>);

impl EdgeVectors {
    /// Returns the edges with their similarity to `text`, best first; equal ones in their order.
    pub(super) async fn by_similarity(
        &mut self,
        work: &mut Work<'_>,
        text: String,
        edges: Vec<Edge>,
    ) -> Result<Vec<(Edge, f32)>, Error> {
        if edges.is_empty() {
            return Ok(Vec::new());
        }
        let edges = sharing_most_words(&text, edges);
        let vector = work.embed(vec![text], TextKind::Query).await?.pop().unwrap_or_default();
        self.embed(work, &edges).await?;
        let similarity =
            |edge: &Edge| self.0.get(edge.text()).map_or(0.0, |edge| cosine(&vector, edge));
        let similarities: Vec<f32> = edges.iter().map(similarity).collect();
        let mut scored: Vec<(Edge, f32)> = edges.into_iter().zip(similarities).collect();
        scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        Ok(scored)
    }

    async fn embed(&mut self, work: &mut Work<'_>, edges: &[Edge]) -> Result<(), Error> {
        let mut texts: Vec<String> = Vec::new();
        for text in edges.iter().map(Edge::text) {
            if !self.0.contains_key(text) && !texts.iter().any(|known| known == text) {
                texts.push(text.to_owned());
            }
        }
        let vectors = work.embed(texts.clone(), TextKind::Passage).await?;
        self.0.extend(texts.into_iter().zip(vectors));
        Ok(())
    }
}

/// Returns up to [`MAX_EMBEDDED`] edges, those that share the most words with `text`.
fn sharing_most_words(text: &str, mut edges: Vec<Edge>) -> Vec<Edge> {
    if edges.len() <= MAX_EMBEDDED {
        return edges;
    }
    let wanted = words(text);
    edges.sort_by_cached_key(|edge| {
        let shared = words(edge.text()).intersection(&wanted).count();
        std::cmp::Reverse(shared)
    });
    edges.truncate(MAX_EMBEDDED);
    edges
}

fn words(text: &str) -> BTreeSet<String> {
    let is_between = |c: char| !c.is_alphanumeric();
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}
