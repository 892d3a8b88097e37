//! The adapter: all that a reader has beside its base, in one safetensors file.
//!
//! | tensor                           | format                   | what it is                     |
//! |----------------------------------|--------------------------|--------------------------------|
//! | matrix below `encoder.`          | I8 `[rows, columns]`     | steps away from the base       |
//! | the same with `.scale` behind it | F32 `[rows]`             | size of the steps of a row     |
//! | vector below `encoder.`          | F32, as in the base      | the values themselves          |
//! | `span.weight`, `span.bias`       | F32 `[2, hidden]`, `[2]` | head of starts and ends        |
//! | `verdict.weight`, `verdict.bias` | F32 `[2, hidden]`, `[2]` | head of answers and relevance  |
//!
//! Names below `encoder.` are those of the base. Its embeddings stay as they are. The metadata
//! names the base by its fingerprint, and has the numbers that the reader was trained with.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::str::FromStr;

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::heads::{Head, Heads};
use super::merging::Calibration;
use super::window::Limits;
use crate::Error;
use crate::bert::BertConfig;
use crate::checkpoint::{Checkpoint, are_finite};
use crate::weights::{Parameter, Weights, broken, check_names};

/// Name of the adapter in errors.
const FILE: &str = "the reader's adapter";
/// The format that is read.
const FORMAT: &str = "clew-reader-1";
/// Files that the fingerprint of a base is made of.
const BASE_FILES: &str = "tokenizer.json, model.safetensors";
/// Number of hexadecimal digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 64;
/// Digits of a fingerprint in errors.
const DIGITS_SHOWN: usize = 12;
/// Prefix of the parameters that the adapter changes.
const ENCODER: &str = "encoder.";
/// Behind the name of a matrix, the name of the sizes of its steps.
const SCALE: &str = ".scale";
/// Names of the heads, each of which has a `weight` and a `bias`.
const HEADS: [&str; 2] = ["span", "verdict"];
/// Bounds of numbers in the metadata. Larger ones are no numbers of tokens, and no weights.
const MOST_TOKENS: usize = 1 << 20;
const LARGEST_WEIGHT: f64 = 1000.0;

/// What an adapter tells of its model.
#[derive(Clone, Debug, PartialEq)]
pub struct ReaderCard {
    /// Name of the base.
    pub base: String,
    /// What it was trained on.
    pub data: Vec<TrainingData>,
    /// Measured figures.
    pub quality: serde_json::Value,
    /// How it was trained.
    pub trained: String,
}

/// Part of the data that a reader was trained on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TrainingData {
    /// Name of the part.
    pub name: String,
    /// Licence of the part.
    pub licence: String,
    /// Number of examples.
    pub examples: u64,
}

impl ReaderCard {
    /// Returns the name of the model, such as `clew-reader-1 on all-MiniLM-L6-v2`.
    pub fn name(&self) -> String {
        format!("{FORMAT} on {}", self.base)
    }
}

/// Adapter whose container and metadata are checked. Its tensors are checked by [`Self::check`].
pub(super) struct Adapter<'a> {
    tensors: BTreeMap<String, Stored<'a>>,
    pub(super) card: ReaderCard,
    /// Fingerprint of the base, in hexadecimal digits.
    pub(super) base_fingerprint: String,
    pub(super) limits: Limits,
    pub(super) calibration: Calibration,
}

/// Tensor in the file.
struct Stored<'a> {
    format: Dtype,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

/// Base as an adapter changes it.
pub(super) struct Adapted<'a> {
    pub(super) base: &'a Checkpoint,
    pub(super) adapter: &'a Adapter<'a>,
}

