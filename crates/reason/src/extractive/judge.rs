//! Judges whether the passages read support an answer.
//!
//! The crate's documentation describes how the constants were found.

use super::question::{Question, WordSet};
use super::score::Weights;
use super::sentence::{Material, Sentence};

/// Minimum confidence at which a question counts as answered.
pub(crate) const THRESHOLD: f32 = 0.45;

/// Coefficients of the logistic regression, one for each field of [`Support`].
const BEST_COSINE: f32 = 8.23;
const BEST_SHARE: f32 = 3.44;
const NAMES_MISSING: f32 = -3.11;
const INTERCEPT: f32 = -5.19;

/// Maximum number of missing words named to a person.
pub(crate) const MAX_WORDS_TOLD: usize = 5;

/// Features that a judgement is based on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Support {
    /// Highest cosine similarity of a sentence to the question.
    pub(crate) best_cosine: f32,
    /// Largest share of the question's words, by weight, in one sentence and its title.
    pub(crate) best_share: f32,
    /// Share of the question's names and numbers that occur nowhere in what was read.
    pub(crate) names_missing: f32,
}

impl Support {
    /// Computes the features of `sentences`, whose similarities to the question are `cosines`.
    pub(crate) fn new(
        question: &Question,
        material: &Material<'_>,
        weights: &Weights,
        sentences: &[&Sentence<'_>],
        cosines: &[f32],
    ) -> Self {
        let share = |sentence: &&Sentence<'_>| {
            weights.share(sentence.words | material.passages[sentence.passage].title_words)
        };
        Self {
            best_cosine: cosines.iter().copied().fold(-1.0, f32::max),
            best_share: sentences.iter().map(share).fold(0.0, f32::max),
            names_missing: names_missing(question, words_read(material)),
        }
    }

    /// Returns the confidence that the question is answered, 0 to 1.
    pub(crate) fn confidence(&self) -> f32 {
        let logit = BEST_COSINE * self.best_cosine
            + BEST_SHARE * self.best_share
            + NAMES_MISSING * self.names_missing
            + INTERCEPT;
        1.0 / (1.0 + (-logit).exp())
    }

    /// Returns the grounds of the judgement in one line.
    pub(crate) fn rationale(&self, question: &Question, material: &Material<'_>) -> String {
        let mut line = format!(
            "best sentence cosine {:.2}, {:.0} % of the question's words covered",
            self.best_cosine,
            100.0 * self.best_share
        );
        let mut missing: Vec<String> = Vec::new();
        let read = words_read(material);
        for (_, word) in
            question.words().iter().enumerate().filter(|(place, _)| !read.holds(*place))
        {
            let quoted = format!("{:?}", word.written);
            if !missing.contains(&quoted) {
                missing.push(quoted);
            }
        }
        if !missing.is_empty() {
            missing.truncate(MAX_WORDS_TOLD);
            line.push_str(", missing: ");
            line.push_str(&missing.join(", "));
        }
        line
    }
}

/// Returns the question's words that occur in anything that was read.
fn words_read(material: &Material<'_>) -> WordSet {
    material.passages.iter().fold(WordSet::default(), |read, passage| read | passage.words)
}

/// Returns the share of the question's names and numbers that are not in `read`.
pub(crate) fn names_missing(question: &Question, read: WordSet) -> f32 {
    let is_read = question.words().iter().enumerate().filter(|(_, word)| word.is_name);
    let (found, missing): (Vec<bool>, Vec<bool>) =
        is_read.map(|(place, _)| read.holds(place)).partition(|&is_read| is_read);
    match found.len() + missing.len() {
        0 => 0.0,
        names => missing.len() as f32 / names as f32,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::extractive::fixtures::passage;

    const SURE: Support = Support { best_cosine: 0.75, best_share: 0.8, names_missing: 0.0 };

    #[test]
    fn a_close_sentence_with_the_words_asked_for_supports_an_answer() {
        assert!(SURE.confidence() > 0.85);
        let unlike = Support { best_cosine: 0.2, best_share: 0.1, names_missing: 0.0 };
        assert!(unlike.confidence() < THRESHOLD / 2.0);
    }

    #[test]
    fn a_name_that_nothing_holds_speaks_against_an_answer() {
        let half_known = Support { best_cosine: 0.5, best_share: 0.5, names_missing: 0.0 };
        assert!(half_known.confidence() >= THRESHOLD);
        let of_another = Support { names_missing: 1.0, ..half_known };
        assert!(of_another.confidence() < THRESHOLD);
    }

    #[test]
    fn the_rationale_names_what_is_missing() {
        let question = Question::new("Which harp is in Zürich's hall?");
        let evidence = [passage("a", 0, "A harp hangs in the hall.", 1.0)];
        let material = Material::new(&question, &evidence);
        let support = Support::new(
            &question,
            &material,
            &Weights::new(&question, &material.sentences),
            &[&material.sentences[0]],
            &[0.708],
        );
        assert_eq!(support.names_missing, 1.0);
        let rationale = support.rationale(&question, &material);
        assert!(rationale.starts_with("best sentence cosine 0.71, "), "{rationale}");
        assert!(rationale.ends_with(", missing: \"Zürich\""), "{rationale}");
    }

    proptest! {
        #[test]
        fn more_support_never_lowers_confidence(
            cosine in -1.0f32..1.0,
            share in 0.0f32..1.0,
            missing in 0.0f32..1.0,
            step in 0.0f32..1.0,
        ) {
            let less =
                Support { best_cosine: cosine, best_share: share, names_missing: missing };
            let confidence = less.confidence();
            prop_assert!((0.0..=1.0).contains(&confidence));
            for more in [
                Support { best_cosine: cosine + step, ..less },
                Support { best_share: share + step, ..less },
                Support { names_missing: missing - step, ..less },
            ] {
                prop_assert!(more.confidence() >= confidence);
            }
        }
    }
}
