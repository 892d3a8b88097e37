//! Scaled dot-product attention within one sequence (Vaswani et al., "Attention Is All You Need",
//! section 3.2).
//!
//! For each head and each tile of queries, the scores against all keys are computed, exponentiated
//! and multiplied with the values while they lie in the nearest cache. The division by the sum of
//! exponentials comes last: it then takes one multiplication per value column instead of one per
//! key.

use crate::aligned::Aligned;
use crate::functions::exponential;
use crate::kernel::tile::Tile;
use crate::kernel::{Element, Instructions, Lanes, Routine, Vector};
use crate::panels::{PackColumns, PackRows};
use crate::product::{Epilogue, LARGEST_TILE_ROWS, TileBuffer, TilePosition, multiply_tile};
use crate::rows::{Rows, RowsMut};

/// Buffers for one head of one sequence.
#[derive(Debug, Default)]
pub(crate) struct AttentionBuffers<E> {
    /// Keys in panels, one column per token.
    keys: Aligned<E>,
    /// Values in panels, one row per token.
    values: Aligned<E>,
    /// `[tile rows, padded tokens]`; the number of tokens is rounded up to whole panels.
    scores: Aligned<f32>,
    /// Exponentials in the shape of `scores`, not yet divided by their sum.
    weights: Aligned<E>,
}

/// Computes the attention of a sequence's tokens to each other in all heads.
///
/// `fused` is `[tokens, 3 * hidden]` with queries, keys and values side by side. `context` is
/// `[tokens, hidden]`.
pub(crate) fn attend<I: Instructions>(
    instructions: I,
    fused: Rows<'_, I::Element>,
    head_width: usize,
    buffers: &mut AttentionBuffers<I::Element>,
    mut context: RowsMut<'_, I::Element>,
) {
    let (tokens, hidden) = (fused.count(), fused.width() / 3);
    for first in (0..hidden).step_by(head_width) {
        let head = Head {
            queries: fused.columns(first, head_width),
            keys: fused.columns(hidden + first, head_width),
            values: fused.columns(2 * hidden + first, head_width),
        };
        head.attend(instructions, buffers, context.block(0..tokens, first..first + head_width));
    }
}

/// Part of a sequence that belongs to one head; each matrix is `[tokens, head width]`.
struct Head<'a, E> {
    queries: Rows<'a, E>,
    keys: Rows<'a, E>,
    values: Rows<'a, E>,
}

impl<E: Element> Head<'_, E> {
    fn attend<I: Instructions<Element = E>>(
        &self,
        instructions: I,
        buffers: &mut AttentionBuffers<E>,
        mut context: RowsMut<'_, E>,
    ) {
        let (tokens, head_width) = (self.queries.count(), self.queries.width());
        let padded_tokens = tokens.next_multiple_of(I::PANEL_COLUMNS);
        let value_depth = tokens.next_multiple_of(I::DEPTH);

        let keys = buffers.keys.first(padded_tokens * head_width);
        instructions.enter(PackColumns { columns: self.keys, panels: keys });
        let values = buffers.values.first(value_depth * head_width);
        instructions.enter(PackRows { rows: self.values, panels: values });

        let mut inverse_sums = [0.0; LARGEST_TILE_ROWS];
        let mut tile_buffer = TileBuffer::new();
        for first_token in (0..tokens).step_by(I::TILE_ROWS) {
            let rows = (tokens - first_token).min(I::TILE_ROWS);
            let mut scores = buffers.scores.rows(rows, padded_tokens);
            let mut weights = buffers.weights.rows(rows, padded_tokens);
            let queries = self.queries.rows(first_token, rows);
            let output_stride = scores.stride();
            let output = scores.from(0, 0);
            instructions.enter(Tile { rows: queries, panels: keys, output, output_stride });
            instructions.enter(Exponentiate {
                scores: &mut scores,
                tokens,
                scale: 1.0 / (head_width as f32).sqrt(),
                weights: &mut weights,
                inverse_sums: &mut inverse_sums,
            });
            let output = context.block(first_token..first_token + rows, 0..head_width);
            let mut scaled = ScaleRows { factors: &inverse_sums, output };
            let weights = weights.as_rows().columns(0, value_depth);
            for (index, panel) in values.chunks_exact(I::PANEL_COLUMNS * value_depth).enumerate() {
                let position = TilePosition { row: 0, column: index * I::PANEL_COLUMNS, rows };
                multiply_tile(
                    instructions,
                    weights,
                    panel,
                    position,
                    &mut tile_buffer,
                    &mut scaled,
                );
            }
        }
    }
}

/// Routine that turns scores into attention weights, except for the division by their sum.
struct Exponentiate<'a, 'b, E> {
    /// `[rows, padded tokens]`; the padding is overwritten.
    scores: &'a mut RowsMut<'b, f32>,
    /// Number of scores in a row that are not padding.
    tokens: usize,
    /// Factor applied to the scores.
    scale: f32,
    /// `[rows, padded tokens]`: `e^(scale * (score - largest score))`.
    weights: &'a mut RowsMut<'b, E>,
    /// `[rows]`: the factor that normalises each row of weights.
    inverse_sums: &'a mut [f32],
}

impl<I: Instructions> Routine<I> for Exponentiate<'_, '_, I::Element> {
    #[inline(always)]
    fn run(self, instructions: I) {
        let lanes = instructions.lanes();
        let width = I::Lanes::COUNT;
        let scale = lanes.splat(self.scale);
        let rows = self.scores.rows_mut().zip(self.weights.rows_mut());
        for ((scores, weights), inverse_sum) in rows.zip(self.inverse_sums) {
            // The padding gets weights of 1.6e-38. They do not change the sum, which is at least 1,
            // nor the context, because the values there are zero or not read.
            scores[self.tokens..].fill(f32::NEG_INFINITY);
            let mut largest = lanes.splat(f32::NEG_INFINITY);
            for scores in scores.chunks_exact(width) {
                largest = lanes.maximum(largest, lanes.load(scores));
            }
            let largest = lanes.splat(lanes.largest(largest));
            let mut sum = lanes.splat(0.0);
            for (scores, weights) in scores.chunks_exact(width).zip(weights.chunks_exact_mut(width))
            {
                let difference = lanes.subtract(lanes.load(scores), largest);
                let weight = exponential(lanes, lanes.multiply(difference, scale));
                sum = lanes.add(sum, weight);
                instructions.store_rounded(weight, weights);
            }
            *inverse_sum = 1.0 / lanes.sum(sum);
        }
    }
}

/// Epilogue that multiplies each row by its factor and rounds.
struct ScaleRows<'a, E> {
    factors: &'a [f32],
    output: RowsMut<'a, E>,
}

impl<I: Instructions> Epilogue<I> for ScaleRows<'_, I::Element> {
    #[inline(always)]
    fn finish(&mut self, instructions: I, row: usize, column: usize, products: Vector<I>) {
        let lanes = instructions.lanes();
        let scaled = lanes.multiply(products, lanes.splat(self.factors[row]));
        instructions.store_rounded(scaled, self.output.from(row, column));
    }
}
