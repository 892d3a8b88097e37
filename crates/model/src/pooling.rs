//! Pooling: from token states to one vector per text.

use burn::prelude::*;
use burn::tensor::DType;
use serde::Serialize;

/// Rule by which the states of a text's tokens become its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pooling {
    /// The mean over all tokens, special tokens included.
    Mean,
    /// The state of the first token, `[CLS]`.
    Cls,
    /// The state of the last token. In a causal model only this token has seen the whole text.
    LastToken,
}

impl Pooling {
    /// Pools the states `[tokens, hidden]` of one text into `[hidden]`, not normalised.
    ///
    /// `states` holds at least one token, and `hidden` divides its length.
    pub(crate) fn pool_text(self, states: &[f32], hidden: usize) -> Vec<f32> {
        match self {
            Self::Cls => states[..hidden].to_vec(),
            Self::LastToken => states[states.len() - hidden..].to_vec(),
            Self::Mean => {
                let mut sum = vec![0.0; hidden];
                for state in states.chunks_exact(hidden) {
                    for (total, value) in sum.iter_mut().zip(state) {
                        *total += value;
                    }
                }
                let tokens = (states.len() / hidden) as f32;
                for total in &mut sum {
                    *total /= tokens;
                }
                sum
            }
        }
    }

    /// Pools `states` `[batch, tokens, hidden]` into `[batch, hidden]`, not normalised, in 32-bit
    /// floats.
    ///
    /// `keep` `[batch, tokens]` is true for a token and false for padding. Without it no row is
    /// padded.
    pub(crate) fn pool_batch(self, states: Tensor<3>, keep: Option<Tensor<2, Bool>>) -> Tensor<2> {
        let [batch, tokens, hidden] = states.dims();
        let states = states.cast(DType::F32);
        match (self, keep) {
            (Self::Cls, _) => states.narrow(1, 0, 1).reshape([batch, hidden]),
            (Self::LastToken, None) => states.narrow(1, tokens - 1, 1).reshape([batch, hidden]),
            (Self::LastToken, Some(keep)) => {
                let last = keep.int().sum_dim(1).sub_scalar(1).reshape([batch, 1, 1]);
                states.gather(1, last.expand([batch, 1, hidden])).reshape([batch, hidden])
            }
            (Self::Mean, None) => states.mean_dim(1).reshape([batch, hidden]),
            (Self::Mean, Some(keep)) => {
                let keep = keep.float().cast(DType::F32).reshape([batch, tokens, 1]);
                let sum = (states * keep.clone()).sum_dim(1);
                (sum / keep.sum_dim(1)).reshape([batch, hidden])
            }
        }
    }
}

/// Scales `vector` to length one. Returns `None` if it has no direction: all zero, or not finite.
pub(crate) fn to_unit(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length == 0.0 || !length.is_finite() {
        return None;
    }
    for value in &mut vector {
        *value = (f64::from(*value) / length) as f32;
    }
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_over_all_tokens_and_the_others_are_the_first_and_the_last() {
        let states = [1.0, 2.0, 3.0, 6.0];
        assert_eq!(Pooling::Mean.pool_text(&states, 2), [2.0, 4.0]);
        assert_eq!(Pooling::Cls.pool_text(&states, 2), [1.0, 2.0]);
        assert_eq!(Pooling::LastToken.pool_text(&states, 2), [3.0, 6.0]);
    }

    #[test]
    fn a_padded_batch_pools_to_the_same_as_its_texts() {
        let device = Device::flex();
        // Two texts, of two tokens and of one. The padding is large, so that a leak would show.
        let states = [[[1.0, 2.0], [3.0, 6.0]], [[5.0, 7.0], [900.0, 900.0]]];
        let states = Tensor::<3>::from_data(states, &device);
        let keep = Tensor::<2, Bool>::from_data([[true, true], [true, false]], &device);
        for (pooling, expected) in [
            (Pooling::Mean, [2.0, 4.0, 5.0, 7.0]),
            (Pooling::Cls, [1.0, 2.0, 5.0, 7.0]),
            (Pooling::LastToken, [3.0, 6.0, 5.0, 7.0]),
        ] {
            let pooled = pooling.pool_batch(states.clone(), Some(keep.clone()));
            assert_eq!(pooled.try_into_vec_as::<f32>().unwrap(), expected);
        }
        let whole = states.clone().narrow(0, 0, 1);
        for (pooling, expected) in [
            (Pooling::Mean, [2.0, 4.0]),
            (Pooling::Cls, [1.0, 2.0]),
            (Pooling::LastToken, [3.0, 6.0]),
        ] {
            let pooled = pooling.pool_batch(whole.clone(), None);
            assert_eq!(pooled.try_into_vec_as::<f32>().unwrap(), expected);
        }
    }

    #[test]
    fn unit_vectors_keep_their_direction_and_nothing_comes_of_nothing() {
        assert_eq!(to_unit(vec![3.0, 4.0]), Some(vec![0.6, 0.8]));
        assert_eq!(to_unit(vec![0.0, 0.0]), None);
        assert_eq!(to_unit(vec![f32::NAN, 1.0]), None);
    }
}
