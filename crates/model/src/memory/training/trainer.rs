//! Trainer: runs the steps of a training, one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::prelude::*;
use safetensors::tensor::Dtype;
use serde_json::Value;

use super::adamw::Moments;
use super::curve::{Curve, TrainingStep};
use super::files::{self, State, Written};
use super::options::TrainerOptions;
use super::parameters::{self, Parameter, full_config};
use super::{Gradients, Sequences, Training};
use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::folder::reader::FolderReader;
use crate::memory::Ratios;

/// Training in a folder of its own, which resumes from its latest checkpoint there.
///
/// | in the folder             | content                                                         |
/// |---------------------------|-----------------------------------------------------------------|
/// | `step-…/`                 | a whole model folder after that step, and state to resume from  |
/// | `curve.jsonl`, `curve.svg`| the loss of every step so far                                   |
///
/// A training that was stopped and resumed ends where it would have ended, bit for bit on one
/// machine.
pub struct Trainer {
    training: Training,
    sequences: Sequences,
    ratios: Ratios,
    state: State,
    /// Moments of each trained parameter, in order; `None` before its first gradient.
    moments: Vec<Option<Moments>>,
    /// Epoch, and the order of the sequences in it.
    order: Option<(usize, Vec<usize>)>,
    out: PathBuf,
    curve: Curve,
}

impl Trainer {
    /// Opens a training in the folder `out`, and creates the folder if it does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Untrainable`] if no training is possible with the options, or if the folder
    /// holds another training. Returns [`Error::Unreadable`], [`Error::Broken`] or
    /// [`Error::Unwritable`] if a file cannot be read or written.
    pub fn open(
        training: Training,
        sequences: Sequences,
        options: TrainerOptions,
        out: &Path,
    ) -> Result<Self, Error> {
        let ratios = options.check(training.settings().window)?;
        if sequences.all().is_empty() {
            let expected = "sequences to learn from".to_owned();
            return Err(Error::Untrainable { expected, found: "none".to_owned() });
        }
        let model = training.model.fingerprint().to_owned();
        let state = State::new(training.trained, options, model, digest(&sequences));
        fs::create_dir_all(out).map_err(|source| files::unwritable("the folder", source))?;
        let moments = training.parameters.trained().map(|_| None).collect();
        let latest = files::steps(out)?.pop();
        let saved = latest.map(|step| files::read_state(&files::folder(out, step))).transpose()?;
        // Checks first, so that the curve of another training stays as it is.
        saved.iter().try_for_each(|(saved, _)| state.check(saved))?;
        let curve = Curve::open(out, latest.unwrap_or(0))?;
        let out = out.to_path_buf();
        let order = None;
        let mut trainer = Self { training, sequences, ratios, state, moments, order, out, curve };
        if let Some((state, tensors)) = saved {
            trainer.take_over(state, tensors)?;
        }
        Ok(trainer)
    }

    /// Returns the number of steps done.
    pub fn done(&self) -> usize {
        self.state.step
    }

    /// Returns the loss of every step.
    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    /// Runs the steps that are left, calls `goes_on` after each, and stops early if it returns
    /// false. Returns the folder of the latest checkpoint.
    ///
    /// # Errors
    /// Returns the errors of [`Trainer::step`], and [`Error::Unwritable`] if a checkpoint cannot be
    /// written.
    pub fn run(
        &mut self,
        mut goes_on: impl FnMut(&TrainingStep) -> bool,
    ) -> Result<PathBuf, Error> {
        let TrainerOptions { rate, checkpoint_every, .. } = self.state.options;
        while self.state.step < rate.steps {
            let is_enough = !goes_on(&self.step()?);
            let is_due = checkpoint_every > 0 && self.state.step.is_multiple_of(checkpoint_every);
            if is_due || is_enough || self.state.step == rate.steps {
                self.save()?;
            }
            if is_enough {
                break;
            }
        }
        self.curve.draw()?;
        Ok(files::folder(&self.out, self.state.step))
    }

