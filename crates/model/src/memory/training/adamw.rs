//! AdamW: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", algorithm 2. Gradients
//! are clipped to a maximum norm (Pascanu et al., "On the difficulty of training recurrent neural
//! networks", section 3.2), and the learning rate rises and falls linearly.
//!
//! Burn has AdamW in a crate of its own, which trains modules that its macros derive. The layers
//! here are plain tensors that inference shares, and parts of these tensors are trained. The
//! algorithm itself is a dozen lines.

use burn::prelude::*;
use serde::{Deserialize, Serialize};

/// Optimiser: how gradients change the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    /// Decay rate of the mean of gradients, `beta1`.
    pub mean_kept: f64,
    /// Decay rate of the mean of their squares, `beta2`.
    pub square_kept: f64,
    /// Term added to the root of the mean square, `epsilon`.
    pub epsilon: f64,
    /// Share of a matrix that is subtracted in a step at the learning rate 1. Vectors do not decay.
    pub decay: f64,
    /// Maximum norm of all gradients together; longer ones are scaled down to it. 0 means no
    /// maximum.
    pub clip: f64,
}

impl Default for AdamW {
    /// Returns the constants of the paper and of common trainers. There is no decay, because
    /// training begins from copies of good parameters.
    fn default() -> Self {
        Self { mean_kept: 0.9, square_kept: 0.999, epsilon: 1e-8, decay: 0.0, clip: 1.0 }
    }
}

/// Learning rate of each step: up from 0 over the first steps, then down to 0 at the end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningRate {
    /// Highest learning rate.
    pub peak: f64,
    /// Number of steps until the peak.
    pub warm_up: usize,
    /// Number of all steps.
    pub steps: usize,
}

impl LearningRate {
    /// Returns the rate of the step `step`, counted from 1.
    pub fn at(&self, step: usize) -> f64 {
        if step <= self.warm_up {
            return self.peak * step as f64 / self.warm_up as f64;
        }
        let left = (self.steps + 1).saturating_sub(step) as f64;
        self.peak * left / (self.steps + 1).saturating_sub(self.warm_up).max(1) as f64
    }
}

/// Running means of a parameter's gradients, `[numbers]` each.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    pub(super) mean: Tensor<1>,
    pub(super) square: Tensor<1>,
}

impl Moments {
    /// Returns the means of `parameter` before its first gradient.
    pub(super) fn of(parameter: &Tensor<1>) -> Self {
        let zeros = parameter.clone().inner().zeros_like();
        Self { mean: zeros.clone(), square: zeros }
    }
}

impl AdamW {
    /// Returns the factor for gradients of this norm.
    pub(super) fn scale(&self, norm: f64) -> f64 {
        if self.clip > 0.0 && norm > self.clip { self.clip / norm } else { 1.0 }
    }

    /// Returns a parameter after the step `step`, counted from 1, in which its gradient was
    /// `gradient`.
    pub(super) fn step(
        &self,
        parameter: Tensor<1>,
        gradient: Tensor<1>,
        moments: &mut Moments,
        step: usize,
        rate: f64,
        is_matrix: bool,
    ) -> Tensor<1> {
        let Self { mean_kept, square_kept, epsilon, decay, .. } = *self;
        moments.mean = moments.mean.clone().mul_scalar(mean_kept)
            + gradient.clone().mul_scalar(1.0 - mean_kept);
        moments.square = moments.square.clone().mul_scalar(square_kept)
            + gradient.square().mul_scalar(1.0 - square_kept);
        // Corrects the bias of means that begin at 0.
        let steps = i32::try_from(step).unwrap_or(i32::MAX);
        let mean = moments.mean.clone().div_scalar(1.0 - mean_kept.powi(steps));
        let square = moments.square.clone().div_scalar(1.0 - square_kept.powi(steps));
        let kept = if is_matrix { 1.0 - rate * decay } else { 1.0 };
        parameter.mul_scalar(kept) - (mean / square.sqrt().add_scalar(epsilon)).mul_scalar(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> Tensor<1> {
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &Device::flex())
    }

    /// Computes the paper's algorithm in 64-bit floats, number by number.
    fn expected(start: f64, gradients: &[f64], rate: f64, adamw: &AdamW, is_matrix: bool) -> f64 {
        let (mut parameter, mut mean, mut square) = (start, 0.0, 0.0);
        for (step, gradient) in (1..).zip(gradients) {
            mean = adamw.mean_kept * mean + (1.0 - adamw.mean_kept) * gradient;
            square = adamw.square_kept * square + (1.0 - adamw.square_kept) * gradient * gradient;
            let unbiased_mean = mean / (1.0 - adamw.mean_kept.powi(step));
            let unbiased_square = square / (1.0 - adamw.square_kept.powi(step));
            let decay = if is_matrix { adamw.decay * parameter } else { 0.0 };
            parameter -= rate * (unbiased_mean / (unbiased_square.sqrt() + adamw.epsilon) + decay);
        }
        parameter
    }

    #[test]
    fn steps_are_those_of_the_paper() {
        let adamw = AdamW { decay: 0.1, ..AdamW::default() };
        for is_matrix in [true, false] {
            let gradients = [[0.5, -2.0], [0.25, 1e-4], [-1.0, 3.0]];
            let mut parameter = tensor(&[1.0, -3.0]);
            let mut moments = Moments::of(&parameter);
            for (step, gradient) in (1..).zip(&gradients) {
                let gradient = tensor(gradient);
                parameter = adamw.step(parameter, gradient, &mut moments, step, 0.01, is_matrix);
            }
            let found = parameter.try_into_vec_as::<f32>().unwrap();
            for (at, start) in [1.0, -3.0].into_iter().enumerate() {
                let gradients: Vec<f64> = gradients.iter().map(|g| f64::from(g[at])).collect();
                let expected = expected(start, &gradients, 0.01, &adamw, is_matrix);
                // A few roundings of numbers near 3 in 32-bit floats.
                assert!((f64::from(found[at]) - expected).abs() < 2e-6, "{found:?} {expected}");
            }
        }
    }

    #[test]
    fn long_gradients_are_shortened_and_short_ones_kept() {
        let adamw = AdamW { clip: 2.0, ..AdamW::default() };
        assert_eq!([adamw.scale(8.0), adamw.scale(1.0)], [0.25, 1.0]);
        assert_eq!(AdamW { clip: 0.0, ..adamw }.scale(1e9), 1.0);
    }

    #[test]
    fn the_rate_rises_and_falls() {
        let rate = LearningRate { peak: 8.0, warm_up: 4, steps: 11 };
        let rates: Vec<f64> = (1..=12).map(|step| rate.at(step)).collect();
        assert_eq!(rates, [2.0, 4.0, 6.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
        let flat = LearningRate { peak: 1.0, warm_up: 0, steps: 2 };
        assert!(flat.at(1) > flat.at(2) && flat.at(2) > 0.0);
    }
}
