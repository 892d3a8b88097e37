//! Shape of a decoder, from a Hugging Face `config.json`.

use serde::{Deserialize, Serialize};

use super::rope::{Rope, Scaling};
use crate::Error;
use crate::folder::reader::FolderReader;
use crate::weights::Parameter;

const CONFIG: &str = "config.json";

/// Bounds far above any real decoder. A file with larger sizes is broken. Products of two sizes
/// stay far from overflow.
const LARGEST_SIZE: usize = 1 << 24;
pub(crate) const MOST_LAYERS: usize = 1 << 10;

/// Published architecture of a decoder. They differ in biases and in which layers have a sliding
/// window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Family {
    /// Qwen2 and Qwen2.5.
    Qwen2,
    /// Llama 2 and 3.
    Llama,
    /// Mistral.
    Mistral,
}

/// Shape of a decoder. The comments name the fields of a Hugging Face `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DecoderConfig {
    pub(crate) family: Family,
    /// Number of token ids, `vocab_size`.
    pub(crate) vocabulary: usize,
    /// Width of the token states, `hidden_size`.
    pub(crate) hidden: usize,
    /// Width inside the feed-forward part, `intermediate_size`.
    pub(crate) intermediate: usize,
    /// Number of layers, `num_hidden_layers`.
    pub(crate) layers: usize,
    /// Query heads, `num_attention_heads`.
    pub(crate) heads: usize,
    /// Key and value heads, `num_key_value_heads`; a divisor of `heads`.
    pub(crate) kv_heads: usize,
    /// Width of a head, `head_dim`, or `hidden_size / num_attention_heads`.
    pub(crate) head_width: usize,
    /// Maximum number of tokens in a sequence, `max_position_embeddings`.
    pub(crate) positions: usize,
    /// Added to the mean square in normalisation, `rms_norm_eps`.
    pub(crate) norm_epsilon: f64,
    /// Whether the head is the embedding table, `tie_word_embeddings`.
    pub(crate) is_tied: bool,
    /// Whether queries, keys and values have a bias.
    pub(crate) has_bias: bool,
    /// Rotation of queries and keys by positions.
    pub(crate) rope: Rope,
    /// Number of tokens that a token attends to in each layer, itself included; `None` for all
    /// before it.
    pub(crate) windows: Vec<Option<usize>>,
    /// Ids that end a text, `eos_token_id`.
    pub(crate) ends: Vec<u32>,
    /// Id that begins a text, `bos_token_id`.
    #[serde(skip)]
    pub(crate) begin: Option<u32>,
    /// Parameters of memory tokens, if the model has a memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<MemoryParts>,
}

/// Parameters of memory tokens ([`crate::memory`]).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MemoryParts {
    /// Projections that memory tokens have of their own, of `q`, `k`, `v` and `o`, `beacon_param`.
    pub(crate) projections: Vec<char>,
    /// Id whose embedding the memory token copies, if the checkpoint has no parameters of memory
    /// tokens. Their projections then begin as copies of the words' projections.
    pub(crate) copied_from: Option<u32>,
}

impl MemoryParts {
    /// Returns whether memory tokens have this projection of their own.
    pub(crate) fn has(&self, projection: char) -> bool {
        self.projections.contains(&projection)
    }
}

/// Configuration file as transformers 4 (`rope_theta`, `rope_scaling`) and 5 (`rope_parameters`)
/// write it.
#[derive(Debug, Deserialize)]
struct Raw {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default = "silu")]
    hidden_act: String,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    rope_theta: Option<f64>,
    rope_scaling: Option<RawScaling>,
    rope_parameters: Option<RawScaling>,
    sliding_window: Option<usize>,
    #[serde(default)]
    use_sliding_window: bool,
    max_window_layers: Option<usize>,
    eos_token_id: Option<Ends>,
    bos_token_id: Option<Ends>,
}

/// One id or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Ends {
    One(u32),
    Several(Vec<u32>),
}

impl Ends {
    pub(crate) fn into_ids(self) -> Vec<u32> {
        match self {
            Self::One(id) => vec![id],
            Self::Several(ids) => ids,
        }
    }
}

#[derive(Debug, Deserialize)]
struct RawScaling {
    rope_type: Option<String>,
    /// Older name; some files have both.
    r#type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
    attention_factor: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
}

fn silu() -> String {
    "silu".to_owned()
}

