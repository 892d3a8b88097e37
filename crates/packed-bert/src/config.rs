//! The shape of a model and the check that the kernels can run it.

use crate::Error;

/// Number of columns of the widest panel. Widths are cut into panels, and panels into vectors.
pub(crate) const WIDTH_MULTIPLE: usize = 32;

/// Upper limit of a dimension. Real encoders stay far below it, and the product of two dimensions
/// stays far from overflow.
const LARGEST_DIMENSION: usize = 1 << 24;

/// Shape of a BERT encoder with learned positions, post-layer normalisation and GELU(erf).
///
/// The names in backticks are those of the `config.json` of a Hugging Face BERT, where the numbers
/// usually come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Number of token ids, `vocab_size`.
    pub vocabulary: usize,
    /// Width of the hidden states, `hidden_size`.
    pub hidden: usize,
    /// Number of encoder layers, `num_hidden_layers`.
    pub layers: usize,
    /// Attention heads per layer, `num_attention_heads`.
    pub heads: usize,
    /// Width between the two products of the feed-forward part, `intermediate_size`.
    pub intermediate: usize,
    /// Longest sequence in tokens, `max_position_embeddings`.
    pub positions: usize,
    /// Number of segment kinds, `type_vocab_size`. Every token is treated as the first kind.
    pub token_types: usize,
    /// Addend of the variance in layer normalisation, `layer_norm_eps`.
    pub layer_norm_epsilon: f32,
}

impl Config {
    /// Checks that the kernels can run a model of this shape, so that a caller can choose another
    /// engine before it reads any weights.
    ///
    /// # Errors
    ///
    /// Returns [`Error::UnsupportedShape`] if a dimension is zero or greater than 2^24, if `hidden`
    /// is not `heads` times a multiple of 32, if `intermediate` is not a multiple of 32, or if the
    /// epsilon is not positive and finite.
    pub fn check(&self) -> Result<(), Error> {
        for (field, value) in [
            ("vocabulary", self.vocabulary),
            ("hidden", self.hidden),
            ("layers", self.layers),
            ("heads", self.heads),
            ("intermediate", self.intermediate),
            ("positions", self.positions),
            ("token_types", self.token_types),
        ] {
            require(
                field,
                value,
                "between 1 and 16777216",
                (1..=LARGEST_DIMENSION).contains(&value),
            )?;
        }
        require(
            "hidden",
            self.hidden,
            "a multiple of `heads`",
            self.hidden.is_multiple_of(self.heads),
        )?;
        let head = self.head_width();
        require("hidden / heads", head, "a multiple of 32", head.is_multiple_of(WIDTH_MULTIPLE))?;
        let is_whole = self.intermediate.is_multiple_of(WIDTH_MULTIPLE);
        require("intermediate", self.intermediate, "a multiple of 32", is_whole)?;
        let epsilon = self.layer_norm_epsilon;
        require(
            "layer_norm_epsilon",
            epsilon,
            "positive and finite",
            epsilon > 0.0 && epsilon.is_finite(),
        )
    }

    pub(crate) fn head_width(&self) -> usize {
        self.hidden / self.heads
    }
}

fn require(
    field: &'static str,
    value: impl ToString,
    expected: &'static str,
    holds: bool,
) -> Result<(), Error> {
    if holds {
        return Ok(());
    }
    Err(Error::UnsupportedShape { field, value: value.to_string(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINI_LM: Config = Config {
        vocabulary: 30522,
        hidden: 384,
        layers: 6,
        heads: 12,
        intermediate: 1536,
        positions: 512,
        token_types: 2,
        layer_norm_epsilon: 1e-12,
    };

    #[test]
    fn common_shapes_are_supported() {
        assert!(MINI_LM.check().is_ok());
        assert!(Config { hidden: 768, intermediate: 3072, ..MINI_LM }.check().is_ok());
        assert!(Config { hidden: 128, heads: 2, intermediate: 512, ..MINI_LM }.check().is_ok());
    }

    #[test]
    fn unsupported_shapes_are_refused_by_field() {
        let refused = [
            ("vocabulary", Config { vocabulary: 0, ..MINI_LM }),
            ("heads", Config { heads: 0, ..MINI_LM }),
            ("positions", Config { positions: usize::MAX, ..MINI_LM }),
            ("hidden", Config { heads: 7, ..MINI_LM }),
            ("hidden / heads", Config { hidden: 312, ..MINI_LM }),
            ("intermediate", Config { intermediate: 1200, ..MINI_LM }),
            ("layer_norm_epsilon", Config { layer_norm_epsilon: 0.0, ..MINI_LM }),
            ("layer_norm_epsilon", Config { layer_norm_epsilon: f32::NAN, ..MINI_LM }),
        ];
        for (expected, config) in refused {
            match config.check() {
                Err(Error::UnsupportedShape { field, .. }) => assert_eq!(field, expected),
                other => panic!("{config:?} gave {other:?}"),
            }
        }
    }
}
