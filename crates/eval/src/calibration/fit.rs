//! Fit of a slope and an intercept that correct probabilities.

use serde::Serialize;

use super::Forecast;

/// Probabilities closer to 0 or 1 are taken for this close, since their logit has no end.
const LEAST: f64 = 1e-6;
/// Pull of the slope to 1 and of the intercept to 0, in forecasts. It keeps the fit finite where
/// the probabilities part what came true from what did not, and is nothing beside many forecasts.
const PULL: f64 = 0.1;
/// Most steps of the fit; about ten are needed.
const MOST_STEPS: usize = 100;
/// Length of a step below which the fit is done.
const SHORT_STEP: f64 = 1e-9;

/// Slope and intercept on the logit of a probability that fit what came true: the corrected
/// probability of `p` is sigmoid(slope · logit(p) + intercept) (Platt, "Probabilistic Outputs for
/// Support Vector Machines", 1999; with an intercept of 0, 1 / slope is the temperature of Guo et
/// al., "On Calibration of Modern Neural Networks", 2017).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LogitFit {
    /// Factor of the logit. Below 1, the probabilities were too sure.
    pub slope: f64,
    /// What is added to it.
    pub intercept: f64,
}

impl LogitFit {
    /// Changes nothing.
    pub const NOTHING: Self = Self { slope: 1.0, intercept: 0.0 };

    /// Fits slope and intercept by maximum likelihood (Newton's method), with a slight pull to
    /// changing nothing.
    pub fn of(forecasts: &[Forecast]) -> Self {
        let mut fit = Self::NOTHING;
        let mut loss = fit.penalised_loss(forecasts);
        for _ in 0..MOST_STEPS {
            let mut step = fit.newton_step(forecasts);
            // Far from the end, a whole step may lead too far.
            let next = loop {
                let next = Self { slope: fit.slope + step[0], intercept: fit.intercept + step[1] };
                let length = step[0].abs().max(step[1].abs());
                let next_loss = next.penalised_loss(forecasts);
                if next_loss <= loss {
                    break Some((next, next_loss, length));
                }
                if length < SHORT_STEP {
                    break None;
                }
                step = step.map(|part| part / 2.0);
            };
            let Some((next, next_loss, length)) = next else { break };
            (fit, loss) = (next, next_loss);
            if length < SHORT_STEP {
                break;
            }
        }
        fit
    }

    /// Returns the corrected probability.
    pub fn corrected(self, probability: f64) -> f64 {
        sigmoid(self.slope * logit(probability) + self.intercept)
    }

    /// Returns the forecast with its probability corrected.
    pub fn apply(self, forecast: Forecast) -> Forecast {
        Forecast { probability: self.corrected(forecast.probability), ..forecast }
    }

    /// Returns the mean negative logarithm of the corrected probability of what happened; 0 without
    /// forecasts. Lower is better.
    pub fn log_loss(self, forecasts: &[Forecast]) -> f64 {
        let sum: f64 = forecasts.iter().map(|forecast| self.loss(forecast)).sum();
        sum / forecasts.len().max(1) as f64
    }

    fn loss(self, forecast: &Forecast) -> f64 {
        let score = self.slope * logit(forecast.probability) + self.intercept;
        let score = if forecast.is_so { score } else { -score };
        // -ln(sigmoid(score)), without leaving the range of numbers.
        (-score).max(0.0) + (-score.abs()).exp().ln_1p()
    }

    fn penalised_loss(self, forecasts: &[Forecast]) -> f64 {
        let sum: f64 = forecasts.iter().map(|forecast| self.loss(forecast)).sum();
        sum + PULL / 2.0 * ((self.slope - 1.0).powi(2) + self.intercept.powi(2))
    }

