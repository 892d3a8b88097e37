//! Command `clew train-memory`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::{Args, ValueEnum};
use clew_generator::config::DeviceChoice;
use clew_model::memory::training::{
    AdamW, Form, LearningRate, MemoryTokenLayout, Trained, Trainer, TrainerOptions, Training,
    TrainingStep,
};
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::command::generate::language_model;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Arguments of `train-memory`. The global `--model` names the folder of a memory model, or of a
/// Qwen2 or Mistral, with its tokenizer.
#[derive(Clone, Debug, Args)]
pub struct TrainMemoryArgs {
    /// Texts to learn from, which are cut, or `.jsonl` files of questions with `context`,
    /// `question` and `clues`, of which the clues are learnt; may be repeated.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub data: Vec<PathBuf>,
    /// Folder for checkpoints, each a whole model folder, and for the loss curve.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Number of steps in all.
    #[arg(long, value_name = "COUNT")]
    pub steps: usize,
    /// Highest learning rate.
    #[arg(long, default_value_t = 5e-5)]
    pub rate: f64,
    /// Numbers of raw tokens for each memory token, with commas between them. One is drawn for each
    /// window [default: those of the model, or 2,4,8].
    #[arg(long, value_delimiter = ',')]
    pub ratios: Vec<usize>,
    /// Number of tokens of a window [default: that of the model, or 2048].
    #[arg(long, value_name = "TOKENS")]
    pub window: Option<usize>,
    /// Projections that memory tokens have of their own, some of qkvo [default: those of the model,
    /// or qkv].
    #[arg(long, value_name = "LETTERS")]
    pub projections: Option<String>,
    /// Parameters to train.
    #[arg(long, value_enum, default_value = "memory")]
    pub train: TrainedChoice,
    /// Maximum number of tokens of a sequence: longer texts are cut, longer questions left out.
    /// Decides how much memory is needed.
    #[arg(long, default_value_t = 8192, value_name = "TOKENS")]
    pub max_tokens: usize,
    /// Number of sequences in a step.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub batch: usize,
    /// Number of steps in which the learning rate rises [default: a twentieth].
    #[arg(long, value_name = "STEPS")]
    pub warm_up: Option<usize>,
    /// Weight decay: share of the matrices that a step subtracts at the learning rate 1.
    #[arg(long, default_value_t = 0.0)]
    pub decay: f64,
    /// Maximum norm of gradients; 0 means any.
    #[arg(long, default_value_t = 1.0)]
    pub clip: f64,
    /// Number of words and memory tokens among which gradients flow; fewer take less memory
    /// [default: all of a sequence].
    #[arg(long, value_name = "COUNT")]
    pub gradient_rows: Option<usize>,
    /// Number of steps between checkpoints; 0 means one at the end.
    #[arg(long, default_value_t = 500, value_name = "STEPS")]
    pub checkpoint_every: usize,
    /// Number of latest checkpoints that are kept.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub checkpoints_kept: usize,
    /// Seed of the order of sequences, and of the ratios.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// File that says how questions are written out: a text with {{context}}, {{question}} and
    /// {{clues}}.
    #[arg(long, value_name = "FILE")]
    pub form: Option<PathBuf>,
    /// Device to compute on: `cpu`, or in builds for GPUs `cuda:0` or `vulkan:0`.
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub device: DeviceChoice,
}

/// Parameters to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrainedChoice {
    /// Parameters of memory tokens; everything else stays as it is.
    Memory,
    /// Base model without a memory, to make a small one from scratch.
    All,
}

/// Default share of the steps in which the learning rate rises.
const WARM_UP: f64 = 0.05;

/// Trains. An interrupt (SIGINT) ends the current step and writes a checkpoint, from which the same
/// command continues.
pub async fn run(
    global: &GlobalArgs,
    arguments: TrainMemoryArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let model = language_model(global)?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_stopped);
    let mut trained = tokio::task::spawn_blocking(move || train(&model, &arguments, &is_stopped));
    let trained = tokio::select! {
        trained = &mut trained => trained?,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("no signal handler could be set")?;
            stop.store(true, Ordering::Relaxed);
            trained.await?
        }
    };
    output.print(&trained?, text)
}

fn train(
    model: &std::path::Path,
    arguments: &TrainMemoryArgs,
    is_stopped: &AtomicBool,
) -> anyhow::Result<Value> {
    let trained = match arguments.train {
        TrainedChoice::Memory => Trained::Memory,
        TrainedChoice::All => Trained::All,
    };
    let TrainMemoryArgs { window, ratios, projections, .. } = arguments.clone();
    let projections = projections.map(|parts| parts.chars().collect());
    let ratios = (!ratios.is_empty()).then_some(ratios);
    let layout = MemoryTokenLayout { window, ratios, projections };
    let training = Training::load(model, arguments.device, trained, &layout)?;
    let form = match &arguments.form {
        None => Form::default(),
        Some(file) => Form::try_new(&output::read(file)?)?,
    };
    let sequences = training.sequences(&arguments.data, arguments.max_tokens, &form)?;
    let (count, tokens, left_out) = (sequences.all().len(), sequences.tokens(), sequences.left_out);
    let steps = arguments.steps;
    let warm_up = arguments.warm_up.unwrap_or((steps as f64 * WARM_UP).ceil() as usize);
    let ratios = training.settings().ratios.all().to_vec();
    let options = TrainerOptions {
        rate: LearningRate { peak: arguments.rate, warm_up, steps },
        adamw: AdamW { decay: arguments.decay, clip: arguments.clip, ..AdamW::default() },
        batch: arguments.batch,
        rows: arguments.gradient_rows.unwrap_or(usize::MAX),
        seed: arguments.seed,
        checkpoint_every: arguments.checkpoint_every,
        checkpoints_kept: arguments.checkpoints_kept,
        ..TrainerOptions::new(steps, arguments.rate, ratios)
    };
    let mut trainer = Trainer::open(training, sequences, options, &arguments.out)?;
    let resumed = trainer.done();
    let mut progress = Progress::new("training");
    let folder = trainer.run(|step: &TrainingStep| {
        let message = format!("loss {:.4}", step.loss);
        progress.set(step.step as u64, steps as u64, &message);
        !is_stopped.load(Ordering::Relaxed)
    })?;
    progress.finish();
    let points = trainer.curve().points();
    Ok(json!({
        "model": folder,
        "steps": trainer.done(),
        "of": steps,
        "resumed_from": resumed,
        "sequences": count,
        "tokens": tokens,
        "left_out": left_out,
        "first_loss": points.first().map(|point| point.loss),
        "last_loss": points.last().map(|point| point.loss),
    }))
}

fn text(trained: &Value) -> String {
    let mut text = String::new();
    for (name, value) in trained.as_object().into_iter().flatten() {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}: {value}", name.replace('_', " "));
    }
    text
}
