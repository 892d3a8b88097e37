//! The tensors of a BERT encoder: their names, lengths and layout for the kernels.

use crate::kernel::{Element, Instructions};
use crate::layer_norm::LayerNorm;
use crate::panels::Panels;
use crate::{Config, Error};

const EMBEDDING_TENSORS: [&str; 5] = [
    "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight",
    "embeddings.token_type_embeddings.weight",
    "embeddings.LayerNorm.weight",
    "embeddings.LayerNorm.bias",
];

/// Modules of a layer, each of which has a `weight` and a `bias`.
const LAYER_MODULES: [&str; 8] = [
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
];

/// Returns the names of all tensors that a model of this shape reads, relative to the BERT root, in
/// the spelling of Hugging Face.
///
/// A weights file may hold others (a pooler, a prediction head). The caller decides whether they
/// matter.
#[must_use]
pub fn tensor_names(config: &Config) -> Vec<String> {
    let embeddings = EMBEDDING_TENSORS.iter().map(ToString::to_string);
    let layers = (0..config.layers).flat_map(|layer| {
        LAYER_MODULES.iter().flat_map(move |module| {
            ["weight", "bias"].map(|kind| format!("encoder.layer.{layer}.{module}.{kind}"))
        })
    });
    embeddings.chain(layers).collect()
}

/// All weights, laid out for one kernel.
#[derive(Debug)]
pub(crate) struct Weights<E> {
    pub embeddings: Embeddings,
    pub layers: Vec<Layer<E>>,
}

/// Tables that turn token ids into the first hidden states.
#[derive(Debug)]
pub(crate) struct Embeddings {
    /// `[vocabulary, hidden]`
    pub words: Vec<f32>,
    /// `[positions, hidden]`; includes the embedding of the first token type, as every token is of
    /// that type.
    pub positions: Vec<f32>,
    pub norm: LayerNorm,
}

/// Encoder layer.
#[derive(Debug)]
pub(crate) struct Layer<E> {
    /// Queries, keys and values side by side.
    pub query_key_value: Linear<E>,
    pub attention_output: Linear<E>,
    pub attention_norm: LayerNorm,
    pub intermediate: Linear<E>,
    pub output: Linear<E>,
    pub output_norm: LayerNorm,
}

/// Matrix in panels and its bias.
#[derive(Debug)]
pub(crate) struct Linear<E> {
    pub panels: Panels<E>,
    pub bias: Vec<f32>,
}

/// Function that returns a tensor by name.
pub(crate) type TensorSource<'a> = &'a mut dyn FnMut(&str) -> Option<Vec<f32>>;

impl<E: Element> Weights<E> {
    /// Reads and packs every tensor that [`tensor_names`] lists, one layer at a time.
    pub(crate) fn load<I: Instructions<Element = E>>(
        instructions: I,
        config: &Config,
        source: TensorSource<'_>,
    ) -> Result<Self, Error> {
        let mut loader = Loader { instructions, config, source };
        let embeddings = loader.embeddings()?;
        let layers =
            (0..config.layers).map(|layer| loader.layer(layer)).collect::<Result<_, _>>()?;
        Ok(Self { embeddings, layers })
    }
}

struct Loader<'a, I> {
    instructions: I,
    config: &'a Config,
    source: TensorSource<'a>,
}

impl<I: Instructions> Loader<'_, I> {
    fn tensor(&mut self, name: &str, expected: usize) -> Result<Vec<f32>, Error> {
        let values =
            (self.source)(name).ok_or_else(|| Error::MissingTensor { name: name.to_owned() })?;
        if values.len() == expected {
            return Ok(values);
        }
        Err(Error::TensorLength { name: name.to_owned(), expected, actual: values.len() })
    }

    fn embeddings(&mut self) -> Result<Embeddings, Error> {
        let Config { vocabulary, hidden, positions, token_types, .. } = *self.config;
        let [words, position_table, type_table, ..] = EMBEDDING_TENSORS;
        let words = self.tensor(words, vocabulary * hidden)?;
        let mut positions = self.tensor(position_table, positions * hidden)?;
        let types = self.tensor(type_table, token_types * hidden)?;
        for position in positions.chunks_exact_mut(hidden) {
            position.iter_mut().zip(&types).for_each(|(value, first_type)| *value += first_type);
        }
        Ok(Embeddings { words, positions, norm: self.layer_norm("embeddings.LayerNorm")? })
    }

    fn layer(&mut self, layer: usize) -> Result<Layer<I::Element>, Error> {
        let Config { hidden, intermediate, .. } = *self.config;
        let [query, key, value, attention_output, attention_norm, wide, output, output_norm] =
            LAYER_MODULES.map(|module| format!("encoder.layer.{layer}.{module}"));
        Ok(Layer {
            query_key_value: self.linear(&[&query, &key, &value], hidden, hidden)?,
            attention_output: self.linear(&[&attention_output], hidden, hidden)?,
            attention_norm: self.layer_norm(&attention_norm)?,
            intermediate: self.linear(&[&wide], hidden, intermediate)?,
            output: self.linear(&[&output], intermediate, hidden)?,
            output_norm: self.layer_norm(&output_norm)?,
        })
    }

    /// Joins the matrices of `modules`, each `[outputs, inputs]`, side by side.
    fn linear(
        &mut self,
        modules: &[&str],
        inputs: usize,
        outputs: usize,
    ) -> Result<Linear<I::Element>, Error> {
        let mut weights = Vec::with_capacity(modules.len() * outputs * inputs);
        let mut bias = Vec::with_capacity(modules.len() * outputs);
        for module in modules {
            weights.append(&mut self.tensor(&format!("{module}.weight"), outputs * inputs)?);
            bias.append(&mut self.tensor(&format!("{module}.bias"), outputs)?);
        }
        Ok(Linear { panels: Panels::from_weights(self.instructions, &weights, inputs), bias })
    }

    fn layer_norm(&mut self, module: &str) -> Result<LayerNorm, Error> {
        let hidden = self.config.hidden;
        Ok(LayerNorm {
            gain: self.tensor(&format!("{module}.weight"), hidden)?,
            bias: self.tensor(&format!("{module}.bias"), hidden)?,
            epsilon: self.config.layer_norm_epsilon,
        })
    }
}
