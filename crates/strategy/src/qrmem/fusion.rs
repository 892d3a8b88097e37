//! Relation fusion: what several segments tell of the same two entities becomes one edge.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{Error, ErrorKind, SegmentId};

use super::edge::Edge;
use crate::work::Work;

/// Most relations that are fused for one question. The paper fuses all of its graph; as many as lead on are
/// worth a call each.
pub const MAX_FUSED: usize = 4;

/// Most descriptions of one relation that are fused. Of more, those that come first in the documents.
pub const MAX_DESCRIPTIONS: usize = 8;

/// What was fused for a question so far (QRMeM, section 2.1, "global graph combination").
///
/// The paper fuses while it builds the graph for its question, which is also where the question bears on
/// what is said first. Here it is done when an edge might be followed: of the two entities that the most
/// similar edges join, those of which several segments tell in different words. An edge that was fused says
/// what all of them say, and leads to all of them.
#[derive(Debug, Default)]
pub(super) struct Fusions {
    /// By what was fused.
    fused: BTreeMap<Vec<String>, String>,
    /// How many were tried, those that could not be fused included.
    tried: usize,
}

impl Fusions {
    /// The edges with the likeliest of them fused, or `None` if there is nothing to fuse. `scored` are in the order
    /// of their similarity.
    pub(super) async fn fuse(
        &mut self,
        work: &mut Work<'_>,
        scored: &[(Edge, f32)],
    ) -> Result<Option<Vec<Edge>>, Error> {
        let (mut edges, mut is_any) = (Vec::new(), false);
        for relation in by_ends(scored) {
            match self.one(work, &relation).await? {
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
    async fn one(&mut self, work: &mut Work<'_>, edges: &[Edge]) -> Result<Option<Edge>, Error> {
        let Some(descriptions) = descriptions(edges) else { return Ok(None) };
        if let Some(known) = self.fused.get(&descriptions) {
            return Ok(Edge::fused(edges, known.clone()));
        }
        if self.tried == MAX_FUSED {
            return Ok(None);
        }
        self.tried += 1;
        let subject = edges.first().map(Edge::subject).unwrap_or_default();
        let (question, deadline) = (&work.question.text, work.deadline());
        let fusing = work.seams.navigator.fuse(question, &subject, &descriptions, deadline);
        let (fused, cost) = match fusing.await {
            Ok(fused) => fused,
            Err(error) if error.kind() == ErrorKind::DeadlineExceeded => return Err(error),
            // What cannot be fused is as good as before.
            Err(_) => return Ok(None),
        };
        work.spend(cost);
        let edge = Edge::fused(edges, fused.clone());
        self.fused.insert(descriptions, fused);
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

/// What edges between the same two say, in the order of the documents; `None` if one segment says it all, or all
/// say the same.
fn descriptions(edges: &[Edge]) -> Option<Vec<String>> {
    let segments: BTreeSet<&SegmentId> = edges.iter().flat_map(|edge| &edge.segments).collect();
    let texts: BTreeSet<&str> = edges.iter().map(Edge::text).collect();
    if segments.len() < 2 || texts.len() < 2 {
        return None;
    }
    let mut in_order: Vec<&Edge> = edges.iter().collect();
    in_order.sort_by(|a, b| a.segments.cmp(&b.segments).then_with(|| a.text().cmp(b.text())));
    let mut descriptions: Vec<String> = Vec::new();
    for edge in in_order {
        if descriptions.len() < MAX_DESCRIPTIONS && !descriptions.iter().any(|it| it == edge.text())
        {
            descriptions.push(edge.text().to_owned());
        }
    }
    Some(descriptions)
}
