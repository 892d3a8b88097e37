//! The memory layout of the right factor of a matrix product.
//!
//! The columns are cut into panels of [`Instructions::PANEL_COLUMNS`]. A panel holds the steps of
//! the product in order, a step its columns, and a column the step's [`Instructions::DEPTH`]
//! elements: `[panel][step][column][depth]`. So the innermost loop reads a panel from front to
//! back, whole vectors at a time.

use crate::aligned::Aligned;
use crate::kernel::{Element, Instructions, Routine};
use crate::rows::Rows;

/// Weight matrix in panels.
#[derive(Debug)]
pub(crate) struct Panels<E> {
    elements: Aligned<E>,
    panel_length: usize,
}

impl<E: Element> Panels<E> {
    /// Rounds and packs `weights`, `[columns, depth]`: one row per column of the product, as in
    /// `y = x W^T`.
    ///
    /// The number of columns must be a multiple of [`Instructions::PANEL_COLUMNS`].
    pub(crate) fn from_weights<I: Instructions<Element = E>>(
        instructions: I,
        weights: &[f32],
        depth: usize,
    ) -> Self {
        let rounded: Vec<E> = weights.iter().map(|&weight| E::from_f32(weight)).collect();
        let mut elements = Aligned::zeroed(rounded.len());
        let columns = Rows::contiguous(&rounded, depth);
        instructions.enter(PackColumns { columns, panels: elements.as_mut_slice() });
        Self { elements, panel_length: I::PANEL_COLUMNS * depth }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[E]> {
        self.elements.as_slice().chunks_exact(self.panel_length)
    }
}

/// Routine that packs a right factor given by its columns. Missing columns of the last panel become
/// zeros.
pub(crate) struct PackColumns<'a, E> {
    /// One row per column of the product; the width is a multiple of [`Instructions::DEPTH`].
    pub columns: Rows<'a, E>,
    /// Whole panels, enough for all columns.
    pub panels: &'a mut [E],
}

impl<I: Instructions> Routine<I> for PackColumns<'_, I::Element> {
    #[inline(always)]
    fn run(self, _: I) {
        let Self { columns, panels } = self;
        for (index, panel) in
            panels.chunks_exact_mut(I::PANEL_COLUMNS * columns.width()).enumerate()
        {
            let first = index * I::PANEL_COLUMNS;
            let present = columns.count().saturating_sub(first).min(I::PANEL_COLUMNS);
            if present < I::PANEL_COLUMNS {
                panel.fill(I::Element::default());
            }
            for column in 0..present {
                let steps = panel[column * I::DEPTH..].chunks_mut(I::PANEL_COLUMNS * I::DEPTH);
                for (step, group) in steps.zip(columns.row(first + column).chunks_exact(I::DEPTH)) {
                    step[..I::DEPTH].copy_from_slice(group);
                }
            }
        }
    }
}

/// Routine that packs a right factor given by its rows. Missing rows of the last step become zeros.
pub(crate) struct PackRows<'a, E> {
    /// The rows; the width is a multiple of [`Instructions::PANEL_COLUMNS`].
    pub rows: Rows<'a, E>,
    /// Whole panels, enough for all columns.
    pub panels: &'a mut [E],
}

impl<I: Instructions> Routine<I> for PackRows<'_, I::Element> {
    #[inline(always)]
    fn run(self, _: I) {
        let Self { rows, panels } = self;
        let depth = rows.count().next_multiple_of(I::DEPTH);
        for (index, panel) in panels.chunks_exact_mut(I::PANEL_COLUMNS * depth).enumerate() {
            let columns = rows.columns(index * I::PANEL_COLUMNS, I::PANEL_COLUMNS);
            for (number, step) in panel.chunks_exact_mut(I::PANEL_COLUMNS * I::DEPTH).enumerate() {
                for within in 0..I::DEPTH {
                    let slots = step[within..].iter_mut().step_by(I::DEPTH);
                    let row = number * I::DEPTH + within;
                    if row < rows.count() {
                        slots.zip(columns.row(row)).for_each(|(slot, &element)| *slot = element);
                    } else {
                        slots.for_each(|slot| *slot = I::Element::default());
                    }
                }
            }
        }
    }
}
