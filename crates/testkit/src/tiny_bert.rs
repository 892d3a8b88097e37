//! Complete sentence-transformers folder with a random BERT that is small enough for any test.
//!
//! The model has two layers, a default width of 64, and a vocabulary of letters and some common
//! words. It is random but not meaningless: texts that share words have more similar vectors than
//! texts that do not. The same seed always gives the same files.

use std::fs;
use std::io;
use std::path::Path;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

const INTERMEDIATE: usize = 128;
const LAYERS: usize = 2;
const HEADS: usize = 2;
const POSITIONS: usize = 128;
const TOKEN_TYPES: usize = 2;

const SPECIAL_TOKENS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const CHARACTERS: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const WORDS: &str = "the of and to in is was for on that with as it by at from are this be or an his her \
    who what where when which how why did does do not no yes she he they we you i has have had were \
    will can one two three new old house city river tea dog cat book letter train friend mother father \
    year day night morning spring summer autumn winter lives moved bought sold found lost went came \
    ##s ##ed ##ing ##ly ##er ##est ##tion ##ment";

/// Writes a complete model folder with a random BERT into `folder`, which must exist.
///
/// # Errors
/// Returns an error if the file system fails.
pub fn write_tiny_bert(folder: &Path, seed: u64) -> io::Result<()> {
    TinyBert { seed, ..TinyBert::default() }.write(folder)
}

/// Writes a complete model folder with a random cross-encoder into `folder`, which must exist: a
/// BERT with a classification head of one label.
///
/// # Errors
/// Returns an error if the file system fails.
pub fn write_tiny_reranker(folder: &Path, seed: u64) -> io::Result<()> {
    let bert = TinyBert { seed, root: "bert.", ..TinyBert::default() };
    bert.write(folder)?;
    let mut random = Random(seed.wrapping_add(1));
    let width = bert.width;
    let mut tensors = bert.tensors();
    let heads: [(&str, &[usize]); 4] = [
        ("bert.pooler.dense.weight", &[width, width]),
        ("bert.pooler.dense.bias", &[width]),
        ("classifier.weight", &[1, width]),
        ("classifier.bias", &[1]),
    ];
    for (name, shape) in heads {
        let deviation = 1.0 / (width as f32).sqrt();
        let values = (0..shape.iter().product()).map(|_| deviation * random.normal()).collect();
        tensors.push(TinyTensor { name: name.to_owned(), shape: shape.to_vec(), values });
    }
    write_tensors(&folder.join("model.safetensors"), &tensors, bert.format)
}

/// Number format of stored weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightFormat {
    /// 32-bit floats.
    #[default]
    Float32,
    /// 16-bit floats.
    Float16,
    /// bfloat16.
    BFloat16,
}

/// Parameters of a folder to write.
#[derive(Clone, Copy, Debug)]
pub struct TinyBert {
    /// Seed of the weights.
    pub seed: u64,
    /// Dimension of its vectors, an even number.
    pub width: usize,
    /// Prefix of every tensor name, such as `bert.`.
    pub root: &'static str,
    /// Number format of the weights.
    pub format: WeightFormat,
}

/// A named tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TinyTensor {
    /// Name in the file.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// Values in row-major order.
    pub values: Vec<f32>,
}

impl Default for TinyBert {
    fn default() -> Self {
        Self { seed: 0, width: 64, root: "", format: WeightFormat::default() }
    }
}

impl TinyBert {
    /// Writes the model's files into `folder`, which must exist.
    ///
    /// # Errors
    /// Returns an error if the file system fails.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let pooling = folder.join("1_Pooling");
        fs::create_dir_all(&pooling)?;
        write_json(&folder.join("config.json"), &config(self.width))?;
        write_json(&folder.join("modules.json"), &modules())?;
        write_json(&folder.join("sentence_bert_config.json"), &json!({"max_seq_length": 64}))?;
        write_json(&folder.join("tokenizer.json"), &tiny_tokenizer())?;
        let mean =
            json!({"word_embedding_dimension": self.width, "pooling_mode_mean_tokens": true});
        write_json(&pooling.join("config.json"), &mean)?;
        write_tensors(&folder.join("model.safetensors"), &self.tensors(), self.format)
    }

    /// Returns the model's tensors, which [`Self::write`] stores in `model.safetensors`.
    pub fn tensors(&self) -> Vec<TinyTensor> {
        let mut random = Random(self.seed);
        let mut tensors = Vec::new();
        let mut add = |name: String, shape: &[usize], mean: f32, deviation: f32| {
            let count = shape.iter().product();
            let values = (0..count).map(|_| mean + deviation * random.normal()).collect();
            let name = format!("{}{name}", self.root);
            tensors.push(TinyTensor { name, shape: shape.to_vec(), values });
        };
        let (vocabulary, width) = (vocabulary().len(), self.width);
        for (name, rows, deviation) in [
            ("word", vocabulary, 1.0),
            ("position", POSITIONS, 0.05),
            ("token_type", TOKEN_TYPES, 0.05),
        ] {
            add(format!("embeddings.{name}_embeddings.weight"), &[rows, width], 0.0, deviation);
        }
        add("embeddings.LayerNorm.weight".to_owned(), &[width], 1.0, 0.1);
        add("embeddings.LayerNorm.bias".to_owned(), &[width], 0.0, 0.1);
        for layer in 0..LAYERS {
            for (part, input, output) in [
                ("attention.self.query", width, width),
                ("attention.self.key", width, width),
                ("attention.self.value", width, width),
                ("attention.output.dense", width, width),
                ("intermediate.dense", width, INTERMEDIATE),
                ("output.dense", INTERMEDIATE, width),
            ] {
                let name = format!("encoder.layer.{layer}.{part}");
                let deviation = 1.0 / (input as f32).sqrt();
                add(format!("{name}.weight"), &[output, input], 0.0, deviation);
                add(format!("{name}.bias"), &[output], 0.0, 0.1);
            }
            for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
                let name = format!("encoder.layer.{layer}.{part}");
                add(format!("{name}.weight"), &[width], 1.0, 0.1);
                add(format!("{name}.bias"), &[width], 0.0, 0.1);
            }
        }
        tensors
    }
}

