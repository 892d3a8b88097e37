//! The layers of a decoder, over sequences that are not padded.

use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::silu;

use super::attention::Heads;
use super::config::{DecoderConfig, layer_root};
use super::cores::Cores;
use crate::Error;
use crate::checkpoint::Checkpoint;

/// What comes before a decoder's head: the table of words, the layers and the last normalisation.
pub(crate) struct Layers {
    pub(crate) config: DecoderConfig,
    pub(crate) device: Device,
    pub(crate) dtype: DType,
    /// `[vocabulary, hidden]`.
    pub(crate) words: Tensor<2>,
    layers: Vec<Layer>,
    norm: Norm,
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
pub(crate) struct Linear {
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    cores: Cores,
}

struct Norm {
    weight: Tensor<1>,
    epsilon: f64,
}

/// New tokens of one sequence.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) tokens: &'a [u32],
    /// The position of the first.
    pub(crate) start: usize,
}

/// Where attention is asked for.
pub(crate) struct Place {
    /// Which of the pieces.
    pub(crate) piece: usize,
    /// Which layer.
    pub(crate) layer: usize,
    /// Tokens that a token of this layer sees, itself included.
    pub(crate) window: Option<usize>,
}

impl Layers {
    /// Loads what `config` describes from `checkpoint`, which was checked to have it.
    ///
    /// # Errors
    /// Those of [`Checkpoint::read`].
    pub(crate) fn load(config: DecoderConfig, loader: &Loader<'_>) -> Result<Self, Error> {
        let layer = |index| loader.layer(&config, index);
        let layers = (0..config.layers).map(layer).collect::<Result<Vec<_>, Error>>()?;
        let words = loader.matrix(&["model.embed_tokens.weight".to_owned()])?;
        let norm = loader.norm("model.norm.weight", config.norm_epsilon)?;
        let (device, dtype) = (loader.device.clone(), loader.dtype);
        Ok(Self { config, device, dtype, words, layers, norm })
    }

    /// The states of all tokens of `pieces`, one below the other, `[tokens, hidden]`; not normalised.
    ///
    /// In each layer `attend` is called for each piece with the heads of its tokens alone, and returns
    /// `[tokens, heads * width]`.
    pub(crate) fn forward(
        &self,
        pieces: &[Piece<'_>],
        attend: &mut dyn FnMut(Place, Heads) -> Tensor<2>,
    ) -> Tensor<2> {
        let ids = pieces.iter().flat_map(|piece| piece.tokens).map(|id| i64::from(*id));
        let ids: Vec<i64> = ids.collect();
        let rows = ids.len();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [rows]), &self.device);
        let angles = self.angles(pieces, rows);
        let mut states = self.words.clone().select(0, ids);
        for (index, layer) in self.layers.iter().enumerate() {
            states = self.layer(index, layer, states, &angles, pieces, attend);
        }
        states
    }

    /// States `[rows, hidden]` as the head and poolings read them.
    pub(crate) fn normalised(&self, states: Tensor<2>) -> Tensor<2> {
        self.norm.forward(states)
    }

    /// Cosines and sines for every row, `[rows, 1, head_width]`.
    fn angles(&self, pieces: &[Piece<'_>], rows: usize) -> (Tensor<3>, Tensor<3>) {
        let positions =
            pieces.iter().flat_map(|piece| piece.start..piece.start + piece.tokens.len());
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
        pieces: &[Piece<'_>],
        attend: &mut dyn FnMut(Place, Heads) -> Tensor<2>,
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
        let mut attended = Vec::with_capacity(pieces.len());
        let mut row = 0;
        for (piece, tokens) in pieces.iter().map(|piece| piece.tokens.len()).enumerate() {
            let end = row + tokens;
            let of_piece = |all: &Tensor<3>| {
                let [_, heads, width] = all.dims();
                all.clone().slice([row..end, 0..heads, 0..width]).swap_dims(0, 1)
            };
            let heads = Heads {
                queries: of_piece(&queries),
                keys: of_piece(&keys),
                values: of_piece(&values),
            };
            attended.push(attend(Place { piece, layer: index, window: layer.window }, heads));
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

impl Linear {
    /// `[rows, input]` to `[rows, output]`.
    pub(crate) fn forward(&self, states: Tensor<2>) -> Tensor<2> {
        let product = self.cores.product(states, &self.weight);
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
pub(crate) struct Loader<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) device: &'a Device,
    pub(crate) dtype: DType,
    /// What the parts compute on.
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
            feed_norm: norm("post_attention_layernorm")?,
            expand: self.linear(&named(&["mlp.gate_proj", "mlp.up_proj"]), false)?,
            contract: self.linear(&named(&["mlp.down_proj"]), false)?,
            window: config.windows[index],
        })
    }

    /// Several linear parts of one input as one.
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

    /// A linear part whose matrix is that of another.
    pub(crate) fn tied(&self, weight: &Tensor<2>) -> Linear {
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