impl DecoderConfig {
    /// Reads the configuration of `folder`.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if the file cannot be read, [`Error::Broken`] if it is invalid
    /// or contradicts itself, and [`Error::Unsupported`] for architectures, activations and
    /// position scalings that are not implemented here.
    pub(crate) fn read(folder: &FolderReader) -> Result<Self, Error> {
        let raw: Raw = folder.json(CONFIG, "the configuration of a decoder")?;
        let family = match raw.model_type.as_str() {
            "qwen2" => Family::Qwen2,
            "llama" => Family::Llama,
            "mistral" => Family::Mistral,
            other => {
                let expected = "`model_type` qwen2, llama or mistral";
                return Err(folder.unsupported(CONFIG, expected, format!("`{other}`")));
            }
        };
        if raw.hidden_act != "silu" {
            return Err(folder.unsupported(CONFIG, "`hidden_act` silu", &raw.hidden_act));
        }
        if raw.mlp_bias {
            return Err(folder.unsupported(CONFIG, "`mlp_bias` false", "true"));
        }
        let kv_heads = raw.num_key_value_heads.unwrap_or(raw.num_attention_heads);
        let sizes = [
            ("vocab_size", raw.vocab_size),
            ("hidden_size", raw.hidden_size),
            ("intermediate_size", raw.intermediate_size),
            ("num_hidden_layers", raw.num_hidden_layers),
            ("num_attention_heads", raw.num_attention_heads),
            ("num_key_value_heads", kv_heads),
            ("max_position_embeddings", raw.max_position_embeddings),
        ];
        if let Some((name, size)) =
            sizes.iter().find(|(_, size)| !(1..=LARGEST_SIZE).contains(size))
        {
            let expected = format!("`{name}` from 1 to {LARGEST_SIZE}");
            return Err(folder.broken(CONFIG, &expected, size));
        }
        if raw.num_hidden_layers > MOST_LAYERS {
            let expected = format!("`num_hidden_layers` up to {MOST_LAYERS}");
            return Err(folder.broken(CONFIG, &expected, raw.num_hidden_layers));
        }
        if !raw.num_attention_heads.is_multiple_of(kv_heads) {
            let expected = "`num_attention_heads` that `num_key_value_heads` divides";
            let found = format!("{} and {kv_heads}", raw.num_attention_heads);
            return Err(folder.broken(CONFIG, expected, found));
        }
        if raw.head_dim.is_none() && !raw.hidden_size.is_multiple_of(raw.num_attention_heads) {
            let expected = "`hidden_size` that `num_attention_heads` divides";
            let found = format!("{} and {}", raw.hidden_size, raw.num_attention_heads);
            return Err(folder.broken(CONFIG, expected, found));
        }
        let head_width = raw.head_dim.unwrap_or(raw.hidden_size / raw.num_attention_heads);
        if head_width == 0 || !head_width.is_multiple_of(2) {
            let expected = "heads of an even width, which rotary embedding turns in pairs";
            return Err(folder.broken(CONFIG, expected, head_width));
        }
        Ok(Self {
            family,
            vocabulary: raw.vocab_size,
            hidden: raw.hidden_size,
            intermediate: raw.intermediate_size,
            layers: raw.num_hidden_layers,
            heads: raw.num_attention_heads,
            kv_heads,
            head_width,
            positions: raw.max_position_embeddings,
            norm_epsilon: raw.rms_norm_eps,
            is_tied: raw.tie_word_embeddings,
            has_bias: family == Family::Qwen2 || raw.attention_bias,
            rope: read_rope(folder, &raw, head_width)?,
            windows: windows(family, &raw),
            ends: raw.eos_token_id.map(Ends::into_ids).unwrap_or_default(),
            begin: raw.bos_token_id.and_then(|id| id.into_ids().first().copied()),
            memory: None,
        })
    }