    /// Runs the next step.
    ///
    /// # Errors
    /// Returns the errors of [`Training::gradients`].
    pub fn step(&mut self) -> Result<TrainingStep, Error> {
        let began = Instant::now();
        let step = self.state.step + 1;
        let TrainerOptions { rate, batch, rows, .. } = self.state.options;
        let mut gradients: Option<Gradients> = None;
        let mut tokens = 0;
        for at in self.state.step * batch..step * batch {
            let which = self.sequence(at);
            let sequence = &self.sequences.all()[which];
            let seed = fastrand::Rng::with_seed(self.state.options.seed ^ at as u64).u64(..);
            let schedule = self.ratios.schedule(seed);
            tokens += sequence.tokens().len();
            let more = self.training.gradients(sequence, schedule, rows)?;
            match &mut gradients {
                None => gradients = Some(more),
                Some(gradients) => gradients.add(more),
            }
        }
        let expected = "at least one sequence of a step".to_owned();
        let gradients =
            gradients.ok_or_else(|| Error::Untrainable { expected, found: "none".to_owned() })?;
        let loss = gradients.mean_loss();
        let rate = rate.at(step);
        let norm = self.change(gradients, step, rate)?;
        self.state.step = step;
        let seconds = began.elapsed().as_secs_f64();
        let point = TrainingStep { step, loss, rate, norm, tokens, seconds };
        self.curve.add(point.clone())?;
        Ok(point)
    }

    /// Returns the index of the sequence numbered `at`. Each epoch reads all sequences in a new
    /// order.
    fn sequence(&mut self, at: usize) -> usize {
        let count = self.sequences.all().len();
        let (round, at) = (at / count, at % count);
        if self.order.as_ref().is_none_or(|(known, _)| *known != round) {
            let mut order: Vec<usize> = (0..count).collect();
            let seed = self.state.options.seed.wrapping_add(round as u64);
            fastrand::Rng::with_seed(seed).shuffle(&mut order);
            self.order = Some((round, order));
        }
        self.order.as_ref().map_or(0, |(_, order)| order[at])
    }

    /// Changes the parameters by their gradients, and returns the norm of the gradients.
    fn change(&mut self, gradients: Gradients, step: usize, rate: f64) -> Result<f64, Error> {
        let adamw = self.state.options.adamw;
        let mut squares = 0.0;
        for gradient in gradients.by_parameter.iter().filter_map(|(_, gradient)| gradient.as_ref())
        {
            let sum = parameters::values(&gradient.clone().square().sum())?;
            squares += sum.into_iter().map(f64::from).sum::<f64>();
        }
        let norm = squares.sqrt();
        if !norm.is_finite() {
            return Err(Error::Device { reason: format!("gradients of norm {norm}") });
        }
        let scale = adamw.scale(norm);
        let all = self.training.parameters.trained_mut().zip(&mut self.moments);
        for ((parameter, moments), (_, gradient)) in all.zip(gradients.by_parameter) {
            let Some(gradient) = gradient else { continue };
            let before = parameter.leaf.clone().inner();
            let moments = moments.get_or_insert_with(|| Moments::of(&before));
            let is_matrix = parameter.shape.len() > 1;
            let gradient = gradient.mul_scalar(scale);
            let after = adamw.step(before, gradient, moments, step, rate, is_matrix);
            parameter.set(after);
        }
        Ok(norm)
    }

    /// Writes a checkpoint, draws the curve, and removes old checkpoints.
    ///
    /// # Errors
    /// Returns [`Error::Unwritable`] if a file cannot be written, and [`Error::Device`] if the
    /// device fails.
    pub fn save(&self) -> Result<(), Error> {
        let folder = files::folder(&self.out, self.state.step);
        files::whole(&folder, |folder| {
            self.training.write(folder)?;
            files::write_state(folder, &self.state, self.tensors()?)
        })?;
        self.curve.draw()?;
        let steps = files::steps(&self.out)?;
        let old = steps.len().saturating_sub(self.state.options.checkpoints_kept);
        for step in &steps[..old] {
            let folder = files::folder(&self.out, *step);
            files::remove(&folder).map_err(|source| files::unwritable("a checkpoint", source))?;
        }
        Ok(())
    }

