//! Choice of the sentences of a summary: greedy budgeted maximum coverage.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use clew_core::Quote;

use crate::{Term, terms};

/// Sentence that may be chosen.
pub(super) struct Candidate {
    quote: Quote,
    /// Bytes that it takes in a summary.
    bytes: usize,
    /// Its distinct terms, in order, so that sums of floats are the same each time.
    terms: Vec<Term>,
}

impl Candidate {
    /// Creates the candidate for the sentence at `quote`, which reads `text`.
    pub(super) fn new(quote: Quote, text: &str) -> Self {
        let terms: BTreeSet<Term> = terms(text).collect();
        Self { quote, bytes: text.len(), terms: terms.into_iter().collect() }
    }
}

/// Candidate with its gain when that was last computed. The gain now is no larger, because coverage
/// only grows.
struct Bound {
    gain: f32,
    index: usize,
}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> Ordering {
        // Among equals the first sentence wins.
        self.gain.total_cmp(&other.gain).then_with(|| other.index.cmp(&self.index))
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bound {}

/// Chooses sentences of `candidates` whose texts, with a blank between, take at most `max_bytes`;
/// best first. With `each_part_first`, no part gives a second sentence while another may give its
/// first.
pub(super) fn choose(
    candidates: &[Candidate],
    max_bytes: usize,
    each_part_first: bool,
) -> Vec<Quote> {
    let mut choice = Choice::new(candidates, max_bytes);
    if each_part_first {
        choice.take(true);
    }
    choice.take(false);
    choice.chosen.iter().map(|index| candidates[*index].quote).collect()
}

struct Choice<'c> {
    candidates: &'c [Candidate],
    weights: HashMap<&'c Term, f32>,
    covered: HashSet<&'c Term>,
    parts: HashSet<usize>,
    chosen: Vec<usize>,
    room: usize,
}

impl<'c> Choice<'c> {
    fn new(candidates: &'c [Candidate], max_bytes: usize) -> Self {
        let mut counts: HashMap<&Term, f32> = HashMap::new();
        for term in candidates.iter().flat_map(|candidate| &candidate.terms) {
            *counts.entry(term).or_default() += 1.0;
        }
        let weights = counts.into_iter().map(|(term, count)| (term, count.ln_1p())).collect();
        // The first sentence needs no blank before it.
        let room = max_bytes.saturating_add(1);
        let (covered, parts, chosen) = (HashSet::new(), HashSet::new(), Vec::new());
        Self { candidates, weights, covered, parts, chosen, room }
    }

    /// Takes the candidate that adds most and fits, again and again. With `one_of_part`, it takes
    /// one sentence of each part that has given none yet.
    fn take(&mut self, one_of_part: bool) {
        let gain = |choice: &Self, index: usize| choice.gain(&choice.candidates[index]);
        let mut heap: BinaryHeap<Bound> = (0..self.candidates.len())
            .map(|index| Bound { gain: gain(self, index), index })
            .collect();
        while let Some(best) = heap.pop() {
            let candidate = &self.candidates[best.index];
            let is_done = one_of_part && self.parts.contains(&candidate.quote.part);
            if is_done || candidate.bytes >= self.room {
                continue;
            }
            let now = gain(self, best.index);
            if now < best.gain {
                heap.push(Bound { gain: now, index: best.index });
                continue;
            }
            // The first choice is made even among sentences without terms.
            if now <= 0.0 && !self.chosen.is_empty() {
                return;
            }
            self.room -= candidate.bytes + 1;
            self.covered.extend(&candidate.terms);
            self.parts.insert(candidate.quote.part);
            self.chosen.push(best.index);
        }
    }

    /// Returns what a sentence adds, relative to its length.
    fn gain(&self, candidate: &Candidate) -> f32 {
        let new = candidate.terms.iter().filter(|term| !self.covered.contains(term));
        let weight: f32 = new.filter_map(|term| self.weights.get(term)).sum();
        weight / (candidate.bytes as f32).sqrt()
    }
}
