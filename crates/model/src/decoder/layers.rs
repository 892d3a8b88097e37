//! Layers of a decoder, over sequences that are not padded.

pub(crate) mod stacks;

use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::silu;

use std::sync::{Mutex, PoisonError};

use super::attention::Heads;
use super::config::{DecoderConfig, MemoryParts, layer_root};
use super::cores::Cores;
use crate::Error;
use crate::checkpoint::Checkpoint;

/// Decoder without its head: the embedding table, the layers and the last normalisation.
pub(crate) struct Layers {
    pub(crate) config: DecoderConfig,
    pub(crate) device: Device,
    pub(crate) dtype: DType,
    /// `[vocabulary, hidden]`.
    pub(crate) words: Tensor<2>,
    layers: Vec<Layer>,
    norm: Norm,
    /// Embedding of the memory token, `[1, hidden]`, if the model has one.
    memory_word: Option<Tensor<2>>,
    /// Cosines and sines of positions from 0 up to the largest requested so far,
    /// `[positions, head_width]` each.
    turns: Mutex<Option<(Tensor<2>, Tensor<2>)>>,
}

struct Layer {
    attention_norm: Norm,
    /// Projections to queries, keys and values of all heads, stacked by rows.
    project: Linear,
    output: Linear,
    /// Projections of memory tokens, where they differ.
    memory: MemoryLayer,
    feed_norm: Norm,
    /// Gate and up projections, stacked by rows.
    expand: Linear,
    contract: Linear,
    /// Number of tokens that a token attends to, itself included.
    window: Option<usize>,
}

/// Projections of a layer for memory tokens.
#[derive(Default)]
struct MemoryLayer {
    project: Option<Linear>,
    output: Option<Linear>,
}

/// Linear layer with a matrix `[output, input]`, as it is stored.
pub(crate) struct Linear {
    pub(crate) weight: Tensor<2>,
    pub(crate) bias: Option<Tensor<1>>,
    cores: Cores,
}

struct Norm {
    weight: Tensor<1>,
    epsilon: f64,
}

/// New tokens of one sequence.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// Ids below the size of the vocabulary, or that size, which is the id of the memory token.
    pub(crate) tokens: &'a [u32],
    /// Position of each token.
    pub(crate) positions: &'a [usize],
}

/// Division of the rows of a matrix into words and memory tokens. There are always words, because
/// memory tokens follow them in the same step.
struct Kinds {
    words: Tensor<1, Int>,
    memory: Tensor<1, Int>,
    /// For each row its index when all words come before all memory tokens.
    order: Tensor<1, Int>,
}

impl Kinds {
    /// Divides the rows. Returns `None` if there is no memory token.
    fn of(ids: &[u32], memory_id: usize, device: &Device) -> Option<Self> {
        let is_memory = |row: &usize| ids[*row] as usize == memory_id;
        let (memory, words): (Vec<usize>, Vec<usize>) = (0..ids.len()).partition(is_memory);
        if memory.is_empty() {
            return None;
        }
        let mut order = vec![0; ids.len()];
        for (place, row) in words.iter().chain(&memory).enumerate() {
            order[*row] = place;
        }
        let (words, memory) = (indices(words, device), indices(memory, device));
        Some(Self { words, memory, order: indices(order, device) })
    }

    /// Applies `of_words` and `of_memory` to their own rows, and returns the results in the
    /// original order.
    fn each(
        &self,
        states: &Tensor<2>,
        of_words: impl FnOnce(Tensor<2>) -> Tensor<2>,
        of_memory: impl FnOnce(Tensor<2>) -> Tensor<2>,
    ) -> Tensor<2> {
        let memory = of_memory(states.clone().select(0, self.memory.clone()));
        self.joined(of_words(states.clone().select(0, self.words.clone())), memory)
    }

    /// Returns the rows of words and of memory tokens in the original order.
    fn joined(&self, words: Tensor<2>, memory: Tensor<2>) -> Tensor<2> {
        Tensor::cat(vec![words, memory], 0).select(0, self.order.clone())
    }
}

fn indices(rows: Vec<usize>, device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i64> = rows.into_iter().map(|row| row as i64).collect();
    let count = rows.len();
    Tensor::from_data(TensorData::new(rows, [count]), device)
}

/// Piece and layer for which attention is computed.
pub(crate) struct Place<'a> {
    /// Index of the piece.
    pub(crate) piece: usize,
    /// Index of the layer.
    pub(crate) layer: usize,
    /// Number of tokens that a token of this layer attends to, itself included.
    pub(crate) window: Option<usize>,
    /// Function that returns the keys before rotation, `[kv_heads, tokens, width]`, for callers
    /// that store them so.
    pub(crate) plain_keys: &'a dyn Fn() -> Tensor<3>,
}

