//! What sequences say about the parameters.

use burn::prelude::*;

use super::parameters;
use crate::Error;

/// What a sequence says about the parameters.
pub struct Gradients {
    /// Sum of the cross-entropies of its labels, in nats.
    pub loss: f64,
    /// How many labels there are.
    pub labels: usize,
    /// Of the mean cross-entropy by each trained parameter, in the order of names; `None` where it has no part in it.
    pub(super) by_parameter: Vec<(String, Option<Tensor<1>>)>,
}

impl Gradients {
    /// Mean cross-entropy of a label, in nats.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.labels as f64
    }

    /// Names of the trained parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_parameter.iter().map(|(name, _)| name.as_str())
    }

    /// The gradient of the mean loss by a parameter, in the order of the checkpoint's numbers; empty where it has no
    /// part in it.
    ///
    /// # Errors
    /// [`Error::Device`]; [`Error::TensorNames`] for a parameter that is not trained.
    pub fn of(&self, name: &str) -> Result<Vec<f32>, Error> {
        let found = self.by_parameter.iter().find(|(own, _)| own == name);
        let Some((_, gradient)) = found else { return Err(parameters::unknown(name)) };
        gradient.as_ref().map_or(Ok(Vec::new()), parameters::values)
    }

    /// Adds those of another sequence, so that all labels of both weigh the same.
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

/// Their sum, where there are two.
pub(super) fn added(sum: Option<Tensor<1>>, more: Option<Tensor<1>>) -> Option<Tensor<1>> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum + more),
        (sum, more) => sum.or(more),
    }
}
