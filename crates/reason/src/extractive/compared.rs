//! A question compared with sentences, from which a reading is made.

use clew_core::{Assignment, Cost};

use super::counting::Counting;
use super::leaning::Leaning;
use super::matter::Matter;
use super::question::Question;
use super::reckoning::Event;
use super::score::Weights;
use super::sentence::{Material, Sentence};
use super::verb::in_past;

/// A question compared with sentences.
pub(super) struct Compared<'r, 'a> {
    pub(super) assignment: &'r Assignment<'a>,
    pub(super) question: &'r Question,
    pub(super) material: &'r Material<'a>,
    pub(super) weights: &'r Weights,
    pub(super) leaning: &'r Leaning,
    pub(super) sentences: &'r [&'r Sentence<'a>],
    /// Similarities of the sentences to the question, and then to each of [`phrases`].
    pub(super) cosines: &'r [Vec<f32>],
    pub(super) cost: Cost,
}

/// Returns the phrases that the sentences are compared with besides the question.
pub(super) fn phrases(matter: &Matter) -> Vec<String> {
    match matter {
        Matter::Reckoning(reckoning) => {
            let written = |event: &&Event| in_past(&format!("{} {}", event.context, event.text));
            reckoning.events().iter().map(written).map(|text| text.trim().to_owned()).collect()
        }
        Matter::Counting(Counting::Sum(sum)) => sum.parts.clone(),
        Matter::Counting(Counting::Number(_))
        | Matter::Advice
        | Matter::Recollection
        | Matter::Fact => Vec::new(),
    }
}
