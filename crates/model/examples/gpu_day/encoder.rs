//! Tokens per second of an encoder, by number format, batch and number of feeding threads.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clew_model::{
    DeviceChoice, EmbeddingModel, EncodedText, ModelOptions, PathChoice, Precision,
    PrecisionChoice, Scratch,
};
use serde_json::json;

use crate::shapes::ENCODER_VOCABULARY;
use crate::{Report, is_dry_run, precisions, tokens};

/// Tokens of a text.
const TEXT: usize = 128;
/// Tokens of a batch.
const BATCHES: &[usize] = &[1 << 10, 1 << 14, 1 << 16];
/// Threads that feed the device.
const FEEDERS: &[usize] = &[1, 2, 4];
/// Time for which each is measured.
const MEASURED: Duration = Duration::from_millis(1200);
/// Operations per token of the matrices of a layer with 384 numbers a state, and their number.
const LAYER: f64 = 2.0 * 12.0 * 384.0 * 384.0;
const LAYERS: f64 = 6.0;

pub fn measure(device: DeviceChoice, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let (batches, feeding) = match is_dry_run(device) {
        true => (&BATCHES[..1], &FEEDERS[..1]),
        false => (BATCHES, FEEDERS),
    };
    let mut models = Vec::new();
    for &precision in precisions(device)?.iter().rev() {
        for &batch in batches.iter().rev() {
            let options = ModelOptions {
                device,
                path: PathChoice::Burn,
                precision: match precision {
                    Precision::Float32 => PrecisionChoice::Float32,
                    Precision::BFloat16 => PrecisionChoice::BFloat16,
                },
                batch_tokens: NonZeroUsize::new(batch),
                ..ModelOptions::default()
            };
            let model = EmbeddingModel::load(folder, &options)?;
            model.embed(&texts(batch / TEXT), &mut Scratch::default())?;
            models.push((precision, batch, model));
        }
    }
    report.take_turn()?;
    for (precision, batch, model) in models {
        let texts = texts(batch / TEXT);
        for &feeders in feeding {
            let rate = rate(&model, &texts, feeders)?;
            report.line(json!({
                "precision": precision.to_string(), "batch_tokens": batch, "feeders": feeders,
                "tokens_per_second": rate,
                "tflops": rate * LAYERS * (LAYER + 4.0 * TEXT as f64 * 384.0) / 1e12,
            }))?;
        }
    }
    Ok(())
}

fn texts(count: usize) -> Vec<EncodedText> {
    let ids = tokens(count * TEXT, ENCODER_VOCABULARY);
    let texts = ids.chunks(TEXT).map(|ids| EncodedText { ids: ids.to_vec(), truncated: false });
    texts.collect()
}

/// Returns the tokens per second that `feeders` threads embed.
fn rate(model: &EmbeddingModel, texts: &[EncodedText], feeders: usize) -> anyhow::Result<f64> {
    let embedded = AtomicUsize::new(0);
    let began = Instant::now();
    thread::scope(|scope| {
        let feed = || -> Result<(), clew_model::Error> {
            let mut scratch = Scratch::default();
            while began.elapsed() < MEASURED {
                model.embed(texts, &mut scratch)?;
                embedded.fetch_add(texts.len() * TEXT, Ordering::Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..feeders).map(|_| scope.spawn(feed)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => Ok(result?),
            Err(_) => anyhow::bail!("a feeding thread panicked"),
        })
    })?;
    Ok(embedded.into_inner() as f64 / began.elapsed().as_secs_f64())
}
