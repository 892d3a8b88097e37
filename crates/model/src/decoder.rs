//! Decoder-only language models: Qwen2 and Qwen2.5, Llama 2 and 3, Mistral.
//!
//! One layer normalises by the root mean square (Zhang and Sennrich, "Root Mean Square Layer
//! Normalization"), attends with rotary positions and grouped queries (Ainslie et al., "GQA"), and runs a
//! gated feed-forward part (Shazeer, "GLU Variants Improve Transformer").
//!
//! Sequences of a batch are not padded: the new tokens of all of them are the rows of one matrix, which
//! is what the large products read, and only attention goes sequence by sequence, over its own cache. So
//! a sequence's result does not depend on what it is computed with, and sequences come and go between two
//! steps.

mod cache;
mod config;
mod rope;

use std::path::Path;

use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::{silu, softmax};

use self::cache::KvCache;
pub(crate) use self::config::Ends;
use self::config::{DecoderConfig, layer_root};
use crate::checkpoint::Checkpoint;
use crate::folder::reader::FolderReader;
use crate::{DeviceChoice, Error, Precision, device};

/// Most new tokens of a sequence that attend at once; the scores of more would not fit into memory.
const ATTENDING: usize = 512;

/// A decoder on one device.
pub struct Decoder {
    config: DecoderConfig,
    device: Device,
    dtype: DType,
    /// `[vocabulary, hidden]`.
    words: Tensor<2>,
    layers: Vec<Layer>,
    norm: Norm,
    /// `[vocabulary, hidden]`; the table of words if it is tied.
    head: Tensor<2>,
}

struct Layer {
    attention_norm: Norm,
    /// Queries, keys and values of all heads, one below the other.
    project: Linear,
    output: Linear,
    feed_norm: Norm,
    /// Gate and up, one below the other.
    expand: Linear,
    contract: Linear,
    /// Tokens that a token sees, itself included.
    window: Option<usize>,
}

/// A matrix `[output, input]`, as it is stored.
struct Linear {
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
}

struct Norm {
    weight: Tensor<1>,
    epsilon: f64,
}

/// A sequence that a decoder has read, as far as it has.
pub struct Sequence(KvCache);

impl Sequence {
    /// Tokens read so far.
    pub fn length(&self) -> usize {
        self.0.length()
    }
}

/// What a step is to do with one sequence.
pub struct Step<'a> {
    /// The sequence.
    pub sequence: &'a mut Sequence,
    /// Tokens to read, at least one.
    pub tokens: &'a [u32],
    /// Which of them are answered with what may follow.
    pub wanted: Wanted,
}

/// Which tokens of a step are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// None: more of a prompt follows.
    Nothing,
    /// The last.
    Last,
    /// Every one.
    All,
}

impl Decoder {
    /// Loads a model folder in Hugging Face layout, tensor by tensor.
    ///
    /// # Errors
    /// Any of the variants of [`Error`] about files; [`Error::OptionUnavailable`] for a device or number
    /// format that is not there.
    pub fn load(folder: &Path, choice: DeviceChoice, precision: Precision) -> Result<Self, Error> {
        let reader = FolderReader::new(folder);
        let config = DecoderConfig::read(&reader)?;
        let checkpoint = Checkpoint::open(&reader)?;
        // A tied head is written out by some, and is the table of words all the same.
        let is_ignored = |name: &str| {
            name.ends_with("rotary_emb.inv_freq") || (config.is_tied && name == "lm_head.weight")
        };
        checkpoint.check(&config.parameters(), is_ignored)?;
        let device = device::open(choice)?;
        let dtype = precision.dtype();
        if !device.supports_dtype(dtype) {
            return Err(Error::OptionUnavailable {
                option: "precision",
                expected: "float32 on this device".to_owned(),
                found: precision.to_string(),
            });
        }
        let loader = Loader { checkpoint: &checkpoint, device: &device, dtype };
        let layer = |index| loader.layer(&config, index);
        let layers = (0..config.layers).map(layer).collect::<Result<Vec<_>, Error>>()?;
        let words = loader.matrix(&["model.embed_tokens.weight".to_owned()])?;
        let head = match config.is_tied {
            true => words.clone(),
            false => loader.matrix(&["lm_head.weight".to_owned()])?,
        };
        let norm = loader.norm("model.norm.weight", config.norm_epsilon)?;
        Ok(Self { device: device.clone(), dtype, words, layers, norm, head, config })
    }

