//! Training of memory models: Qian et al., "MemoRAG: Moving towards Next-Gen RAG Via
//! Memory-Inspired Knowledge Discovery", section 2.2.
//!
//! Training changes the parameters of memory tokens: their embedding, and their projections with
//! the biases. The model that they are added to stays as it is. ([`Trained::All`] trains a base
//! model instead.) Training lowers the cross-entropy of words that follow the compressed memory,
//! first in long texts, then in the clues to questions about them.
//!
//! ```text
//! texts, {context, question, clues} ─► Sequences ─► Trainer ─► Training ─► gradients ─► AdamW ─┐
//!                                                      ▲          ▲                            │
//!                                                      │          └──── new parameters ◄───────┘
//!                                                      └─► checkpoints, loss curve
//! ```
//!
//! There are two deviations from the published code, where the paper is silent. The caller chooses
//! the learning rate for long texts. Ratios are drawn for each window from a seed, so that a
//! resumed training draws what it would have drawn.

mod adamw;
mod curve;
mod data;
mod files;
mod gradients;
mod options;
mod parameters;
mod sequence;
mod trainer;

use std::path::{Path, PathBuf};

use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::log_softmax;
use clew_tokenizer::TextTokenizer;
use serde_json::Value;

use self::data::Making;
use self::gradients::added;
use self::parameters::Parameters;
use super::cache::Growing;
use super::{MemoryInput, MemoryModel, Pass, RatioSchedule, Uncompressed};
use crate::decoder::WantedLogits;
use crate::decoder::cores::Cores;
use crate::folder::TOKENIZER;
use crate::folder::reader::FolderReader;
use crate::{DeviceChoice, Error, device};

pub use adamw::{AdamW, LearningRate};
pub use curve::{Curve, TrainingStep};
pub use data::{Form, Sequences};
pub use gradients::Gradients;
pub use options::{MemoryTokenLayout, Trained, TrainerOptions};
pub use sequence::TrainingSequence;
pub use trainer::Trainer;

/// Model in training on one device, in 32-bit floats.
///
/// It needs memory for four times the parameters that are trained, for the other parameters once,
/// and for the intermediate results of all layers for as many rows as gradients flow through
/// ([`Training::gradients`]). Cut the sequences accordingly.
pub struct Training {
    model: MemoryModel,
    parameters: Parameters,
    trained: Trained,
    /// Folder that it was loaded from, and the configuration, if that is not the folder's.
    folder: PathBuf,
    config: Option<Value>,
}

impl Training {
    /// Loads a model folder in Hugging Face layout: of a memory model, or of a base model that is
    /// to become one. The memory tokens of a base model begin as copies.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryModel::load`], and [`Error::Unsupported`] if the model cannot
    /// have the layout.
    pub fn load(
        folder: &Path,
        choice: DeviceChoice,
        trained: Trained,
        layout: &MemoryTokenLayout,
    ) -> Result<Self, Error> {
        let mut reader = FolderReader::new(folder);
        let mut config = None;
        // A base model that is trained as such stays a base model.
        if trained == Trained::Memory {
            let own = reader.json("config.json", "a configuration")?;
            let own = config.insert(layout.written_to(own));
            reader = reader.with("config.json", own.clone());
        }
        let (device, dtype) = device::open_for(choice, crate::Precision::Float32)?;
        // One core: with several, the order in which gradients are added would differ between runs.
        let mut model = MemoryModel::load_on(&reader, &device.autodiff(), dtype, &Cores::one())?;
        let parameters = Parameters::of(&mut model, trained);
        Ok(Self { model, parameters, trained, folder: folder.to_path_buf(), config })
    }

    /// Reads training data. Text files are cut into sequences of at most `longest` tokens. Files
    /// that end with `.jsonl` have lines with `context`, `question` and `clues`, which are written
    /// out in `form`. A question that is longer than `longest` is left out, and so is a sequence in
    /// which nothing would be compressed. All sequences are kept in memory.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] or [`Error::Broken`] if a file, such as the tokenizer's,
    /// cannot be read or is invalid, and [`Error::Untrainable`] if no sequence is left.
    pub fn sequences(
        &self,
        files: &[PathBuf],
        longest: usize,
        form: &Form,
    ) -> Result<Sequences, Error> {
        let reader = FolderReader::new(&self.folder);
        let bytes = reader.read(TOKENIZER, "the tokenizer of the model")?;
        let tokenizer = TextTokenizer::try_new(TOKENIZER, &bytes)?;
        let end = self.model.ends().first().copied();
        let largest = tokenizer.largest_id().max(end.unwrap_or(0));
        if largest as usize >= self.model.vocabulary() {
            let expected = format!("ids below {}, the model's", self.model.vocabulary());
            return Err(reader.broken(TOKENIZER, &expected, largest));
        }
        let longer_than = match self.trained {
            Trained::Memory => self.model.settings.window,
            Trained::All => 1,
        };
        let tokenizer = &tokenizer;
        Sequences::read(files, &Making { tokenizer, end, longest, longer_than, form })
    }

    /// Returns the layout of memory tokens.
    pub fn settings(&self) -> &super::MemoryModelSettings {
        self.model.settings()
    }

    /// Returns the names of the parameters that are trained, and how many numbers each has.
    pub fn trained(&self) -> Vec<(String, usize)> {
        let trained = self.parameters.trained();
        trained.map(|parameter| (parameter.name.clone(), parameter.size())).collect()
    }

