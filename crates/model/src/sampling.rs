//! Sampling: chooses the next token.

#[cfg(feature = "gpu")]
mod kernel;

use burn::prelude::*;
use clew_core::Sampling;

use crate::{DeviceChoice, Error, device};

/// How the next token of one reply is chosen, by [`choose`] or by a step of a decoder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenChoice {
    /// Temperature, limits and penalty.
    pub sampling: Sampling,
    /// Random number from 0 up to 1, exclusive, that decides what is drawn.
    pub chance: f64,
    /// Tokens that the penalty applies to: a bit for each, 32 a word. `None` for none.
    pub said: Option<Vec<u32>>,
    /// Tokens that may be chosen: a bit for each, 32 a word. `None` for all.
    pub allowed: Option<Vec<u32>>,
}

/// Chooses a token for each row of `logits`, which have the same length, on a device. Decoders
/// choose in the same way, without copying the logits off the device.
///
/// Only tokens that are allowed and whose logits are finite can be chosen; `None` if there are
/// none. The order of the steps is that of the transformers library: penalty, temperature, top-k,
/// top-p.
/// A GPU adds up in 32-bit floats, so close to a bound it may choose the token beside the
/// processor's.
///
/// # Errors
/// Returns [`Error::OptionUnavailable`] if the device is not available, and [`Error::Device`] if it
/// fails.
pub fn choose(
    device: DeviceChoice,
    logits: &[Vec<f32>],
    choices: &[TokenChoice],
) -> Result<Vec<Option<u32>>, Error> {
    let device = device::open(device)?;
    let shape = [logits.len(), logits.first().map_or(0, Vec::len)];
    let logits = TensorData::new(logits.concat(), shape);
    chosen(Tensor::from_data(logits, &device), choices)
}

/// Chooses a token for each row of `logits` `[rows, vocabulary]`, as [`choose`] does.
///
/// # Errors
/// Returns [`Error::Device`] if the device fails.
pub(crate) fn chosen(
    logits: Tensor<2>,
    choices: &[TokenChoice],
) -> Result<Vec<Option<u32>>, Error> {
    let [_, vocabulary] = logits.dims();
    #[cfg(feature = "gpu")]
    if device::is_gpu(&logits.device()) {
        let tokens = kernel::chosen(logits, choices).try_into_vec_as::<i32>();
        let tokens = tokens.map_err(|error| Error::Device { reason: error.to_string() })?;
        let known = |token: u32| ((token as usize) < vocabulary).then_some(token);
        let token = |token: i32| u32::try_from(token).ok().and_then(known);
        return Ok(tokens.into_iter().map(token).collect());
    }
    let logits = logits.try_into_vec_as::<f32>();
    let mut logits = logits.map_err(|error| Error::Device { reason: error.to_string() })?;
    let rows = logits.chunks_exact_mut(vocabulary.max(1));
    Ok(rows.zip(choices).map(|(row, choice)| choice.of(row)).collect())
}

impl TokenChoice {
    /// Returns whether the likeliest token is chosen, after the penalty.
    fn is_likeliest(&self) -> bool {
        self.sampling.temperature == 0.0
    }

    /// Chooses one of the tokens with these logits.
    fn of(&self, logits: &mut [f32]) -> Option<u32> {
        self.restrict(logits);
        self.penalise(logits);
        if self.is_likeliest() {
            return likeliest(logits);
        }
        let mut likely: Vec<(u32, f32)> =
            (0..).zip(logits.iter().copied()).filter(|(_, logit)| logit.is_finite()).collect();
        likely.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if self.sampling.top_k > 0 {
            likely.truncate(self.sampling.top_k as usize);
        }
        let best = likely.first()?.1;
        let weight = |logit: f32| f64::from((logit - best) / self.sampling.temperature).exp();
        let weights: Vec<f64> = likely.iter().map(|(_, logit)| weight(*logit)).collect();
        let all: f64 = weights.iter().sum();
        let wanted = all * f64::from(self.sampling.top_p);
        let mut sum = 0.0;
        let mut kept = 0;
        for weight in &weights {
            sum += weight;
            kept += 1;
            if sum >= wanted {
                break;
            }
        }
        let mut left = self.chance * sum;
        for ((token, _), weight) in likely.iter().zip(&weights).take(kept) {
            left -= weight;
            if left < 0.0 {
                return Some(*token);
            }
        }
        // Rounding can leave a remainder after the last weight.
        likely.get(kept - 1).map(|(token, _)| *token)
    }

