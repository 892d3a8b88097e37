//! Measures a device with models of real shapes and random weights, a step at a time.
//!
//! ```sh
//! gpu_day make SHAPE FOLDER                 # minilm, decoder-7b, memory-7b, ...
//! gpu_day DEVICE roofline
//! gpu_day DEVICE attention
//! gpu_day DEVICE encoder FOLDER
//! gpu_day DEVICE decoder FOLDER
//! gpu_day DEVICE memory FOLDER RATIO TOKENS..
//! gpu_day DEVICE training FOLDER TOKENS
//! gpu_day DEVICE exhaust FOLDER
//! ```
//!
//! Each measurement is a line of JSON on standard output. A step first computes everything once,
//! because a GPU's kernels are compiled when they are first needed, which takes up to a minute.
//! Steps may do that side by side. Then each of them has the device for itself, while it holds a
//! lock on the file that `CLEW_GPU_TURN` names. `make gpu-day` runs all steps, and writes what they
//! measured as a table.

mod attention;
mod decoder;
mod encoder;
mod exhaust;
mod memory;
mod shapes;
mod training;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use burn::tensor::DType;
use clew_model::{DeviceChoice, Precision, Roofline, open_device};
use serde_json::{Value, json};

/// Returns the number formats that are measured: those of the device.
fn precisions(device: DeviceChoice) -> anyhow::Result<&'static [Precision]> {
    let has_bfloat16 = device.is_gpu() && open_device(device)?.supports_dtype(DType::BF16);
    Ok(match has_bfloat16 {
        true => &[Precision::Float32, Precision::BFloat16],
        false => &[Precision::Float32],
    })
}

/// Returns the number format that a language model has on the device.
fn precision(device: DeviceChoice) -> anyhow::Result<Precision> {
    Ok(precisions(device)?.last().copied().unwrap_or_default())
}

/// Returns whether steps are only tried, with the smallest shapes.
fn is_dry_run(device: DeviceChoice) -> bool {
    !device.is_gpu() || std::env::var_os("CLEW_GPU_DRY_RUN").is_some()
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["make", shape, folder] = arguments[..] {
        return shapes::make(shape, Path::new(folder));
    }
    let [device, step, rest @ ..] = &arguments[..] else {
        bail!("expected a device such as `cuda:0`, and a step");
    };
    let device: DeviceChoice = device.parse().map_err(anyhow::Error::msg)?;
    let mut report = Report {
        device: String::from(device),
        step: (*step).to_owned(),
        began: Instant::now(),
        turn: None,
    };
    let report = &mut report;
    match (*step, rest) {
        ("roofline", []) => roofline(device, report),
        ("attention", []) => attention::measure(device, report),
        ("encoder", [folder]) => encoder::measure(device, Path::new(folder), report),
        ("decoder", [folder]) => decoder::measure(device, Path::new(folder), report),
        ("memory", [folder, ratio, tokens @ ..]) => {
            let ratio = ratio.parse().context("a ratio")?;
            let tokens = tokens.iter().map(|tokens| tokens.parse());
            let tokens: Vec<usize> =
                tokens.collect::<Result<_, _>>().context("numbers of tokens")?;
            memory::measure(device, Path::new(folder), ratio, &tokens, report)
        }
        ("training", [folder, tokens]) => {
            let tokens = tokens.parse().context("a number of tokens")?;
            training::measure(device, Path::new(folder), tokens, report)
        }
        ("exhaust", [folder]) => exhaust::measure(device, Path::new(folder), report),
        _ => bail!(
            "expected one of the steps roofline, attention, encoder, decoder, memory, training and \
             exhaust, with what it takes"
        ),
    }
}

fn roofline(device: DeviceChoice, report: &mut Report) -> anyhow::Result<()> {
    for &precision in precisions(device)? {
        Roofline::measure(device, precision, 0)?;
    }
    report.take_turn()?;
    for &precision in precisions(device)? {
        let Roofline { flops, bytes_per_second } = Roofline::measure(device, precision, 0)?;
        report.line(json!({
            "precision": precision.to_string(), "tflops": flops / 1e12,
            "gigabytes_per_second": bytes_per_second / 1e9,
        }))?;
    }
    Ok(())
}

/// Where measurements go.
struct Report {
    device: String,
    step: String,
    began: Instant,
    /// Locked while the device is this step's alone.
    turn: Option<File>,
}

impl Report {
    /// Waits until no other step measures. From then on the device is this step's.
    fn take_turn(&mut self) -> anyhow::Result<()> {
        self.line(json!({"warm_seconds": self.began.elapsed().as_secs_f64()}))?;
        if let Some(path) = std::env::var_os("CLEW_GPU_TURN") {
            let turn = File::create(&path)?;
            turn.lock()?;
            self.turn = Some(turn);
        }
        Ok(())
    }

    /// Writes the measurement `what`, an object.
    fn line(&mut self, mut what: Value) -> anyhow::Result<()> {
        what["device"] = self.device.clone().into();
        what["step"] = self.step.clone().into();
        writeln!(std::io::stdout().lock(), "{what}")?;
        Ok(())
    }
}

/// Returns `count` random token ids below `vocabulary`, always the same.
fn tokens(count: usize, vocabulary: usize) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(count as u64);
    (0..count).map(|_| random.u32(10..vocabulary as u32)).collect()
}
