//! The same encoder in scalar 64-bit floats, written for clarity from the formulas, not for speed.

use clew_packed_bert::Config;

use crate::random::Tensors;

/// Returns the last hidden states of one sequence, `[tokens, hidden]`.
pub fn encode(config: &Config, tensors: &Tensors, sequence: &[u32]) -> Vec<Vec<f64>> {
    let reference = Reference { config, tensors };
    let mut states: Vec<Vec<f64>> = sequence
        .iter()
        .enumerate()
        .map(|(position, &token)| reference.embed(token, position))
        .collect();
    for layer in 0..config.layers {
        states = reference.layer(&format!("encoder.layer.{layer}"), &states);
    }
    states
}

struct Reference<'a> {
    config: &'a Config,
    tensors: &'a Tensors,
}

impl Reference<'_> {
    fn embed(&self, token: u32, position: usize) -> Vec<f64> {
        let row = |name: &str, index: usize| {
            let table = self.tensor(&format!("embeddings.{name}.weight"));
            &table[index * self.config.hidden..][..self.config.hidden]
        };
        let word = row("word_embeddings", token as usize);
        let position = row("position_embeddings", position);
        let kind = row("token_type_embeddings", 0);
        let sums: Vec<f64> = (0..self.config.hidden)
            .map(|i| f64::from(word[i]) + f64::from(position[i]) + f64::from(kind[i]))
            .collect();
        self.layer_norm("embeddings.LayerNorm", &sums)
    }

    fn layer(&self, layer: &str, states: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let project = |name: &str| -> Vec<Vec<f64>> {
            states
                .iter()
                .map(|state| self.linear(&format!("{layer}.attention.self.{name}"), state))
                .collect()
        };
        let (queries, keys, values) = (project("query"), project("key"), project("value"));
        states
            .iter()
            .zip(&queries)
            .map(|(state, query)| {
                let context = self.linear(
                    &format!("{layer}.attention.output.dense"),
                    &self.attend(query, &keys, &values),
                );
                let attended = self.layer_norm(
                    &format!("{layer}.attention.output.LayerNorm"),
                    &add(&context, state),
                );
                let wide = self.linear(&format!("{layer}.intermediate.dense"), &attended);
                let activations: Vec<f64> = wide.into_iter().map(gelu).collect();
                let output = self.linear(&format!("{layer}.output.dense"), &activations);
                self.layer_norm(&format!("{layer}.output.LayerNorm"), &add(&output, &attended))
            })
            .collect()
    }

    fn attend(&self, query: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<f64> {
        let head_width = self.config.hidden / self.config.heads;
        let mut context = vec![0.0; self.config.hidden];
        for first in (0..self.config.hidden).step_by(head_width) {
            let head = first..first + head_width;
            let score = |key: &Vec<f64>| {
                dot(&query[head.clone()], &key[head.clone()]) / (head_width as f64).sqrt()
            };
            let scores: Vec<f64> = keys.iter().map(score).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for (weight, value) in weights.iter().zip(values) {
                for column in head.clone() {
                    context[column] += weight / sum * value[column];
                }
            }
        }
        context
    }

    fn linear(&self, module: &str, input: &[f64]) -> Vec<f64> {
        let weights = self.tensor(&format!("{module}.weight"));
        let bias = self.tensor(&format!("{module}.bias"));
        let rows = weights.chunks_exact(input.len());
        rows.zip(bias)
            .map(|(row, &bias)| {
                row.iter().zip(input).map(|(&weight, value)| f64::from(weight) * value).sum::<f64>()
                    + f64::from(bias)
            })
            .collect()
    }

    fn layer_norm(&self, module: &str, row: &[f64]) -> Vec<f64> {
        let gain = self.tensor(&format!("{module}.weight"));
        let bias = self.tensor(&format!("{module}.bias"));
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let scale = (variance + f64::from(self.config.layer_norm_epsilon)).sqrt();
        let normal = |i: usize| (row[i] - mean) / scale * f64::from(gain[i]) + f64::from(bias[i]);
        (0..row.len()).map(normal).collect()
    }

    fn tensor(&self, name: &str) -> &[f32] {
        &self.tensors[name]
    }
}

fn add(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left + right).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// Computes the error function by Abramowitz and Stegun, 7.1.6:
/// `erf(x) = 2/sqrt(pi) e^(-x^2) sum of 2^n x^(2n+1) / (1 * 3 * ... * (2n+1))`, whose terms all
/// have one sign. Beyond 6 the function is 1 to the last bit.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, 0.0);
    for n in 1..200 {
        sum += term;
        term *= 2.0 * x * x / f64::from(2 * n + 1);
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}
