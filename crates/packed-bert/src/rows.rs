//! Views of matrices whose rows may lie apart.

use std::ops::Range;

/// A view of `count` rows of `width` elements, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a, E> {
    elements: &'a [E],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a, E> Rows<'a, E> {
    /// Rows that follow each other without a gap.
    pub(crate) fn contiguous(elements: &'a [E], width: usize) -> Self {
        Self { elements, count: elements.len() / width, width, stride: width }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// All elements from the first row's first; at least `(count - 1) * stride + width` when there are rows.
    pub(crate) fn elements(&self) -> &'a [E] {
        self.elements
    }

    pub(crate) fn row(&self, index: usize) -> &'a [E] {
        &self.elements[index * self.stride..][..self.width]
    }

    /// `count` of the rows from row `first` on.
    pub(crate) fn rows(&self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.count, "rows {first}..{} of {}", first + count, self.count);
        Self { elements: &self.elements[first * self.stride..], count, ..*self }
    }

    /// `width` of the columns from column `first` on.
    pub(crate) fn columns(&self, first: usize, width: usize) -> Self {
        assert!(
            first + width <= self.width,
            "columns {first}..{} of {}",
            first + width,
            self.width
        );
        Self { elements: &self.elements[first..], width, ..*self }
    }
}

/// A view of rows to be written, `stride` elements apart.
#[derive(Debug)]
pub(crate) struct RowsMut<'a, E> {
    elements: &'a mut [E],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a, E> RowsMut<'a, E> {
    /// The rows of `elements`, which has `count * stride` of them.
    pub(crate) fn strided(
        elements: &'a mut [E],
        count: usize,
        width: usize,
        stride: usize,
    ) -> Self {
        assert!(
            width <= stride && elements.len() == count * stride,
            "{count} rows, {stride} elements apart"
        );
        Self { elements, count, width, stride }
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// A part of the rows and of the columns.
    pub(crate) fn block(&mut self, rows: Range<usize>, columns: Range<usize>) -> RowsMut<'_, E> {
        assert!(
            rows.end <= self.count && columns.end <= self.width,
            "{rows:?} of {}, {columns:?} of {}",
            self.count,
            self.width
        );
        RowsMut {
            elements: &mut self.elements[rows.start * self.stride + columns.start..],
            count: rows.len(),
            width: columns.len(),
            stride: self.stride,
        }
    }

    /// What follows in a row from a column on.
    #[inline(always)]
    pub(crate) fn from(&mut self, row: usize, column: usize) -> &mut [E] {
        &mut self.elements[row * self.stride + column..]
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [E]> {
        self.elements.chunks_mut(self.stride).take(self.count).map(|row| &mut row[..self.width])
    }

    pub(crate) fn as_rows(&self) -> Rows<'_, E> {
        Rows { elements: self.elements, count: self.count, width: self.width, stride: self.stride }
    }
}
