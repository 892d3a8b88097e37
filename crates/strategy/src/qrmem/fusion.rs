//! Relation fusion: descriptions of the same two entities in several segments become one edge.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{Error, ErrorKind, Evidence, SegmentId, Span};

use super::edge::Edge;
use super::extension::Extension;
use crate::work::Work;

/// Maximum number of relations that are fused for one question. The paper fuses its whole graph;
/// here only relations that may be followed are worth a call each.
pub const MAX_FUSED: usize = 4;

/// Maximum number of descriptions of one relation that are fused. Of more, those that come first in
/// the documents.
pub const MAX_DESCRIPTIONS: usize = 8;

/// Maximum number of bytes of the words that state a description.
const MAX_STATEMENT_BYTES: usize = 400;

/// Fusions made for a question so far (QRMeM, section 2.1, "global graph combination").
///
/// The paper fuses while it builds the graph for its question. Here relations are fused when they
/// might be followed: in the order of the similarity of their edges, those that several segments
/// describe in different words. The model sees each description with the words of the segment that
/// state it. A fused edge says what all of them say, and leads to all their segments. The paper
/// also shows the model questions made for merging and the document's summary. These are left out
/// here: the question itself says what matters, and several documents may describe one relation.
#[derive(Debug, Default)]
pub(super) struct Fusions {
    /// Fused text by the descriptions; `None` if they could not be fused.
    fused: BTreeMap<Vec<String>, Option<String>>,
    /// Number of attempts, including those that failed.
    tried: usize,
}

impl Fusions {
    /// Returns the edges with the likeliest relations fused, or `None` if there is nothing to fuse.
    /// `scored` is in the order of similarity.
    pub(super) async fn fuse(
        &mut self,
        work: &mut Work<'_>,
        extension: &Extension,
        scored: &[(Edge, f32)],
    ) -> Result<Option<Vec<Edge>>, Error> {
        let (mut edges, mut is_any) = (Vec::new(), false);
        for relation in by_ends(scored) {
            match self.one(work, extension, &relation).await? {
                Some(fused) => {
                    edges.push(fused);
                    is_any = true;
                }
                None => edges.extend(relation),
            }
        }
        Ok(is_any.then_some(edges))
    }

    /// Returns one edge in place of those between the same two entities, if it was made before or
    /// may be made.
    async fn one(
        &mut self,
        work: &mut Work<'_>,
        extension: &Extension,
        edges: &[Edge],
    ) -> Result<Option<Edge>, Error> {
        let Some(different) = different(edges) else { return Ok(None) };
        let said: Vec<String> = different.iter().map(|edge| edge.text().to_owned()).collect();
        if let Some(known) = self.fused.get(&said) {
            return Ok(known.clone().and_then(|known| Edge::fused(edges, known)));
        }
        if self.tried == MAX_FUSED {
            return Ok(None);
        }
        self.tried += 1;
        let subject = edges.first().map(Edge::subject).unwrap_or_default();
        let descriptions = descriptions(work, extension, &different).await?;
        let (question, deadline) = (&work.question.text, work.deadline());
        let fusing = work.seams.navigator.fuse(question, &subject, &descriptions, deadline);
        let (fused, cost) = match fusing.await {
            Ok(fused) => fused,
            Err(error) if error.kind() == ErrorKind::DeadlineExceeded => return Err(error),
            // Edges that cannot be fused stay as they are.
            Err(_) => {
                self.fused.insert(said, None);
                return Ok(None);
            }
        };
        work.spend(cost);
        let edge = Edge::fused(edges, fused.clone());
        self.fused.insert(said, Some(fused));
        Ok(edge)
    }
}

/// Groups the edges between the same two entities, the group of the most similar edge first.
fn by_ends(scored: &[(Edge, f32)]) -> Vec<Vec<Edge>> {
    let mut relations: Vec<Vec<Edge>> = Vec::new();
    let mut places: BTreeMap<_, usize> = BTreeMap::new();
    for (edge, _) in scored {
        let (from, to) = edge.ends();
        let place = *places.entry((from, to)).or_insert(relations.len());
        match relations.get_mut(place) {
            Some(relation) => relation.push(edge.clone()),
            None => relations.push(vec![edge.clone()]),
        }
    }
    relations
}

/// Returns the edges between the same two entities that say different things, in the order of the
/// documents. Returns `None` if they come from one segment or all say the same.
fn different(edges: &[Edge]) -> Option<Vec<&Edge>> {
    let segments: BTreeSet<&SegmentId> = edges.iter().flat_map(|edge| &edge.segments).collect();
    let texts: BTreeSet<&str> = edges.iter().map(Edge::text).collect();
    if segments.len() < 2 || texts.len() < 2 {
        return None;
    }
    let mut in_order: Vec<&Edge> = edges.iter().collect();
    in_order.sort_by(|a, b| a.segments.cmp(&b.segments).then_with(|| a.text().cmp(b.text())));
    let mut different: Vec<&Edge> = Vec::new();
    for edge in in_order {
        let is_new = different.iter().all(|known| known.text() != edge.text());
        if different.len() < MAX_DESCRIPTIONS && is_new {
            different.push(edge);
        }
    }
    Some(different)
}

/// Returns the texts of edges, each with the words of its segment that state it.
async fn descriptions(
    work: &mut Work<'_>,
    extension: &Extension,
    edges: &[&Edge],
) -> Result<Vec<String>, Error> {
    let (mut texts, stored) = extension.texts(edges.iter().flat_map(|edge| &edge.segments));
    texts.extend(work.segments(&stored).await?);
    let description = |edge: &&Edge| {
        let passage = edge.segments.first().and_then(|segment| texts.get(segment));
        match passage.and_then(|passage| statement(passage, edge.evidence)) {
            Some(statement) => format!("{}: \"{statement}\"", edge.text()),
            None => edge.text().to_owned(),
        }
    };
    Ok(edges.iter().map(description).collect())
}

/// Returns the words of a passage at a place of its document, if the passage contains it.
fn statement(passage: &Evidence, place: Span) -> Option<String> {
    let start = place.start.checked_sub(passage.span.start)?;
    let end = place.end.checked_sub(passage.span.start)?;
    let words = passage.text.get(start..end)?;
    let words = &words[..words.floor_char_boundary(MAX_STATEMENT_BYTES)];
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}
