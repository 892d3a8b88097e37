//! Time of a step of a decoder with several sequences side by side, and of reading prompts.

use std::path::Path;
use std::time::Instant;

use clew_core::Sampling;
use clew_model::DeviceChoice;
use clew_model::decoder::{Decoder, DecoderStep, Sequence, WantedLogits};
use clew_model::sampling::TokenChoice;
use serde_json::json;

use crate::{Report, is_dry_run, precision, tokens};

/// Numbers of sequences side by side.
const STREAMS: [usize; 3] = [1, 4, 16];
/// Tokens that each of them has read before.
const READ: usize = 512;
/// Steps that are measured, after some that are not.
const STEPS: usize = 24;
const WARM: usize = 4;
/// Lengths of prompts.
const PROMPTS: &[usize] = &[2048, 8192];

/// Tokens that each sequence has read before, and steps that are measured.
#[derive(Clone, Copy)]
struct Lengths {
    read: usize,
    steps: usize,
}

pub fn measure(device: DeviceChoice, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let began = Instant::now();
    let decoder = Decoder::load(folder, device, precision(device)?, 0)?;
    let loading = began.elapsed().as_secs_f64();
    let (prompts, lengths) = match is_dry_run(device) {
        true => (&[][..], Lengths { read: 70, steps: 2 }),
        false => (PROMPTS, Lengths { read: READ, steps: STEPS }),
    };
    let weights = 2.0 * decoder.parameters() as f64;
    for (streams, choice) in STREAMS.into_iter().zip([likeliest(), drawn(), likeliest()]) {
        steps(&decoder, streams, lengths, &choice)?;
    }
    for &length in prompts {
        read(&decoder, &mut decoder.sequence(length), &tokens(length, decoder.vocabulary()))?;
    }
    report.take_turn()?;
    for streams in STREAMS {
        let seconds = steps(&decoder, streams, lengths, &likeliest())?;
        let drawn = steps(&decoder, streams, lengths, &drawn())?;
        report.line(json!({
            "loading_seconds": loading, "streams": streams, "step_milliseconds": seconds * 1e3,
            "step_with_drawn_tokens_milliseconds": drawn * 1e3,
            "tokens_per_second": streams as f64 / seconds,
            "weights_gigabytes_per_second": weights / seconds / 1e9,
        }))?;
    }
    for &length in prompts {
        let prompt = tokens(length, decoder.vocabulary());
        let mut sequence = decoder.sequence(length);
        let began = Instant::now();
        read(&decoder, &mut sequence, &prompt)?;
        let seconds = began.elapsed().as_secs_f64();
        let operations = decoder.parameters() as f64 * 2.0 * length as f64;
        report.line(json!({
            "prompt": length, "seconds": seconds, "tokens_per_second": length as f64 / seconds,
            "tflops_of_matrices": operations / seconds / 1e12,
        }))?;
    }
    Ok(())
}

/// The choice of the likeliest token.
fn likeliest() -> TokenChoice {
    TokenChoice::default()
}

/// A draw with all limits, as the makers of models recommend.
fn drawn() -> TokenChoice {
    let sampling =
        Sampling { temperature: 0.7, top_p: 0.8, top_k: 20, repetition_penalty: 1.05, seed: None };
    TokenChoice { sampling, chance: 0.5, said: Some(vec![1; 64]), allowed: None }
}

/// Returns the seconds of a step with so many sequences, in which the device chooses the tokens.
fn steps(
    decoder: &Decoder,
    streams: usize,
    lengths: Lengths,
    choice: &TokenChoice,
) -> Result<f64, clew_model::Error> {
    let prompt = tokens(lengths.read, decoder.vocabulary());
    let sequences = (0..streams).map(|_| {
        let mut sequence = decoder.sequence(lengths.read + WARM + lengths.steps + 1);
        read(decoder, &mut sequence, &prompt)?;
        Ok(sequence)
    });
    let mut sequences = sequences.collect::<Result<Vec<_>, clew_model::Error>>()?;
    let mut began = Instant::now();
    for (step, token) in prompt.iter().take(WARM + lengths.steps).enumerate() {
        if step == WARM {
            began = Instant::now();
        }
        let token = [*token];
        let mut steps: Vec<DecoderStep<'_>> = sequences
            .iter_mut()
            .map(|sequence| DecoderStep { sequence, tokens: &token, wanted: WantedLogits::Last })
            .collect();
        decoder.step_and_choose(&mut steps, || vec![choice.clone(); streams])?;
    }
    Ok(began.elapsed().as_secs_f64() / lengths.steps as f64)
}

fn read(
    decoder: &Decoder,
    sequence: &mut Sequence,
    tokens: &[u32],
) -> Result<(), clew_model::Error> {
    decoder.step(&mut [DecoderStep { sequence, tokens, wanted: WantedLogits::Last }]).map(drop)
}
