//! The matrix product of packed rows with panels, and the operations on each product before it
//! leaves the cache.

use crate::config::WIDTH_MULTIPLE;
use crate::functions::gelu;
use crate::kernel::tile::Tile;
use crate::kernel::{Instructions, Lanes, Routine, Vector};
use crate::panels::Panels;
use crate::rows::{Rows, RowsMut};

/// Number of rows of the largest tile of any kernel.
pub(crate) const LARGEST_TILE_ROWS: usize = 12;
/// Number of rows of the largest block of any kernel.
const LARGEST_BLOCK_ROWS: usize = 32;
const LARGEST_BLOCK: usize = LARGEST_BLOCK_ROWS * WIDTH_MULTIPLE;

/// Buffer for the products of one tile or block.
#[repr(align(64))]
pub(crate) struct TileBuffer([f32; LARGEST_BLOCK]);

impl TileBuffer {
    pub(crate) fn new() -> Self {
        Self([0.0; LARGEST_BLOCK])
    }
}

/// Operation on the products of a matrix product: a bias, an activation, a residual, a rounding.
pub(crate) trait Epilogue<I: Instructions> {
    /// Takes the products of a row with one vector of columns, the first of which is `column`.
    fn finish(&mut self, instructions: I, row: usize, column: usize, products: Vector<I>);
}

/// Multiplies `rows` with every panel, tile by tile.
///
/// A panel meets all rows before the next panel starts. Cutting the rows into blocks that fit the
/// second-level cache, or prefetching the next panel, made no measurable difference for up to 384
/// rows.
pub(crate) fn multiply<I: Instructions>(
    instructions: I,
    rows: Rows<'_, I::Element>,
    panels: &Panels<I::Element>,
    mut epilogue: impl Epilogue<I>,
) {
    let mut buffer = TileBuffer::new();
    for (index, panel) in panels.iter().enumerate() {
        let column = index * I::PANEL_COLUMNS;
        for row in (0..rows.count()).step_by(I::BLOCK_ROWS) {
            let count = (rows.count() - row).min(I::BLOCK_ROWS);
            let products = &mut buffer.0[..count * I::PANEL_COLUMNS];
            instructions.multiply_block(rows.rows(row, count), panel, products);
            let position = TilePosition { row, column, rows: count };
            instructions.enter(Finish { products, position, epilogue: &mut epilogue });
        }
    }
}

/// Position of a tile in the product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TilePosition {
    /// First row.
    pub row: usize,
    /// First column.
    pub column: usize,
    /// Number of rows, at most [`Instructions::TILE_ROWS`].
    pub rows: usize,
}

/// Computes one tile of the product and passes it to the epilogue.
pub(crate) fn multiply_tile<I: Instructions>(
    instructions: I,
    rows: Rows<'_, I::Element>,
    panel: &[I::Element],
    position: TilePosition,
    buffer: &mut TileBuffer,
    epilogue: &mut impl Epilogue<I>,
) {
    let products = &mut buffer.0[..position.rows * I::PANEL_COLUMNS];
    instructions.enter(Tile {
        rows: rows.rows(position.row, position.rows),
        panels: panel,
        output: products,
        output_stride: I::PANEL_COLUMNS,
    });
    instructions.enter(Finish { products, position, epilogue });
}

/// Routine that passes a tile's products to the epilogue.
struct Finish<'a, T> {
    products: &'a [f32],
    position: TilePosition,
    epilogue: &'a mut T,
}

impl<I: Instructions, T: Epilogue<I>> Routine<I> for Finish<'_, T> {
    #[inline(always)]
    fn run(self, instructions: I) {
        let TilePosition { row: first_row, column: first_column, .. } = self.position;
        for (row, products) in self.products.chunks_exact(I::PANEL_COLUMNS).enumerate() {
            for (vector, products) in products.chunks_exact(I::Lanes::COUNT).enumerate() {
                let products = instructions.lanes().load(products);
                let column = first_column + vector * I::Lanes::COUNT;
                self.epilogue.finish(instructions, first_row + row, column, products);
            }
        }
    }
}

/// Epilogue that adds the bias and rounds.
pub(crate) struct AddBias<'a, 'b, E> {
    pub bias: &'a [f32],
    /// `[rows, bias.len()]`
    pub output: &'a mut RowsMut<'b, E>,
}

impl<I: Instructions> Epilogue<I> for AddBias<'_, '_, I::Element> {
    #[inline(always)]
    fn finish(&mut self, instructions: I, row: usize, column: usize, products: Vector<I>) {
        let lanes = instructions.lanes();
        let sums = lanes.add(products, lanes.load(&self.bias[column..]));
        instructions.store_rounded(sums, self.output.from(row, column));
    }
}

/// Epilogue that adds the bias, applies GELU and rounds.
pub(crate) struct AddBiasAndActivate<'a, 'b, E> {
    pub bias: &'a [f32],
    /// `[rows, bias.len()]`
    pub output: &'a mut RowsMut<'b, E>,
}

impl<I: Instructions> Epilogue<I> for AddBiasAndActivate<'_, '_, I::Element> {
    #[inline(always)]
    fn finish(&mut self, instructions: I, row: usize, column: usize, products: Vector<I>) {
        let lanes = instructions.lanes();
        let sums = lanes.add(products, lanes.load(&self.bias[column..]));
        let activations = gelu(lanes, sums);
        instructions.store_rounded(activations, self.output.from(row, column));
    }
}

/// Epilogue that adds products and bias to the residual stream.
pub(crate) struct AddBiasToResidual<'a> {
    pub bias: &'a [f32],
    /// `[rows, bias.len()]`
    pub residual: &'a mut [f32],
}

impl<I: Instructions> Epilogue<I> for AddBiasToResidual<'_> {
    #[inline(always)]
    fn finish(&mut self, instructions: I, row: usize, column: usize, products: Vector<I>) {
        let lanes = instructions.lanes();
        let sums = lanes.add(products, lanes.load(&self.bias[column..]));
        let residual = &mut self.residual[row * self.bias.len() + column..];
        lanes.store(lanes.add(sums, lanes.load(residual)), residual);
    }
}
