//! The matrix product of packed rows with panels, and what happens to each product before it leaves the cache.

use crate::config::WIDTH_MULTIPLE;
use crate::functions::gelu;
use crate::kernel::{Instructions, Lanes, Routine, Vector, prefetch};
use crate::panels::Panels;
use crate::rows::{Rows, RowsMut};

/// Rows are taken in blocks of about this many bytes, so that a block stays in the second-level cache while all
/// panels pass over it.
const fn parse(s: &str) -> usize { let b = s.as_bytes(); let mut n = 0; let mut i = 0; while i < b.len() { n = n * 10 + (b[i] - b'0') as usize; i += 1; } n }
const ROW_BLOCK_BYTES: usize = 1024 * parse(match option_env!("RB") { Some(s) => s, None => "256" });

/// Rows of the largest tile of any kernel.
pub(crate) const LARGEST_TILE_ROWS: usize = 12;
const LARGEST_TILE: usize = LARGEST_TILE_ROWS * WIDTH_MULTIPLE;

/// Room for the products of one tile.
#[repr(align(64))]
pub(crate) struct TileBuffer([f32; LARGEST_TILE]);

impl TileBuffer {
    pub(crate) fn new() -> Self {
        Self([0.0; LARGEST_TILE])
    }
}

/// What is done with a product: a bias, an activation, a residual, a rounding.
pub(crate) trait Epilogue<I: Instructions> {
    /// Takes the products of a row with one vector of columns; `column` is the first of them.
    fn finish(&mut self, instructions: I, row: usize, column: usize, products: Vector<I>);
}

/// `rows` times every panel, tile by tile.
pub(crate) fn multiply<I: Instructions>(
    instructions: I,
    rows: Rows<'_, I::Element>,
    panels: &Panels<I::Element>,
    mut epilogue: impl Epilogue<I>,
) {
    let mut buffer = TileBuffer::new();
    let tiles = ROW_BLOCK_BYTES / (I::TILE_ROWS * rows.width() * size_of::<I::Element>());
    let block_rows = tiles.max(1) * I::TILE_ROWS;
    for block in (0..rows.count()).step_by(block_rows) {
        let block_end = rows.count().min(block + block_rows);
        let tiles = (block_end - block).div_ceil(I::TILE_ROWS);
        for index in 0..panels.count() {
            // The first tile to read a panel would wait for main memory all the way. So while the tiles of one panel
            // are computed, the next panel is fetched, a part with each tile.
            let next_panel = if index + 1 < panels.count() { panels.panel(index + 1) } else { &[] };
            let mut next_parts = next_panel.chunks(next_panel.len().div_ceil(tiles).max(1));
            for row in (block..block_end).step_by(I::TILE_ROWS) {
                prefetch(next_parts.next().unwrap_or_default());
                let tile = TilePosition {
                    row,
                    column: index * I::PANEL_COLUMNS,
                    rows: (block_end - row).min(I::TILE_ROWS),
                };
                multiply_tile(instructions, rows, panels.panel(index), tile, &mut buffer, &mut epilogue);
            }
        }
    }
}

/// Where a tile lies in the product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TilePosition {
    /// First row.
    pub row: usize,
    /// First column.
    pub column: usize,
    /// Number of rows, at most [`Instructions::TILE_ROWS`].
    pub rows: usize,
}

/// One tile of the product through the epilogue.
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
        panel,
        output: products,
        output_stride: I::PANEL_COLUMNS,
    });
    instructions.enter(Finish { products, position, epilogue });
}

/// The products of a few rows with one panel, kept in registers over the whole depth.
pub(crate) struct Tile<'a, E> {
    /// At most [`Instructions::TILE_ROWS`] rows, at least as wide as the panel is deep.
    pub rows: Rows<'a, E>,
    /// One panel.
    pub panel: &'a [E],
    /// Takes one run of [`Instructions::PANEL_COLUMNS`] products per row.
    pub output: &'a mut [f32],
    /// Distance between the runs.
    pub output_stride: usize,
}

impl<I: Instructions> Routine<I> for Tile<'_, I::Element> {
    #[inline(always)]
    fn run(self, instructions: I) {
        /// Calls the version for the number of rows, so that each row has its registers.
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
        let lanes = instructions.lanes();
        let width = I::Lanes::COUNT;
        let steps = self.panel.chunks_exact(2 * width * I::DEPTH);
        let (elements, stride) = (self.rows.elements(), self.rows.stride());
        assert!(
            self.rows.count() == ROWS && elements.len() >= (ROWS - 1) * stride + steps.len() * I::DEPTH,
            "rows are shorter than the panel is deep"
        );
        let mut sums = [[lanes.splat(0.0); 2]; ROWS];
        for (number, step) in steps.enumerate() {
            let (left, right) = step.split_at(width * I::DEPTH);
            let columns = [instructions.load_operand(left), instructions.load_operand(right)];
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `row < ROWS` and `number < steps.len()`, so that this and the `DEPTH - 1` following elements
                // lie below `(ROWS - 1) * stride + steps.len() * DEPTH`, which the slice was checked to have.
                let row = unsafe {
                    instructions.broadcast_operand(elements.as_ptr().add(row * stride + number * I::DEPTH))
                };
                sums[0] = instructions.multiply_add(row, columns[0], sums[0]);
                sums[1] = instructions.multiply_add(row, columns[1], sums[1]);
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            let output = &mut self.output[row * self.output_stride..][..2 * width];
            lanes.store(sums[0], output);
            lanes.store(sums[1], &mut output[width..]);
        }
    }
}

/// Hands a tile's products to the epilogue.
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

/// Adds the bias and rounds.
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

/// Adds the bias, applies GELU and rounds.
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

/// Adds products and bias to the residual stream.
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
