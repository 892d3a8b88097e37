//! From the logits of windows to what was read of a passage.

use std::cmp::Ordering;

use clew_core::{FoundSpan, PassageRead, Span};

use super::heads::Logits;
use super::window::EncodedWindow;

/// Maximum number of spans that are kept as candidates, of a window and of a passage. A span beyond
/// them has next to no share.
const MOST_CANDIDATES: usize = 20;

/// What the heads make of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowScore {
    /// Logit of "the passage answers the question".
    pub answers: f32,
    /// Logit of "the passage is about the question".
    pub relevance: f32,
    /// Spans that answer best, best first, at most 20.
    pub candidates: Vec<SpanScore>,
}

/// Span of a passage that may be the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanScore {
    /// Byte range of the passage's text, not empty.
    pub span: Span,
    /// Logits of beginning and of ending there, less those of "no answer" in the same window.
    pub score: f32,
}

/// Weights of what tells whether a passage answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Calibration {
    /// Weight of the best span's score.
    pub(super) margin: f64,
    /// Weight of the verdict's logit.
    pub(super) verdict: f64,
    pub(super) bias: f64,
}

impl WindowScore {
    /// Finds the spans of at most `longest` tokens that answer best. Takes time in proportion to
    /// the tokens times `longest`.
    pub(super) fn of(window: &EncodedWindow, logits: &Logits, longest: usize) -> Self {
        let none = logits.starts[0] + logits.ends[0];
        let from = window.passage_from();
        let (starts, ends) = (&logits.starts[from..], &logits.ends[from..]);
        let mut candidates: Vec<SpanScore> = Vec::with_capacity(MOST_CANDIDATES + 1);
        for (first, begin) in window.spans().iter().enumerate() {
            for (last, end) in window.spans().iter().enumerate().skip(first).take(longest) {
                let score = starts[first] + ends[last] - none;
                let is_full = candidates.len() == MOST_CANDIDATES;
                let is_worse = |kept: &SpanScore| kept.score.total_cmp(&score).is_ge();
                if begin.start >= end.end || is_full && candidates.last().is_some_and(is_worse) {
                    continue;
                }
                let span = Span::new(begin.start, end.end);
                let candidate = SpanScore { span, score };
                let at = candidates.partition_point(|kept| kept.order(&candidate).is_lt());
                candidates.insert(at, candidate);
                candidates.truncate(MOST_CANDIDATES);
            }
        }
        let [answers, relevance] = logits.verdict;
        Self { answers, relevance, candidates }
    }

    /// Returns the best span's score: above 0 if an answer is likelier than none.
    pub fn margin(&self) -> Option<f32> {
        self.candidates.first().map(|best| best.score)
    }
}

impl SpanScore {
    /// Compares by score, best first, and equal ones by their place.
    fn order(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.span.cmp(&other.span))
    }
}

impl Calibration {
    /// Returns the probability that a passage answers, 0 to 1.
    fn probability(&self, margin: f32, verdict: f32) -> f32 {
        sigmoid(self.margin * f64::from(margin) + self.verdict * f64::from(verdict) + self.bias)
    }
}

/// Merges the windows over one passage. The window with the best span tells whether the passage
/// answers. Relevance is that of the most relevant window.
pub(super) fn merge(windows: &[WindowScore], calibration: &Calibration) -> PassageRead {
    let margins = windows.iter().filter_map(|window| Some((window.margin()?, window.answers)));
    // The first of equal ones, as `max_by` takes the last.
    let best = margins.rev().max_by(|(left, _), (right, _)| left.total_cmp(right));
    let relevance = windows.iter().map(|window| sigmoid(f64::from(window.relevance)));
    PassageRead {
        answers: best.map_or(0.0, |(margin, verdict)| calibration.probability(margin, verdict)),
        relevance: relevance.fold(0.0, f32::max),
        spans: shares(windows.iter().flat_map(|window| &window.candidates).copied().collect()),
    }
}

