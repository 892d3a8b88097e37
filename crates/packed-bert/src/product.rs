//! The matrix product of packed rows with panels, and the operations on each product before it
//! leaves the cache.

use crate::config::WIDTH_MULTIPLE;
use crate::functions::gelu;
use crate::kernel::{Instructions, Lanes, Routine, Vector};
use crate::panels::Panels;
use crate::rows::{Rows, RowsMut};

/// Number of rows of the largest tile of any kernel.
pub(crate) const LARGEST_TILE_ROWS: usize = 12;
const LARGEST_TILE: usize = LARGEST_TILE_ROWS * WIDTH_MULTIPLE;

/// Buffer for the products of one tile.
#[repr(align(64))]
pub(crate) struct TileBuffer([f32; LARGEST_TILE]);

impl TileBuffer {
    pub(crate) fn new() -> Self {
        Self([0.0; LARGEST_TILE])
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
        for row in (0..rows.count()).step_by(I::TILE_ROWS) {
            let position =
                TilePosition { row, column, rows: (rows.count() - row).min(I::TILE_ROWS) };
            multiply_tile(instructions, rows, panel, position, &mut buffer, &mut epilogue);
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

/// Routine that computes the products of a few rows with one panel after the other. Sums stay in
/// registers over the whole depth.
pub(crate) struct Tile<'a, E> {
    /// At most [`Instructions::TILE_ROWS`] rows, as wide as the panels are deep.
    pub rows: Rows<'a, E>,
    /// Whole panels.
    pub panels: &'a [E],
    /// Products of each row with the columns of all panels.
    pub output: &'a mut [f32],
    /// Distance between the rows of the output.
    pub output_stride: usize,
}

impl<I: Instructions> Routine<I> for Tile<'_, I::Element> {
    #[inline(always)]
    fn run(self, instructions: I) {
        /// Calls the version for the number of rows, so that each row has its own registers.
        macro_rules! multiply_rows {
            ($($rows:literal)+) => {
                match self.rows.count() {
                    0 => {}
                    $($rows if $rows <= I::TILE_ROWS => self.multiply_rows::<I, $rows>(instructions),)+
                    count => panic!("a tile has at most {} rows, got {count}", I::TILE_ROWS),
                }
            };
        }
        multiply_rows!(12 11 10 9 8 7 6 5 4 3 2 1);
    }
}

impl<E> Tile<'_, E> {
    #[inline(always)]
    fn multiply_rows<I: Instructions<Element = E>, const ROWS: usize>(self, instructions: I) {
        let depth = self.rows.width();
        let (elements, stride) = (self.rows.elements(), self.rows.stride());
        assert!(
            self.rows.count() == ROWS && elements.len() >= (ROWS - 1) * stride + depth,
            "the view's elements end before its last row does"
        );
        let lanes = instructions.lanes();
        let width = I::Lanes::COUNT;
        for (index, panel) in self.panels.chunks_exact(I::PANEL_COLUMNS * depth).enumerate() {
            let mut sums = [[lanes.splat(0.0); 2]; ROWS];
            for (number, step) in panel.chunks_exact(I::PANEL_COLUMNS * I::DEPTH).enumerate() {
                let (left, right) = step.split_at(width * I::DEPTH);
                let columns = [instructions.load_operand(left), instructions.load_operand(right)];
                for (row, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: `row < ROWS`. As `panel` has `PANEL_COLUMNS * depth` elements, there
                    // are at most `depth / DEPTH` whole steps, so this element and the `DEPTH - 1`
                    // following ones lie within the row's first `depth`, and so below
                    // `(ROWS - 1) * stride + depth`. The assertion above checked that the slice has
                    // that many.
                    let row = unsafe {
                        instructions.broadcast_operand(
                            elements.as_ptr().add(row * stride + number * I::DEPTH),
                        )
                    };
                    sums[0] = instructions.multiply_add(row, columns[0], sums[0]);
                    sums[1] = instructions.multiply_add(row, columns[1], sums[1]);
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                let output = &mut self.output
                    [row * self.output_stride + index * I::PANEL_COLUMNS..][..2 * width];
                lanes.store(sums[0], output);
                lanes.store(sums[1], &mut output[width..]);
            }
        }
    }
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