    /// Returns the step to the minimum of the parabola that fits the penalised loss here.
    fn newton_step(self, forecasts: &[Forecast]) -> [f64; 2] {
        // Gradient, and the three different elements of the matrix of second derivatives. The pull
        // makes its determinant positive.
        let mut gradient = [PULL * (self.slope - 1.0), PULL * self.intercept];
        let [mut slopes, mut mixed, mut intercepts] = [PULL, 0.0, PULL];
        for forecast in forecasts {
            let logit = logit(forecast.probability);
            let probability = sigmoid(self.slope * logit + self.intercept);
            let error = probability - f64::from(u8::from(forecast.is_so));
            gradient[0] += error * logit;
            gradient[1] += error;
            let weight = probability * (1.0 - probability);
            slopes += weight * logit * logit;
            mixed += weight * logit;
            intercepts += weight;
        }
        let determinant = slopes * intercepts - mixed * mixed;
        [
            (mixed * gradient[1] - intercepts * gradient[0]) / determinant,
            (mixed * gradient[0] - slopes * gradient[1]) / determinant,
        ]
    }
}

fn logit(probability: f64) -> f64 {
    let probability = probability.clamp(LEAST, 1.0 - LEAST);
    (probability / (1.0 - probability)).ln()
}

fn sigmoid(score: f64) -> f64 {
    1.0 / (1.0 + (-score).exp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns forecasts of which exactly the share sigmoid(slope · logit + intercept) came true.
    fn distorted(slope: f64, intercept: f64) -> Vec<Forecast> {
        let of = |step: i32| {
            let logit = f64::from(step) / 4.0;
            let so = (1000.0 * sigmoid(slope * logit + intercept)).round() as usize;
            (0..1000).map(move |n| Forecast { probability: sigmoid(logit), is_so: n < so })
        };
        (-8..=8).flat_map(of).collect()
    }

    #[test]
    fn the_distortion_of_probabilities_is_found() {
        for (slope, intercept) in [(1.0, 0.0), (0.4, 0.0), (2.0, -0.5), (1.5, 3.0), (-0.5, 0.25)] {
            let given = distorted(slope, intercept);
            let fit = LogitFit::of(&given);
            // The shares are rounded to a thousandth, which is at most 0.01 of a logit where most
            // of the weight is.
            assert!((fit.slope - slope).abs() < 0.02, "{fit:?} and not {slope}");
            assert!((fit.intercept - intercept).abs() < 0.02, "{fit:?} and not {intercept}");
            assert!(fit.log_loss(&given) <= LogitFit::NOTHING.log_loss(&given));
        }
    }

    #[test]
    fn nothing_changes_without_forecasts_and_certainty_stays_finite() {
        assert_eq!(LogitFit::of(&[]), LogitFit::NOTHING);
        assert_eq!(LogitFit::NOTHING.log_loss(&[]), 0.0);
        let sure = [(0.0, false), (1.0, true), (0.2, false), (0.8, true)];
        let sure = sure.map(|(probability, is_so)| Forecast { probability, is_so });
        let fit = LogitFit::of(&sure);
        assert!(fit.slope.is_finite() && fit.slope > 1.0, "{fit:?}");
        let wrong = [Forecast { probability: 1.0, is_so: false }];
        assert!(LogitFit::NOTHING.log_loss(&wrong).is_finite());
    }

    proptest! {
        #[test]
        fn a_fit_is_finite_and_never_worse_than_nothing(
            given in prop::collection::vec((0.0..=1.0, any::<bool>()), 0..50),
        ) {
            let given: Vec<_> =
                given.iter().map(|&(probability, is_so)| Forecast { probability, is_so }).collect();
            let fit = LogitFit::of(&given);
            prop_assert!(fit.slope.is_finite() && fit.intercept.is_finite(), "{:?}", fit);
            let (after, before) = (fit.log_loss(&given), LogitFit::NOTHING.log_loss(&given));
            prop_assert!(after <= before + 1e-12, "{} and {}", after, before);
            for probability in [0.0, 0.3, 1.0] {
                prop_assert!((0.0..=1.0).contains(&fit.corrected(probability)));
            }
        }
    }
}
