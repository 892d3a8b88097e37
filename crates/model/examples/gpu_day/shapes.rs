//! Folders of models with the shapes of published ones, and random weights.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use clew_testkit::TinyBert;
use half::bf16;
use serde_json::{Map, Value, json};

/// Standard deviation of weights, about that of trained ones.
const SPREAD: f32 = 0.02;
/// Number of different random weights. Larger matrices repeat them.
const DIFFERENT: usize = 1 << 20;
/// Number of token ids of the encoder.
pub const ENCODER_VOCABULARY: usize = 30_522;

/// Parameters of a model: names and shapes.
type Parameters = Vec<(String, Vec<usize>)>;

/// Shape of a decoder in the family of Qwen2.5.
struct Decoder {
    hidden: usize,
    intermediate: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_width: usize,
    vocabulary: usize,
    is_tied: bool,
}

const TINY: Decoder = Decoder {
    hidden: 64,
    intermediate: 128,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    head_width: 16,
    vocabulary: 500,
    is_tied: true,
};
/// Qwen2.5-0.5B.
const HALF_A_BILLION: Decoder = Decoder {
    hidden: 896,
    intermediate: 4864,
    layers: 24,
    heads: 14,
    kv_heads: 2,
    head_width: 64,
    vocabulary: 151_936,
    is_tied: true,
};
/// Qwen2.5-7B.
const SEVEN_BILLION: Decoder = Decoder {
    hidden: 3584,
    intermediate: 18_944,
    layers: 28,
    heads: 28,
    kv_heads: 4,
    head_width: 128,
    vocabulary: 152_064,
    is_tied: false,
};

/// Writes a model of this shape to a folder.
pub fn make(shape: &str, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let (config, parameters) = match shape {
        "minilm" => {
            // For the files beside the configuration and the weights, which are larger here.
            TinyBert { width: 384, ..TinyBert::default() }.write(folder)?;
            fs::write(folder.join("sentence_bert_config.json"), r#"{"max_seq_length": 256}"#)?;
            minilm()
        }
        "decoder-tiny" => TINY.model(false),
        "decoder-0.5b" => HALF_A_BILLION.model(false),
        "decoder-7b" => SEVEN_BILLION.model(false),
        "memory-tiny" => TINY.model(true),
        "memory-0.5b" => HALF_A_BILLION.model(true),
        "memory-7b" => SEVEN_BILLION.model(true),
        _ => bail!("expected minilm, or decoder or memory with -tiny, -0.5b or -7b, got {shape}"),
    };
    fs::write(folder.join("config.json"), config.to_string())?;
    write_weights(&folder.join("model.safetensors"), &parameters)
}

/// Returns the number of token ids of a model that was made.
pub fn vocabulary(folder: &Path) -> anyhow::Result<usize> {
    let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json"))?)?;
    let size = config["vocab_size"].as_u64().context("`vocab_size` in config.json")?;
    Ok(size as usize)
}

/// Returns the shape of all-MiniLM-L6-v2.
fn minilm() -> (Value, Parameters) {
    let (hidden, intermediate, layers, positions) = (384, 1536, 6, 512);
    let mut parameters: Parameters = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![ENCODER_VOCABULARY, hidden]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![positions, hidden]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, hidden]),
        ("embeddings.LayerNorm.weight".to_owned(), vec![hidden]),
        ("embeddings.LayerNorm.bias".to_owned(), vec![hidden]),
    ];
    for layer in 0..layers {
        let mut add = |name: &str, shape: &[usize]| {
            parameters.push((format!("encoder.layer.{layer}.{name}"), shape.to_vec()));
        };
        for (name, input, output) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", hidden, intermediate),
            ("output.dense", intermediate, hidden),
        ] {
            add(&format!("{name}.weight"), &[output, input]);
            add(&format!("{name}.bias"), &[output]);
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            add(&format!("{name}.weight"), &[hidden]);
            add(&format!("{name}.bias"), &[hidden]);
        }
    }
    let config = json!({
        "model_type": "bert", "vocab_size": ENCODER_VOCABULARY, "hidden_size": hidden,
        "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": 12, "max_position_embeddings": positions, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0,
        "position_embedding_type": "absolute",
    });
    (config, parameters)
}

