//! Time of a step of training a memory model.

use std::path::Path;
use std::time::Instant;

use clew_model::DeviceChoice;
use clew_model::memory::RatioSchedule;
use clew_model::memory::training::{MemoryTokenLayout, Trained, Training, TrainingSequence};
use serde_json::json;

use crate::shapes::vocabulary;
use crate::{Report, tokens};

/// Steps that are measured.
const STEPS: usize = 2;

pub fn measure(
    device: DeviceChoice,
    folder: &Path,
    length: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let layout = MemoryTokenLayout::default();
    let mut training = Training::load(folder, device, Trained::Memory, &layout)?;
    let sequence = TrainingSequence::of(tokens(length, vocabulary(folder)?))?;
    let schedule = RatioSchedule::told(vec![4]);
    let loss = training.gradients(&sequence, schedule.clone(), length)?.loss;
    report.take_turn()?;
    let began = Instant::now();
    for _ in 0..STEPS {
        training.gradients(&sequence, schedule.clone(), length)?;
    }
    let seconds = began.elapsed().as_secs_f64() / STEPS as f64;
    report.line(json!({
        "tokens": length, "gradients_seconds": seconds,
        "tokens_per_second": length as f64 / seconds, "loss": loss,
    }))
}
