//! Options that the caller may choose when a model is loaded.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use burn::tensor::DType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of an embedding model or a reranker: device, precision and code path. The default suits
/// any machine: the fastest path on the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Name of the model in its identity; by default the folder's name. Set it if the folder may be
    /// moved, because vectors of differently named models are never compared.
    pub name: Option<String>,
    /// Device to compute on.
    pub device: DeviceChoice,
    /// Number format of the factors of the large matrix products.
    pub precision: PrecisionChoice,
    /// Code that computes.
    pub path: PathChoice,
    /// Maximum number of tokens computed in one step; by default the fastest for the path. A larger
    /// number helps GPUs, costs memory, and makes an interactive text wait longer behind a bulk
    /// batch.
    pub batch_tokens: Option<NonZeroUsize>,
}

/// Location of a language model and options to run it.
#[derive(Clone, Debug)]
pub struct LanguageModelOptions {
    /// Folder in Hugging Face layout.
    pub folder: PathBuf,
    /// Folder of the tokenizer, if it is not the model's.
    pub tokenizer: Option<PathBuf>,
    /// Name of the model; by default the folder's.
    pub name: Option<String>,
    /// Device to compute on.
    pub device: DeviceChoice,
    /// Number format of weights and states.
    pub precision: Precision,
    /// Number of CPU threads to compute on; 0 means one per core.
    pub threads: usize,
}

/// Device to compute on; written `cpu`, `cuda:0` or `vulkan:0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The CPU.
    #[default]
    Cpu,
    /// An NVIDIA GPU; needs the feature `cuda`.
    Cuda {
        /// Index of the GPU, from 0, in the driver's order.
        index: usize,
    },
    /// Any GPU with a Vulkan driver, or with Metal; needs the feature `wgpu`.
    Vulkan {
        /// Index of the device, from 0: GPUs in the driver's order, then other devices.
        index: usize,
    },
}

impl DeviceChoice {
    /// Returns whether the device has memory of its own and runs kernels that are compiled there.
    pub fn is_gpu(self) -> bool {
        self != Self::Cpu
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let (kind, index) = name.split_once(':').unwrap_or((name, ""));
        match (kind, index.parse()) {
            ("cpu", _) if kind == name => Ok(Self::Cpu),
            ("cuda", Ok(index)) => Ok(Self::Cuda { index }),
            ("vulkan", Ok(index)) => Ok(Self::Vulkan { index }),
            _ => Err(format!("expected `cpu`, `cuda:0` or `vulkan:0`, got `{name}`")),
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
            DeviceChoice::Vulkan { index } => format!("vulkan:{index}"),
        }
    }
}

/// Choice of the number format of the factors of the large matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PrecisionChoice {
    /// bfloat16 on CPUs and GPUs with instructions for it, 32-bit floats otherwise.
    #[default]
    Auto,
    /// 32-bit floats. GPUs round factors to 11 bits of significand (TF32).
    Float32,
    /// bfloat16 (8 bits of significand): about twice as fast, cosine to the exact vector at least
    /// 0.9999.
    BFloat16,
}

/// Choice of the code that computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathChoice {
    /// Packed if CPU and model allow it, Burn otherwise.
    #[default]
    Auto,
    /// Burn's tensor operations.
    Burn,
    /// The packed forward pass of `clew-packed-bert`, on x86-64 CPUs.
    Packed,
}

/// Number format of the factors of the large matrix products. Sums are 32-bit floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats.
    #[default]
    Float32,
    /// bfloat16.
    BFloat16,
}

impl Precision {
    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::BFloat16 => DType::BF16,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Float32 => "float32",
            Self::BFloat16 => "bfloat16",
        })
    }
}
