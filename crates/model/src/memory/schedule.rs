//! Schedules: the ratio by which each window is compressed.

use serde::{Deserialize, Serialize};

/// Rule that chooses one of several ratios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mix {
    /// At random for every window.
    EachByChance,
    /// At random for the first window, then the same.
    OnceByChance,
    /// One after the other.
    InTurn,
    /// The ratio with the least room that still holds the tokens known at the first window and
    /// `more` tokens; then the same.
    Fitting {
        /// Number of tokens that are still to come, such as those of a question and its answer.
        more: usize,
        /// Number of positions that the model was trained to read.
        positions: usize,
    },
}

impl Mix {
    /// Returns the rule with this name in configurations.
    pub(super) fn named(name: &str, positions: usize) -> Option<Self> {
        match name {
            "step-random" => Some(Self::EachByChance),
            "instance-random" => Some(Self::OnceByChance),
            "sequence" => Some(Self::InTurn),
            _ => {
                let more = name.strip_prefix("adapt-")?.parse().ok()?;
                Some(Self::Fitting { more, positions })
            }
        }
    }
}

/// Ratios of a model: raw tokens for each memory token, 0 for no compression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratios {
    /// Never empty. Each divides the window or is 0.
    ratios: Vec<usize>,
    mix: Mix,
    window: usize,
}

impl Ratios {
    /// Keeps those of `ratios` that divide the window, or are 0.
    ///
    /// # Errors
    /// Returns a description of the ratios if none of them does.
    pub fn try_new(ratios: &[usize], mix: Mix, window: usize) -> Result<Self, String> {
        let fitting = ratios.iter().copied().filter(|ratio| is_ratio(*ratio, window));
        let fitting: Vec<usize> = fitting.collect();
        if fitting.is_empty() {
            return Err(format!("{ratios:?} with a window of {window}"));
        }
        Ok(Self { ratios: fitting, mix, window })
    }

    /// Returns the same ratio for every window.
    ///
    /// # Errors
    /// Returns a description of the ratio if it does not divide the window.
    pub fn one(ratio: usize, window: usize) -> Result<Self, String> {
        Self::try_new(&[ratio], Mix::InTurn, window)
    }

    /// Returns all ratios.
    pub fn all(&self) -> &[usize] {
        &self.ratios
    }

    /// Returns a schedule of these ratios. Random choices depend on `seed` only.
    pub fn schedule(&self, seed: u64) -> RatioSchedule {
        let Self { ratios, mix, window } = self.clone();
        let rule = match ratios.as_slice() {
            [ratio] => Rule::Always { ratio: *ratio },
            _ => Rule::Mixed { ratios, mix, window, seed },
        };
        RatioSchedule { rule, chosen: 0 }
    }
}

/// Ratios of the windows of one memory. Each is chosen when its window begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatioSchedule {
    rule: Rule,
    /// Number of windows that have begun.
    chosen: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Rule {
    Always {
        ratio: usize,
    },
    /// Given ratios; the last is that of all later windows.
    Told {
        ratios: Vec<usize>,
    },
    Mixed {
        ratios: Vec<usize>,
        mix: Mix,
        window: usize,
        seed: u64,
    },
}

impl RatioSchedule {
    /// Creates a schedule from the ratios of the first windows, each 0 or a divisor of the window.
    /// The last is that of all later windows. Without any, nothing is compressed.
    pub fn told(ratios: Vec<usize>) -> Self {
        Self { rule: Rule::Told { ratios }, chosen: 0 }
    }

    /// Returns whether all ratios are valid for windows of `window` tokens.
    pub(super) fn fits(&self, window: usize) -> bool {
        let all_fit = |ratios: &[usize]| ratios.iter().all(|ratio| is_ratio(*ratio, window));
        match &self.rule {
            Rule::Always { ratio } => all_fit(&[*ratio]),
            Rule::Told { ratios } => all_fit(ratios),
            Rule::Mixed { ratios, window: of, .. } => {
                !ratios.is_empty() && all_fit(ratios) && *of == window
            }
        }
    }

    /// Returns the number of windows that have begun.
    pub(super) fn chosen(&self) -> usize {
        self.chosen
    }

