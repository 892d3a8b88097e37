//! The passages to choose from, with their worth by themselves and by links.

use std::cmp::Ordering;

use clew_core::{DocumentId, Evidence};

use super::weights::{COSINE_SHARE, LINK_WEIGHT};
use crate::work::overlap;

/// Link to a passage from one that names what leads to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// Index of the naming passage in [`Passages::all`].
    pub(super) source: usize,
    /// Name that links them.
    pub(super) name: String,
    /// Weight of the link times the source's S0.
    pub(super) worth: f32,
    /// Explanation of the link for people.
    pub(super) reason: String,
}

/// Passage that may be read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Passage {
    pub(super) evidence: Evidence,
    /// Worth by itself: S0.
    pub(super) own: f32,
    /// Best link to the passage.
    pub(super) link: Option<Link>,
}

impl Passage {
    pub(super) fn score(&self) -> f32 {
        self.own + LINK_WEIGHT * self.link.as_ref().map_or(0.0, |link| link.worth)
    }

    /// Keeps `link` if it is the best one so far; of equal ones, the first. A link that is worth
    /// nothing is ignored.
    pub(super) fn link_from(&mut self, link: &Link) {
        if link.worth > self.link.as_ref().map_or(0.0, |best| best.worth) {
            self.link = Some(link.clone());
        }
    }

    /// Returns its document's title, or else its id.
    pub(super) fn title(&self) -> String {
        match self.evidence.title.trim() {
            "" => self.evidence.document_id.to_string(),
            title => title.to_owned(),
        }
    }

    /// Compares passages by a score, the highest first; equal ones by place.
    fn better(&self, other: &Self, score: impl Fn(&Self) -> f32) -> Ordering {
        let (a, b) = (&self.evidence, &other.evidence);
        score(other)
            .total_cmp(&score(self))
            .then_with(|| a.document_id.cmp(&b.document_id))
            .then_with(|| (a.version, a.span).cmp(&(b.version, b.span)))
    }
}

/// All passages. Each stays at its index.
#[derive(Debug)]
pub(super) struct Passages {
    pub(super) all: Vec<Passage>,
    /// H of passages that the search did not find.
    unfound: f32,
}

impl Passages {
    /// Creates the passages that a search found.
    pub(super) fn of(hits: Vec<Evidence>) -> Self {
        let lowest = hits.iter().filter_map(|hit| hit.dense_score).min_by(f32::total_cmp);
        let lowest = lowest.unwrap_or(0.0);
        let highest = hits.iter().filter_map(|hit| hit.sparse_score).fold(0.0, f32::max);
        let hybrid = |hit: &Evidence| {
            let cosine = hit.dense_score.unwrap_or(lowest);
            let words = hit.sparse_score.filter(|_| highest > 0.0);
            let share = words.map_or(0.0, |bm25| bm25 / highest);
            COSINE_SHARE * cosine + (1.0 - COSINE_SHARE) * share
        };
        let passage = |hit: Evidence| Passage { own: hybrid(&hit), evidence: hit, link: None };
        Self { all: hits.into_iter().map(passage).collect(), unfound: COSINE_SHARE * lowest }
    }

    /// Returns the best passage of a document by itself.
    pub(super) fn of_document(&self, id: &DocumentId) -> Option<usize> {
        self.best_where(|passage| passage.evidence.document_id == *id)
    }

    /// Returns the index of the passage that stands for a segment: the best one by itself that
    /// overlaps it, else the segment, which is added.
    pub(super) fn find_or_add(&mut self, segment: Evidence) -> usize {
        if let Some(known) = self.best_where(|passage| overlap(&passage.evidence, &segment)) {
            return known;
        }
        self.all.push(Passage { evidence: segment, own: self.unfound, link: None });
        self.all.len() - 1
    }

    /// Returns the best passages by themselves.
    pub(super) fn sources(&self, most: usize) -> Vec<usize> {
        let mut order = self.ranked_by(|passage| passage.own);
        order.truncate(most);
        order
    }

    /// Returns all passages, best first; equal ones by place.
    pub(super) fn ranking(&self) -> Vec<usize> {
        self.ranked_by(Passage::score)
    }

    fn best_where(&self, holds: impl Fn(&Passage) -> bool) -> Option<usize> {
        let among = (0..self.all.len()).filter(|index| holds(&self.all[*index]));
        among.min_by(|a, b| self.all[*a].better(&self.all[*b], |passage| passage.own))
    }

    fn ranked_by(&self, score: impl Fn(&Passage) -> f32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by(|a, b| self.all[*a].better(&self.all[*b], &score));
        order
    }
}
