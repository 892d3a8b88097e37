//! Measurements of a trained model's memory.

use std::path::Path;

use clew_model::decoder::WantedLogits;
use clew_model::memory::{MemoryInput, MemoryModel, MemoryState, RatioSchedule, Uncompressed};
use clew_model::{DeviceChoice, Precision};
use serde::Serialize;

use crate::texts::{CONTEXT, MOST_FACTS, Planted, Texts};
use crate::{RATIOS, WINDOW};

/// Number of texts that perplexity is measured on, and of contexts with planted facts of each kind.
const TEXTS: usize = 200;
const PLANTED: usize = 200;
/// Number of standard deviations around the mean that hold 95 % of a normal distribution.
const INTERVAL: f64 = 1.96;

/// Mean, and the half-width of its 95 % confidence interval.
#[derive(Clone, Copy, Serialize)]
pub struct Mean {
    pub value: f64,
    pub margin: f64,
}

/// Measurements with a context that is compressed by one ratio.
#[derive(Serialize)]
pub struct AtRatio {
    /// Ratio of compression; 0 for none.
    pub ratio: usize,
    /// Number of slots in the memory.
    pub slots: usize,
    /// Perplexity of the window behind the memory.
    pub perplexity: f64,
    /// Nats per token that the context saves, compared with no context, over the same texts.
    pub saved: Mean,
    /// The same for a context from another place in the book: what any text of its kind would save.
    pub saved_by_another: Mean,
    /// Difference of the two, text by text: the effect of this context.
    pub owed_to_this: Mean,
    /// Share of questions that are answered correctly, if one fact was planted.
    pub recall_of_one: Mean,
    /// The same if several were planted ([`MOST_FACTS`]).
    pub recall_of_several: Mean,
}

/// Measurements of one model.
#[derive(Serialize)]
pub struct OfModel {
    /// Perplexity of the same windows without their context.
    pub perplexity_without: f64,
    /// Number of tokens that perplexity is measured on.
    pub tokens: usize,
    pub by_ratio: Vec<AtRatio>,
}

/// Measurements of all models, on the same texts.
#[derive(Serialize)]
pub struct Measured {
    /// Share of answers that are right by chance, among those of the question.
    pub chance: f64,
    /// Model whose memory tokens are copies of an ordinary token.
    pub untrained: OfModel,
    pub trained_on_texts: OfModel,
    pub tuned_on_recall: OfModel,
}

/// Texts and questions that models are measured with.
pub struct Questions {
    texts: Vec<Vec<u32>>,
    one: Vec<(Vec<u32>, Planted)>,
    several: Vec<(Vec<u32>, Planted)>,
}

impl Questions {
    pub fn new(texts: &mut Texts) -> Self {
        let mut planted = |facts| (0..PLANTED).map(|_| texts.planted(facts)).collect();
        let (one, several) = (planted(1), planted(MOST_FACTS));
        Self { texts: texts.held_out(TEXTS), one, several }
    }

    pub fn measure(&self, folder: &Path) -> anyhow::Result<OfModel> {
        let model = MemoryModel::load(folder, DeviceChoice::Cpu, Precision::Float32, 1)?;
        let without = self.texts.iter().map(|text| {
            let mut memory = empty(&model, 0);
            losses(&model, &mut memory, &text[CONTEXT..])
        });
        let without = without.collect::<anyhow::Result<Vec<f64>>>()?;
        let mut by_ratio = Vec::new();
        for ratio in [0].into_iter().chain(RATIOS) {
            let with = self.behind_contexts(&model, ratio, 0)?;
            let with_another = self.behind_contexts(&model, ratio, TEXTS / 2)?;
            eprintln!("measured with ratio {ratio}");
            by_ratio.push(AtRatio {
                ratio,
                slots: CONTEXT.checked_div(ratio).unwrap_or(CONTEXT),
                perplexity: mean(&with).value.exp(),
                saved: mean(&differences(&without, &with)),
                saved_by_another: mean(&differences(&without, &with_another)),
                owed_to_this: mean(&differences(&with_another, &with)),
                recall_of_one: recall(&model, ratio, &self.one)?,
                recall_of_several: recall(&model, ratio, &self.several)?,
            });
        }
        let perplexity_without = mean(&without).value.exp();
        Ok(OfModel { perplexity_without, tokens: TEXTS * (WINDOW - 1), by_ratio })
    }

    /// Returns the loss of each text's window behind the context of the text that is `further`
    /// places on.
    fn behind_contexts(
        &self,
        model: &MemoryModel,
        ratio: usize,
        further: usize,
    ) -> anyhow::Result<Vec<f64>> {
        let contexts = self.texts.iter().cycle().skip(further);
        let losses = self.texts.iter().zip(contexts).map(|(text, other)| {
            let mut memory = remembered(model, ratio, &other[..CONTEXT])?;
            losses(model, &mut memory, &text[CONTEXT..])
        });
        losses.collect()
    }
}

fn differences(from: &[f64], what: &[f64]) -> Vec<f64> {
    from.iter().zip(what).map(|(from, what)| from - what).collect()
}

/// Returns a memory in which everything after the context is read uncompressed, as in training.
fn empty(model: &MemoryModel, ratio: usize) -> MemoryState {
    let uncompressed = Uncompressed { first: 0, from: Some(CONTEXT) };
    model.memory_beside(RatioSchedule::told(vec![ratio]), uncompressed)
}

fn remembered(model: &MemoryModel, ratio: usize, context: &[u32]) -> anyhow::Result<MemoryState> {
    let mut memory = empty(model, ratio);
    let wanted = WantedLogits::Nothing;
    model.read(&mut [MemoryInput { memory: &mut memory, tokens: context, wanted }])?;
    Ok(memory)
}

/// Returns the mean cross-entropy of all tokens of a window but its first, which has no token
/// before it if there is no context.
fn losses(model: &MemoryModel, memory: &mut MemoryState, window: &[u32]) -> anyhow::Result<f64> {
    let wanted = WantedLogits::All;
    let logits = model.read(&mut [MemoryInput { memory, tokens: window, wanted }])?;
    let pairs = logits.iter().zip(&window[1..]);
    let sum: f64 = pairs.map(|(logits, next)| cross_entropy(logits, *next)).sum();
    Ok(sum / (window.len() - 1) as f64)
}

fn cross_entropy(logits: &[f32], id: u32) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let all: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
    all.ln() - f64::from(logits[id as usize] - most)
}

/// Returns the share of contexts for which the fact is the likeliest token after its question.
fn recall(
    model: &MemoryModel,
    ratio: usize,
    contexts: &[(Vec<u32>, Planted)],
) -> anyhow::Result<Mean> {
    let mut all = Vec::new();
    for (context, asked) in contexts {
        let mut memory = remembered(model, ratio, context)?;
        let (memory, tokens, wanted) = (&mut memory, &[asked.question][..], WantedLogits::Last);
        let logits = model.read(&mut [MemoryInput { memory, tokens, wanted }])?;
        let is_right = likeliest(&logits[0]) == Some(asked.fact);
        all.push(if is_right { 1.0 } else { 0.0 });
    }
    Ok(mean(&all))
}

fn likeliest(logits: &[f32]) -> Option<u32> {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.and_then(|(id, _)| u32::try_from(id).ok())
}

fn mean(numbers: &[f64]) -> Mean {
    let count = numbers.len() as f64;
    let value = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|number| (number - value).powi(2)).sum();
    Mean { value, margin: INTERVAL * (squares / (count - 1.0) / count).sqrt() }
}
