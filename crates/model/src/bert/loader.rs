//! Loads a Hugging Face checkpoint into the Burn modules.

use burn::module::Param;
use burn::nn::{Embedding, LayerNorm, Linear};
use burn::prelude::*;
use burn::tensor::DType;

use super::{Bert, BertConfig, layer_root};
use crate::Error;
use crate::weights::Weights;

impl Bert {
    /// Loads every parameter from `weights`, on `device` in the number format `dtype`.
    ///
    /// The names are the whole mapping from Hugging Face to this module:
    ///
    /// | Hugging Face                                | here                            |
    /// |---------------------------------------------|---------------------------------|
    /// | `embeddings.word_embeddings`                | `words`                         |
    /// | `embeddings.position_embeddings`            | `positions`                     |
    /// | `embeddings.token_type_embeddings`          | `token_types`                   |
    /// | `embeddings.LayerNorm`                      | `norm`                          |
    /// | `encoder.layer.N.attention.self.query`      | `layers[N].query`               |
    /// | `encoder.layer.N.attention.self.key`        | `layers[N].key`                 |
    /// | `encoder.layer.N.attention.self.value`      | `layers[N].value`               |
    /// | `encoder.layer.N.attention.output.dense`    | `layers[N].attention_output`    |
    /// | `encoder.layer.N.attention.output.LayerNorm`| `layers[N].attention_norm`      |
    /// | `encoder.layer.N.intermediate.dense`        | `layers[N].expand`              |
    /// | `encoder.layer.N.output.dense`              | `layers[N].contract`            |
    /// | `encoder.layer.N.output.LayerNorm`          | `layers[N].output_norm`         |
    ///
    /// A linear `weight` is transposed to `[input, output]`. A normalisation's `weight` and `bias`
    /// are its `gamma` and `beta`.
    ///
    /// # Errors
    /// Returns the errors of [`Weights::values`].
    pub(crate) fn load(
        mut self,
        config: &BertConfig,
        weights: &dyn Weights,
        device: &Device,
        dtype: DType,
    ) -> Result<Self, Error> {
        let loader = Loader { config, weights, device, dtype };
        loader.embedding(&mut self.words, "embeddings.word_embeddings")?;
        loader.embedding(&mut self.positions, "embeddings.position_embeddings")?;
        loader.embedding(&mut self.token_types, "embeddings.token_type_embeddings")?;
        loader.norm(&mut self.norm, "embeddings.LayerNorm")?;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let root = layer_root(index);
            loader.linear(&mut layer.query, &format!("{root}.attention.self.query"))?;
            loader.linear(&mut layer.key, &format!("{root}.attention.self.key"))?;
            loader.linear(&mut layer.value, &format!("{root}.attention.self.value"))?;
            loader
                .linear(&mut layer.attention_output, &format!("{root}.attention.output.dense"))?;
            loader
                .norm(&mut layer.attention_norm, &format!("{root}.attention.output.LayerNorm"))?;
            loader.linear(&mut layer.expand, &format!("{root}.intermediate.dense"))?;
            loader.linear(&mut layer.contract, &format!("{root}.output.dense"))?;
            loader.norm(&mut layer.output_norm, &format!("{root}.output.LayerNorm"))?;
        }
        Ok(self)
    }
}

/// Loader of weights into modules. It reads a parameter's `lazy_shape`, because any other access to
/// a parameter that is not loaded yet would first fill it with random values.
struct Loader<'a> {
    config: &'a BertConfig,
    weights: &'a dyn Weights,
    device: &'a Device,
    dtype: DType,
}

impl Loader<'_> {
    fn embedding(&self, module: &mut Embedding, name: &str) -> Result<(), Error> {
        let [rows, width] = module.weight.lazy_shape().dims();
        let values = self.config.values(self.weights, &format!("{name}.weight"))?;
        module.weight = self.parameter(values, [rows, width]);
        Ok(())
    }

    fn linear(&self, module: &mut Linear, name: &str) -> Result<(), Error> {
        let [input, output] = module.weight.lazy_shape().dims();
        let values = self.config.values(self.weights, &format!("{name}.weight"))?;
        module.weight = self.parameter(transposed(&values, output, input), [input, output]);
        module.bias = Some(self.vector(name, "bias", output)?);
        Ok(())
    }

    fn norm(&self, module: &mut LayerNorm, name: &str) -> Result<(), Error> {
        let [width] = module.gamma.lazy_shape().dims();
        module.gamma = self.vector(name, "weight", width)?;
        module.beta = Some(self.vector(name, "bias", width)?);
        Ok(())
    }

    fn vector(&self, name: &str, part: &str, width: usize) -> Result<Param<Tensor<1>>, Error> {
        let values = self.weights.values(&format!("{name}.{part}"))?;
        Ok(self.parameter(values, [width]))
    }

    fn parameter<const RANK: usize>(
        &self,
        values: Vec<f32>,
        shape: [usize; RANK],
    ) -> Param<Tensor<RANK>> {
        let data = TensorData::new(values, shape).convert_dtype(self.dtype);
        Param::from_tensor(Tensor::from_data(data, (self.device, self.dtype)))
    }
}

/// Returns the transpose of the row-major matrix `values` `[rows, columns]`.
fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    // Square tiles keep both sides in the cache. Without them a large weight misses on each value.
    const TILE: usize = 32;
    let mut result = vec![0.0; values.len()];
    for row_start in (0..rows).step_by(TILE) {
        for column_start in (0..columns).step_by(TILE) {
            for row in row_start..(row_start + TILE).min(rows) {
                for column in column_start..(column_start + TILE).min(columns) {
                    result[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_swaps_rows_and_columns() {
        assert_eq!(
            transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3),
            [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
        );
        let values: Vec<f32> = (0..70 * 45).map(|value| value as f32).collect();
        assert_eq!(transposed(&transposed(&values, 70, 45), 45, 70), values);
    }
}
