//! What is trained, and how.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::adamw::{AdamW, Rate};
use crate::Error;
use crate::memory::{Mix, Ratios};

/// Which parameters are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trained {
    /// Those of memory tokens. Every window but the last is compressed.
    Memory,
    /// Those of the base model, which reads without a memory: to make a small one from scratch.
    All,
}

impl Trained {
    pub(super) fn includes(self, name: &str) -> bool {
        name.contains("beacon_") == (self == Self::Memory)
    }
}

/// What memory tokens are like, as the `beacon_*` keys of a `config.json` say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Tokens of a window.
    pub window: usize,
    /// Ratios that are trained; one of them is drawn for each window. Each divides the window.
    pub ratios: Vec<usize>,
    /// Projections that memory tokens have of their own, of `q`, `k`, `v` and `o`; `q`, `k` and `v` in published models.
    pub projections: Vec<char>,
}

impl Layout {
    /// A `config.json` with this layout, and everything else as in published models.
    pub(super) fn written_to(&self, mut config: Value) -> Value {
        let projections = self.projections.iter().map(char::to_string);
        for (key, value) in [
            ("beacon_window", json!(self.window)),
            ("beacon_stride", json!(self.window)),
            ("beacon_ratio", json!(self.ratios)),
            ("beacon_param", json!(projections.collect::<Vec<String>>())),
        ] {
            config[key] = value;
        }
        for (key, value) in [
            ("beacon_attn", json!("full-coverage")),
            ("beacon_pos", json!("interleave")),
            ("beacon_ratio_mix", json!("step-random")),
            ("beacon_embed_init", json!("eos")),
            ("beacon_sink_size", json!(0)),
            ("beacon_attend_prev", json!(true)),
        ] {
            if config.get(key).is_none() {
                config[key] = value;
            }
        }
        config
    }
}

/// How a model is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainerOptions {
    /// The learning rate, and how many steps there are.
    pub rate: Rate,
    /// How gradients become changes.
    pub adamw: AdamW,
    /// Sequences of a step.
    pub batch: usize,
    /// Ratios to draw from for each window.
    pub ratios: Vec<usize>,
    /// Words and memory tokens among which gradients flow ([`super::Training::gradients`]).
    pub rows: usize,
    /// Decides the order of sequences, and the ratios.
    pub seed: u64,
    /// Steps between checkpoints; there is one at the end in any case. 0: only there.
    pub checkpoint_every: usize,
    /// Checkpoints that are kept, the latest; at least 1.
    pub checkpoints_kept: usize,
}

impl TrainerOptions {
    /// So many steps at this rate, everything else as is usual.
    pub fn new(steps: usize, peak: f64, ratios: Vec<usize>) -> Self {
        Self {
            rate: Rate { peak, warm_up: (steps / 20).max(1), steps },
            adamw: AdamW::default(),
            batch: 1,
            ratios,
            rows: usize::MAX,
            seed: 42,
            checkpoint_every: 0,
            checkpoints_kept: 2,
        }
    }

    /// # Errors
    /// [`Error::Untrainable`] for what no training can be done with.
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
