//! The passages gathered for reading, and the window that they must fit.

use clew_core::{Evidence, SegmentId};

use super::WINDOW_BYTES;
use crate::work::overlap;

/// Gathered text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Passage {
    pub(super) evidence: Evidence,
    /// Segment id, if it is a segment.
    pub(super) segment: Option<SegmentId>,
    /// Whether it states a followed edge that led to an entity which it mentions.
    pub(super) states_edge: bool,
    /// Score of the best found passage that it overlaps.
    pub(super) found: Option<f32>,
    /// Number of the considered entities that it mentions.
    pub(super) entities: usize,
}

impl Passage {
    pub(super) fn new(evidence: Evidence, hits: &[Evidence], entities: usize) -> Self {
        let overlapping = hits.iter().filter(|hit| overlap(hit, &evidence));
        let found = overlapping.map(|hit| hit.score).max_by(f32::total_cmp);
        Self { evidence, segment: None, states_edge: false, found, entities }
    }

    pub(super) fn bytes(&self) -> usize {
        self.evidence.text.len()
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let place = |passage: &Self| (passage.evidence.version, passage.evidence.span);
        self.evidence.document_id == other.evidence.document_id && place(self) == place(other)
    }
}

/// Sorts the most relevant first: those that state a followed edge, then by the score found, by the
/// entities mentioned, and by place.
pub(super) fn rank(passages: &mut [Passage]) {
    let found = |passage: &Passage| passage.found.unwrap_or(f32::NEG_INFINITY);
    passages.sort_by(|a, b| {
        b.states_edge
            .cmp(&a.states_edge)
            .then_with(|| found(b).total_cmp(&found(a)))
            .then_with(|| b.entities.cmp(&a.entities))
            .then_with(|| a.evidence.document_id.cmp(&b.evidence.document_id))
            .then_with(|| a.evidence.span.cmp(&b.evidence.span))
    });
}

/// Returns the passages as evidence for the reader, best first, with scores that fall with the
/// rank.
pub(super) fn as_evidence<'a>(passages: impl IntoIterator<Item = &'a Passage>) -> Vec<Evidence> {
    let scored = |(rank, passage): (usize, &Passage)| Evidence {
        score: 1.0 / (rank as f32 + 1.0),
        ..passage.evidence.clone()
    };
    passages.into_iter().enumerate().map(scored).collect()
}

/// Limits of what is read at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    bytes: usize,
    passages: usize,
}

impl Window {
    pub(super) fn new(most_passages: Option<usize>) -> Self {
        Self { bytes: WINDOW_BYTES, passages: most_passages.unwrap_or(usize::MAX) }
    }

    pub(super) fn holds<'a>(&self, passages: impl IntoIterator<Item = &'a Passage>) -> bool {
        let (mut bytes, mut count) = (0, 0);
        for passage in passages {
            bytes += passage.bytes();
            count += 1;
        }
        bytes <= self.bytes && count <= self.passages
    }

    /// Drops the last passages until the others fit, but never the first. Returns how many.
    pub(super) fn cut(&self, passages: &mut Vec<Passage>) -> usize {
        let before = passages.len();
        while passages.len() > 1 && !self.holds(passages.iter()) {
            passages.pop();
        }
        before - passages.len()
    }
}

/// Appends those of `new` that are not yet among `passages`, in order.
pub(super) fn join(passages: &mut Vec<Passage>, new: Vec<Passage>) {
    for passage in new {
        if !passages.iter().any(|known| known.is_same(&passage)) {
            passages.push(passage);
        }
    }
}
