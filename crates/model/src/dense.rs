//! Dense step of a sentence-transformers folder: a matrix that gives vectors another width.

use burn::prelude::*;
use burn::tensor::DType;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::decoder::cores::Cores;
use crate::decoder::layers::{Linear, Loader};
use crate::folder::reader::FolderReader;
use crate::weights::Parameter;

const CONFIG: &str = "config.json";
/// Activation that does nothing, by either of its Python paths.
const IDENTITY: [&str; 2] =
    ["torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Identity"];

/// Shape of the step. The comments name the fields of its `config.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DenseConfig {
    /// Width of the pooled vectors, `in_features`.
    pub(crate) input: usize,
    /// Width of the results, `out_features`.
    pub(crate) output: usize,
    /// Whether there is a bias, `bias`.
    pub(crate) has_bias: bool,
}

/// Dense step on one device.
pub(crate) struct Dense(Linear);

#[derive(Deserialize)]
struct Raw {
    in_features: usize,
    out_features: usize,
    #[serde(default = "yes")]
    bias: bool,
    activation_function: String,
}

fn yes() -> bool {
    true
}

impl DenseConfig {
    /// Reads the step's `config.json` for vectors of width `pooled`.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] or [`Error::Broken`] if the file cannot be read or is invalid,
    /// [`Error::Unsupported`] if there is an activation, and [`Error::Inconsistent`] if the input
    /// width is not `pooled`.
    pub(crate) fn read(folder: &FolderReader, pooled: usize) -> Result<Self, Error> {
        let raw: Raw = folder.json(CONFIG, "the shape of a dense layer")?;
        if !IDENTITY.contains(&raw.activation_function.as_str()) {
            let expected = format!("`activation_function` {}", IDENTITY[0]);
            return Err(folder.unsupported(CONFIG, &expected, &raw.activation_function));
        }
        if raw.in_features != pooled {
            return Err(Error::Inconsistent {
                file: folder.name(CONFIG),
                other: "config.json".to_owned(),
                expected: format!("`in_features` {pooled}, the width of the pooled vectors"),
                found: raw.in_features.to_string(),
            });
        }
        if !(1..=1 << 16).contains(&raw.out_features) {
            let expected = "`out_features` from 1 to 65536";
            return Err(folder.broken(CONFIG, expected, raw.out_features));
        }
        Ok(Self { input: pooled, output: raw.out_features, has_bias: raw.bias })
    }
}

impl Dense {
    /// Loads the weights `linear.weight` `[output, input]` and `linear.bias` `[output]`.
    ///
    /// # Errors
    /// Returns the errors of [`Checkpoint::check`] and [`Checkpoint::read`].
    pub(crate) fn load(
        config: &DenseConfig,
        checkpoint: &Checkpoint,
        device: &Device,
    ) -> Result<Self, Error> {
        let mut parameters = vec![Parameter {
            name: "linear.weight".to_owned(),
            shape: vec![config.output, config.input],
        }];
        if config.has_bias {
            let shape = vec![config.output];
            parameters.push(Parameter { name: "linear.bias".to_owned(), shape });
        }
        checkpoint.check(&parameters, |_| false)?;
        // 32-bit floats, as pooled vectors are, whatever the transformer computes in.
        let loader = Loader { checkpoint, device, dtype: DType::F32, cores: &Cores::one() };
        Ok(Self(loader.linear(&["linear".to_owned()], config.has_bias)?))
    }

    /// Maps `[texts, input]` to `[texts, output]`.
    pub(crate) fn forward(&self, vectors: Tensor<2>) -> Tensor<2> {
        self.0.forward(vectors)
    }
}