/// Heads of all new tokens in one layer, not rotated.
pub(crate) struct RowHeads<'a> {
    /// Index of the layer.
    pub(crate) layer: usize,
    /// Number of tokens that a token of this layer attends to, itself included.
    pub(crate) window: Option<usize>,
    /// Queries, keys and values, `[rows, heads + 2 kv_heads, width]`.
    pub(crate) projected: Tensor<3>,
    /// Cosines of the rows' angles, `[rows, 1, width]`.
    pub(crate) cosines: &'a Tensor<3>,
    /// Sines of the rows' angles, `[rows, 1, width]`.
    pub(crate) sines: &'a Tensor<3>,
}

impl Layers {
    /// Loads the layers that `config` describes. The checkpoint was checked to have them.
    ///
    /// # Errors
    /// Returns the errors of [`Checkpoint::read`].
    pub(crate) fn load(config: DecoderConfig, loader: &Loader<'_>) -> Result<Self, Error> {
        let layer = |index| loader.layer(&config, index);
        let layers = (0..config.layers).map(layer).collect::<Result<Vec<_>, Error>>()?;
        let words = loader.matrix(&["model.embed_tokens.weight".to_owned()])?;
        let norm = loader.norm("model.norm.weight", config.norm_epsilon)?;
        let memory_word = match &config.memory {
            None => None,
            Some(MemoryParts { copied_from: None, .. }) => {
                Some(loader.matrix(&["model.beacon_embed_tokens.weight".to_owned()])?)
            }
            Some(MemoryParts { copied_from: Some(id), .. }) => {
                let row = *id as usize;
                Some(words.clone().slice([row..row + 1, 0..config.hidden]))
            }
        };
        let (device, dtype) = (loader.device.clone(), loader.dtype);
        let turns = Mutex::new(None);
        Ok(Self { config, device, dtype, words, layers, norm, memory_word, turns })
    }