impl<'a> Adapter<'a> {
    /// Reads the content of an adapter's file.
    ///
    /// # Errors
    /// Returns [`Error::Broken`] if it is cut short or no such file, or if its metadata is
    /// incomplete. Returns [`Error::Unsupported`] if it is of another format.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let no_file = |error: safetensors::SafeTensorError| {
            broken(FILE, "a complete safetensors file", error.to_string())
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(no_file)?;
        let file = SafeTensors::deserialize(bytes).map_err(no_file)?;
        let metadata = Metadata(header.metadata().as_ref());
        let format = metadata.text("format")?;
        if format != FORMAT {
            return Err(Error::Unsupported {
                file: FILE.to_owned(),
                expected: format!("the format {FORMAT}"),
                found: format.to_owned(),
            });
        }
        let stored = file.iter().map(|(name, view)| {
            let (format, shape) = (view.dtype(), view.shape().to_vec());
            (name.to_owned(), Stored { format, shape, bytes: view.data() })
        });
        Ok(Self {
            tensors: stored.collect(),
            card: ReaderCard {
                base: metadata.text("base")?.to_owned(),
                data: metadata.json("data", "a list of parts")?,
                quality: metadata.json("quality", "measured figures")?,
                trained: metadata.text("trained")?.to_owned(),
            },
            base_fingerprint: metadata.fingerprint("base_blake3")?,
            limits: metadata.limits()?,
            calibration: metadata.calibration()?,
        })
    }

    /// Refuses a base of another fingerprint than the adapter was trained on.
    ///
    /// # Errors
    /// Returns [`Error::Inconsistent`].
    pub(super) fn check_base(&self, fingerprint: &str) -> Result<(), Error> {
        if fingerprint == self.base_fingerprint {
            return Ok(());
        }
        Err(Error::Inconsistent {
            file: FILE.to_owned(),
            other: BASE_FILES.to_owned(),
            expected: format!("a base of fingerprint {:.DIGITS_SHOWN$}", fingerprint),
            found: format!("{} of {:.DIGITS_SHOWN$}", self.card.base, self.base_fingerprint),
        })
    }

    /// Returns whether the heads read states of the width that a base of this shape has.
    pub(super) fn is_as_wide_as(&self, config: &BertConfig) -> bool {
        let head = self.tensors.get("span.weight");
        head.is_none_or(|head| head.shape.last() == Some(&config.hidden))
    }

    /// Refuses an adapter that does not hold exactly the tensors for a base of this shape, or whose
    /// windows are longer than the base reads.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if names differ, [`Error::Inconsistent`] for a shape or the
    /// window, [`Error::Unsupported`] for a number format, and [`Error::Broken`] if a number is not
    /// finite.
    pub(super) fn check(&self, config: &BertConfig) -> Result<(), Error> {
        let (parameters, formats): (Vec<Parameter>, Vec<Dtype>) =
            needed(config).into_iter().unzip();
        check_names([FILE].into_iter(), self.tensors.keys().map(String::as_str), &parameters)?;
        for (Parameter { name, shape }, format) in parameters.iter().zip(formats) {
            let stored = &self.tensors[name];
            if stored.shape != *shape {
                return Err(disagrees(format!("`{name}` of shape {shape:?}"), &stored.shape));
            }
            if stored.format != format {
                return Err(Error::Unsupported {
                    file: FILE.to_owned(),
                    expected: format!("`{name}` in {format:?}"),
                    found: format!("{:?}", stored.format),
                });
            }
            if format == Dtype::F32 && !are_finite(stored.bytes, format) {
                let found = format!("a value in `{name}` that is not");
                return Err(broken(FILE, "finite numbers", found));
            }
        }
        if self.limits.window > config.positions {
            let expected = format!("a window of at most {} tokens", config.positions);
            return Err(disagrees(expected, &self.limits.window));
        }
        Ok(())
    }

    /// Returns the heads. The adapter is checked.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if a tensor does not exist.
    pub(super) fn heads(&self) -> Result<Heads, Error> {
        let values = |head: &str, part: &str| -> Result<Vec<f32>, Error> {
            Ok(floats(self.stored(&format!("{head}.{part}"))?.bytes))
        };
        let head = |name: &str| -> Result<Head, Error> {
            Ok(Head { weight: values(name, "weight")?, bias: values(name, "bias")? })
        };
        let [span, verdict] = HEADS;
        Ok(Heads { span: head(span)?, verdict: head(verdict)? })
    }

    fn stored(&self, name: &str) -> Result<&Stored<'a>, Error> {
        self.tensors.get(name).ok_or_else(|| Error::TensorNames {
            file: FILE.to_owned(),
            missing: vec![name.to_owned()],
            unused: Vec::new(),
        })
    }
}

