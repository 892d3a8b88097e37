//! Files of a training: model folders, and the state to resume from.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use burn::tensor::TensorData;
use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Trained;
use super::options::TrainerOptions;
use crate::Error;
use crate::folder::reader::FolderReader;

/// Format version, raised whenever a program could not resume from what another wrote.
const VERSION: u32 = 1;
const WEIGHTS: &str = "model.safetensors";
const STATE: &str = "training.json";
const STATE_TENSORS: &str = "training.safetensors";
/// Other files of a model folder, which the trained model takes over.
const TAKEN_OVER: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "generation_config.json",
];
/// Prefix of a checkpoint's folder name, before its step.
const PREFIX: &str = "step-";

/// Identity of a training, and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// Number of steps done.
    pub(super) step: usize,
    pub(super) trained: Trained,
    pub(super) options: TrainerOptions,
    /// Fingerprint of the model that it began from, with its layout.
    pub(super) model: String,
    /// Hash of all sequences.
    pub(super) data: String,
}

impl State {
    pub(super) fn new(
        trained: Trained,
        options: TrainerOptions,
        model: String,
        data: String,
    ) -> Self {
        Self { version: VERSION, step: 0, trained, options, model, data }
    }

    /// Refuses the checkpoint of another training.
    ///
    /// # Errors
    /// Returns [`Error::Untrainable`] with the differences.
    pub(super) fn check(&self, found: &Self) -> Result<(), Error> {
        let as_begun = Self { step: self.step, ..found.clone() };
        if *self == as_begun {
            return Ok(());
        }
        let differs = [
            ("another version of Clew", self.version == found.version),
            ("other parameters", self.trained == found.trained),
            ("other options", self.options == found.options),
            ("another model or layout", self.model == found.model),
            ("other data", self.data == found.data),
        ];
        let differs = differs.into_iter().filter(|(_, is_equal)| !is_equal).map(|(what, _)| what);
        Err(Error::Untrainable {
            expected: "a folder without checkpoints, or with those of this training".to_owned(),
            found: format!("one with {}", differs.collect::<Vec<_>>().join(" and ")),
        })
    }
}

/// Tensor to be written.
pub(super) struct Written<'a> {
    pub(super) name: String,
    pub(super) format: Dtype,
    pub(super) shape: Vec<usize>,
    /// Function that returns the bytes. It is called at the time of writing, so that only one
    /// tensor at a time is in memory twice.
    pub(super) bytes: Box<dyn FnOnce() -> Result<Vec<u8>, Error> + 'a>,
}

/// Returns the folder of the checkpoint after a step.
pub(super) fn folder(out: &Path, step: usize) -> PathBuf {
    out.join(format!("{PREFIX}{step:08}"))
}

/// Returns the steps of the checkpoints in `out`, in order.
pub(super) fn steps(out: &Path) -> Result<Vec<usize>, Error> {
    let mut steps = Vec::new();
    let entries = match fs::read_dir(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(steps),
        entries => entries.map_err(|source| unreadable("checkpoints", source))?,
    };
    for entry in entries {
        let name = entry.map_err(|source| unreadable("checkpoints", source))?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let step: Option<usize> = digits.and_then(|digits| digits.parse().ok());
        steps.extend(step);
    }
    steps.sort_unstable();
    Ok(steps)
}

/// Creates a checkpoint's folder atomically: what `fill` writes is renamed when it is complete.
pub(super) fn whole(
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unwritable = |source| Error::Unwritable { file: name.clone(), source };
    let partial = folder.with_file_name(format!(".{name}.partial"));
    remove(&partial).map_err(unwritable)?;
    fs::create_dir_all(&partial).map_err(unwritable)?;
    fill(&partial)?;
    remove(folder).map_err(unwritable)?;
    fs::rename(&partial, folder).map_err(unwritable)?;
    // The rename is durable once the parent folder is synchronised.
    let parent = folder.parent().map(File::open).transpose().map_err(unwritable)?;
    parent.map_or(Ok(()), |parent| parent.sync_all()).map_err(unwritable)
}

/// Removes a folder, if it exists.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a model folder without its weights.
pub(super) fn write_config(from: &Path, config: &Value, to: &Path) -> Result<(), Error> {
    write_json(to, "config.json", config)?;
    for file in TAKEN_OVER {
        let source = from.join(file);
        if source.exists() {
            fs::copy(&source, to.join(file)).map_err(|source| unwritable(file, source))?;
        }
    }
    Ok(())
}

