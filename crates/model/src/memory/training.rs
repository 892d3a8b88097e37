//! Training of memory models: Qian et al., "MemoRAG: Moving towards Next-Gen RAG Via Memory-Inspired Knowledge
//! Discovery", section 2.2.
//!
//! Trained are the parameters of memory tokens: their embedding, and their projections with the biases. The model
//! that they are added to stays as it is. What is lowered is the cross-entropy of words that follow what is in memory,
//! first in long texts, then in the clues to questions about them.
//!
//! ```text
//! texts, {context, question, clues} ─► Sequences ─► Trainer ─► Training ─► gradients ─► AdamW ─┐
//!                                                      ▲          ▲                            │
//!                                                      │          └──── new parameters ◄───────┘
//!                                                      └─► checkpoints, loss curve
//! ```
//!
//! Deviations from the published code, each for want of what the paper says: the learning rate of long texts is the
//! caller's to choose; ratios are drawn for each window by a seed, so that a training that goes on after a break draws
//! what it would have drawn.

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
use super::{MemoryModel, Pass, Reading, Schedule, Uncompressed};
use crate::decoder::Wanted;
use crate::decoder::cores::Cores;
use crate::folder::TOKENIZER;
use crate::folder::reader::FolderReader;
use crate::{DeviceChoice, Error, device};

pub use adamw::{AdamW, Rate};
pub use curve::{Curve, Point};
pub use data::{Form, Sequences};
pub use gradients::Gradients;
pub use options::{Layout, Trained, TrainerOptions};
pub use sequence::Sequence;
pub use trainer::{Step, Trainer};

/// A model in training on one device, in 32-bit floats.
///
/// It needs memory for the parameters that are trained four times over, for those that are not once, and for what is
/// computed in all layers for as many rows as gradients flow through ([`Training::gradients`]); its sequences are to be
/// cut accordingly.
pub struct Training {
    model: MemoryModel,
    parameters: Parameters,
    trained: Trained,
    /// What it was loaded from, and with which configuration, if that is another.
    folder: PathBuf,
    config: Option<Value>,
}

impl Training {
    /// Loads a model folder in Hugging Face layout, of a memory model or of one that is to become one: then its memory
    /// tokens begin as copies.
    ///
    /// # Errors
    /// As [`MemoryModel::load`], and [`Error::Unsupported`] for a layout that the model cannot have.
    pub fn load(
        folder: &Path,
        choice: DeviceChoice,
        trained: Trained,
        layout: &Layout,
    ) -> Result<Self, Error> {
        let mut reader = FolderReader::new(folder);
        let mut config = None;
        // A base model that is trained as such stays one.
        if trained == Trained::Memory {
            let own = reader.json("config.json", "a configuration")?;
            let own = config.insert(layout.written_to(own));
            reader = reader.with("config.json", own.clone());
        }
        let (device, dtype) = device::open_for(choice, crate::Precision::Float32)?;
        // One core: the order in which several would add up their gradients is not theirs to keep.
        let mut model = MemoryModel::load_on(&reader, &device.autodiff(), dtype, &Cores::one())?;
        let parameters = Parameters::of(&mut model, trained);
        Ok(Self { model, parameters, trained, folder: folder.to_path_buf(), config })
    }

    /// Reads what to learn from: text files, which are cut into sequences of at most `longest` tokens, and files that
    /// end with `.jsonl`, of lines with `context`, `question` and `clues`, which are written out in `form` and left out
    /// where they are longer. Sequences in which nothing would be compressed are left out, too. All of them are kept in
    /// memory.
    ///
    /// # Errors
    /// [`Error::Unreadable`] and [`Error::Broken`] for files, the tokenizer's among them; [`Error::Untrainable`] where
    /// nothing is left.
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

    /// The layout of memory tokens.
    pub fn settings(&self) -> &super::MemorySettings {
        self.model.settings()
    }

    /// Names of the parameters that are trained, and how many numbers each has.
    pub fn trained(&self) -> Vec<(String, usize)> {
        let trained = self.parameters.trained();
        trained.map(|parameter| (parameter.name.clone(), parameter.size())).collect()
    }

    /// The mean cross-entropy of a sequence's labels, and its gradients, which flow back through the keys and values of
    /// memory tokens into the windows that they are of.
    ///
    /// `schedule` says how each window is compressed; the last window, full or not, is not, as nothing follows it. With
    /// [`Trained::All`] no window is.
    ///
    /// Gradients flow among windows of about `rows` words and memory tokens at a time: what is computed for those is
    /// kept until the way back, about `layers * rows * (12 hidden + 6 intermediate + 3 heads * slots seen)` numbers, and
    /// the logits of their labels three times. Beyond `rows`, memory is read as it is. So `rows` of at least the longest
    /// sequence and its memory tokens gives the gradient of all; fewer leave out what a window's memory tokens do for
    /// windows of a later pass.
    ///
    /// # Errors
    /// [`Error::ForeignTokens`]; [`Error::Device`] for a loss that is not finite.
    pub fn gradients(
        &mut self,
        sequence: &Sequence,
        schedule: Schedule,
        rows: usize,
    ) -> Result<Gradients, Error> {
        let names = self.parameters.trained().map(|parameter| (parameter.name.clone(), None));
        let labels = sequence.labels();
        let mut all = Gradients { loss: 0.0, labels, by_parameter: names.collect() };
        self.passes(sequence, schedule, rows, |parameters, loss| {
            all.loss += value(&loss)?;
            // A pass of which no parameter has a part, such as a first window that nothing follows, has no way back.
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

    /// The sum of the cross-entropies of a sequence's labels, and their number, without a way back.
    ///
    /// # Errors
    /// As [`Training::gradients`].
    pub fn loss(
        &mut self,
        sequence: &Sequence,
        schedule: Schedule,
        rows: usize,
    ) -> Result<(f64, usize), Error> {
        let mut sum = 0.0;
        self.passes(sequence, schedule, rows, |_, loss| {
            sum += value(&loss)?;
            Ok(())
        })?;
        Ok((sum, sequence.labels()))
    }

    /// Reads a sequence, and calls `each` with the sum of the cross-entropies of every pass that has labels.
    fn passes(
        &mut self,
        sequence: &Sequence,
        schedule: Schedule,
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
        let (tokens, wanted) = (sequence.tokens.as_slice(), Wanted::All);
        self.model.check(&Reading { memory: &mut memory, tokens, wanted })?;
        let mut rest = sequence.tokens.as_slice();
        while !rest.is_empty() {
            // What a way back has used is gone, so each pass has parameters of its own.
            self.parameters.put_into(&mut self.model);
            let model = &self.model;
            let read = sequence.tokens.len() - rest.len();
            let begin = memory.extent.sink + memory.extent.memory;
            let mut pass = Pass { of: 0, begin, rows: Vec::new(), wanted: Wanted::All };
            pass.take(&mut memory.extent, &mut rest, rows, model.memory_id(), &model.settings);
            let growing = memory.layers.iter().map(|layer| layer.begin(&model.layers));
            let mut growing = vec![growing.collect()];
            let passes = [pass];
            let states = model.forward(&passes, &mut growing);
            for (layer, growing) in memory.layers.iter_mut().zip(growing.into_iter().flatten()) {
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

/// The sum over `logits` `[rows, vocabulary]` of what each row's label is off, in nats.
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