/// Returns the best spans that do not overlap. Their shares are those among all candidates: of
/// spans that overlap, the worse ones keep theirs, and are not returned.
fn shares(mut candidates: Vec<SpanScore>) -> Vec<FoundSpan> {
    candidates.sort_by(SpanScore::order);
    let mut kept: Vec<SpanScore> = Vec::with_capacity(MOST_CANDIDATES);
    for candidate in candidates {
        if kept.len() == MOST_CANDIDATES {
            break;
        }
        // Two windows may both have it. The better one counts.
        if kept.iter().all(|other| other.span != candidate.span) {
            kept.push(candidate);
        }
    }
    let best = kept.first().map_or(0.0, |best| f64::from(best.score));
    let weight = |candidate: &SpanScore| (f64::from(candidate.score) - best).exp();
    let total: f64 = kept.iter().map(weight).sum();
    let mut found: Vec<FoundSpan> = Vec::with_capacity(PassageRead::MOST_SPANS);
    for candidate in &kept {
        if found.len() == PassageRead::MOST_SPANS {
            break;
        }
        let span = candidate.span;
        if found.iter().all(|other| other.span.end <= span.start || span.end <= other.span.start) {
            found.push(FoundSpan { span, share: (weight(candidate) / total) as f32 });
        }
    }
    found
}

fn sigmoid(logit: f64) -> f32 {
    (1.0 / (1.0 + (-logit).exp())) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVEN: Calibration = Calibration { margin: 1.0, verdict: 1.0, bias: 0.0 };

    fn window(answers: f32, relevance: f32, spans: &[(usize, usize, f32)]) -> WindowScore {
        let score = |&(start, end, score): &_| SpanScore { span: Span::new(start, end), score };
        WindowScore { answers, relevance, candidates: spans.iter().map(score).collect() }
    }

    fn is_close(left: f32, right: f64) -> bool {
        (f64::from(left) - right).abs() < 1e-6
    }

    #[test]
    fn the_window_with_the_best_span_tells_whether_the_passage_answers() {
        let read = merge(
            &[window(-3.0, 2.0, &[(0, 1, 1.0)]), window(0.5, -1.0, &[(4, 6, 2.0)])],
            &Calibration { margin: 0.5, verdict: 2.0, bias: -1.0 },
        );
        assert!(is_close(read.answers, 1.0 / (1.0 + (-1.0_f64).exp())), "{read:?}");
        assert!(is_close(read.relevance, 1.0 / (1.0 + (-2.0_f64).exp())), "{read:?}");
    }

    #[test]
    fn a_span_of_two_windows_counts_once_with_its_better_score() {
        let twice = [window(0.0, 0.0, &[(2, 5, 1.0)]), window(0.0, 0.0, &[(2, 5, 3.0)])];
        let read = merge(&twice, &EVEN);
        let [found] = read.spans.as_slice() else { panic!("{read:?}") };
        assert_eq!((found.span, found.share), (Span::new(2, 5), 1.0));
    }

    #[test]
    fn spans_that_overlap_a_better_one_are_left_out_and_keep_their_share() {
        let scores = [(0, 4, 2.0), (2, 6, 1.0), (4, 6, 0.0)];
        let read = merge(&[window(0.0, 0.0, &scores)], &EVEN);
        let total = 2.0_f64.exp() + 1.0_f64.exp() + 1.0;
        let [first, second] = read.spans.as_slice() else { panic!("{read:?}") };
        assert_eq!((first.span, second.span), (Span::new(0, 4), Span::new(4, 6)));
        assert!(is_close(first.share, 2.0_f64.exp() / total));
        assert!(is_close(second.share, 1.0 / total));
    }

    #[test]
    fn nothing_answers_where_nothing_was_read() {
        assert_eq!(merge(&[], &EVEN), PassageRead::default());
    }
}