    /// Returns the states of all tokens of `pieces`, one below the other, `[tokens, hidden]`, not
    /// normalised.
    ///
    /// In each layer it calls `attend` for each piece, with the heads of that piece's tokens only.
    /// `attend` returns `[tokens, heads * width]`.
    pub(crate) fn forward(
        &self,
        pieces: &[Piece<'_>],
        attend: &mut dyn FnMut(Place<'_>, Heads) -> Tensor<2>,
    ) -> Tensor<2> {
        self.forward_rows(pieces, &mut |rows| self.piece_by_piece(rows, pieces, attend))
    }

    /// Returns what [`Layers::forward`] does. In each layer it calls `attend` once, with the heads
    /// of all tokens. `attend` returns `[tokens, heads * width]`.
    pub(crate) fn forward_rows(
        &self,
        pieces: &[Piece<'_>],
        attend: &mut dyn FnMut(RowHeads<'_>) -> Tensor<2>,
    ) -> Tensor<2> {
        let ids: Vec<u32> = pieces.iter().flat_map(|piece| piece.tokens).copied().collect();
        let kinds = Kinds::of(&ids, self.config.vocabulary, &self.device);
        let angles = self.angles(pieces, ids.len());
        let mut states = self.embedded(ids, kinds.as_ref());
        for index in 0..self.layers.len() {
            states = self.layer(index, states, kinds.as_ref(), &angles, attend);
        }
        states
    }

    fn embedded(&self, mut ids: Vec<u32>, kinds: Option<&Kinds>) -> Tensor<2> {
        ids.retain(|id| (*id as usize) < self.config.vocabulary);
        let ids = ids.into_iter().map(|id| id as usize).collect();
        let words = self.words.clone().select(0, indices(ids, &self.device));
        match (kinds, &self.memory_word) {
            (Some(kinds), Some(memory)) => {
                let [count] = kinds.memory.dims();
                kinds.joined(words, memory.clone().repeat_dim(0, count))
            }
            _ => words,
        }
    }

    /// Rotates keys `[heads, tokens, width]` by positions from `start` on.
    pub(crate) fn turned(&self, keys: Tensor<3>, start: usize) -> Tensor<3> {
        let [_, tokens, width] = keys.dims();
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let known = turns.as_ref().map_or(0, |(cosines, _)| cosines.dims()[0]);
        if start + tokens > known {
            // The table at least doubles, so the work of recomputing it stays linear in the
            // positions.
            let positions = (start + tokens).next_power_of_two().max(1024);
            let (cosines, sines) = self.config.rope.angles(0..positions);
            let tensor = |values| {
                let data = TensorData::new(values, [positions, width]);
                Tensor::from_data(data.convert_dtype(self.dtype), (&self.device, self.dtype))
            };
            *turns = Some((tensor(cosines), tensor(sines)));
        }
        let Some((cosines, sines)) = turns.as_ref() else { return keys };
        let part =
            |all: &Tensor<2>| all.clone().slice([start..start + tokens, 0..width]).unsqueeze::<3>();
        turn(keys, &part(cosines), &part(sines))
    }

    /// Returns the states `[rows, hidden]` after the last normalisation, as heads and poolings read
    /// them.
    pub(crate) fn normalised(&self, states: Tensor<2>) -> Tensor<2> {
        self.norm.forward(states)
    }

    /// Returns the cosines and sines of every row, `[rows, 1, head_width]`.
    fn angles(&self, pieces: &[Piece<'_>], rows: usize) -> (Tensor<3>, Tensor<3>) {
        let positions = pieces.iter().flat_map(|piece| piece.positions).copied();
        let (cosines, sines) = self.config.rope.angles(positions);
        let tensor = |values| {
            let data = TensorData::new(values, [rows, 1, self.config.head_width]);
            Tensor::from_data(data.convert_dtype(self.dtype), (&self.device, self.dtype))
        };
        (tensor(cosines), tensor(sines))
    }

    /// Maps `[rows, hidden]` to the same shape.
    fn layer(
        &self,
        index: usize,
        states: Tensor<2>,
        kinds: Option<&Kinds>,
        (cosines, sines): &(Tensor<3>, Tensor<3>),
        attend: &mut dyn FnMut(RowHeads<'_>) -> Tensor<2>,
    ) -> Tensor<2> {
        let DecoderConfig { heads, kv_heads, head_width, intermediate, .. } = self.config;
        let layer = &self.layers[index];
        let [rows, _] = states.dims();
        let normal = layer.attention_norm.forward(states.clone());
        let projected = layer.project.of_kinds(layer.memory.project.as_ref(), normal, kinds);
        let projected: Tensor<3> = projected.reshape([rows, heads + 2 * kv_heads, head_width]);
        let window = layer.window;
        let attended = attend(RowHeads { layer: index, window, projected, cosines, sines });
        let states = states + layer.output.of_kinds(layer.memory.output.as_ref(), attended, kinds);
        let expanded = layer.expand.forward(layer.feed_norm.forward(states.clone()));
        let gate = expanded.clone().slice([0..rows, 0..intermediate]);
        let up = expanded.slice([0..rows, intermediate..2 * intermediate]);
        states + layer.contract.forward(silu(gate) * up)
    }

    /// Rotates the heads of a layer, and calls `attend` for each piece with its own.
    fn piece_by_piece(
        &self,
        RowHeads { layer, window, projected, cosines, sines }: RowHeads<'_>,
        pieces: &[Piece<'_>],
        attend: &mut dyn FnMut(Place<'_>, Heads) -> Tensor<2>,
    ) -> Tensor<2> {
        let DecoderConfig { heads, kv_heads, head_width, .. } = self.config;
        let [rows, all_heads, _] = projected.dims();
        let part = |from, to| projected.clone().slice([0..rows, from..to, 0..head_width]);
        let turned = turn(part(0, heads + kv_heads), cosines, sines);
        let queries = turned.clone().slice([0..rows, 0..heads, 0..head_width]);
        let keys = turned.slice([0..rows, heads..heads + kv_heads, 0..head_width]);
        let values = part(heads + kv_heads, all_heads);
        let mut attended = Vec::with_capacity(pieces.len());
        let mut row = 0;
        for (piece, tokens) in pieces.iter().map(|piece| piece.tokens.len()).enumerate() {
            let end = row + tokens;
            let of_piece = |all: &Tensor<3>| {
                let [_, heads, width] = all.dims();
                all.clone().slice([row..end, 0..heads, 0..width]).swap_dims(0, 1)
            };
            let plain_keys = || {
                let keys = [row..end, heads..heads + kv_heads, 0..head_width];
                projected.clone().slice(keys).swap_dims(0, 1)
            };
            let heads = Heads {
                queries: of_piece(&queries),
                keys: of_piece(&keys),
                values: of_piece(&values),
            };
            let place = Place { piece, layer, window, plain_keys: &plain_keys };
            attended.push(attend(place, heads));
            row = end;
        }
        match attended.len() {
            1 => attended.swap_remove(0),
            _ => Tensor::cat(attended, 0),
        }
    }
}

/// Rotates heads `[rows, heads, width]` by their rows' angles. Also takes other shapes that the
/// angles broadcast to.
fn turn(heads: Tensor<3>, cosines: &Tensor<3>, sines: &Tensor<3>) -> Tensor<3> {
    let [rows, count, width] = heads.dims();
    let half = width / 2;
    let first = heads.clone().slice([0..rows, 0..count, 0..half]);
    let second = heads.clone().slice([0..rows, 0..count, half..width]);
    let across = Tensor::cat(vec![second.neg(), first], 2);
    heads * cosines.clone() + across * sines.clone()
}

impl Linear {
    /// Maps `[rows, input]` to `[rows, output]`.
    pub(crate) fn forward(&self, states: Tensor<2>) -> Tensor<2> {
        let product = self.product(states);
        match &self.bias {
            None => product,
            Some(bias) => product + bias.clone().unsqueeze(),
        }
    }

    fn product(&self, states: Tensor<2>) -> Tensor<2> {
        #[cfg(feature = "gpu")]
        if let Some(product) = super::few_rows::product(&states, &self.weight) {
            return product;
        }
        self.cores.product(states, &self.weight)
    }

    /// Applies [`Linear::forward`] to words, and `memory` to memory tokens if they have their own
    /// projection.
    fn of_kinds(
        &self,
        memory: Option<&Self>,
        states: Tensor<2>,
        kinds: Option<&Kinds>,
    ) -> Tensor<2> {
        match (memory, kinds) {
            (Some(memory), Some(kinds)) => {
                kinds.each(&states, |rows| self.forward(rows), |rows| memory.forward(rows))
            }
            _ => self.forward(states),
        }
    }
}

impl Norm {
    /// Normalises in 32-bit floats, whatever the format of the states.
    fn forward(&self, states: Tensor<2>) -> Tensor<2> {
        #[cfg(feature = "gpu")]
        if let Some(normal) = super::few_rows::normalised(&states, &self.weight, self.epsilon) {
            return normal;
        }
        let dtype = states.dtype();
        let states = states.cast(DType::F32);
        let mean = states.clone().square().mean_dim(1);
        let normal = states * mean.add_scalar(self.epsilon).sqrt().recip();
        normal.cast(dtype) * self.weight.clone().unsqueeze()
    }
}

/// Loader of tensors from a checkpoint onto a device.
pub(crate) struct Loader<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) device: &'a Device,
    pub(crate) dtype: DType,
    /// CPU cores that the linear layers compute on.
    pub(crate) cores: &'a Cores,
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
            memory: self.memory_layer(config, &root)?,
            feed_norm: norm("post_attention_layernorm")?,
            expand: self.linear(&named(&["mlp.gate_proj", "mlp.up_proj"]), false)?,
            contract: self.linear(&named(&["mlp.down_proj"]), false)?,
            window: config.windows[index],
        })
    }

    fn memory_layer(&self, config: &DecoderConfig, root: &str) -> Result<MemoryLayer, Error> {
        let Some(memory) = &config.memory else { return Ok(MemoryLayer::default()) };
        let name = |part: char| {
            let own = if memory.copied_from.is_none() && memory.has(part) { "beacon_" } else { "" };
            format!("{root}.self_attn.{own}{part}_proj")
        };
        // Projections that memory tokens share with words are read once more, so that the memory
        // tokens' projection stays one product.
        let project = match "qkv".chars().any(|part| memory.has(part)) {
            true => {
                Some(self.linear(&"qkv".chars().map(name).collect::<Vec<_>>(), config.has_bias)?)
            }
            false => None,
        };
        let output = match memory.has('o') {
            true => Some(self.linear(&[name('o')], config.has_output_bias())?),
            false => None,
        };
        Ok(MemoryLayer { project, output })
    }

    /// Loads several linear layers of the same input as one.
    pub(crate) fn linear(&self, parts: &[String], has_bias: bool) -> Result<Linear, Error> {
        let named = |part: &str| -> Vec<String> {
            parts.iter().map(|name| format!("{name}.{part}")).collect()
        };
        let weight = self.matrix(&named("weight"))?;
        let bias = match has_bias {
            false => None,
            true => Some(self.tensor(self.checkpoint.read(&named("bias"))?)),
        };
        Ok(Linear { weight, bias, cores: self.cores.clone() })
    }

    /// Loads the head behind `layers`.
    ///
    /// # Errors
    /// Returns the errors of [`Checkpoint::read`].
    pub(crate) fn head(&self, layers: &Layers) -> Result<Linear, Error> {
        match layers.config.is_tied {
            true => Ok(self.tied(&layers.words)),
            false => self.linear(&["lm_head".to_owned()], false),
        }
    }

    /// Returns a linear layer that shares the matrix of another.
    fn tied(&self, weight: &Tensor<2>) -> Linear {
        Linear { weight: weight.clone(), bias: None, cores: self.cores.clone() }
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
