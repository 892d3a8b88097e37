//! Rotary position embedding: Su et al., "RoFormer: Enhanced Transformer with Rotary Position
//! Embedding", section 3.2, with the scalings of published configurations.

use std::f64::consts::TAU;

use serde::Serialize;

/// Scaling of positions, for contexts longer than those the model was first trained on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scaling {
    /// No scaling.
    None,
    /// All frequencies are divided by `factor`.
    Linear { factor: f64 },
    /// Llama 3.1: low frequencies are divided by `factor`, high ones kept, those between blended.
    Llama3 { factor: f64, low: f64, high: f64, original: f64 },
    /// Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", section
    /// 3.2. `attention` is their temperature (section 3.3), by default `0.1 ln(factor) + 1`.
    Yarn { factor: f64, original: f64, beta_fast: f64, beta_slow: f64, attention: Option<f64> },
}

/// Angles by position.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rope {
    /// Radians per position, `[head_width / 2]`.
    frequencies: Vec<f64>,
    /// Factor of sines and cosines.
    attention: f64,
}

impl Rope {
    /// Computes the angular frequencies for heads of an even `head_width`.
    pub(crate) fn new(head_width: usize, theta: f64, scaling: &Scaling) -> Self {
        let pairs = head_width / 2;
        let plain = (0..pairs).map(|i| theta.powf(-((2 * i) as f64) / head_width as f64));
        let plain: Vec<f64> = plain.collect();
        let (frequencies, attention) = match *scaling {
            Scaling::None => (plain, 1.0),
            Scaling::Linear { factor } => (plain.iter().map(|f| f / factor).collect(), 1.0),
            Scaling::Llama3 { factor, low, high, original } => {
                let scaled = |frequency: &f64| {
                    // Number of waves in the original context.
                    let waves = original * frequency / TAU;
                    let kept = ((waves - low) / (high - low)).clamp(0.0, 1.0);
                    frequency * kept + frequency / factor * (1.0 - kept)
                };
                (plain.iter().map(scaled).collect(), 1.0)
            }
            Scaling::Yarn { factor, original, beta_fast, beta_slow, attention } => {
                // Index of the pair that turns `turns` times over the original context.
                let pair = |turns: f64| {
                    head_width as f64 * (original / (turns * TAU)).ln() / (2.0 * theta.ln())
                };
                let first = pair(beta_fast).floor().max(0.0);
                let last = pair(beta_slow).ceil().min((head_width - 1) as f64);
                let width = if last > first { last - first } else { 0.001 };
                let scaled = |(i, frequency): (usize, &f64)| {
                    let stretched = ((i as f64 - first) / width).clamp(0.0, 1.0);
                    frequency / factor * stretched + frequency * (1.0 - stretched)
                };
                let default = if factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 };
                (plain.iter().enumerate().map(scaled).collect(), attention.unwrap_or(default))
            }
        };
        Self { frequencies, attention }
    }

    /// Returns the cosines and sines of `positions`, `[positions, head_width]` each. The angles of
    /// all pairs are there twice, because a head's first half is rotated with its second.
    pub(crate) fn angles(&self, positions: impl Iterator<Item = usize>) -> (Vec<f32>, Vec<f32>) {
        let (mut cosines, mut sines) = (Vec::new(), Vec::new());
        for position in positions {
            for frequency in self.frequencies.iter().chain(&self.frequencies) {
                let (sine, cosine) = (position as f64 * frequency).sin_cos();
                cosines.push((cosine * self.attention) as f32);
                sines.push((sine * self.attention) as f32);
            }
        }
        (cosines, sines)
    }
}
