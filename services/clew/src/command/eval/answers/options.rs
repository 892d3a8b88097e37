//! Choice of an option where no language model reads the options of a question.

use std::time::Instant;

use clap::ValueEnum;
use clew_core::{Encoder, Error, Priority, TextKind};
use clew_eval::answers::{ChoiceOption, most_alike};

use super::super::haystack_corpus::PATIENCE;

/// Ways of choosing an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OptionChoice {
    /// Ask about each option together with the question, and choose the one with the most support.
    Support,
    /// Ask the question without options, and choose the one that is most like the answer: by common
    /// words, then by meaning. What is not answered is wrong.
    Likeness,
}

impl OptionChoice {
    /// Returns its name among the settings of a run. Returns `None` for the usual way.
    pub fn setting(self) -> Option<String> {
        match self {
            Self::Support => None,
            Self::Likeness => Some("likeness".to_owned()),
        }
    }
}

/// Returns the option that is most like `answer`. Returns `None` if there are no options.
///
/// # Errors
/// Returns the errors of the encoder.
pub(super) async fn most_like<'o>(
    answer: &str,
    options: &'o [ChoiceOption],
    encoder: &dyn Encoder,
) -> Result<Option<&'o ChoiceOption>, Error> {
    let alike = most_alike(answer, options);
    if alike.len() < 2 {
        return Ok(alike.first().copied());
    }
    let texts = std::iter::once(answer).chain(alike.iter().map(|option| option.text.as_str()));
    let texts = texts.map(str::to_owned).collect();
    let deadline = Instant::now() + PATIENCE;
    let embedded = encoder.embed(texts, TextKind::Passage, Priority::Bulk, deadline).await?;
    let Some((answer, embedded)) = embedded.split_first() else { return Ok(None) };
    let cosine = |vector: &[f32]| -> f32 {
        vector.iter().zip(&answer.vector).map(|(one, other)| one * other).sum()
    };
    let scored = alike.into_iter().zip(embedded.iter().map(|option| cosine(&option.vector)));
    Ok(scored.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(option, _)| option))
}
