//! The names over which a passage leads to others, with their weights.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{DocumentId, EntityKey, EntityKind, EntityNode, SegmentId};

use super::passage::{Link, Passages};
use super::weights::HUB_SEGMENTS;
use crate::admitted::Admitted;

/// Target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Known passage, by its index.
    Passage(usize),
    /// Segment that must be read first, since a known passage that overlaps it may stand for it.
    Segment(SegmentId),
}

impl Target {
    /// Returns the target for a document whose title is `entity`: its best passage, else its first
    /// segment.
    pub(super) fn document(
        id: &DocumentId,
        entity: &EntityNode,
        passages: &Passages,
    ) -> Option<Self> {
        let first = || entity.segments.iter().filter(|segment| segment.document_id == *id).min();
        match passages.of_document(id) {
            Some(index) => Some(Self::Passage(index)),
            None => first().cloned().map(Self::Segment),
        }
    }
}

/// Link and its target.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) link: Link,
    pub(super) target: Target,
}

/// Returns whether the question names `key`: as an entity, or within the name of one.
pub(super) fn is_named(key: &EntityKey, named: &BTreeSet<EntityKey>) -> bool {
    let within = format!(" {} ", key.0);
    named.iter().any(|name| format!(" {} ", name.0).contains(&within))
}

/// Returns the links of a passage over `entities`, which it names.
pub(super) fn names_of(
    source: usize,
    entities: &[EntityNode],
    passages: &Passages,
    admitted: &Admitted,
) -> Vec<Candidate> {
    let passage = &passages.all[source];
    let own = &passage.evidence.document_id;
    let mut candidates = Vec::new();
    for entity in entities.iter().filter(|entity| !entity.titled.contains(own)) {
        let mut add = |target: Target, weight: f32, reason: String| {
            let worth = weight * passage.own;
            let link = Link { source, name: entity.name.clone(), worth, reason };
            candidates.push(Candidate { link, target });
        };
        let titled: Vec<&DocumentId> =
            entity.titled.iter().filter(|document| admitted.has(document)).collect();
        if !titled.is_empty() {
            let targets =
                titled.into_iter().filter_map(|id| Target::document(id, entity, passages));
            for target in targets {
                add(target, 1.0, "it is the title".to_owned());
            }
            continue;
        }
        let is_followed = entity.kind != EntityKind::Time && entity.mentioned_in <= HUB_SEGMENTS;
        let segments = entity.segments.iter().filter(|id| admitted.has(&id.document_id));
        for segment in segments.filter(|_| is_followed) {
            let mentions = entity.mentioned_in.max(1);
            let reason = match mentions {
                1 => "no other segment mentions it".to_owned(),
                _ => format!("{mentions} segments mention it"),
            };
            add(Target::Segment(segment.clone()), 1.0 / mentions as f32, reason);
        }
    }
    candidates
}

/// Returns the segments that are worth reading: at most `most`, those of the best links first,
/// equal ones in their order.
pub(super) fn wanted(candidates: &[Candidate], most: usize) -> Vec<SegmentId> {
    let mut worths: BTreeMap<&SegmentId, f32> = BTreeMap::new();
    for Candidate { link, target } in candidates {
        if let Target::Segment(id) = target {
            let worth = worths.entry(id).or_insert(link.worth);
            *worth = worth.max(link.worth);
        }
    }
    let mut wanted: Vec<(&SegmentId, f32)> = worths.into_iter().collect();
    // The sort is stable, and the map was ordered.
    wanted.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    wanted.into_iter().take(most).map(|(id, _)| id.clone()).collect()
}