    fn restrict(&self, logits: &mut [f32]) {
        let Some(allowed) = &self.allowed else { return };
        for (token, logit) in logits.iter_mut().enumerate() {
            if !has(allowed, token) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    /// Applies the repetition penalty: Keskar et al., "CTRL: A Conditional Transformer Language
    /// Model for Controllable Generation", section 4.1.
    fn penalise(&self, logits: &mut [f32]) {
        let Some(said) = &self.said else { return };
        let penalty = self.sampling.repetition_penalty;
        for (token, logit) in logits.iter_mut().enumerate() {
            if has(said, token) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }
}

/// Returns whether a mask has a token.
fn has(mask: &[u32], token: usize) -> bool {
    mask.get(token / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
}

fn likeliest(logits: &[f32]) -> Option<u32> {
    let finite = (0..).zip(logits).filter(|(_, logit)| logit.is_finite());
    // Ties go to the first token.
    let later_wins = |best: f32, next: f32| next.total_cmp(&best).is_gt();
    let best = finite.reduce(|best, next| if later_wins(*best.1, *next.1) { next } else { best });
    best.map(|(token, _)| token)
}

/// Sampler of the tokens of one reply.
#[derive(Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    random: fastrand::Rng,
    /// Tokens of the prompt and the reply so far, a bit for each, if a penalty applies to them.
    said: Option<Vec<u32>>,
}

impl Sampler {
    /// Creates a sampler behind the tokens of a prompt. Without a seed each reply is random in a
    /// different way.
    pub(crate) fn new(sampling: Sampling, prompt: &[u32]) -> Self {
        let random = sampling.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let said = (sampling.repetition_penalty != 1.0).then(Vec::new);
        let mut sampler = Self { sampling, random, said };
        prompt.iter().for_each(|token| sampler.say(*token));
        sampler
    }

    /// Takes note of the next token of the reply.
    pub(crate) fn say(&mut self, token: u32) {
        let Some(said) = &mut self.said else { return };
        let word = token as usize / 32;
        if said.len() <= word {
            said.resize(word + 1, 0);
        }
        said[word] |= 1 << (token % 32);
    }

    /// Returns how the next token is chosen among those that are `allowed`, or all.
    pub(crate) fn choice(&mut self, allowed: Option<Vec<u32>>) -> TokenChoice {
        let is_drawn = self.sampling.temperature != 0.0;
        let chance = if is_drawn { self.random.f64() } else { 0.0 };
        TokenChoice { sampling: self.sampling, chance, said: self.said.clone(), allowed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(sampling: Sampling, logits: &[f32]) -> Vec<u32> {
        let mut sampler = Sampler::new(sampling, &[]);
        let mut seen: Vec<u32> =
            (0..2000).filter_map(|_| sampler.choice(None).of(&mut logits.to_vec())).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, f32::NEG_INFINITY, 3.0];

    #[test]
    fn greedy_takes_the_first_of_the_likeliest() {
        assert_eq!(chosen(Sampling::default(), &LOGITS), [1]);
        let mut none = [f32::NEG_INFINITY, f32::NAN];
        assert_eq!(TokenChoice::default().of(&mut none), None);
        let warm = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(TokenChoice { sampling: warm, ..TokenChoice::default() }.of(&mut none), None);
    }

    #[test]
    fn what_is_cut_off_is_never_chosen() {
        let warm = Sampling { temperature: 2.0, seed: Some(1), ..Sampling::default() };
        assert_eq!(chosen(warm, &LOGITS), [0, 1, 2, 4]);
        assert_eq!(chosen(Sampling { top_k: 3, ..warm }, &LOGITS), [1, 2, 4]);
        assert_eq!(chosen(Sampling { top_p: 0.5, ..warm }, &LOGITS), [1, 4]);
        assert_eq!(chosen(Sampling { top_p: f32::MIN_POSITIVE, ..warm }, &LOGITS), [1]);
        let allowed = Some(vec![0b10100]);
        let only = TokenChoice { allowed, ..TokenChoice::default() };
        assert_eq!(only.of(&mut LOGITS.to_vec()), Some(4));
    }

    #[test]
    fn shares_are_those_of_the_softmax() {
        let warm = Sampling { temperature: 1.0, seed: Some(5), ..Sampling::default() };
        let mut sampler = Sampler::new(warm, &[]);
        let logits = [0.0_f32, 1.0];
        let rounds = 20_000;
        let draws = (0..rounds).filter_map(|_| sampler.choice(None).of(&mut logits.to_vec()));
        let share = f64::from(draws.sum::<u32>()) / f64::from(rounds);
        let expected = 1.0 / (1.0 + (-1.0_f64).exp());
        assert!((share - expected).abs() < 0.015, "{share} beside {expected}");
    }

    #[test]
    fn a_seed_repeats_itself_and_a_penalty_turns_away_from_what_was_said() {
        let warm = Sampling { temperature: 1.5, seed: Some(9), ..Sampling::default() };
        let draw = || {
            let mut sampler = Sampler::new(warm, &[]);
            let draws = (0..50).map(|_| sampler.choice(None).of(&mut LOGITS.to_vec()));
            draws.collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
        let penalty = Sampling { repetition_penalty: 1.4, ..Sampling::default() };
        let mut sampler = Sampler::new(penalty, &[0, 0]);
        assert_eq!(sampler.choice(None).of(&mut [2.0, 1.9, -1.0]), Some(1));
        assert_eq!(sampler.choice(None).of(&mut [-1.0, -1.2]), Some(1));
        sampler.say(1);
        assert_eq!(sampler.choice(None).of(&mut [2.0, 1.9, -1.0]), Some(0));
    }
}