    /// Returns the ratio of the next window of a sequence, of which `known` tokens are known.
    pub(super) fn next(&mut self, known: usize) -> usize {
        let at = self.chosen;
        self.chosen += 1;
        match &mut self.rule {
            Rule::Always { ratio } => *ratio,
            Rule::Told { ratios } => ratios.get(at).or(ratios.last()).copied().unwrap_or(0),
            Rule::Mixed { ratios, mix, window, seed } => match mix {
                Mix::InTurn => ratios[at % ratios.len()],
                Mix::EachByChance => {
                    let mut chance = fastrand::Rng::with_seed(seed.wrapping_add(at as u64));
                    ratios[chance.usize(..ratios.len())]
                }
                Mix::OnceByChance => {
                    let ratio = ratios[fastrand::Rng::with_seed(*seed).usize(..ratios.len())];
                    self.rule = Rule::Always { ratio };
                    ratio
                }
                Mix::Fitting { more, positions } => {
                    let ratio = fitting(ratios, known.saturating_add(*more), *positions, *window);
                    self.rule = Rule::Always { ratio };
                    ratio
                }
            },
        }
    }
}

/// Returns whether windows of `window` tokens can be compressed by `ratio`.
pub(super) fn is_ratio(ratio: usize, window: usize) -> bool {
    ratio == 0 || window.is_multiple_of(ratio)
}

/// Returns the ratio with the least room that is enough for `tokens`, or the largest if none is
/// enough.
fn fitting(ratios: &[usize], tokens: usize, positions: usize, window: usize) -> usize {
    let room = |ratio: usize| match ratio {
        0 => positions,
        _ => positions.saturating_sub(window).saturating_mul(ratio).saturating_add(window),
    };
    let enough = ratios.iter().copied().filter(|ratio| room(*ratio) >= tokens);
    let largest = ratios.iter().copied().max().unwrap_or(0);
    enough.min_by_key(|ratio| room(*ratio)).unwrap_or(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(mix: Mix, known: usize) -> Vec<usize> {
        let ratios = Ratios::try_new(&[2, 4, 8, 3], mix, 64).unwrap();
        let mut schedule = ratios.schedule(7);
        (0..40).map(|_| schedule.next(known)).collect()
    }

    #[test]
    fn ratios_are_chosen_by_their_rule() {
        assert_eq!(chosen(Mix::InTurn, 0)[..5], [2, 4, 8, 2, 4]);
        let once = chosen(Mix::OnceByChance, 0);
        assert!(once.iter().all(|ratio| *ratio == once[0] && [2, 4, 8].contains(ratio)));
        let each = chosen(Mix::EachByChance, 0);
        for ratio in [2, 4, 8] {
            assert!(each.contains(&ratio), "{each:?}");
        }
        assert!(!each.contains(&3), "3 does not divide 64");
        assert_eq!(each, chosen(Mix::EachByChance, 0));
        let fitting = Mix::Fitting { more: 10, positions: 128 };
        // Room for 192, 320 and 576 tokens.
        for (known, ratio) in [(0, 2), (182, 2), (183, 4), (310, 4), (311, 8), (9999, 8)] {
            assert!(chosen(fitting, known).iter().all(|chosen| *chosen == ratio), "{known}");
        }
        let mut told = RatioSchedule::told(vec![8, 0]);
        assert_eq!([told.next(0), told.next(0), told.next(0)], [8, 0, 0]);
        assert_eq!(RatioSchedule::told(Vec::new()).next(0), 0);
    }

    #[test]
    fn ratios_that_do_not_divide_the_window_are_refused() {
        assert!(Ratios::one(3, 64).is_err());
        assert!(Ratios::try_new(&[], Mix::InTurn, 64).is_err());
        assert_eq!(Ratios::one(0, 64).unwrap().all(), [0]);
        assert!(
            RatioSchedule::told(vec![0, 64]).fits(64) && !RatioSchedule::told(vec![2, 3]).fits(64)
        );
        let schedule = Ratios::try_new(&[2, 4], Mix::InTurn, 64).unwrap().schedule(0);
        assert!(schedule.fits(64) && !schedule.fits(32), "it is of windows of 64");
        assert_eq!(Mix::named("adapt-32", 9), Some(Mix::Fitting { more: 32, positions: 9 }));
        assert_eq!(Mix::named("adapt-", 9), None);
    }
}
