//! What a trained model makes of its memory.

use std::path::Path;

use clew_model::decoder::Wanted;
use clew_model::memory::{Memory, MemoryModel, Reading, Schedule, Uncompressed};
use clew_model::{DeviceChoice, Precision};
use serde::Serialize;

use crate::texts::{CONTEXT, Planted, Texts};
use crate::{RATIOS, WINDOW};

/// Texts that perplexity is measured on, and contexts with planted sentences of each kind.
const TEXTS: usize = 300;
const PLANTED: usize = 200;
/// 95 % of a normal distribution lie within so many standard deviations.
const INTERVAL: f64 = 1.96;

/// A mean, and how far it may be off (95 %).
#[derive(Clone, Copy, Serialize)]
pub struct Mean {
    pub value: f64,
    pub margin: f64,
}

/// With a context that is compressed by one ratio.
#[derive(Serialize)]
pub struct AtRatio {
    /// 0: not compressed at all.
    pub ratio: usize,
    /// Slots of the memory.
    pub slots: usize,
    /// Of the window behind it.
    pub perplexity: f64,
    /// Nats a token that it saves beside no context, over the same texts.
    pub saved: Mean,
    /// Share of planted numbers that are said, both digits right, where one was planted.
    pub recall_of_one: Mean,
    /// The same where three were.
    pub recall_of_three: Mean,
    /// Share of digits that are right, where one number was planted.
    pub digits: Mean,
}

#[derive(Serialize)]
pub struct Measured {
    /// Of the same windows without their context.
    pub perplexity_without: f64,
    pub tokens: usize,
    pub by_ratio: Vec<AtRatio>,
}

pub fn measure(folder: &Path, texts: &mut Texts) -> anyhow::Result<Measured> {
    let model = MemoryModel::load(folder, DeviceChoice::Cpu, Precision::Float32, 1)?;
    let held_out = texts.held_out(TEXTS);
    let one: Vec<_> = (0..PLANTED).map(|_| texts.planted(1)).collect();
    let three: Vec<_> = (0..PLANTED).map(|_| texts.planted(3)).collect();
    let without = held_out.iter().map(|text| {
        let mut memory = empty(&model, 0);
        losses(&model, &mut memory, &text[CONTEXT..])
    });
    let without = without.collect::<anyhow::Result<Vec<f64>>>()?;
    let mut by_ratio = Vec::new();
    for ratio in [0].into_iter().chain(RATIOS) {
        let with = held_out.iter().map(|text| {
            let mut memory = remembered(&model, ratio, &text[..CONTEXT])?;
            losses(&model, &mut memory, &text[CONTEXT..])
        });
        let with = with.collect::<anyhow::Result<Vec<f64>>>()?;
        let saved: Vec<f64> =
            without.iter().zip(&with).map(|(without, with)| without - with).collect();
        let of_one = recall(&model, texts, ratio, &one)?;
        let of_three = recall(&model, texts, ratio, &three)?;
        let is_whole = |digits: &[bool; 2]| if *digits == [true, true] { 1.0 } else { 0.0 };
        let whole = |said: &[[bool; 2]]| mean(&said.iter().map(is_whole).collect::<Vec<_>>());
        let digits =
            of_one.iter().map(|said| said.iter().filter(|right| **right).count() as f64 / 2.0);
        eprintln!("measured with ratio {ratio}");
        by_ratio.push(AtRatio {
            ratio,
            slots: CONTEXT.checked_div(ratio).unwrap_or(CONTEXT),
            perplexity: mean(&with).value.exp(),
            saved: mean(&saved),
            recall_of_one: whole(&of_one),
            recall_of_three: whole(&of_three),
            digits: mean(&digits.collect::<Vec<_>>()),
        });
    }
    let tokens = TEXTS * (WINDOW - 1);
    Ok(Measured { perplexity_without: mean(&without).value.exp(), tokens, by_ratio })
}

/// A memory in which what follows the context is read as it is, as in training.
fn empty(model: &MemoryModel, ratio: usize) -> Memory {
    let uncompressed = Uncompressed { first: 0, from: Some(CONTEXT) };
    model.memory_beside(Schedule::told(vec![ratio]), uncompressed)
}

fn remembered(model: &MemoryModel, ratio: usize, context: &[u32]) -> anyhow::Result<Memory> {
    let mut memory = empty(model, ratio);
    let wanted = Wanted::Nothing;
    model.read(&mut [Reading { memory: &mut memory, tokens: context, wanted }])?;
    Ok(memory)
}

/// The mean cross-entropy of all tokens of a window but its first, which without a context nothing comes before.
fn losses(model: &MemoryModel, memory: &mut Memory, window: &[u32]) -> anyhow::Result<f64> {
    let wanted = Wanted::All;
    let logits = model.read(&mut [Reading { memory, tokens: window, wanted }])?;
    let pairs = logits.iter().zip(&window[1..]);
    let sum: f64 = pairs.map(|(logits, next)| cross_entropy(logits, *next)).sum();
    Ok(sum / (window.len() - 1) as f64)
}

fn cross_entropy(logits: &[f32], id: u32) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let all: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
    all.ln() - f64::from(logits[id as usize] - most)
}

/// For every context whether each digit of one of its numbers, the first planted, is the likeliest.
fn recall(
    model: &MemoryModel,
    texts: &Texts,
    ratio: usize,
    contexts: &[(Vec<u32>, Vec<Planted>)],
) -> anyhow::Result<Vec<[bool; 2]>> {
    let mut all = Vec::new();
    for (context, planted) in contexts {
        let mut memory = remembered(model, ratio, context)?;
        let asked = &planted[0];
        let mut tokens = texts.question(asked.colour);
        let mut right = [false; 2];
        for (right, digit) in right.iter_mut().zip(texts.answer(asked.number)) {
            let wanted = Wanted::Last;
            let logits =
                model.read(&mut [Reading { memory: &mut memory, tokens: &tokens, wanted }])?;
            let said = likeliest(&logits[0]);
            *right = said == Some(digit);
            // What it has said itself is what it goes on from.
            tokens = said.into_iter().collect();
        }
        all.push(right);
    }
    Ok(all)
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
