//! Sampling: chooses the next token.

use clew_core::Sampling;

/// Sampler of the tokens of one reply.
#[derive(Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    random: fastrand::Rng,
}

impl Sampler {
    /// Creates a sampler. Without a seed each reply is random in a different way.
    pub(crate) fn new(sampling: Sampling) -> Self {
        let random = sampling.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self { sampling, random }
    }

    /// Returns whether the sampler always chooses the likeliest token.
    pub(crate) fn is_greedy(&self) -> bool {
        self.sampling.temperature == 0.0 && self.sampling.repetition_penalty == 1.0
    }

    /// Returns one of the tokens whose logit is finite, or `None` if there is none. `said` are the
    /// tokens so far, including those of the prompt.
    ///
    /// The order of the steps is that of the transformers library: penalty, temperature, top-k,
    /// top-p.
    pub(crate) fn choose(&mut self, logits: &mut [f32], said: &[u32]) -> Option<u32> {
        self.penalise(logits, said);
        if self.sampling.temperature == 0.0 {
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
        let mut left = self.random.f64() * sum;
        for ((token, _), weight) in likely.iter().zip(&weights).take(kept) {
            left -= weight;
            if left < 0.0 {
                return Some(*token);
            }
        }
        // Rounding can leave a remainder after the last weight.
        likely.get(kept - 1).map(|(token, _)| *token)
    }

    /// Applies the repetition penalty: Keskar et al., "CTRL: A Conditional Transformer Language
    /// Model for Controllable Generation", section 4.1.
    fn penalise(&self, logits: &mut [f32], said: &[u32]) {
        let penalty = self.sampling.repetition_penalty;
        if penalty == 1.0 {
            return;
        }
        let mut said = said.to_vec();
        said.sort_unstable();
        said.dedup();
        for token in said {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }
}

fn likeliest(logits: &[f32]) -> Option<u32> {
    let finite = (0..).zip(logits).filter(|(_, logit)| logit.is_finite());
    // Ties go to the first token.
    let best = finite.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(token, _)| token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(sampling: Sampling, logits: &[f32]) -> Vec<u32> {
        let mut sampler = Sampler::new(sampling);
        let mut seen: Vec<u32> =
            (0..2000).filter_map(|_| sampler.choose(&mut logits.to_vec(), &[])).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, f32::NEG_INFINITY, 3.0];

    #[test]
    fn greedy_takes_the_first_of_the_likeliest() {
        assert_eq!(chosen(Sampling::default(), &LOGITS), [1]);
        let mut none = [f32::NEG_INFINITY, f32::NAN];
        assert_eq!(Sampler::new(Sampling::default()).choose(&mut none, &[]), None);
        let warm = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(Sampler::new(warm).choose(&mut none, &[]), None);
    }

    #[test]
    fn what_is_cut_off_is_never_chosen() {
        let warm = Sampling { temperature: 2.0, seed: Some(1), ..Sampling::default() };
        assert_eq!(chosen(warm, &LOGITS), [0, 1, 2, 4]);
        assert_eq!(chosen(Sampling { top_k: 3, ..warm }, &LOGITS), [1, 2, 4]);
        assert_eq!(chosen(Sampling { top_p: 0.5, ..warm }, &LOGITS), [1, 4]);
        assert_eq!(chosen(Sampling { top_p: f32::MIN_POSITIVE, ..warm }, &LOGITS), [1]);
    }

    #[test]
    fn shares_are_those_of_the_softmax() {
        let warm = Sampling { temperature: 1.0, seed: Some(5), ..Sampling::default() };
        let mut sampler = Sampler::new(warm);
        let logits = [0.0_f32, 1.0];
        let rounds = 20_000;
        let ones: u32 = (0..rounds).filter_map(|_| sampler.choose(&mut logits.to_vec(), &[])).sum();
        let share = f64::from(ones) / f64::from(rounds);
        let expected = 1.0 / (1.0 + (-1.0_f64).exp());
        assert!((share - expected).abs() < 0.015, "{share} beside {expected}");
    }

    #[test]
    fn a_seed_repeats_itself_and_a_penalty_turns_away_from_what_was_said() {
        let warm = Sampling { temperature: 1.5, seed: Some(9), ..Sampling::default() };
        let draw = || {
            let mut sampler = Sampler::new(warm);
            (0..50).map(|_| sampler.choose(&mut LOGITS.to_vec(), &[])).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
        let penalty = Sampling { repetition_penalty: 1.4, ..Sampling::default() };
        let mut sampler = Sampler::new(penalty);
        assert_eq!(sampler.choose(&mut [2.0, 1.9, -1.0], &[0, 0]), Some(1));
        assert_eq!(sampler.choose(&mut [-1.0, -1.2], &[0]), Some(1));
    }
}