/// Writes `tensors` as a safetensors file.
///
/// # Errors
/// Returns an error if the file system fails.
pub fn write_tensors(path: &Path, tensors: &[TinyTensor], format: WeightFormat) -> io::Result<()> {
    let (dtype, encode): (Dtype, fn(f32) -> Vec<u8>) = match format {
        WeightFormat::Float32 => (Dtype::F32, |value| value.to_le_bytes().to_vec()),
        WeightFormat::Float16 => (Dtype::F16, |value| f16::from_f32(value).to_le_bytes().to_vec()),
        WeightFormat::BFloat16 => {
            (Dtype::BF16, |value| bf16::from_f32(value).to_le_bytes().to_vec())
        }
    };
    let encoded: Vec<Vec<u8>> = tensors
        .iter()
        .map(|tensor| tensor.values.iter().flat_map(|value| encode(*value)).collect())
        .collect();
    let views = tensors.iter().zip(&encoded).map(|(tensor, bytes)| {
        let view = TensorView::new(dtype, tensor.shape.clone(), bytes)
            .expect("a tensor has as many values as its shape says");
        (tensor.name.as_str(), view)
    });
    safetensors::serialize_to_file(views, None, path).map_err(io::Error::other)
}

/// Returns the content of the tiny model's `tokenizer.json`: lower-case word pieces between `[CLS]`
/// and `[SEP]`.
pub fn tiny_tokenizer() -> Value {
    let tokens = vocabulary();
    let vocab: serde_json::Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    let added: Vec<Value> = SPECIAL_TOKENS
        .iter()
        .enumerate()
        .map(|(id, token)| {
            json!({
                "id": id, "content": token, "special": true, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false,
            })
        })
        .collect();
    let special = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let sequence = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    json!({
        "version": "1.0",
        // As in published models: settings of the training, which a reader must not apply.
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
        },
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [special("[CLS]"), sequence("A", 0), special("[SEP]")],
            "pair": [
                special("[CLS]"), sequence("A", 0), special("[SEP]"),
                sequence("B", 1), {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
            ],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab,
        },
    })
}

/// Returns the tokens by id.
fn vocabulary() -> Vec<String> {
    let mut tokens: Vec<String> = SPECIAL_TOKENS.iter().map(|token| (*token).to_owned()).collect();
    tokens.extend(PUNCTUATION.chars().map(String::from));
    tokens.extend(CHARACTERS.chars().map(String::from));
    tokens.extend(CHARACTERS.chars().map(|character| format!("##{character}")));
    // One-letter words are already included as characters.
    tokens.extend(WORDS.split_whitespace().filter(|word| word.len() > 1).map(str::to_owned));
    tokens.retain({
        let mut seen = std::collections::HashSet::new();
        move |token| seen.insert(token.clone())
    });
    tokens
}

fn config(width: usize) -> Value {
    json!({
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "vocab_size": vocabulary().len(),
        "hidden_size": width,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": TOKEN_TYPES,
        "layer_norm_eps": 1e-12,
    })
}

fn modules() -> Value {
    let module = |index: usize, path: &str, kind: &str| {
        let kind = format!("sentence_transformers.models.{kind}");
        json!({"idx": index, "name": index.to_string(), "path": path, "type": kind})
    };
    json!([
        module(0, "", "Transformer"),
        module(1, "1_Pooling", "Pooling"),
        module(2, "2_Normalize", "Normalize"),
    ])
}

pub(crate) fn write_json(path: &Path, value: &Value) -> io::Result<()> {
    fs::write(path, value.to_string())
}

/// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", figure 1). Its
/// numbers do not depend on the version of a random-number crate.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number that is uniform in `0..1`.
    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u32 << 24) as f32
    }

    /// Returns a number of mean 0 and standard deviation 1 that is nearly normal: the sum of twelve
    /// uniform numbers, minus 6.
    pub(crate) fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_writes_the_same_weights() {
        let weights = |seed| {
            let folder = tempfile::tempdir().unwrap();
            write_tiny_bert(folder.path(), seed).unwrap();
            fs::read(folder.path().join("model.safetensors")).unwrap()
        };
        assert_eq!(weights(1), weights(1));
        assert_ne!(weights(1), weights(2));
    }

    #[test]
    fn random_values_have_the_deviation_they_claim() {
        let mut random = Random(7);
        let values: Vec<f32> = (0..10_000).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f32>() / 10_000.0;
        let variance = values.iter().map(|value| value * value).sum::<f32>() / 10_000.0;
        // Four standard errors of either estimate: 4/100 and 4 * sqrt(2)/100.
        assert!(mean.abs() < 0.04 && (variance - 1.0).abs() < 0.06, "{mean} {variance}");
    }
}
