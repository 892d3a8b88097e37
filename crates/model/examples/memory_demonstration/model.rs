//! Small model before training.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fs;
use std::path::Path;

use anyhow::Context;
use clew_tokenizer::{TextTokenizer, learn_byte_pairs};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;

use crate::texts;

const HIDDEN: usize = 128;
const INTERMEDIATE: usize = 384;
const LAYERS: usize = 4;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
/// Number of tokens: bytes, pairs of these, questions and facts.
const TOKENS: usize = 1024 + 137;
/// Number of bytes of every book that the tokenizer is learnt from.
const LEARNT_FROM: usize = 200_000;
const END: &str = "<|endoftext|>";
/// Standard deviation of embeddings, as is usual for models of this kind.
const SPREAD: f64 = 0.02;

/// Writes a Qwen2 with random weights, and a tokenizer learnt from all books but the last, unless
/// they exist.
pub fn write_start(folder: &Path, books: &[String]) -> anyhow::Result<TextTokenizer> {
    let file = folder.join("tokenizer.json");
    if !folder.join("model.safetensors").exists() {
        fs::create_dir_all(folder)?;
        let parts = books[..books.len() - 1].iter().map(|book| beginning(book));
        let special = texts::special();
        let special = [END].into_iter().chain(special.iter().map(String::as_str));
        let special: Vec<&str> = special.collect();
        let tokenizer = learn_byte_pairs(&parts.collect::<Vec<_>>(), TOKENS, &special)?;
        fs::write(&file, tokenizer)?;
        fs::write(folder.join("config.json"), format!("{:#}\n", config()))?;
        fs::write(folder.join("model.safetensors"), weights()?)?;
    }
    let tokenizer = fs::read(&file).context("the tokenizer cannot be read")?;
    Ok(TextTokenizer::try_new("tokenizer.json", &tokenizer)?)
}

fn beginning(book: &str) -> &str {
    &book[..book.floor_char_boundary(LEARNT_FROM)]
}

fn config() -> serde_json::Value {
    json!({
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "vocab_size": TOKENS,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": true,
        "hidden_act": "silu",
        "eos_token_id": 0,
        "bos_token_id": 0,
    })
}

fn weights() -> anyhow::Result<Vec<u8>> {
    let width = HIDDEN / HEADS;
    let mut random = fastrand::Rng::with_seed(1);
    let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    let mut add = |name: String, shape: &[usize], mean: f64, spread: f64| {
        let count: usize = shape.iter().product();
        let numbers = (0..count).map(|_| (mean + spread * normal(&mut random)) as f32);
        let bytes = numbers.flat_map(f32::to_le_bytes).collect();
        tensors.insert(name, (shape.to_vec(), bytes));
    };
    // Matrices whose results are added to the states in every layer are smaller, so that the states
    // do not grow with the layers.
    let added = |input: usize| spread(input) / ((2 * LAYERS) as f64).sqrt();
    add("model.embed_tokens.weight".to_owned(), &[TOKENS, HIDDEN], 0.0, SPREAD);
    add("model.norm.weight".to_owned(), &[HIDDEN], 1.0, 0.0);
    for layer in 0..LAYERS {
        let root = format!("model.layers.{layer}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            add(format!("{root}.{norm}.weight"), &[HIDDEN], 1.0, 0.0);
        }
        for (part, heads) in [("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)] {
            let name = format!("{root}.self_attn.{part}_proj");
            add(format!("{name}.weight"), &[heads * width, HIDDEN], 0.0, spread(HIDDEN));
            add(format!("{name}.bias"), &[heads * width], 0.0, 0.0);
        }
        add(
            format!("{root}.self_attn.o_proj.weight"),
            &[HIDDEN, HEADS * width],
            0.0,
            added(HEADS * width),
        );
        add(format!("{root}.mlp.gate_proj.weight"), &[INTERMEDIATE, HIDDEN], 0.0, spread(HIDDEN));
        add(format!("{root}.mlp.up_proj.weight"), &[INTERMEDIATE, HIDDEN], 0.0, spread(HIDDEN));
        add(
            format!("{root}.mlp.down_proj.weight"),
            &[HIDDEN, INTERMEDIATE],
            0.0,
            added(INTERMEDIATE),
        );
    }
    let views = tensors.iter().map(|(name, (shape, bytes))| {
        Ok((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes)?))
    });
    let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    Ok(safetensors::serialize(views, None)?)
}

/// Returns the standard deviation of a matrix's numbers with which the output is as large as the
/// input. The 0.02 of large models is too little for narrow ones, whose attention then takes long
/// to prefer anything.
fn spread(input: usize) -> f64 {
    (input as f64).powf(-0.5)
}

/// Returns a normally distributed number, by the Box-Muller transform.
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (TAU * random.f64()).cos()
}
