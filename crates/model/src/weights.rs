//! Parameters of models, and checks that stored tensors are those.

use std::collections::BTreeSet;

use safetensors::tensor::Dtype;

use crate::Error;

/// Parameter that a model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Hugging Face name, relative to the model's root if it has one.
    pub(crate) name: String,
    /// Shape in the file.
    pub(crate) shape: Vec<usize>,
}

/// Source of the values of parameters.
pub(crate) trait Weights {
    /// Returns the values of a parameter, in 32-bit floats.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if the parameter does not exist, [`Error::Unreadable`] if its
    /// file cannot be read, and [`Error::Broken`] if a value is not finite, because it would spoil
    /// every result.
    fn values(&self, name: &str) -> Result<Vec<f32>, Error>;
}

/// Refuses `files` whose tensors, named `stored`, are not exactly the `parameters`.
///
/// # Errors
/// Returns [`Error::TensorNames`] with the differences.
pub(crate) fn check_names<'a>(
    files: impl Iterator<Item = &'a str>,
    stored: impl Iterator<Item = &'a str>,
    parameters: &[Parameter],
) -> Result<(), Error> {
    let needed: BTreeSet<&str> = parameters.iter().map(|needed| needed.name.as_str()).collect();
    let stored: BTreeSet<&str> = stored.collect();
    if needed == stored {
        return Ok(());
    }
    let owned = |name: &&str| (*name).to_owned();
    Err(Error::TensorNames {
        file: files.collect::<Vec<_>>().join(", "),
        missing: needed.difference(&stored).map(owned).collect(),
        unused: stored.difference(&needed).map(owned).collect(),
    })
}

/// Refuses a tensor of `file` that does not have the shape of the parameter, or that is in a number
/// format other than 32-bit floats, 16-bit floats and bfloat16.
///
/// # Errors
/// Returns [`Error::Inconsistent`] for the shape and [`Error::Unsupported`] for the number format.
pub(crate) fn check_format(
    file: &str,
    shape: &[usize],
    format: Dtype,
    parameter: &Parameter,
) -> Result<(), Error> {
    let name = &parameter.name;
    if shape != parameter.shape {
        return Err(Error::Inconsistent {
            file: file.to_owned(),
            other: "config.json".to_owned(),
            expected: format!("`{name}` of shape {:?}", parameter.shape),
            found: format!("{shape:?}"),
        });
    }
    match format {
        Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
        other => Err(Error::Unsupported {
            file: file.to_owned(),
            expected: format!("`{name}` in F32, F16 or BF16"),
            found: format!("{other:?}"),
        }),
    }
}

pub(crate) fn broken(file: &str, expected: &str, found: String) -> Error {
    Error::Broken { file: file.to_owned(), expected: expected.to_owned(), found }
}
