//! Training sequences: tokens, and which of them are labels.

use crate::Error;

/// Sequence of token ids to train with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainingSequence {
    pub(super) tokens: Vec<u32>,
    /// Whether each token is to be predicted from those before it.
    pub(super) counted: Vec<bool>,
}

impl TrainingSequence {
    /// Creates a sequence in which every token but the first is a label.
    ///
    /// # Errors
    /// Returns [`Error::Untrainable`] if there are fewer than two tokens.
    pub fn of(tokens: Vec<u32>) -> Result<Self, Error> {
        let counted = vec![true; tokens.len()];
        Self::masked(tokens, counted)
    }

    /// Creates a sequence in which only those tokens are labels for which `counted` is true.
    ///
    /// # Errors
    /// Returns [`Error::Untrainable`] if there are not as many flags as tokens, or if no token
    /// after the first is a label.
    pub fn masked(tokens: Vec<u32>, counted: Vec<bool>) -> Result<Self, Error> {
        if tokens.len() != counted.len() {
            let expected = format!("a flag for each of {} tokens", tokens.len());
            return Err(Error::Untrainable { expected, found: format!("{} flags", counted.len()) });
        }
        let sequence = Self { tokens, counted };
        if sequence.labels() == 0 {
            return Err(Error::Untrainable {
                expected: "a token to predict from those before it".to_owned(),
                found: format!("none in {} tokens", sequence.tokens.len()),
            });
        }
        Ok(sequence)
    }

    /// Returns the tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns the number of tokens that are to be predicted.
    pub fn labels(&self) -> usize {
        self.counted.iter().skip(1).filter(|counted| **counted).count()
    }
}
