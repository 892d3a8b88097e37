//! Relation fusion: what several segments tell of the same two entities becomes one edge.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{Error, ErrorKind, Evidence, SegmentId, Span};

use super::edge::Edge;
use super::extension::Extension;
use crate::work::Work;

/// Most relations that are fused for one question. The paper fuses all of its graph; as many as lead on are
/// worth a call each.
pub const MAX_FUSED: usize = 4;

/// Most descriptions of one relation that are fused. Of more, those that come first in the documents.
pub const MAX_DESCRIPTIONS: usize = 8;

/// Most bytes of the words that state a description.
const MAX_STATEMENT_BYTES: usize = 400;

/// What was fused for a question so far (QRMeM, section 2.1, "global graph combination").
///
/// The paper fuses while it builds the graph for its question, which is also where the question bears on
/// what is said first. Here it is done when an edge might be followed: of the two entities that the most
/// similar edges join, those of which several segments tell in different words. What is fused is told with the words of
/// the segments that state it. An edge that was fused says what all of them say, and leads to all of them. Of what the
/// paper shows the model besides, the questions made for merging and the document's summary are left out: the question
/// that is asked says what matters, and one relation may be told of in several documents.
#[derive(Debug, Default)]
pub(super) struct Fusions {
    /// By what was fused; `None`: it could not be.
    fused: BTreeMap<Vec<String>, Option<String>>,
    /// How many were tried, those that could not be fused included.
    tried: usize,
}

impl Fusions {
    /// The edges with the likeliest of them fused, or `None` if there is nothing to fuse. `scored` are in the order
    /// of their similarity.
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

    /// The one edge in place of those between the same two, if it is made or may be.
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
            // What cannot be fused is as good as before.
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

/// The edges between the same two together, the two of the most similar edge first.
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

/// The edges between the same two that say different things, in the order of the documents; `None` if one segment says it
/// all, or all say the same.
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

/// What edges say, each with the words of its segment that state it.
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

/// The words of a passage at a place of its document, if they are there.
fn statement(passage: &Evidence, place: Span) -> Option<String> {
    let start = place.start.checked_sub(passage.span.start)?;
    let end = place.end.checked_sub(passage.span.start)?;
    let words = passage.text.get(start..end)?;
    let words = &words[..words.floor_char_boundary(MAX_STATEMENT_BYTES)];
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}