    /// Number of token ids.
    pub fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    /// Most tokens of a sequence.
    pub fn positions(&self) -> usize {
        self.config.positions
    }

    /// Ids that end a text.
    pub fn ends(&self) -> &[u32] {
        &self.config.ends
    }

    /// Bytes of memory that a sequence of so many tokens takes on the device.
    pub fn sequence_bytes(&self, tokens: usize) -> usize {
        cache::bytes(&self.config, self.dtype, tokens)
    }

    /// An empty sequence that may grow to `tokens`, at most to what the model reads.
    pub fn sequence(&self, tokens: usize) -> Sequence {
        Sequence(KvCache::new(self.config.layers, tokens.min(self.config.positions)))
    }

    /// Reads more of each sequence, and answers for the wanted tokens, in the order of the steps, with
    /// the logits of what may follow, `[vocabulary]` each.
    ///
    /// # Errors
    /// [`Error::ForeignTokens`] and [`Error::TooLong`] before anything is read; [`Error::Device`], after
    /// which the sequences are of no use.
    pub fn step(&self, steps: &mut [Step<'_>]) -> Result<Vec<Vec<f32>>, Error> {
        self.check(steps)?;
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let ids = steps.iter().flat_map(|step| step.tokens).map(|id| i64::from(*id));
        let ids: Vec<i64> = ids.collect();
        let rows = ids.len();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [rows]), &self.device);
        let angles = self.angles(steps, rows);
        let mut states = self.words.clone().select(0, ids);
        for (index, layer) in self.layers.iter().enumerate() {
            states = self.layer(index, layer, states, &angles, steps);
        }
        for step in &mut *steps {
            step.sequence.0.advance(step.tokens.len());
        }
        self.logits(states, steps)
    }

    fn check(&self, steps: &[Step<'_>]) -> Result<(), Error> {
        for step in steps {
            step.sequence.0.check_room(step.tokens.len())?;
            let foreign = step.tokens.iter().find(|id| **id as usize >= self.config.vocabulary);
            if step.tokens.is_empty() || foreign.is_some() {
                return Err(Error::ForeignTokens {
                    expected: format!("at least one id, each below {}", self.config.vocabulary),
                    found: foreign.map_or("none".to_owned(), |id| format!("id {id}")),
                });
            }
        }
        Ok(())
    }

    /// Cosines and sines for every row, `[rows, 1, head_width]`.
    fn angles(&self, steps: &[Step<'_>], rows: usize) -> (Tensor<3>, Tensor<3>) {
        let positions = steps.iter().flat_map(|step| {
            let start = step.sequence.length();
            start..start + step.tokens.len()
        });
        let (cosines, sines) = self.config.rope.angles(positions);
        let tensor = |values| {
            let data = TensorData::new(values, [rows, 1, self.config.head_width]);
            Tensor::from_data(data.convert_dtype(self.dtype), (&self.device, self.dtype))
        };
        (tensor(cosines), tensor(sines))
    }

    /// `[rows, hidden]` to the same.
    fn layer(
        &self,
        index: usize,
        layer: &Layer,
        states: Tensor<2>,
        (cosines, sines): &(Tensor<3>, Tensor<3>),
        steps: &mut [Step<'_>],
    ) -> Tensor<2> {
        let DecoderConfig { heads, kv_heads, head_width, intermediate, .. } = self.config;
        let [rows, _] = states.dims();
        let projected = layer.project.forward(layer.attention_norm.forward(states.clone()));
        let all_heads = heads + 2 * kv_heads;
        let projected: Tensor<3> = projected.reshape([rows, all_heads, head_width]);
        let part = |from, to| projected.clone().slice([0..rows, from..to, 0..head_width]);
        let turned = turn(part(0, heads + kv_heads), cosines, sines);
        let queries = turned.clone().slice([0..rows, 0..heads, 0..head_width]);
        let keys = turned.slice([0..rows, heads..heads + kv_heads, 0..head_width]);
        let values = part(heads + kv_heads, all_heads);
        let mut attended = Vec::with_capacity(steps.len());
        let mut row = 0;
        for step in steps {
            let end = row + step.tokens.len();
            let of_step = |all: &Tensor<3>| {
                let [_, heads, width] = all.dims();
                all.clone().slice([row..end, 0..heads, 0..width]).swap_dims(0, 1)
            };
            attended.push(attend(
                &mut step.sequence.0,
                index,
                of_step(&queries),
                of_step(&keys),
                of_step(&values),
                layer.window,
            ));
            row = end;
        }
        let attended = match attended.len() {
            1 => attended.swap_remove(0),
            _ => Tensor::cat(attended, 0),
        };
        let states = states + layer.output.forward(attended);
        let expanded = layer.expand.forward(layer.feed_norm.forward(states.clone()));
        let gate = expanded.clone().slice([0..rows, 0..intermediate]);
        let up = expanded.slice([0..rows, intermediate..2 * intermediate]);
        states + layer.contract.forward(silu(gate) * up)
    }

    fn logits(&self, states: Tensor<2>, steps: &[Step<'_>]) -> Result<Vec<Vec<f32>>, Error> {
        let mut wanted: Vec<i64> = Vec::new();
        let mut row = 0;
        for step in steps {
            let end = row + step.tokens.len() as i64;
            match step.wanted {
                Wanted::Nothing => {}
                Wanted::Last => wanted.push(end - 1),
                Wanted::All => wanted.extend(row..end),
            }
            row = end;
        }
        let count = wanted.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let wanted = Tensor::<1, Int>::from_data(TensorData::new(wanted, [count]), &self.device);
        let states = self.norm.forward(states.select(0, wanted));
        let logits = states.matmul(self.head.clone().transpose());
        let logits = logits.try_into_vec_as::<f32>();
        let logits = logits.map_err(|error| Error::Device { reason: error.to_string() })?;
        Ok(logits.chunks_exact(self.config.vocabulary).map(<[f32]>::to_vec).collect())
    }
}

/// Turns heads `[rows, heads, width]` by their rows' angles.
fn turn(heads: Tensor<3>, cosines: &Tensor<3>, sines: &Tensor<3>) -> Tensor<3> {
    let [rows, count, width] = heads.dims();
    let half = width / 2;
    let first = heads.clone().slice([0..rows, 0..count, 0..half]);
    let second = heads.clone().slice([0..rows, 0..count, half..width]);
    let across = Tensor::cat(vec![second.neg(), first], 2);
    heads * cosines.clone() + across * sines.clone()
}

/// Attention of the new tokens of one sequence, `[heads, tokens, width]` each; `[tokens, heads * width]`.
fn attend(
    cache: &mut KvCache,
    layer: usize,
    queries: Tensor<3>,
    keys: Tensor<3>,
    values: Tensor<3>,
    window: Option<usize>,
) -> Tensor<2> {
    let start = cache.length();
    let [heads, tokens, width] = queries.dims();
    let (keys, values, first) = cache.write(layer, keys, values, window);
    let [kv_heads, _, _] = keys.dims();
    let group = heads / kv_heads;
    let queries = queries.reshape([kv_heads, group, tokens, width]);
    let mut parts = Vec::with_capacity(tokens.div_ceil(ATTENDING));
    for begin in (0..tokens).step_by(ATTENDING) {
        let end = (begin + ATTENDING).min(tokens);
        // What the part sees, counted from the first key at hand.
        let from = cache::first_seen(start + begin, window) - first;
        let to = start + end - first;
        let seen = |all: &Tensor<3>| all.clone().slice([0..kv_heads, from..to, 0..width]);
        let part = queries.clone().slice([0..kv_heads, 0..group, begin..end, 0..width]);
        let hidden = hidden_keys(start + begin, end - begin, from + first, to - from, window);
        parts.push(attend_part(part, seen(&keys), seen(&values), hidden));
    }
    let attended = match parts.len() {
        1 => parts.swap_remove(0),
        _ => Tensor::cat(parts, 1),
    };
    attended.swap_dims(0, 1).reshape([tokens, heads * width])
}

/// Queries `[kv_heads, group, tokens, width]` over keys and values `[kv_heads, seen, width]`;
/// `[heads, tokens, width]`. Scores are weighed in 32-bit floats, as the reference does.
fn attend_part(
    queries: Tensor<4>,
    keys: Tensor<3>,
    values: Tensor<3>,
    hidden: Option<Vec<bool>>,
) -> Tensor<3> {
    let [kv_heads, group, tokens, width] = queries.dims();
    let [_, seen, _] = keys.dims();
    let (device, dtype) = (queries.device(), queries.dtype());
    let queries = queries.reshape([kv_heads, group * tokens, width]);
    let scores = queries.matmul(keys.swap_dims(1, 2)).cast(DType::F32);
    let scores = scores.mul_scalar((width as f64).powf(-0.5));
    let mut scores: Tensor<4> = scores.reshape([kv_heads, group, tokens, seen]);
    if let Some(hidden) = hidden {
        let hidden = TensorData::new(hidden, [1, 1, tokens, seen]);
        let hidden = Tensor::<4, Bool>::from_data(hidden, &device);
        let hidden = hidden.expand([kv_heads, group, tokens, seen]);
        scores = scores.mask_fill(hidden, f32::MIN);
    }
    let weights = softmax(scores, 3).cast(dtype).reshape([kv_heads, group * tokens, seen]);
    weights.matmul(values).reshape([kv_heads * group, tokens, width])
}

/// For queries from `start` on and keys from `first` on, `[tokens, seen]`, which keys a query does not
/// see; `None` if every query sees all.
fn hidden_keys(
    start: usize,
    tokens: usize,
    first: usize,
    seen: usize,
    window: Option<usize>,
) -> Option<Vec<bool>> {
    let is_hidden = |query: usize, key: usize| {
        key > query || window.is_some_and(|window| query - key >= window)
    };
    let queries = start..start + tokens;
    let pairs = queries.flat_map(|query| (first..first + seen).map(move |key| (query, key)));
    let hidden: Vec<bool> = pairs.map(|(query, key)| is_hidden(query, key)).collect();
    hidden.contains(&true).then_some(hidden)
}

impl Linear {
    fn forward(&self, states: Tensor<2>) -> Tensor<2> {
        let product = states.matmul(self.weight.clone().transpose());
        match &self.bias {
            None => product,
            Some(bias) => product + bias.clone().unsqueeze(),
        }
    }
}

impl Norm {
    /// In 32-bit floats, whatever the states are in.
    fn forward(&self, states: Tensor<2>) -> Tensor<2> {
        let dtype = states.dtype();
        let states = states.cast(DType::F32);
        let mean = states.clone().square().mean_dim(1);
        let normal = states * mean.add_scalar(self.epsilon).sqrt().recip();
        normal.cast(dtype) * self.weight.clone().unsqueeze()
    }
}

/// Moves tensors of a checkpoint onto a device.
struct Loader<'a> {
    checkpoint: &'a Checkpoint,
    device: &'a Device,
    dtype: DType,
}

impl Loader<'_> {
    fn layer(&self, config: &DecoderConfig, index: usize) -> Result<Layer, Error> {
        let root = layer_root(index);
        let named = |parts: &[&str]| {
            let named = parts.iter().map(|part| format!("{root}.{part}"));
            named.collect::<Vec<String>>()
        };
        let norm = |name: &str| self.norm(&format!("{root}.{name}.weight"), config.norm_epsilon);
        Ok(Layer {
            attention_norm: norm("input_layernorm")?,
            project: self.linear(
                &named(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
                config.has_bias,
            )?,
            output: self.linear(&named(&["self_attn.o_proj"]), config.has_output_bias())?,
            feed_norm: norm("post_attention_layernorm")?,
            expand: self.linear(&named(&["mlp.gate_proj", "mlp.up_proj"]), false)?,
            contract: self.linear(&named(&["mlp.down_proj"]), false)?,
            window: config.windows[index],
        })
    }

    /// Several linear parts of one input as one.
    fn linear(&self, parts: &[String], has_bias: bool) -> Result<Linear, Error> {
        let named = |part: &str| -> Vec<String> {
            parts.iter().map(|name| format!("{name}.{part}")).collect()
        };
        let weight = self.matrix(&named("weight"))?;
        let bias = match has_bias {
            false => None,
            true => Some(self.tensor(self.checkpoint.read(&named("bias"))?)),
        };
        Ok(Linear { weight, bias })
    }

    fn norm(&self, name: &str, epsilon: f64) -> Result<Norm, Error> {
        let weight = self.tensor(self.checkpoint.read(&[name.to_owned()])?);
        Ok(Norm { weight, epsilon })
    }

    fn matrix(&self, names: &[String]) -> Result<Tensor<2>, Error> {
        Ok(self.tensor(self.checkpoint.read(names)?))
    }

    fn tensor<const RANK: usize>(&self, data: TensorData) -> Tensor<RANK> {
        Tensor::from_data(data.convert_dtype(self.dtype), (self.device, self.dtype))
    }
}