    /// Returns the mean cross-entropy of a sequence's labels, and its gradients. Gradients flow
    /// back through the keys and values of memory tokens into the windows of these tokens.
    ///
    /// `schedule` says how each window is compressed. The last window, full or not, is not
    /// compressed, because nothing follows it. With [`Trained::All`] no window is compressed.
    ///
    /// Gradients flow among windows of about `rows` words and memory tokens at a time. Their
    /// intermediate results are kept for the backward pass: about
    /// `layers * rows * (12 hidden + 6 intermediate + 3 heads * slots seen)` numbers, and three
    /// times the logits of their labels. Memory from before these rows is a constant. So if `rows`
    /// is at least the longest sequence with its memory tokens, the gradient is complete. A smaller
    /// number leaves out the effect of a window's memory tokens on windows of a later pass.
    ///
    /// # Errors
    /// Returns [`Error::ForeignTokens`] or [`Error::OptionUnavailable`] if the model cannot read
    /// the tokens or the ratios, and [`Error::Device`] if the loss is not finite.
    pub fn gradients(
        &mut self,
        sequence: &TrainingSequence,
        schedule: RatioSchedule,
        rows: usize,
    ) -> Result<Gradients, Error> {
        let names = self.parameters.trained().map(|parameter| (parameter.name.clone(), None));
        let labels = sequence.labels();
        let mut all = Gradients { loss: 0.0, labels, by_parameter: names.collect() };
        self.passes(sequence, schedule, rows, |parameters, loss| {
            all.loss += value(&loss)?;
            // A pass on which no trained parameter has an effect, such as a first window that
            // nothing follows, has no backward pass.
            if loss.is_tracked() {
                let mut gradients = loss.div_scalar(labels as f64).backward();
                for ((_, sum), parameter) in all.by_parameter.iter_mut().zip(parameters.trained()) {
                    *sum = added(sum.take(), parameter.leaf.grad_remove(&mut gradients));
                }
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns the sum of the cross-entropies of a sequence's labels, and their number, without
    /// gradients.
    ///
    /// # Errors
    /// Returns the errors of [`Training::gradients`].
    pub fn loss(
        &mut self,
        sequence: &TrainingSequence,
        schedule: RatioSchedule,
        rows: usize,
    ) -> Result<(f64, usize), Error> {
        let mut sum = 0.0;
        self.passes(sequence, schedule, rows, |_, loss| {
            sum += value(&loss)?;
            Ok(())
        })?;
        Ok((sum, sequence.labels()))
    }

    /// Reads a sequence, and calls `each` with the summed cross-entropy of every pass that has
    /// labels.
    fn passes(
        &mut self,
        sequence: &TrainingSequence,
        schedule: RatioSchedule,
        rows: usize,
        mut each: impl FnMut(&Parameters, Tensor<1>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let from = match self.trained {
            Trained::Memory => {
                let window = self.model.settings.window;
                sequence.tokens.len().saturating_sub(1) / window * window
            }
            Trained::All => 0,
        };
        let uncompressed = Uncompressed { first: 0, from: Some(from) };
        let mut memory = self.model.memory_beside(schedule, uncompressed);
        let (tokens, wanted) = (sequence.tokens.as_slice(), WantedLogits::All);
        self.model.check(&MemoryInput { memory: &mut memory, tokens, wanted })?;
        let mut rest = sequence.tokens.as_slice();
        while !rest.is_empty() {
            // A backward pass consumes its graph, so each pass needs parameter tensors of its own.
            self.parameters.put_into(&mut self.model);
            let model = &self.model;
            let read = sequence.tokens.len() - rest.len();
            let begin = memory.extent.sink + memory.extent.memory;
            let pass_rows = model.next_pass(&mut memory.extent, &mut rest, rows);
            let pass = Pass { of: 0, begin, rows: pass_rows, wanted: WantedLogits::All };
            let growing = memory.layers.iter().map(|layer| layer.begin(&model.layers));
            let mut growing: Vec<Growing> = growing.collect();
            let passes = [pass];
            let states = model.forward(&passes, &mut |_, layer, window| {
                growing[layer].attend(&model.layers, window)
            });
            for (layer, growing) in memory.layers.iter_mut().zip(growing) {
                layer.end(growing);
                layer.detach();
            }
            let words = model.wanted(&passes).into_iter().map(|(row, _)| row);
            let labelled = words
                .zip(read + 1..)
                .filter(|(_, next)| sequence.counted.get(*next).copied().unwrap_or(false));
            let (words, next): (Vec<i64>, Vec<usize>) = labelled.unzip();
            if !words.is_empty() {
                let labels = next.into_iter().map(|at| i64::from(sequence.tokens[at])).collect();
                let logits = model.head_of(states, words);
                each(&self.parameters, cross_entropy(logits, labels))?;
            }
        }
        Ok(())
    }
}

/// Returns the sum of the cross-entropies of the rows of `logits` `[rows, vocabulary]` and their
/// labels, in nats.
fn cross_entropy(logits: Tensor<2>, labels: Vec<i64>) -> Tensor<1> {
    let [rows, _] = logits.dims();
    let device = logits.device();
    let labels = Tensor::<2, Int>::from_data(TensorData::new(labels, [rows, 1]), &device);
    log_softmax(logits.cast(DType::F32), 1).gather(1, labels).sum().neg()
}

fn value(loss: &Tensor<1>) -> Result<f64, Error> {
    match parameters::values(&loss.clone().inner())?.as_slice() {
        [value] if value.is_finite() => Ok(f64::from(*value)),
        other => Err(Error::Device { reason: format!("a loss of {other:?}") }),
    }
}
