//! Layer normalisation of rows (Ba, Kiros and Hinton, "Layer Normalization", section 3).

use crate::kernel::{Instructions, Lanes, Routine};
use crate::rows::RowsMut;

/// Gain and bias of one normalisation, each `[hidden]`.
#[derive(Debug)]
pub(crate) struct LayerNorm {
    pub gain: Vec<f32>,
    pub bias: Vec<f32>,
    pub epsilon: f32,
}

/// Routine that normalises rows in place and writes a rounded copy for the next product.
pub(crate) struct Normalise<'a, 'b, E> {
    pub parameters: &'a LayerNorm,
    /// `[rows, hidden]`
    pub rows: &'a mut [f32],
    /// `[rows, hidden]`
    pub rounded: &'a mut RowsMut<'b, E>,
}

impl<I: Instructions> Routine<I> for Normalise<'_, '_, I::Element> {
    #[inline(always)]
    fn run(self, instructions: I) {
        let LayerNorm { gain, bias, epsilon } = self.parameters;
        let lanes = instructions.lanes();
        let (hidden, width) = (gain.len(), I::Lanes::COUNT);
        for (row, rounded) in self.rows.chunks_exact_mut(hidden).zip(self.rounded.rows_mut()) {
            let mut sum = lanes.splat(0.0);
            for values in row.chunks_exact(width) {
                sum = lanes.add(sum, lanes.load(values));
            }
            let mean = lanes.splat(lanes.sum(sum) / hidden as f32);
            // A second pass over the row, which lies in the nearest cache, avoids the cancellation
            // of `E[x^2] - E[x]^2`.
            let mut squares = lanes.splat(0.0);
            for values in row.chunks_exact(width) {
                let difference = lanes.subtract(lanes.load(values), mean);
                squares = lanes.multiply_add(difference, difference, squares);
            }
            let variance = lanes.sum(squares) / hidden as f32;
            let scale = lanes.splat(1.0 / (variance + epsilon).sqrt());
            for (index, values) in row.chunks_exact_mut(width).enumerate() {
                let column = index * width;
                let standard = lanes.multiply(lanes.subtract(lanes.load(values), mean), scale);
                let normal = lanes.multiply_add(
                    standard,
                    lanes.load(&gain[column..]),
                    lanes.load(&bias[column..]),
                );
                lanes.store(normal, values);
                instructions.store_rounded(normal, &mut rounded[column..]);
            }
        }
    }
}
