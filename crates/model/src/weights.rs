//! Weights: the tensors of a model by their Hugging Face names, converted to 32-bit floats.

use std::collections::{BTreeMap, BTreeSet};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::Error;

/// Parameter that a model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Hugging Face name, relative to the model's root if it has one.
    pub(crate) name: String,
    /// Shape in the file.
    pub(crate) shape: Vec<usize>,
}

/// Content of a `.safetensors` file.
pub(crate) struct WeightFile {
    /// Path relative to the model folder.
    pub(crate) name: String,
    /// Content of the file.
    pub(crate) bytes: Vec<u8>,
}

/// Stored tensor and the file that holds it.
struct Stored<'a> {
    file: &'a str,
    view: TensorView<'a>,
}

/// Tensors of one model, by name relative to its root. Holds exactly those that the model needs.
pub(crate) struct Weights<'a> {
    tensors: BTreeMap<String, Stored<'a>>,
}

impl<'a> Weights<'a> {
    /// Finds the `parameters` of a model in `files`.
    ///
    /// Names may carry the prefix `root` (in a checkpoint of a larger model that contains this one)
    /// or not (in a checkpoint of the model alone). Tensors for which `is_ignored` holds are left
    /// out.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if a file is cut short or not a safetensors file, or if a tensor
    /// is stored twice. Returns [`Error::TensorNames`] if tensors are missing or not needed,
    /// [`Error::Inconsistent`] if a tensor has another shape, and [`Error::Unsupported`] if it is
    /// in a number format other than 32-bit floats, 16-bit floats and bfloat16.
    pub(crate) fn find(
        files: &'a [WeightFile],
        root: &str,
        parameters: &[Parameter],
        is_ignored: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let mut tensors = BTreeMap::new();
        for file in files {
            for (name, view) in parse(file)? {
                let name = name.strip_prefix(root).unwrap_or(&name).to_owned();
                if is_ignored(&name) {
                    continue;
                }
                if tensors.contains_key(&name) {
                    let found = format!("`{name}` twice");
                    return Err(broken(&file.name, "each tensor once", found));
                }
                tensors.insert(name, Stored { file: &file.name, view });
            }
        }
        let names = files.iter().map(|file| file.name.as_str());
        check_names(names, tensors.keys().map(String::as_str), parameters)?;
        for parameter in parameters {
            let Stored { file, view } = &tensors[&parameter.name];
            check_format(file, view.shape(), view.dtype(), parameter)?;
        }
        Ok(Self { tensors })
    }

    /// Returns the values of a parameter in the file's order, as 32-bit floats.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if the name was not among the parameters. Returns
    /// [`Error::Broken`] if a value is not finite, because it would spoil every vector.
    pub(crate) fn values(&self, name: &str) -> Result<Vec<f32>, Error> {
        let stored = self.tensors.get(name).ok_or_else(|| Error::TensorNames {
            file: "model.safetensors".to_owned(),
            missing: vec![name.to_owned()],
            unused: Vec::new(),
        })?;
        let bytes = stored.view.data();
        let values: Vec<f32> = match stored.view.dtype() {
            Dtype::F16 => pairs(bytes).map(|pair| f16::from_le_bytes(pair).to_f32()).collect(),
            Dtype::BF16 => pairs(bytes).map(|pair| bf16::from_le_bytes(pair).to_f32()).collect(),
            // `find` admits only these three formats.
            _ => {
                let (quads, _) = bytes.as_chunks::<4>();
                quads.iter().map(|quad| f32::from_le_bytes(*quad)).collect()
            }
        };
        if values.iter().any(|value| !value.is_finite()) {
            let found = format!("a value in `{name}` that is not");
            return Err(broken(stored.file, "finite numbers", found));
        }
        Ok(values)
    }
}

fn parse(file: &WeightFile) -> Result<Vec<(String, TensorView<'_>)>, Error> {
    match SafeTensors::deserialize(&file.bytes) {
        Ok(tensors) => Ok(tensors.tensors()),
        Err(error) => {
            let found = format!("{} bytes that are not ({error})", file.bytes.len());
            Err(broken(&file.name, "a complete safetensors file", found))
        }
    }
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

fn pairs(bytes: &[u8]) -> impl Iterator<Item = [u8; 2]> + '_ {
    bytes.as_chunks::<2>().0.iter().copied()
}