impl Weights for Adapted<'_> {
    fn values(&self, name: &str) -> Result<Vec<f32>, Error> {
        let Some(stored) = self.adapter.tensors.get(name) else {
            return self.base.values(name);
        };
        let [_, columns] = *stored.shape else {
            return Ok(floats(stored.bytes));
        };
        let scales = floats(self.adapter.stored(&format!("{name}{SCALE}"))?.bytes);
        let mut values = self.base.values(name)?;
        let rows = values.chunks_exact_mut(columns).zip(stored.bytes.chunks_exact(columns));
        for ((row, steps), scale) in rows.zip(scales) {
            for (value, step) in row.iter_mut().zip(steps) {
                *value += scale * f32::from(step.cast_signed());
            }
        }
        if !values.iter().all(|value| value.is_finite()) {
            let found = format!("steps in `{name}` to one that is not");
            return Err(broken(FILE, "steps to finite numbers", found));
        }
        Ok(values)
    }
}

/// Returns every tensor of an adapter to a base of this shape, and its number format.
fn needed(config: &BertConfig) -> Vec<(Parameter, Dtype)> {
    let mut needed = Vec::new();
    for parameter in config.parameters() {
        if !parameter.name.starts_with(ENCODER) {
            continue;
        }
        if let [rows, _] = *parameter.shape {
            let name = format!("{}{SCALE}", parameter.name);
            needed.push((Parameter { name, shape: vec![rows] }, Dtype::F32));
            needed.push((parameter, Dtype::I8));
        } else {
            needed.push((parameter, Dtype::F32));
        }
    }
    for head in HEADS {
        for (part, shape) in [("weight", vec![2, config.hidden]), ("bias", vec![2])] {
            needed.push((Parameter { name: format!("{head}.{part}"), shape }, Dtype::F32));
        }
    }
    needed
}

fn disagrees(expected: String, found: &impl std::fmt::Debug) -> Error {
    Error::Inconsistent {
        file: FILE.to_owned(),
        other: "config.json".to_owned(),
        expected,
        found: format!("{found:?}"),
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect()
}

/// Metadata of the file, if it has any.
struct Metadata<'a>(Option<&'a HashMap<String, String>>);

impl Metadata<'_> {
    fn text(&self, key: &str) -> Result<&str, Error> {
        let value = self.0.and_then(|values| values.get(key));
        value
            .map(String::as_str)
            .ok_or_else(|| broken(FILE, &format!("`{key}` in its metadata"), "none".to_owned()))
    }

    fn json<T: DeserializeOwned>(&self, key: &str, what: &str) -> Result<T, Error> {
        let text = self.text(key)?;
        serde_json::from_str(text)
            .map_err(|error| broken(FILE, &format!("`{key}` to be {what}"), error.to_string()))
    }

    fn number(&self, key: &str, range: RangeInclusive<usize>) -> Result<usize, Error> {
        let text = self.text(key)?;
        usize::from_str(text).ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let expected = format!("`{key}` from {} to {}", range.start(), range.end());
            broken(FILE, &expected, format!("`{text}`"))
        })
    }

    fn fingerprint(&self, key: &str) -> Result<String, Error> {
        let text = self.text(key)?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != FINGERPRINT_DIGITS || !text.bytes().all(is_digit) {
            let expected = format!("`{key}` of {FINGERPRINT_DIGITS} hexadecimal digits");
            return Err(broken(FILE, &expected, format!("`{text}`")));
        }
        Ok(text.to_owned())
    }

    fn limits(&self) -> Result<Limits, Error> {
        let limits = Limits {
            window: self.number("window", 1..=MOST_TOKENS)?,
            question: self.number("question", 1..=MOST_TOKENS)?,
            heading: self.number("heading", 0..=MOST_TOKENS)?,
            overlap: self.number("stride", 0..=MOST_TOKENS)?,
            longest_answer: self.number("longest_answer", 1..=MOST_TOKENS)?,
        };
        if !limits.are_consistent() {
            let expected = "`window` with room beside `question`, `heading` and `stride`";
            return Err(broken(FILE, expected, format!("{} tokens", limits.window)));
        }
        Ok(limits)
    }

    fn calibration(&self) -> Result<Calibration, Error> {
        let what = format!("three numbers from -{LARGEST_WEIGHT} to {LARGEST_WEIGHT}");
        let weights: [f64; 3] = self.json("calibration", &what)?;
        if weights.iter().any(|weight| weight.abs() > LARGEST_WEIGHT) {
            return Err(broken(
                FILE,
                &format!("`calibration` to be {what}"),
                format!("{weights:?}"),
            ));
        }
        let [margin, verdict, bias] = weights;
        Ok(Calibration { margin, verdict, bias })
    }
}
