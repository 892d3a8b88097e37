//! How many partitions of a vector index a search reads, and the questions that decide it.
//!
//! The index puts each vector into the partition whose centre is nearest, and a search reads the
//! partitions nearest to the question. Some of what is near lies in others. How much, depends on
//! the corpus and on how its users ask, so it is measured with their newest questions
//! ([`crate::read::search::recall`]).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of partitions that a search reads at least until there was a measurement: all of 100,000
/// rows. It reads half of more than twice as many.
const FIRST: usize = 48;
/// Number of questions that a measurement asks.
const QUESTIONS: usize = 16;
/// Factor by which a shard has to grow or to shrink before its recall is measured again.
const GROWTH: f64 = 1.25;

/// Recall of the vector index, as it was measured last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexRecall {
    /// Share of the ten nearest chunks that searches find, 0 to 1.
    pub share: f32,
    /// Number of partitions that searches read at first.
    pub probes: usize,
    /// Number of partitions of the index.
    pub partitions: usize,
    /// Number of chunks when it was measured.
    pub rows: usize,
}

/// Number of partitions to read, with the newest questions.
#[derive(Debug, Default)]
pub(crate) struct Probing(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    questions: VecDeque<Vec<f32>>,
    measured: Option<IndexRecall>,
    is_measuring: bool,
}

impl Probing {
    /// Returns the number of partitions to read at first, of so many.
    pub(crate) fn probes(&self, partitions: usize) -> usize {
        match self.state().measured {
            // As large a part of them as was measured.
            Some(measured) => {
                (measured.probes * partitions).div_ceil(measured.partitions.max(1)).max(1)
            }
            None => FIRST.max(partitions / 2),
        }
    }

    /// Returns what was measured last.
    pub(crate) fn measured(&self) -> Option<IndexRecall> {
        self.state().measured
    }

    /// Keeps the vector of a question.
    pub(crate) fn asked(&self, vector: &[f32]) {
        let mut state = self.state();
        if state.questions.len() >= QUESTIONS {
            state.questions.pop_front();
        }
        state.questions.push_back(vector.to_vec());
    }

    /// Returns whether the recall of an index of so many partitions and rows is to be measured.
    pub(crate) fn is_due(&self, partitions: usize, rows: usize) -> bool {
        self.state().is_due(partitions, rows)
    }

    /// Begins a measurement of such an index. Returns `None` if none is due.
    pub(crate) fn begin(&self, partitions: usize, rows: usize) -> Option<Measuring<'_>> {
        let mut state = self.state();
        state.is_due(partitions, rows).then(|| {
            state.is_measuring = true;
            Measuring { probing: self, questions: state.questions.clone().into() }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_due(&self, partitions: usize, rows: usize) -> bool {
        let is_known = self.measured.is_some_and(|measured| {
            let is_alike = |now: usize, then: usize| {
                let growth = now.max(1) as f64 / then.max(1) as f64;
                (GROWTH.recip()..=GROWTH).contains(&growth)
            };
            is_alike(partitions, measured.partitions) && is_alike(rows, measured.rows)
        });
        !is_known && !self.is_measuring && self.questions.len() >= QUESTIONS
    }
}

/// Measurement under way.
#[derive(Debug)]
pub(crate) struct Measuring<'a> {
    probing: &'a Probing,
    /// Vectors to ask for.
    pub questions: Vec<Vec<f32>>,
}

impl Measuring<'_> {
    /// Keeps what was measured.
    pub(crate) fn finish(self, measured: IndexRecall) {
        self.probing.state().measured = Some(measured);
    }
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        self.probing.state().is_measuring = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recall_is_measured_once_for_an_index_and_again_when_the_shard_has_grown() {
        let probing = Probing::default();
        assert_eq!((probing.probes(30), probing.probes(500)), (FIRST, 250));
        for _ in 1..QUESTIONS {
            probing.asked(&[1.0]);
        }
        assert!(!probing.is_due(100, 1_000), "there are too few questions");
        probing.asked(&[0.5]);
        assert!(probing.is_due(100, 1_000));
        let measuring = probing.begin(100, 1_000).unwrap();
        assert_eq!(measuring.questions.len(), QUESTIONS);
        assert!(probing.begin(100, 1_000).is_none() && !probing.is_due(100, 1_000));
        measuring.finish(IndexRecall { share: 0.9, probes: 7, partitions: 100, rows: 1_000 });
        assert_eq!((probing.probes(100), probing.probes(110)), (7, 8));
        for (partitions, rows, is_due) in [
            (100, 1_000, false),
            (100, 1_200, false),
            (100, 1_300, true),
            (100, 700, true),
            (110, 1_000, false),
            (130, 1_000, true),
            (70, 1_000, true),
        ] {
            assert_eq!(probing.is_due(partitions, rows), is_due, "{partitions} {rows}");
        }
        // One that ends early changes nothing, and another can begin.
        drop(probing.begin(130, 1_000).unwrap());
        assert_eq!(probing.probes(100), 7);
        assert!(probing.is_due(130, 1_000));
    }

    #[test]
    fn only_the_newest_questions_are_kept() {
        let probing = Probing::default();
        for number in 0..=QUESTIONS {
            probing.asked(&[number as f32]);
        }
        let questions = probing.begin(100, 1_000).unwrap().questions.clone();
        assert_eq!((questions.len(), questions[0][0]), (QUESTIONS, 1.0));
    }
}
