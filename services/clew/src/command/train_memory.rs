//! `clew train-memory`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::{Args, ValueEnum};
use clew_generator::config::DeviceChoice;
use clew_model::memory::training::{
    AdamW, Form, Layout, Rate, Step, Trained, Trainer, TrainerOptions, Training,
};
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::command::generate::language_model;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Arguments of `train-memory`. It takes the folder of a memory model or of a Qwen2 or Mistral, with its tokenizer, in
/// --model.
#[derive(Clone, Debug, Args)]
pub struct TrainMemoryArgs {
    /// Texts to learn from, which are cut, or files `.jsonl` of questions with `context`, `question` and `clues`, of
    /// which the clues are learnt; may be repeated.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub data: Vec<PathBuf>,
    /// Folder for checkpoints, each a whole model folder, and for the loss curve.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Steps in all.
    #[arg(long, value_name = "COUNT")]
    pub steps: usize,
    /// Highest learning rate.
    #[arg(long, default_value_t = 5e-5)]
    pub rate: f64,
    /// Raw tokens for each memory token, with commas between them; one is drawn for each window [default: those of
    /// the model, or 2,4,8].
    #[arg(long, value_delimiter = ',')]
    pub ratios: Vec<usize>,
    /// Tokens of a window [default: as the model has it, or 2048].
    #[arg(long, value_name = "TOKENS")]
    pub window: Option<usize>,
    /// Projections that memory tokens have of their own, some of qkvo [default: as the model has it, or qkv].
    #[arg(long, value_name = "LETTERS")]
    pub projections: Option<String>,
    /// What is trained.
    #[arg(long, value_enum, default_value = "memory")]
    pub train: TrainedChoice,
    /// Most tokens of a sequence: longer texts are cut, longer questions left out. Decides how much memory is needed.
    #[arg(long, default_value_t = 8192, value_name = "TOKENS")]
    pub max_tokens: usize,
    /// Sequences of a step.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub batch: usize,
    /// Steps in which the learning rate rises [default: a twentieth].
    #[arg(long, value_name = "STEPS")]
    pub warm_up: Option<usize>,
    /// Share of matrices that is taken away in a step at the learning rate 1.
    #[arg(long, default_value_t = 0.0)]
    pub decay: f64,
    /// Largest norm of gradients; 0: any.
    #[arg(long, default_value_t = 1.0)]
    pub clip: f64,
    /// Words and memory tokens among which gradients flow; fewer take less memory [default: all of a sequence].
    #[arg(long, value_name = "COUNT")]
    pub gradient_rows: Option<usize>,
    /// Steps between checkpoints; 0: one at the end.
    #[arg(long, default_value_t = 500, value_name = "STEPS")]
    pub checkpoint_every: usize,
    /// Checkpoints that are kept, the latest.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub checkpoints_kept: usize,
    /// Decides the order of sequences, and ratios.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// File that says how questions are written out: a text with {{context}}, {{question}} and {{clues}}.
    #[arg(long, value_name = "FILE")]
    pub form: Option<PathBuf>,
    /// Where to compute: `cpu`, or `cuda:0` in builds for GPUs.
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub device: DeviceChoice,
}

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrainedChoice {
    /// The parameters of memory tokens; everything else stays as it is.
    Memory,
    /// The base model, without a memory: to make a small one from scratch.
    All,
}

/// Share of the steps in which the learning rate rises, where none is told.
const WARM_UP: f64 = 0.05;

/// Trains; an interrupt (SIGINT) ends the step that is under way and writes a checkpoint, from which the same command
/// goes on.
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
    let layout = Layout { window, ratios, projections };
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
        rate: Rate { peak: arguments.rate, warm_up, steps },
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
    let folder = trainer.run(|step: &Step| {
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
