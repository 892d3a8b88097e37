//! Benchmark of the published all-MiniLM-L6-v2 in tokens per second on one thread: tokenising
//! alone, and text to vector on each path. The texts are the reference's: 71 of them, from one word
//! to the window.
//!
//! `make setup` fetches the model; without it the benchmark has nothing to run.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails as a test does")]

use std::path::{Path, PathBuf};

use clew_core::TextKind;
use clew_model::{EmbeddingModel, ModelOptions, PathChoice, PrecisionChoice, Scratch};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn model_folder() -> PathBuf {
    std::env::var_os("CLEW_MODEL_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/models/all-MiniLM-L6-v2"),
        PathBuf::from,
    )
}

fn texts() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/minilm/reference.json");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let entries = json["texts"].as_array().unwrap();
    entries.iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
}

fn tokenise(criterion: &mut Criterion) {
    let model = EmbeddingModel::load(&model_folder(), &ModelOptions::default()).unwrap();
    let text = texts().join("\n").repeat(10);
    let tokens = model.token_spans(&text).len();
    let mut group = criterion.benchmark_group("tokenise");
    group.throughput(Throughput::Elements(tokens as u64));
    group.bench_function("token_spans", |bencher| bencher.iter(|| model.token_spans(&text)));
    group.finish();
}

fn embed(criterion: &mut Criterion) {
    let texts = texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut group = criterion.benchmark_group("embed");
    group.sample_size(10);
    for (path, precision) in [
        (PathChoice::Auto, PrecisionChoice::Auto),
        (PathChoice::Auto, PrecisionChoice::Float32),
        (PathChoice::Burn, PrecisionChoice::Float32),
    ] {
        let options = ModelOptions { path, precision, ..ModelOptions::default() };
        let model = EmbeddingModel::load(&model_folder(), &options).unwrap();
        let mut scratch = Scratch::default();
        let mut embed = || model.embed_texts(&texts, TextKind::Passage, &mut scratch).unwrap();
        let tokens: u32 = embed().iter().map(|embedding| embedding.tokens).sum();
        group.throughput(Throughput::Elements(u64::from(tokens)));
        let id = BenchmarkId::from_parameter(model.describe());
        group.bench_function(id, |bencher| bencher.iter(&mut embed));
    }
    group.finish();
}

criterion_group!(benches, tokenise, embed);
criterion_main!(benches);
