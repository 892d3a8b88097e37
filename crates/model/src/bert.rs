//! The BERT encoder in Burn.
//!
//! Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
//! Understanding", section 3, with the layers of Vaswani et al., "Attention Is All You Need",
//! section 3.1: post-layer normalisation, learned positions, GELU by the error function. There is
//! no dropout, because nothing is trained, and no pooler, because sentence vectors do not use it.
//!
//! XLM-RoBERTa (Conneau et al., "Unsupervised Cross-lingual Representation Learning at Scale") is
//! the same computation. Only its position table begins with rows that no token uses.

mod loader;

use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::activation::gelu;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use serde::Serialize;

use crate::Error;
use crate::route::Widths;
use crate::weights::{Parameter, Weights};

const POSITION_TABLE: &str = "embeddings.position_embeddings.weight";

/// Returns whether a checkpoint's tensor, named relative to the root, has no part in the token
/// states: the constant list of positions, and the pooler that only next-sentence prediction reads.
pub(crate) fn is_ignored(name: &str) -> bool {
    is_constant(name) || name.starts_with("pooler.")
}

/// Returns whether a tensor is the constant list of positions.
pub(crate) fn is_constant(name: &str) -> bool {
    name == "embeddings.position_ids"
}

/// Published architecture. The families differ in names and in the first position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Bert,
    XlmRoberta,
}

impl Family {
    /// Returns the prefix of parameter names in checkpoints of larger models around the encoder.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Self::Bert => "bert.",
            Self::XlmRoberta => "roberta.",
        }
    }
}

/// Shape of a BERT encoder. The comments name the fields of a Hugging Face `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BertConfig {
    /// Family. Not serialised: `first_position` implies it, and fingerprints of BERTs are older
    /// than this field.
    #[serde(skip)]
    pub(crate) family: Family,
    /// Number of token ids, `vocab_size`.
    pub(crate) vocabulary: usize,
    /// Width of the token states, `hidden_size`.
    pub(crate) hidden: usize,
    /// Width inside the feed-forward part, `intermediate_size`.
    pub(crate) intermediate: usize,
    /// Number of layers, `num_hidden_layers`.
    pub(crate) layers: usize,
    /// Attention heads per layer, `num_attention_heads`.
    pub(crate) heads: usize,
    /// Maximum number of tokens in a text, `max_position_embeddings` without the rows before the
    /// first position.
    pub(crate) positions: usize,
    /// Row of the position table for a text's first token: 0 in a BERT, `pad_token_id + 1` in an
    /// XLM-RoBERTa.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) first_position: usize,
    /// Number of token types, `type_vocab_size`. A single text is all of type 0.
    pub(crate) token_types: usize,
    /// Added to the variance in layer normalisation, `layer_norm_eps`.
    pub(crate) layer_norm_epsilon: f64,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// One text per row, padded on the right.
pub(crate) struct BertInput {
    /// Token ids `[batch, tokens]`; any valid id in the padding.
    pub(crate) ids: Tensor<2, Int>,
    /// `[batch, tokens]`, true for a token and false for padding. `None` if no row is padded, which
    /// saves the masking.
    pub(crate) keep: Option<Tensor<2, Bool>>,
    /// Token types `[batch, tokens]`; `None` if all are 0.
    pub(crate) kinds: Option<Tensor<2, Int>>,
}

/// Output of the last layer.
pub(crate) struct BertOutput {
    /// Token states `[batch, tokens, hidden]`; those of padding are meaningless.
    pub(crate) states: Tensor<3>,
}

/// BERT encoder without its pooler.
#[derive(Module, Debug)]
pub(crate) struct Bert {
    words: Embedding,
    positions: Embedding,
    token_types: Embedding,
    norm: LayerNorm,
    layers: Vec<BertLayer>,
}

/// One layer: self-attention, then the feed-forward part. Each is added to its input and
/// normalised.
#[derive(Module, Debug)]
struct BertLayer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    expand: Linear,
    contract: Linear,
    output_norm: LayerNorm,
    heads: usize,
}