impl Decoder {
    /// Returns the configuration and the parameters, with those of memory tokens or without.
    fn model(&self, has_memory: bool) -> (Value, Parameters) {
        let Self { hidden, intermediate, layers, heads, kv_heads, head_width, .. } = *self;
        let Self { vocabulary, is_tied, .. } = *self;
        let mut parameters: Parameters = vec![
            ("model.embed_tokens.weight".to_owned(), vec![vocabulary, hidden]),
            ("model.norm.weight".to_owned(), vec![hidden]),
        ];
        if has_memory {
            parameters.push(("model.beacon_embed_tokens.weight".to_owned(), vec![1, hidden]));
        }
        if !is_tied {
            parameters.push(("lm_head.weight".to_owned(), vec![vocabulary, hidden]));
        }
        for layer in 0..layers {
            let mut add = |name: &str, shape: &[usize]| {
                parameters.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            };
            let kinds = if has_memory { &["", "beacon_"][..] } else { &[""] };
            for of in kinds {
                for (part, count) in [("q", heads), ("k", kv_heads), ("v", kv_heads)] {
                    let name = format!("self_attn.{of}{part}_proj");
                    add(&format!("{name}.weight"), &[count * head_width, hidden]);
                    add(&format!("{name}.bias"), &[count * head_width]);
                }
            }
            add("self_attn.o_proj.weight", &[hidden, heads * head_width]);
            add("mlp.gate_proj.weight", &[intermediate, hidden]);
            add("mlp.up_proj.weight", &[intermediate, hidden]);
            add("mlp.down_proj.weight", &[hidden, intermediate]);
            add("input_layernorm.weight", &[hidden]);
            add("post_attention_layernorm.weight", &[hidden]);
        }
        let mut config = json!({
            "model_type": "qwen2", "vocab_size": vocabulary, "hidden_size": hidden,
            "intermediate_size": intermediate, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "max_position_embeddings": 32_768, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
            "hidden_act": "silu", "tie_word_embeddings": is_tied, "use_sliding_window": false,
            "bos_token_id": 1, "eos_token_id": 2,
        });
        if has_memory {
            for (name, value) in [
                ("window", json!(2048)),
                ("stride", json!(2048)),
                ("attn", json!("full-coverage")),
                ("attend_prev", json!(true)),
                ("ratio", json!([4, 16])),
                ("ratio_mix", json!("step-random")),
                ("embed_init", json!("eos")),
                ("sink_size", json!(0)),
                ("pos", json!("interleave")),
                ("param", json!(["q", "k", "v"])),
            ] {
                config[format!("beacon_{name}")] = value;
            }
        }
        (config, parameters)
    }
}

/// Writes random weights in bfloat16, piece by piece: the largest model does not fit into the
/// memory of small machines.
fn write_weights(path: &Path, parameters: &Parameters) -> anyhow::Result<()> {
    let mut header = Map::new();
    let mut end = 0;
    for (name, shape) in parameters {
        let begin = end;
        end += 2 * shape.iter().product::<usize>();
        header.insert(
            name.clone(),
            json!({"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}),
        );
    }
    let header = Value::Object(header).to_string();
    let mut random = fastrand::Rng::with_seed(7);
    // The sum of four uniform numbers is near to a normal distribution of variance 1/3.
    let mut weight = || {
        let sum: f32 = (0..4).map(|_| random.f32() - 0.5).sum();
        bf16::from_f32(sum * 3.0_f32.sqrt() * SPREAD)
    };
    let random: Vec<u8> = (0..DIFFERENT).flat_map(|_| weight().to_le_bytes()).collect();
    let ones: Vec<u8> = (0..DIFFERENT).flat_map(|_| bf16::ONE.to_le_bytes()).collect();
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut file = BufWriter::new(file);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for (name, shape) in parameters {
        let is_norm = name.ends_with("norm.weight") || name.ends_with("LayerNorm.weight");
        let values = if is_norm { &ones } else { &random };
        let mut rest = 2 * shape.iter().product::<usize>();
        while rest > 0 {
            let now = rest.min(values.len());
            file.write_all(&values[..now])?;
            rest -= now;
        }
    }
    file.flush()?;
    Ok(())
}
