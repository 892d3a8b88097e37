//! The register tile: products of a few rows with panels, summed in vector registers.

use super::{Instructions, Lanes, Routine};
use crate::rows::Rows;

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
