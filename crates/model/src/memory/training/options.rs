//! Options of a training.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::adamw::{AdamW, LearningRate};
use crate::Error;
use crate::memory::{Mix, Ratios};

/// Parameters that are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trained {
    /// The parameters of memory tokens. Every window but the last is compressed.
    Memory,
    /// The parameters of the base model, which reads without a memory: to make a small one from
    /// scratch.
    All,
}

impl Trained {
    pub(super) fn includes(self, name: &str) -> bool {
        name.contains("beacon_") == (self == Self::Memory)
    }
}

/// Layout of memory tokens, as in the `beacon_*` keys of a `config.json`. An option that is not set
/// keeps the model's value, or else gets that of published models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryTokenLayout {
    /// Number of tokens in a window; 2048 in published models.
    pub window: Option<usize>,
    /// Ratios that are trained. One of them is drawn for each window. Each divides the window. 2, 4
    /// and 8 in published models.
    pub ratios: Option<Vec<usize>>,
    /// Projections that memory tokens have of their own, of `q`, `k`, `v` and `o`; `q`, `k` and `v`
    /// in published models.
    pub projections: Option<Vec<char>>,
}

impl MemoryTokenLayout {
    /// Returns a `config.json` with this layout.
    pub(super) fn written_to(&self, mut config: Value) -> Value {
        let projections = self
            .projections
            .as_ref()
            .map(|projections| projections.iter().map(char::to_string).collect::<Vec<String>>());
        for (key, chosen, published) in [
            ("beacon_window", self.window.map(Value::from), json!(2048)),
            ("beacon_stride", self.window.map(Value::from), json!(2048)),
            ("beacon_ratio", self.ratios.clone().map(Value::from), json!([2, 4, 8])),
            ("beacon_param", projections.map(Value::from), json!(["q", "k", "v"])),
            ("beacon_attn", None, json!("full-coverage")),
            ("beacon_pos", None, json!("interleave")),
            ("beacon_ratio_mix", None, json!("step-random")),
            ("beacon_embed_init", None, json!("eos")),
            ("beacon_sink_size", None, json!(0)),
            ("beacon_attend_prev", None, json!(true)),
        ] {
            match chosen {
                Some(chosen) => config[key] = chosen,
                None if config.get(key).is_none() => config[key] = published,
                None => {}
            }
        }
        config
    }
}

/// Options of a trainer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainerOptions {
    /// Learning rate and number of steps.
    pub rate: LearningRate,
    /// Optimiser.
    pub adamw: AdamW,
    /// Number of sequences in a step.
    pub batch: usize,
    /// Ratios that are drawn from for each window.
    pub ratios: Vec<usize>,
    /// Number of words and memory tokens among which gradients flow
    /// ([`super::Training::gradients`]).
    pub rows: usize,
    /// Seed of the order of sequences and of the ratios.
    pub seed: u64,
    /// Number of steps between checkpoints. There is always one at the end; 0 means only that one.
    pub checkpoint_every: usize,
    /// Number of checkpoints that are kept, the latest; at least 1.
    pub checkpoints_kept: usize,
}

impl TrainerOptions {
    /// Returns options for `steps` steps at the learning rate `peak`, with defaults for everything
    /// else.
    pub fn new(steps: usize, peak: f64, ratios: Vec<usize>) -> Self {
        Self {
            rate: LearningRate { peak, warm_up: (steps / 20).max(1), steps },
            adamw: AdamW::default(),
            batch: 1,
            ratios,
            rows: usize::MAX,
            seed: 42,
            checkpoint_every: 0,
            checkpoints_kept: 2,
        }
    }

    /// Checks the options, and returns the ratios.
    ///
    /// # Errors
    /// Returns [`Error::Untrainable`] if no training is possible with these options.
    pub(super) fn check(&self, window: usize) -> Result<Ratios, Error> {
        let wrong = |expected: &str, found: String| {
            Err(Error::Untrainable { expected: expected.to_owned(), found })
        };
        let Self { rate, adamw, .. } = self;
        if rate.steps == 0 || self.batch == 0 || self.checkpoints_kept == 0 {
            return wrong("at least one step, sequence of a step and checkpoint kept", "0".into());
        }
        if !(rate.peak.is_finite() && rate.peak > 0.0) {
            return wrong("a positive learning rate", rate.peak.to_string());
        }
        let is_share = |share: f64| (0.0..1.0).contains(&share);
        if !is_share(adamw.mean_kept) || !is_share(adamw.square_kept) {
            return wrong("shares of means that are below 1", format!("{adamw:?}"));
        }
        if !(adamw.epsilon > 0.0 && adamw.decay >= 0.0 && adamw.clip >= 0.0) {
            return wrong("no negative epsilon, decay or norm", format!("{adamw:?}"));
        }
        if self.ratios.iter().any(|ratio| *ratio == 0 || !window.is_multiple_of(*ratio)) {
            let expected = format!("ratios that divide the window of {window}");
            return wrong(&expected, format!("{:?}", self.ratios));
        }
        let expected = format!("at least one ratio that divides the window of {window}");
        Ratios::try_new(&self.ratios, Mix::EachByChance, window)
            .map_err(|found| Error::Untrainable { expected, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_keeps_what_it_leaves_open() {
        let published = MemoryTokenLayout::default().written_to(json!({"hidden_size": 4}));
        assert_eq!(published["beacon_window"], 2048);
        assert_eq!(published["beacon_param"], json!(["q", "k", "v"]));
        assert_eq!(published["hidden_size"], 4);
        let layout = MemoryTokenLayout {
            window: Some(64),
            projections: Some(vec!['q']),
            ..MemoryTokenLayout::default()
        };
        let own = json!({"beacon_ratio": [16], "beacon_window": 8, "beacon_stride": 8});
        let changed = layout.written_to(own);
        assert_eq!(changed["beacon_ratio"], json!([16]));
        assert_eq!([&changed["beacon_window"], &changed["beacon_stride"]], [64, 64]);
        assert_eq!(changed["beacon_param"], json!(["q"]));
    }
}