    /// Returns the tensors that a training resumes from: the parameters in full precision, and
    /// their moments.
    fn tensors(&self) -> Result<Vec<Written<'_>>, Error> {
        let mut tensors = Vec::new();
        for (parameter, moments) in self.training.parameters.trained().zip(&self.moments) {
            let mut add = |what: &str, numbers: &Tensor<1>| {
                let numbers = numbers.clone().inner();
                tensors.push(Written {
                    name: format!("{what}.{}", parameter.name),
                    format: Dtype::F32,
                    shape: vec![parameter.size()],
                    bytes: Box::new(move || {
                        Ok(files::bytes(&parameters::values(&numbers)?, Dtype::F32))
                    }),
                });
            };
            add("parameter", &parameter.leaf);
            if let Some(Moments { mean, square }) = moments {
                add("mean", mean);
                add("square", square);
            }
        }
        Ok(tensors)
    }

    /// Resumes from a checkpoint.
    ///
    /// # Errors
    /// Returns [`Error::TensorNames`] if a parameter is missing, and [`Error::Broken`] if a tensor
    /// has another length than its parameter.
    fn take_over(
        &mut self,
        state: State,
        mut tensors: BTreeMap<String, Vec<f32>>,
    ) -> Result<(), Error> {
        let mut take = |what: &str, parameter: &Parameter| {
            let name = format!("{what}.{}", parameter.name);
            let Some(numbers) = tensors.remove(&name) else { return Ok(None) };
            if numbers.len() != parameter.size() {
                return Err(files::wrong_length(&name, parameter.size(), numbers.len()));
            }
            let device = parameter.leaf.device().inner();
            let data = TensorData::new(numbers, [parameter.size()]);
            Ok(Some(Tensor::<1>::from_data(data, &device)))
        };
        let all = self.training.parameters.trained_mut().zip(&mut self.moments);
        for (parameter, moments) in all {
            let numbers = take("parameter", parameter)?;
            *moments = match (take("mean", parameter)?, take("square", parameter)?) {
                (Some(mean), Some(square)) => Some(Moments { mean, square }),
                _ => None,
            };
            parameter.set(numbers.ok_or_else(|| parameters::unknown(&parameter.name))?);
        }
        self.state = state;
        Ok(())
    }
}

impl Training {
    /// Writes the current model into the folder `to`, which exists, in the layout of published
    /// models.
    ///
    /// Numbers are in the format that the model began with.
    ///
    /// # Errors
    /// Returns [`Error::Unwritable`] if a file cannot be written, and [`Error::Unreadable`] if the
    /// model that it began from no longer exists.
    pub fn write(&self, to: &Path) -> Result<(), Error> {
        let reader = FolderReader::new(&self.folder);
        let config: Value = match &self.config {
            Some(config) => config.clone(),
            None => reader.json("config.json", "a configuration")?,
        };
        files::write_config(&self.folder, &config, to)?;
        let checkpoint = Checkpoint::open(&reader)?;
        let format = checkpoint.format("model.embed_tokens.weight")?;
        // A base model that is trained as such gets no memory tokens.
        let config = match checkpoint.has(|name| name.contains("beacon_")) {
            false if self.trained == super::Trained::All => {
                let memory = None;
                crate::decoder::config::DecoderConfig { memory, ..self.model.layers.config.clone() }
            }
            _ => full_config(&self.model.layers.config),
        };
        let mut tensors = Vec::new();
        for wanted in config.parameters() {
            let own = self.parameters.trained().find(|parameter| parameter.name == wanted.name);
            let name = wanted.name.clone();
            let checkpoint = &checkpoint;
            tensors.push(Written {
                format: match own {
                    Some(_) => format,
                    None => checkpoint.format(&wanted.name)?,
                },
                name: wanted.name,
                shape: wanted.shape,
                bytes: match own {
                    Some(own) => Box::new(move || {
                        Ok(files::bytes(&parameters::values(&own.leaf.clone().inner())?, format))
                    }),
                    None => Box::new(move || Ok(files::stored_bytes(checkpoint.read(&[name])?))),
                },
            });
        }
        files::write_weights(to, tensors)
    }
}

/// Returns a hash of all sequences.
fn digest(sequences: &Sequences) -> String {
    let mut hash = blake3::Hasher::new();
    for sequence in sequences.all() {
        hash.update(&(sequence.tokens.len() as u64).to_le_bytes());
        for (token, counted) in sequence.tokens.iter().zip(&sequence.counted) {
            hash.update(&token.to_le_bytes()).update(&[u8::from(*counted)]);
        }
    }
    hash.finalize().to_hex()[..32].to_owned()
}