    /// Returns every parameter of the model by its Hugging Face name, with its shape in the file,
    /// where a linear weight is `[output, input]`.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = self.headless_parameters();
        if !self.is_tied {
            let shape = vec![self.vocabulary, self.hidden];
            parameters.push(Parameter { name: "lm_head.weight".to_owned(), shape });
        }
        parameters
    }

    /// Returns the same parameters without the head, which an encoder does not have.
    pub(crate) fn headless_parameters(&self) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        let mut add = |name: String, shape: &[usize]| {
            parameters.push(Parameter { name, shape: shape.to_vec() });
        };
        let hidden = self.hidden;
        add("model.embed_tokens.weight".to_owned(), &[self.vocabulary, hidden]);
        for layer in 0..self.layers {
            let root = layer_root(layer);
            for norm in ["input_layernorm", "post_attention_layernorm"] {
                add(format!("{root}.{norm}.weight"), &[hidden]);
            }
            for (part, heads) in [("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)] {
                let width = heads * self.head_width;
                add(format!("{root}.self_attn.{part}_proj.weight"), &[width, hidden]);
                if self.has_bias {
                    add(format!("{root}.self_attn.{part}_proj.bias"), &[width]);
                }
            }
            for (part, shape) in self.memory_projections() {
                let name = format!("{root}.self_attn.beacon_{part}_proj");
                let has_bias = if part == 'o' { self.has_output_bias() } else { self.has_bias };
                add(format!("{name}.weight"), &shape);
                if has_bias {
                    add(format!("{name}.bias"), &shape[..1]);
                }
            }
            let attended = self.heads * self.head_width;
            add(format!("{root}.self_attn.o_proj.weight"), &[hidden, attended]);
            if self.has_output_bias() {
                add(format!("{root}.self_attn.o_proj.bias"), &[hidden]);
            }
            for part in ["gate", "up"] {
                add(format!("{root}.mlp.{part}_proj.weight"), &[self.intermediate, hidden]);
            }
            add(format!("{root}.mlp.down_proj.weight"), &[hidden, self.intermediate]);
        }
        add("model.norm.weight".to_owned(), &[hidden]);
        if self.has_memory_parameters() {
            add("model.beacon_embed_tokens.weight".to_owned(), &[1, hidden]);
        }
        parameters
    }

    /// Returns whether the checkpoint has parameters of memory tokens.
    fn has_memory_parameters(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.copied_from.is_none())
    }

    /// Returns the memory tokens' own projections in a checkpoint, with the shapes of their
    /// matrices.
    pub(crate) fn memory_projections(&self) -> Vec<(char, [usize; 2])> {
        let Some(memory) = self.memory.as_ref().filter(|_| self.has_memory_parameters()) else {
            return Vec::new();
        };
        let (hidden, width) = (self.hidden, self.head_width);
        let shapes = [
            ('q', [self.heads * width, hidden]),
            ('k', [self.kv_heads * width, hidden]),
            ('v', [self.kv_heads * width, hidden]),
            ('o', [hidden, self.heads * width]),
        ];
        shapes.into_iter().filter(|(part, _)| memory.has(*part)).collect()
    }

    /// Returns whether a checkpoint's tensor of this name is ignored. Some checkpoints store a tied
    /// head as well, although it is the embedding table.
    pub(crate) fn ignores(&self, name: &str) -> bool {
        name.ends_with("rotary_emb.inv_freq") || (self.is_tied && name == "lm_head.weight")
    }

    /// Returns whether the output projection of the attention has a bias. It has in a Llama with
    /// biases.
    pub(crate) fn has_output_bias(&self) -> bool {
        self.has_bias && self.family == Family::Llama
    }

    /// Refuses an empty list of tokens, and tokens that the model does not know.
    ///
    /// # Errors
    /// Returns [`Error::ForeignTokens`] in both cases.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), Error> {
        let foreign = tokens.iter().find(|id| **id as usize >= self.vocabulary);
        if tokens.is_empty() || foreign.is_some() {
            return Err(Error::ForeignTokens {
                expected: format!("at least one id, each below {}", self.vocabulary),
                found: foreign.map_or("none".to_owned(), |id| format!("id {id}")),
            });
        }
        Ok(())
    }

    /// Returns the size in bytes of one token's keys and values, with numbers of `size` bytes.
    pub(crate) fn cache_bytes(&self, size: usize) -> usize {
        2 * self.layers * self.kv_heads * self.head_width * size
    }
}

/// Returns the Hugging Face name of a layer.
pub(crate) fn layer_root(layer: usize) -> String {
    format!("model.layers.{layer}")
}

fn windows(family: Family, raw: &Raw) -> Vec<Option<usize>> {
    let window = raw.sliding_window.filter(|window| *window > 0);
    let first = match family {
        Family::Mistral => 0,
        // The first layers have no window.
        Family::Qwen2 if raw.use_sliding_window => raw.max_window_layers.unwrap_or(0),
        Family::Qwen2 | Family::Llama => raw.num_hidden_layers,
    };
    (0..raw.num_hidden_layers).map(|layer| window.filter(|_| layer >= first)).collect()
}

fn read_rope(folder: &FolderReader, raw: &Raw, head_width: usize) -> Result<Rope, Error> {
    let scaling = raw.rope_parameters.as_ref().or(raw.rope_scaling.as_ref());
    let theta = raw.rope_theta.or(scaling.and_then(|scaling| scaling.rope_theta));
    let theta = theta.unwrap_or(10_000.0);
    let Some(scaling) = scaling else {
        return Ok(Rope::new(head_width, theta, &Scaling::None));
    };
    let needed = |value: Option<f64>, name: &str| {
        value.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(|| {
            folder.broken(CONFIG, &format!("a positive `{name}` in the position scaling"), "none")
        })
    };
    let original = scaling.original_max_position_embeddings;
    let kind = scaling.rope_type.as_ref().or(scaling.r#type.as_ref());
    let scaling = match kind.map_or("default", String::as_str) {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: needed(scaling.factor, "factor")? },
        "llama3" => Scaling::Llama3 {
            factor: needed(scaling.factor, "factor")?,
            low: needed(scaling.low_freq_factor, "low_freq_factor")?,
            high: needed(scaling.high_freq_factor, "high_freq_factor")?,
            original: needed(
                original.map(|tokens| tokens as f64),
                "original_max_position_embeddings",
            )?,
        },
        "yarn" => Scaling::Yarn {
            factor: needed(scaling.factor, "factor")?,
            original: original.unwrap_or(raw.max_position_embeddings) as f64,
            beta_fast: scaling.beta_fast.unwrap_or(32.0),
            beta_slow: scaling.beta_slow.unwrap_or(1.0),
            attention: scaling.attention_factor,
        },
        other => {
            let expected = "position scaling default, linear, llama3 or yarn";
            return Err(folder.unsupported(CONFIG, expected, format!("`{other}`")));
        }
    };
    Ok(Rope::new(head_width, theta, &scaling))
}
