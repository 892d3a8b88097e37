//! `clew train-memory`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clew_model::memory::training::{
    AdamW, Form, Layout, Rate, Step, Trained, Trainer, TrainerOptions, Training,
};
use serde_json::{Value, json};

use crate::cli::{Shared, TrainMemory, TrainedChoice};
use crate::command::generate::language_model;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Share of the steps in which the learning rate rises, where none is told.
const WARM_UP: f64 = 0.05;

/// Trains; an interrupt (SIGINT) ends the step that is under way and writes a checkpoint, from which the same command
/// goes on.
pub async fn run(shared: &Shared, arguments: TrainMemory, output: &Output) -> anyhow::Result<()> {
    let model = language_model(shared)?;
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
    arguments: &TrainMemory,
    is_stopped: &AtomicBool,
) -> anyhow::Result<Value> {
    let trained = match arguments.train {
        TrainedChoice::Memory => Trained::Memory,
        TrainedChoice::All => Trained::All,
    };
    let TrainMemory { window, ratios, projections, .. } = arguments.clone();
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
