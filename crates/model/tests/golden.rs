//! all-MiniLM-L6-v2 gives the vectors that sentence-transformers gives for it, on every path.
//!
//! The reference and the script that made it are in `fixtures/minilm`. The weights are the
//! published ones and not part of this repository; `make setup` fetches them. `tiny_model.rs`
//! checks the same code without these weights, on a random model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clew_core::{Embedding, TextKind};
use clew_model::{EmbeddingModel, ModelOptions, PathChoice, PrecisionChoice, Scratch};
use clew_packed_bert::{Kernel, KernelPrecision};
use serde_json::Value;

/// Minimum cosine to the reference if factors are 32-bit floats. Two correct implementations differ
/// by the order of sums alone, about 1e-7 per component.
const FLOAT32_COSINE: f64 = 0.99999;
/// Minimum cosine if factors are rounded to 8 bits, an error of up to 0.4 % each that mostly
/// averages out.
const BFLOAT16_COSINE: f64 = 0.9999;

struct Reference {
    texts: Vec<String>,
    token_ids: Vec<Vec<u32>>,
    full_token_counts: Vec<usize>,
    vectors: Vec<Vec<f32>>,
}

fn reference() -> Reference {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/minilm");
    let json = std::fs::read(fixtures.join("reference.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let entries = json["texts"].as_array().unwrap();
    let values = std::fs::read(fixtures.join("reference.f32")).unwrap();
    let values: Vec<f32> =
        values.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let reference = Reference {
        texts: entries.iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect(),
        token_ids: entries
            .iter()
            .map(|entry| serde_json::from_value(entry["token_ids"].clone()).unwrap())
            .collect(),
        full_token_counts: entries
            .iter()
            .map(|entry| entry["full_token_count"].as_u64().unwrap() as usize)
            .collect(),
        vectors: values.chunks_exact(384).map(<[f32]>::to_vec).collect(),
    };
    assert_eq!(reference.texts.len(), reference.vectors.len());
    reference
}

/// Loads the published model from `CLEW_MODEL_DIR`, or from where `make setup` puts it.
fn load(path: PathChoice, precision: PrecisionChoice, batch_tokens: usize) -> Arc<EmbeddingModel> {
    let cache = "../../.cache/models/all-MiniLM-L6-v2";
    let folder = std::env::var_os("CLEW_MODEL_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(cache), PathBuf::from);
    assert!(
        folder.join("config.json").exists(),
        "no model in {}: run `make setup`, or set CLEW_MODEL_DIR to a folder of all-MiniLM-L6-v2",
        folder.display()
    );
    let batch_tokens = std::num::NonZeroUsize::new(batch_tokens);
    let options = ModelOptions { path, precision, batch_tokens, ..ModelOptions::default() };
    EmbeddingModel::load(&folder, &options).unwrap()
}

fn embed(model: &EmbeddingModel, texts: &[String]) -> Vec<Embedding> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    model.embed_texts(&texts, TextKind::Passage, &mut Scratch::default()).unwrap()
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let dot = |left: &[f32], right: &[f32]| -> f64 {
        left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum()
    };
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

/// Embeds all texts in batches and one by one, and compares both with the reference.
fn check(path: PathChoice, precision: PrecisionChoice, least_cosine: f64) {
    let reference = reference();
    let batched = load(path, precision, 4096);
    let single = load(path, precision, 1);
    let embedded = embed(&batched, &reference.texts);
    let alone = embed(&single, &reference.texts);
    let mut worst: f64 = 1.0;
    for (index, text) in reference.texts.iter().enumerate() {
        let from_batch = cosine(&embedded[index].vector, &reference.vectors[index]);
        let from_single = cosine(&alone[index].vector, &reference.vectors[index]);
        // Sums in another order. A leak from padding or a neighbour would be far larger.
        let between = cosine(&embedded[index].vector, &alone[index].vector);
        assert!(from_batch >= least_cosine, "{from_batch} in a batch: {text:?}");
        assert!(from_single >= least_cosine, "{from_single} alone: {text:?}");
        assert!(between >= 0.999_999, "{between} between batch and alone: {text:?}");
        assert_eq!(embedded[index].tokens as usize, reference.token_ids[index].len());
        let is_cut = reference.full_token_counts[index] > 256;
        assert_eq!(embedded[index].truncated, is_cut, "{text:?}");
        worst = worst.min(from_batch).min(from_single);
    }
    eprintln!("{}: least cosine {worst:.8}", batched.describe());
}

/// Returns whether this CPU has a packed kernel of `precision`. Without one the path is Burn's.
fn has_kernel(precision: KernelPrecision) -> bool {
    Kernel::detect(precision).is_some_and(|kernel| kernel.precision() == precision)
}

#[test]
fn token_ids_and_counts_are_those_of_the_reference() {
    let reference = reference();
    let model = load(PathChoice::Auto, PrecisionChoice::Auto, 512);
    for (index, text) in reference.texts.iter().enumerate() {
        let encoded = model.encode(text, TextKind::Passage);
        assert_eq!(encoded.ids, reference.token_ids[index], "{text:?}");
        let spans = model.token_spans(text);
        assert_eq!(spans.len() + 2, reference.full_token_counts[index], "{text:?}");
    }
}

#[test]
fn the_identity_is_that_of_the_published_model() {
    let model = load(PathChoice::Auto, PrecisionChoice::Auto, 512);
    let identity = model.identity();
    assert_eq!((identity.dimension, identity.max_tokens), (384, 256));
    assert_eq!(identity.revision.len(), 32);
}

#[test]
fn burn_agrees_with_the_reference() {
    check(PathChoice::Burn, PrecisionChoice::Float32, FLOAT32_COSINE);
}

#[test]
fn the_packed_path_in_float32_agrees_with_the_reference() {
    if has_kernel(KernelPrecision::Float32) {
        check(PathChoice::Packed, PrecisionChoice::Float32, FLOAT32_COSINE);
    }
}

#[test]
fn the_packed_path_in_bfloat16_agrees_with_the_reference() {
    if has_kernel(KernelPrecision::BFloat16) {
        check(PathChoice::Packed, PrecisionChoice::BFloat16, BFLOAT16_COSINE);
    }
}