impl BertConfig {
    /// Returns every parameter of the model by its Hugging Face name relative to the root, with its
    /// shape in the file, where a linear weight is `[output, input]`.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let (hidden, intermediate) = (self.hidden, self.intermediate);
        let mut parameters = Vec::new();
        let mut add = |name: String, shape: &[usize]| {
            parameters.push(Parameter { name, shape: shape.to_vec() });
        };
        add("embeddings.word_embeddings.weight".to_owned(), &[self.vocabulary, hidden]);
        add(POSITION_TABLE.to_owned(), &[self.first_position + self.positions, hidden]);
        add("embeddings.token_type_embeddings.weight".to_owned(), &[self.token_types, hidden]);
        add("embeddings.LayerNorm.weight".to_owned(), &[hidden]);
        add("embeddings.LayerNorm.bias".to_owned(), &[hidden]);
        for layer in 0..self.layers {
            let layer = layer_root(layer);
            for (part, input, output) in [
                ("attention.self.query", hidden, hidden),
                ("attention.self.key", hidden, hidden),
                ("attention.self.value", hidden, hidden),
                ("attention.output.dense", hidden, hidden),
                ("intermediate.dense", hidden, intermediate),
                ("output.dense", intermediate, hidden),
            ] {
                add(format!("{layer}.{part}.weight"), &[output, input]);
                add(format!("{layer}.{part}.bias"), &[output]);
            }
            for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
                add(format!("{layer}.{part}.weight"), &[hidden]);
                add(format!("{layer}.{part}.bias"), &[hidden]);
            }
        }
        parameters
    }

    /// Returns the values of a parameter. Of the position table it returns only the rows that
    /// tokens use, because every engine counts positions from 0.
    ///
    /// # Errors
    /// Returns the errors of [`Weights::values`].
    pub(crate) fn values(&self, weights: &dyn Weights, name: &str) -> Result<Vec<f32>, Error> {
        let mut values = weights.values(name)?;
        if name == POSITION_TABLE {
            values.drain(..self.first_position * self.hidden);
        }
        Ok(values)
    }

    /// Returns a model on `device` whose parameters are not loaded yet.
    pub(crate) fn init(&self, device: &Device) -> Bert {
        let embedding = |rows| EmbeddingConfig::new(rows, self.hidden).init(device);
        Bert {
            words: embedding(self.vocabulary),
            positions: embedding(self.positions),
            token_types: embedding(self.token_types),
            norm: self.init_norm(device),
            layers: (0..self.layers).map(|_| self.init_layer(device)).collect(),
        }
    }

    /// Returns the same shape for the packed forward pass.
    pub(crate) fn packed(&self) -> clew_packed_bert::Config {
        clew_packed_bert::Config {
            vocabulary: self.vocabulary,
            hidden: self.hidden,
            layers: self.layers,
            heads: self.heads,
            intermediate: self.intermediate,
            positions: self.positions,
            token_types: self.token_types,
            layer_norm_epsilon: self.layer_norm_epsilon as f32,
        }
    }

    fn init_layer(&self, device: &Device) -> BertLayer {
        let linear = |input, output| LinearConfig::new(input, output).init(device);
        BertLayer {
            query: linear(self.hidden, self.hidden),
            key: linear(self.hidden, self.hidden),
            value: linear(self.hidden, self.hidden),
            attention_output: linear(self.hidden, self.hidden),
            attention_norm: self.init_norm(device),
            expand: linear(self.hidden, self.intermediate),
            contract: linear(self.intermediate, self.hidden),
            output_norm: self.init_norm(device),
            heads: self.heads,
        }
    }

    fn init_norm(&self, device: &Device) -> LayerNorm {
        LayerNormConfig::new(self.hidden).with_epsilon(self.layer_norm_epsilon).init(device)
    }
}

impl Bert {
    /// Returns the sizes of the largest tensors.
    pub(crate) fn widths(&self) -> Widths {
        let of_layer = |layer: &BertLayer| {
            let [input, output] = layer.expand.weight.dims();
            (input.max(output), layer.heads)
        };
        let (of_token, of_pair) = self.layers.first().map_or((1, 1), of_layer);
        Widths { of_token, of_pair }
    }

    /// Runs the encoder. Rows do not depend on each other or on their padding.
    pub(crate) fn forward(&self, input: BertInput) -> BertOutput {
        let BertInput { ids, keep, kinds } = input;
        let [batch, tokens] = ids.dims();
        let device = ids.device();
        let kinds = kinds.unwrap_or_else(|| Tensor::zeros([1, 1], &device));
        let positions = self.positions.weight.val().narrow(0, 0, tokens);
        let embedded =
            self.words.forward(ids) + positions.unsqueeze::<3>() + self.token_types.forward(kinds);
        // `[batch, heads, tokens, tokens]`, true where a token must not attend.
        let hidden_keys = keep.map(|keep| keep.bool_not().reshape([batch, 1, 1, tokens]));
        let mut states = self.norm.forward(embedded);
        for layer in &self.layers {
            let hidden_keys =
                hidden_keys.clone().map(|keys| keys.expand([batch, layer.heads, tokens, tokens]));
            states = layer.forward(states, hidden_keys);
        }
        BertOutput { states }
    }
}

impl BertLayer {
    /// Maps `[batch, tokens, hidden]` to the same shape. `hidden_keys` is
    /// `[batch, heads, tokens, tokens]`.
    fn forward(&self, states: Tensor<3>, hidden_keys: Option<Tensor<4, Bool>>) -> Tensor<3> {
        let [batch, tokens, hidden] = states.dims();
        let attended = attention(
            self.split_heads(self.query.forward(states.clone())),
            self.split_heads(self.key.forward(states.clone())),
            self.split_heads(self.value.forward(states.clone())),
            hidden_keys,
            None,
            AttentionModuleOptions::default(),
        );
        let attended = attended.swap_dims(1, 2).reshape([batch, tokens, hidden]);
        let states = self.attention_norm.forward(self.attention_output.forward(attended) + states);
        let expanded = gelu(self.expand.forward(states.clone()));
        self.output_norm.forward(self.contract.forward(expanded) + states)
    }

    /// Reshapes `[batch, tokens, hidden]` to `[batch, heads, tokens, hidden / heads]`.
    fn split_heads(&self, states: Tensor<3>) -> Tensor<4> {
        let [batch, tokens, hidden] = states.dims();
        states.reshape([batch, tokens, self.heads, hidden / self.heads]).swap_dims(1, 2)
    }
}

/// Returns the Hugging Face name of a layer, relative to the root.
fn layer_root(layer: usize) -> String {
    format!("encoder.layer.{layer}")
}