/// Writes the weights of a model folder.
pub(super) fn write_weights(to: &Path, tensors: Vec<Written<'_>>) -> Result<(), Error> {
    write_tensors(to, WEIGHTS, tensors)
}

/// Writes the state that a training resumes from.
pub(super) fn write_state(
    to: &Path,
    state: &State,
    tensors: Vec<Written<'_>>,
) -> Result<(), Error> {
    write_tensors(to, STATE_TENSORS, tensors)?;
    let state = serde_json::to_value(state).map_err(|error| unwritable(STATE, error.into()))?;
    write_json(to, STATE, &state)
}

/// Reads the state that [`write_state`] wrote.
pub(super) fn read_state(from: &Path) -> Result<(State, BTreeMap<String, Vec<f32>>), Error> {
    let reader = FolderReader::new(from);
    let state: State = reader.json(STATE, "the state of a training")?;
    let bytes = reader.read(STATE_TENSORS, "the tensors of a training")?;
    let broken = |found: String| reader.broken(STATE_TENSORS, "32-bit floats", found);
    let tensors = SafeTensors::deserialize(&bytes).map_err(|error| broken(error.to_string()))?;
    let mut all = BTreeMap::new();
    for (name, view) in tensors.tensors() {
        if view.dtype() != Dtype::F32 {
            return Err(broken(format!("`{name}` in {:?}", view.dtype())));
        }
        let numbers = view.data().as_chunks::<4>().0.iter();
        all.insert(name, numbers.map(|number| f32::from_le_bytes(*number)).collect());
    }
    Ok((state, all))
}

/// Returns the error for a tensor of a state that has another length than its parameter.
pub(super) fn wrong_length(name: &str, expected: usize, found: usize) -> Error {
    Error::Broken {
        file: STATE_TENSORS.to_owned(),
        expected: format!("{expected} numbers of `{name}`"),
        found: found.to_string(),
    }
}

fn write_json(to: &Path, file: &str, value: &Value) -> Result<(), Error> {
    let text = format!("{value:#}\n");
    let write = || -> io::Result<()> {
        let mut out = File::create(to.join(file))?;
        out.write_all(text.as_bytes())?;
        out.sync_all()
    };
    write().map_err(|source| unwritable(file, source))
}

/// Writes a safetensors file: the length of its header, the header, and the tensors one after the
/// other.
fn write_tensors(to: &Path, file: &str, tensors: Vec<Written<'_>>) -> Result<(), Error> {
    let failed = |source| unwritable(file, source);
    let mut header = serde_json::Map::new();
    // Libraries of other languages require this entry.
    header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut start = 0;
    for Written { name, format, shape, .. } in &tensors {
        let end = start + shape.iter().product::<usize>() * format.bitsize() / 8;
        let format = format!("{format:?}");
        let place = json!({ "dtype": format, "shape": shape, "data_offsets": [start, end] });
        header.insert(name.clone(), place);
        start = end;
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    // Aligns numbers to multiples of their size.
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut out = BufWriter::new(File::create(to.join(file)).map_err(failed)?);
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    out.write_all(&header).map_err(failed)?;
    for tensor in tensors {
        out.write_all(&(tensor.bytes)()?).map_err(failed)?;
    }
    let out = out.into_inner().map_err(|error| failed(error.into_error()))?;
    out.sync_all().map_err(failed)
}

/// Returns the bytes of numbers in one of the formats of checkpoints.
pub(super) fn bytes(numbers: &[f32], format: Dtype) -> Vec<u8> {
    let all = numbers.iter();
    match format {
        Dtype::BF16 => all.flat_map(|number| bf16::from_f32(*number).to_le_bytes()).collect(),
        Dtype::F16 => all.flat_map(|number| f16::from_f32(*number).to_le_bytes()).collect(),
        _ => all.flat_map(|number| number.to_le_bytes()).collect(),
    }
}

/// Returns the bytes of a tensor as a checkpoint stores them.
pub(super) fn stored_bytes(data: TensorData) -> Vec<u8> {
    data.as_bytes().to_vec()
}

pub(super) fn unwritable(file: &str, source: io::Error) -> Error {
    Error::Unwritable { file: file.to_owned(), source }
}

fn unreadable(what: &str, source: io::Error) -> Error {
    Error::Unreadable { file: what.to_owned(), expected: "a folder".to_owned(), source }
}
