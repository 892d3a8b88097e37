//! Settings of a memory model: the layout of its tokens, from the `beacon_*` keys of a
//! `config.json`.

use serde::{Deserialize, Serialize};

use super::schedule::{Mix, Ratios};
use crate::Error;
use crate::folder::reader::FolderReader;

const CONFIG: &str = "config.json";
/// Ratios of a configuration that names none, as in MemoRAG's code.
const RATIOS: [usize; 5] = [2, 4, 8, 16, 32];
const WINDOW: usize = 1024;
/// Maximum window in tokens. A larger one would not fit into memory.
const LARGEST_WINDOW: usize = 1 << 20;

/// Position of memory tokens in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// One behind every `ratio` tokens, as in all published models.
    Interleaved,
    /// All behind the last token of a window, each attending to everything before it.
    Appended,
    /// All behind the last token of a window. Of the window each attends only to the words that it
    /// stands for and those before them.
    AppendedByStep {
        /// Whether it attends to the window's memory tokens before it.
        sees_earlier: bool,
    },
}

/// Layout of a memory model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryModelSettings {
    /// Number of tokens in a window.
    pub window: usize,
    /// Position of memory tokens.
    pub placement: Placement,
    /// Number of the first tokens that stay uncompressed; 0 in published models.
    pub sink: usize,
    /// Possible ratios, and the rule that chooses one for a window.
    pub ratios: Ratios,
    /// Projections that memory tokens have of their own, of `q`, `k`, `v` and `o`.
    pub projections: Vec<char>,
    /// Special token whose embedding the memory token's begins as.
    pub(super) begins_as: BeginsAs,
}

/// Special tokens of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BeginsAs {
    Eos,
    Bos,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "beacon_window")]
    window: Option<usize>,
    #[serde(rename = "beacon_stride")]
    stride: Option<usize>,
    #[serde(rename = "beacon_attn")]
    attention: Option<String>,
    #[serde(rename = "beacon_attend_prev")]
    attend_previous: Option<bool>,
    #[serde(rename = "beacon_ratio")]
    ratio: Option<OneOrSeveral>,
    #[serde(rename = "beacon_ratio_mix")]
    mix: Option<String>,
    #[serde(rename = "beacon_param")]
    projections: Option<Vec<String>>,
    #[serde(rename = "beacon_embed_init")]
    begins_as: Option<BeginsAs>,
    #[serde(rename = "beacon_sink_size")]
    sink: Option<usize>,
    #[serde(rename = "beacon_pos")]
    placement: Option<String>,
    max_position_embeddings: usize,
    rope_scaling: Option<RawScaling>,
    rope_parameters: Option<RawScaling>,
}

/// Position scaling. The decoder's own configuration reads the rest of it.
#[derive(Deserialize)]
struct RawScaling {
    rope_type: Option<String>,
    r#type: Option<String>,
    factor: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrSeveral {
    One(usize),
    Several(Vec<usize>),
}

impl Raw {
    /// Returns the placement of memory tokens, or the combination that is not supported.
    fn placement(&self) -> Result<Placement, String> {
        let placement = self.placement.as_deref().unwrap_or("interleave");
        let attention = self.attention.as_deref().unwrap_or("full-coverage");
        match (placement, attention) {
            ("interleave", "full-coverage") => Ok(Placement::Interleaved),
            ("append", "full-coverage") => Ok(Placement::Appended),
            ("append", "step-expansion") => {
                let sees_earlier = self.attend_previous.unwrap_or(true);
                Ok(Placement::AppendedByStep { sees_earlier })
            }
            (placement, attention) => Err(format!("{placement} with {attention}")),
        }
    }

    /// Returns the number of positions that the model can tell apart. Returns `None` for YaRN,
    /// which the reference computes in its own way.
    fn positions(&self) -> Option<usize> {
        let Some(scaling) = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref()) else {
            return Some(self.max_position_embeddings);
        };
        let kind = scaling.rope_type.as_deref().or(scaling.r#type.as_deref());
        // The decoder's own configuration refuses a factor that is not a positive number.
        let positions = self.max_position_embeddings as f64 * scaling.factor.unwrap_or(1.0);
        (kind != Some("yarn")).then_some(positions as usize)
    }
}

impl MemoryModelSettings {
    /// Reads the settings of a model's folder.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if the file cannot be read, [`Error::Broken`] if it is invalid
    /// or if window and ratios do not fit together, and [`Error::Unsupported`] for layouts that the
    /// reference cannot run either, and for YaRN.
    pub(crate) fn read(folder: &FolderReader) -> Result<Self, Error> {
        let raw: Raw = folder.json(CONFIG, "the configuration of a memory model")?;
        let unsupported =
            |expected: &str, found: String| Err(folder.unsupported(CONFIG, expected, found));
        let window = raw.window.unwrap_or(WINDOW);
        if !(1..=LARGEST_WINDOW).contains(&window) {
            let expected = format!("`beacon_window` from 1 to {LARGEST_WINDOW}");
            return Err(folder.broken(CONFIG, &expected, window));
        }
        let stride = raw.stride.unwrap_or(window);
        if stride != window {
            return unsupported("`beacon_stride` equal to `beacon_window`", stride.to_string());
        }
        let placement = match raw.placement() {
            Ok(placement) => placement,
            Err(found) => {
                let expected = "`beacon_pos` interleave with `beacon_attn` full-coverage, or append with \
                                full-coverage or step-expansion";
                return unsupported(expected, found);
            }
        };
        let Some(positions) = raw.positions() else {
            return unsupported(
                "position scaling of memory models other than yarn",
                "`yarn`".to_owned(),
            );
        };
        let mut projections = Vec::new();
        for name in raw.projections.unwrap_or_default() {
            match name.as_str() {
                "q" | "k" | "v" | "o" => projections.extend(name.chars()),
                other => return unsupported("`beacon_param` of q, k, v and o", other.to_owned()),
            }
        }
        projections.sort_unstable();
        projections.dedup();
        let mix = raw.mix.as_deref().unwrap_or("step-random");
        let Some(mix) = Mix::named(mix, positions) else {
            let expected =
                "`beacon_ratio_mix` step-random, instance-random, sequence or adapt- with a number";
            return unsupported(expected, mix.to_owned());
        };
        let ratios = match raw.ratio {
            None => RATIOS.to_vec(),
            Some(OneOrSeveral::One(ratio)) => vec![ratio],
            Some(OneOrSeveral::Several(ratios)) => ratios,
        };
        let ratios = Ratios::try_new(&ratios, mix, window).map_err(|found| {
            folder.broken(CONFIG, "`beacon_ratio` that divides the window", found)
        })?;
        Ok(Self {
            window,
            placement,
            sink: raw.sink.unwrap_or(0),
            ratios,
            projections,
            begins_as: raw.begins_as.unwrap_or(BeginsAs::Eos),
        })
    }
}
