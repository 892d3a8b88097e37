//! Time to form, save, restore and ask compressed memories.

use std::path::Path;
use std::time::Instant;

use clew_model::DeviceChoice;
use clew_model::decoder::WantedLogits;
use clew_model::memory::{
    MemoryInput, MemoryModel, MemoryShape, MemorySnapshot, MemoryState, RatioSchedule,
    SnapshotFormat,
};
use serde_json::json;

use crate::{Report, is_dry_run, precision, tokens};

/// Tokens that are read at once.
const PIECE: usize = 4096;
/// Tokens of a question, and of its draft.
const QUESTION: usize = 64;
const DRAFT: usize = 32;
/// Questions that are answered side by side.
const SIDE_BY_SIDE: usize = 8;
/// Largest memory that is saved and restored here.
const MOST_SAVED: usize = 200_000;

pub fn measure(
    device: DeviceChoice,
    folder: &Path,
    ratio: usize,
    lengths: &[usize],
    report: &mut Report,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let model = MemoryModel::load(folder, device, precision(device)?, 0)?;
    let loading = began.elapsed().as_secs_f64();
    let draft = if is_dry_run(device) { 2 } else { DRAFT };
    let shape = MemoryShape::read(folder)?;
    // Longer memories need other kernels.
    let longest = lengths.iter().copied().max().unwrap_or_default();
    let cold = Instant::now();
    let mut memory = form(&model, ratio, longest)?;
    let cold = cold.elapsed().as_secs_f64();
    model.prepare(&mut memory);
    asked(&model, &memory, draft)?;
    drafted_side_by_side(&model, &memory, draft)?;
    drop(memory);
    report.take_turn()?;
    for length in lengths.iter().copied() {
        let began = Instant::now();
        let mut memory = form(&model, ratio, length)?;
        let seconds = began.elapsed().as_secs_f64();
        let cost = shape.cost(length as u64, ratio as u64, u64::MAX);
        let operations = cost.matrix_operations + cost.attention_operations;
        report.line(json!({
            "loading_seconds": loading, "cold_seconds_of_longest": cold, "ratio": ratio,
            "tokens": length, "seconds": seconds, "tokens_per_second": length as f64 / seconds,
            "tflops": operations / seconds / 1e12,
            "attention_share": cost.attention_operations / operations,
            "gigabytes": cost.bytes as f64 / 1e9,
        }))?;
        model.prepare(&mut memory);
        let (question, token) = asked(&model, &memory, draft)?;
        report.line(json!({
            "ratio": ratio, "tokens": length, "question_seconds": question,
            "drafted_token_milliseconds": token * 1e3,
        }))?;
        let token = drafted_side_by_side(&model, &memory, draft)?;
        report.line(json!({
            "ratio": ratio, "tokens": length, "drafts": SIDE_BY_SIDE,
            "drafted_tokens_per_second": SIDE_BY_SIDE as f64 / token,
        }))?;
        // A question that comes while a text is being read waits for what was launched.
        let mut other = model.memory(RatioSchedule::told(vec![ratio]));
        let piece = tokens(PIECE, model.vocabulary());
        let wanted = WantedLogits::Nothing;
        let began = Instant::now();
        model.read(&mut [MemoryInput { memory: &mut other, tokens: &piece, wanted }])?;
        let launched = began.elapsed().as_secs_f64();
        read(&model, &mut memory.clone(), &[12])?;
        report.line(json!({
            "ratio": ratio, "tokens": length, "piece_launched_seconds": launched,
            "answer_beside_a_piece_seconds": began.elapsed().as_secs_f64(),
        }))?;
        if length <= MOST_SAVED {
            let began = Instant::now();
            let (bytes, _) = model.save(&memory)?.to_bytes(SnapshotFormat::Exact)?;
            let saved = began.elapsed().as_secs_f64();
            let began = Instant::now();
            let snapshot = MemorySnapshot::from_bytes(&bytes)?;
            let parsed = began.elapsed().as_secs_f64();
            let mut restored = model.restore(snapshot)?;
            read(&model, &mut restored, &[11])?;
            let restored = began.elapsed().as_secs_f64();
            report.line(json!({
                "ratio": ratio, "tokens": length, "bytes": bytes.len(), "save_seconds": saved,
                "parse_seconds": parsed, "restore_seconds": restored,
            }))?;
        }
    }
    Ok(())
}

/// Returns the seconds that a question takes, and those of each token of its draft.
fn asked(
    model: &MemoryModel,
    memory: &MemoryState,
    draft: usize,
) -> Result<(f64, f64), clew_model::Error> {
    let mut memory = memory.clone();
    let began = Instant::now();
    read(model, &mut memory, &tokens(QUESTION, model.vocabulary()))?;
    let question = began.elapsed().as_secs_f64();
    let began = Instant::now();
    for token in tokens(draft, model.vocabulary()) {
        read(model, &mut memory, &[token])?;
    }
    Ok((question, began.elapsed().as_secs_f64() / draft as f64))
}

/// Returns the seconds of a token of each of several drafts.
fn drafted_side_by_side(
    model: &MemoryModel,
    memory: &MemoryState,
    draft: usize,
) -> Result<f64, clew_model::Error> {
    let mut memories = vec![memory.clone(); SIDE_BY_SIDE];
    let mut step = |tokens: &[u32]| {
        let wanted = WantedLogits::Last;
        let readings = memories.iter_mut();
        let readings = readings.map(|memory| MemoryInput { memory, tokens, wanted });
        model.read(&mut readings.collect::<Vec<_>>()).map(drop)
    };
    step(&tokens(QUESTION, model.vocabulary()))?;
    let began = Instant::now();
    for token in tokens(draft, model.vocabulary()) {
        step(&[token])?;
    }
    Ok(began.elapsed().as_secs_f64() / draft as f64)
}

/// Forms a memory of so many tokens.
fn form(
    model: &MemoryModel,
    ratio: usize,
    length: usize,
) -> Result<MemoryState, clew_model::Error> {
    let mut memory = model.memory(RatioSchedule::told(vec![ratio]));
    let text = tokens(length, model.vocabulary());
    for piece in text.chunks(PIECE) {
        let wanted = WantedLogits::Nothing;
        model.read(&mut [MemoryInput { memory: &mut memory, tokens: piece, wanted }])?;
    }
    // Waits for the device.
    read(model, &mut memory, &[10])?;
    Ok(memory)
}

fn read(
    model: &MemoryModel,
    memory: &mut MemoryState,
    tokens: &[u32],
) -> Result<(), clew_model::Error> {
    let wanted = WantedLogits::Last;
    model.read(&mut [MemoryInput { memory, tokens, wanted }]).map(drop)
}
