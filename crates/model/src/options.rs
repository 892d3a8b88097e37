//! What the caller may choose when a model is loaded.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Precision;

/// Where, how precisely and by which code a model runs. The default suits any machine: the fastest
/// way on the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Name of the model in its identity; by default the folder's name. Set it where a folder may be
    /// moved, as vectors of differently named models are never compared.
    pub name: Option<String>,
    /// Where to compute.
    pub device: DeviceChoice,
    /// In which number format the large matrix products read their factors.
    pub precision: PrecisionChoice,
    /// Which code computes.
    pub path: PathChoice,
    /// Most tokens computed in one step; by default what is fastest for the path. Raising it helps
    /// GPUs, costs memory and makes an interactive text wait longer behind a bulk batch.
    pub batch_tokens: Option<NonZeroUsize>,
}

/// Where a language model lies and how it is to run.
#[derive(Clone, Debug)]
pub struct LanguageModelOptions {
    /// Folder in Hugging Face layout.
    pub folder: PathBuf,
    /// Folder of the tokenizer, if it is another.
    pub tokenizer: Option<PathBuf>,
    /// Its name; by default the folder's.
    pub name: Option<String>,
    /// Where to compute.
    pub device: DeviceChoice,
    /// In which number format weights and states are kept.
    pub precision: Precision,
    /// Threads of the processor to compute on; 0: one per core.
    pub threads: usize,
}

/// Where to compute; written `cpu` or `cuda:0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU; needs the feature `cuda`.
    Cuda {
        /// Which one, from 0, in the driver's order.
        index: usize,
    },
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let index = name.strip_prefix("cuda:").map(str::parse);
        match (name, index) {
            ("cpu", _) => Ok(Self::Cpu),
            (_, Some(Ok(index))) => Ok(Self::Cuda { index }),
            _ => Err(format!("expected `cpu` or `cuda:0`, got `{name}`")),
        }
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<DeviceChoice> for String {
    fn from(device: DeviceChoice) -> Self {
        match device {
            DeviceChoice::Cpu => "cpu".to_owned(),
            DeviceChoice::Cuda { index } => format!("cuda:{index}"),
        }
    }
}

/// In which number format the large matrix products read their factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrecisionChoice {
    /// bfloat16 on processors with instructions for it, 32-bit floats otherwise.
    #[default]
    Auto,
    /// 32-bit floats.
    Float32,
    /// bfloat16 (8 bits of significand): about twice as fast, cosine to the exact vector at least
    /// 0.9999.
    BFloat16,
}

/// Which code computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathChoice {
    /// Packed where processor and model allow, Burn otherwise.
    #[default]
    Auto,
    /// Burn's tensor operations.
    Burn,
    /// The packed forward of `clew-packed-bert`, on x86-64 processors.
    Packed,
}
