//! Complete folder of a language model with random weights, small enough for any test.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::tiny_bert::{Random, TinyTensor, WeightFormat, write_json, write_tensors};

const HIDDEN: usize = 32;
const INTERMEDIATE: usize = 48;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const POSITIONS: usize = 1024;
/// Special tokens, after one token for each byte.
const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
/// Tokens of a memory model that are words, after the special ones.
const WORDS: [&str; 12] = [
    " honey", " thread", " garden", " keeper", " summer", " window", " letter", " silver",
    " winter", " market", " candle", "\n",
];
const TEMPLATE: &str = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] \
    + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}\
    {% endif %}";

/// Writes a Qwen2 model of two layers, whose tokens are bytes, into `folder`, which must exist. Its
/// output is meaningless. The same seed always gives the same files.
///
/// # Errors
/// Returns an error if the file system fails.
pub fn write_tiny_decoder(folder: &Path, seed: u64) -> io::Result<()> {
    let vocabulary = 256 + SPECIAL.len();
    write(folder, &config(vocabulary), &tokenizer(&[]), &tensors(vocabulary, seed))
}

/// Writes the same model as a memory model with windows of 64 tokens, whose memory tokens begin as
/// copies. It also has tokens for some words and generates only these, so that its output has lines
/// of words.
///
/// # Errors
/// Returns an error if the file system fails.
pub fn write_tiny_memory_model(folder: &Path, seed: u64) -> io::Result<()> {
    let vocabulary = 256 + SPECIAL.len() + WORDS.len();
    let mut config = config(vocabulary);
    config["beacon_window"] = json!(64);
    config["beacon_ratio"] = json!([2, 4, 8]);
    config["beacon_param"] = json!(["q", "k", "v"]);
    let mut tensors = tensors(vocabulary, seed);
    for head in tensors.iter_mut().filter(|tensor| tensor.name == "lm_head.weight") {
        let others = (256 + SPECIAL.len()) * HIDDEN;
        // Too small for these tokens to be chosen before a word.
        head.values[..others].iter_mut().for_each(|value| *value *= 0.01);
    }
    write(folder, &config, &tokenizer(&WORDS), &tensors)
}

fn config(vocabulary: usize) -> Value {
    json!({
        "model_type": "qwen2",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": POSITIONS,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": false,
        "hidden_act": "silu",
        "eos_token_id": 258,
    })
}

fn write(
    folder: &Path,
    config: &Value,
    tokenizer: &Value,
    tensors: &[TinyTensor],
) -> io::Result<()> {
    write_json(&folder.join("config.json"), config)?;
    write_json(&folder.join("tokenizer.json"), tokenizer)?;
    let settings = json!({ "eos_token": SPECIAL[2], "chat_template": TEMPLATE });
    write_json(&folder.join("tokenizer_config.json"), &settings)?;
    fs::create_dir_all(folder)?;
    write_tensors(&folder.join("model.safetensors"), tensors, WeightFormat::Float32)
}

fn tensors(vocabulary: usize, seed: u64) -> Vec<TinyTensor> {
    let mut random = Random(seed);
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize], mean: f32, deviation: f32| {
        let count = shape.iter().product();
        let values = (0..count).map(|_| mean + deviation * random.normal()).collect();
        tensors.push(TinyTensor { name, shape: shape.to_vec(), values });
    };
    let spread = |input: usize| 1.5 / (input as f32).sqrt();
    add("model.embed_tokens.weight".to_owned(), &[vocabulary, HIDDEN], 0.0, 1.0);
    let keys = HIDDEN / HEADS * KV_HEADS;
    for layer in 0..LAYERS {
        let root = format!("model.layers.{layer}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            add(format!("{root}.{norm}.weight"), &[HIDDEN], 1.0, 0.1);
        }
        for (part, rows) in [("q", HIDDEN), ("k", keys), ("v", keys)] {
            let name = format!("{root}.self_attn.{part}_proj");
            add(format!("{name}.weight"), &[rows, HIDDEN], 0.0, spread(HIDDEN));
            add(format!("{name}.bias"), &[rows], 0.0, 0.1);
        }
        for (part, rows, columns) in [
            ("self_attn.o_proj", HIDDEN, HIDDEN),
            ("mlp.gate_proj", INTERMEDIATE, HIDDEN),
            ("mlp.up_proj", INTERMEDIATE, HIDDEN),
            ("mlp.down_proj", HIDDEN, INTERMEDIATE),
        ] {
            add(format!("{root}.{part}.weight"), &[rows, columns], 0.0, spread(columns));
        }
    }
    add("model.norm.weight".to_owned(), &[HIDDEN], 1.0, 0.1);
    add("lm_head.weight".to_owned(), &[vocabulary, HIDDEN], 0.0, 2.0 * spread(HIDDEN));
    tensors
}

/// Returns a byte-pair tokenizer without any pair: every byte is a token, written as in GPT-2's
/// vocabulary. The `words` are additional tokens.
fn tokenizer(words: &[&str]) -> Value {
    let mut vocabulary = serde_json::Map::new();
    let mut unprintable = 0_u32;
    for byte in 0..=255_u32 {
        let is_printable = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let code = if is_printable {
            byte
        } else {
            unprintable += 1;
            255 + unprintable
        };
        let written = char::from_u32(code).map(String::from).unwrap_or_default();
        vocabulary.insert(written, json!(byte));
    }
    let added = SPECIAL.iter().map(|content| (content, true));
    let added = added.chain(words.iter().map(|content| (content, false)));
    let added = added.zip(256..).map(|((content, is_special), id)| {
        json!({
            "id": id, "content": content, "special": is_special, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false,
        })
    });
    json!({
        "version": "1.0",
        "added_tokens": added.collect::<Vec<Value>>(),
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [] },
    })
}
