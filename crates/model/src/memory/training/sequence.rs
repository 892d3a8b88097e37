//! What is learnt from.

use crate::Error;

/// Token ids to learn from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub(super) tokens: Vec<u32>,
    /// Whether each is to be predicted from those before it.
    pub(super) counted: Vec<bool>,
}

impl Sequence {
    /// A sequence of which every token counts that has one before it.
    ///
    /// # Errors
    /// [`Error::Untrainable`] for fewer than two tokens.
    pub fn of(tokens: Vec<u32>) -> Result<Self, Error> {
        let counted = vec![true; tokens.len()];
        Self::masked(tokens, counted)
    }

    /// A sequence of which only those tokens count for which `counted` is true.
    ///
    /// # Errors
    /// [`Error::Untrainable`] for another number of tokens than of flags, and where no token counts that has one before
    /// it.
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

    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How many tokens are to be predicted.
    pub fn labels(&self) -> usize {
        self.counted.iter().skip(1).filter(|counted| **counted).count()
    }
}
