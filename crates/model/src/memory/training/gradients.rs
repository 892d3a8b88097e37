//! Gradients of sequences.

use burn::prelude::*;

use super::parameters;
use crate::Error;

/// Gradients and loss of one or several sequences.
pub struct Gradients {
    /// Sum of the cross-entropies of the labels, in nats.
    pub loss: f64,
    /// Number of labels.
    pub labels: usize,
    /// Gradients of the mean cross-entropy by each trained parameter, in the order of names; `None`
    /// if the parameter has no effect on it.
    pub(super) by_parameter: Vec<(String, Option<Tensor<1>>)>,
}

impl Gradients {
    /// Returns the mean cross-entropy of a label, in nats.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.labels as f64
    }

    /// Returns the names of the trained parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_parameter.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the gradient of the mean loss by a parameter, in the order of the checkpoint's
    /// numbers. It is empty if the parameter has no effect on the loss.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if the parameter is not trained, and [`Error::Device`] if the
    /// device fails.
    pub fn of(&self, name: &str) -> Result<Vec<f32>, Error> {
        let found = self.by_parameter.iter().find(|(own, _)| own == name);
        let Some((_, gradient)) = found else { return Err(parameters::unknown(name)) };
        gradient.as_ref().map_or(Ok(Vec::new()), parameters::values)
    }

    /// Adds the gradients of other sequences, so that all labels have the same weight.
    pub(super) fn add(&mut self, other: Self) {
        let labels = (self.labels + other.labels) as f64;
        let (own, others) = (self.labels as f64 / labels, other.labels as f64 / labels);
        let pairs = self.by_parameter.iter_mut().zip(other.by_parameter);
        for ((_, sum), (_, more)) in pairs {
            let kept = sum.take().map(|sum| sum.mul_scalar(own));
            *sum = added(kept, more.map(|more| more.mul_scalar(others)));
        }
        self.loss += other.loss;
        self.labels += other.labels;
    }
}

/// Returns the sum of two tensors, or the one that exists.
pub(super) fn added(sum: Option<Tensor<1>>, more: Option<Tensor<1>>) -> Option<Tensor<1>> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum + more),
        (sum, more) => sum.or(more),
    }
}
