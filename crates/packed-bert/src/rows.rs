//! Views of matrices whose rows may have gaps between them.

use std::ops::Range;

/// View of `count` rows of `width` elements, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a, E> {
    elements: &'a [E],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a, E> Rows<'a, E> {
    /// Creates a view of rows that follow each other without a gap.
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

    /// Returns all elements from the start of the first row on; at least
    /// `(count - 1) * stride + width` unless there are no rows.
    pub(crate) fn elements(&self) -> &'a [E] {
        self.elements
    }

    pub(crate) fn row(&self, index: usize) -> &'a [E] {
        &self.elements[index * self.stride..][..self.width]
    }

    /// Returns `count` rows, starting with row `first`.
    pub(crate) fn rows(&self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.count, "rows {first}..{} of {}", first + count, self.count);
        Self { elements: &self.elements[first * self.stride..], count, ..*self }
    }

    /// Returns `width` columns, starting with column `first`.
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

/// Writable view of rows that are `stride` elements apart.
#[derive(Debug)]
pub(crate) struct RowsMut<'a, E> {
    elements: &'a mut [E],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a, E> RowsMut<'a, E> {
    /// Creates a view of the rows of `elements`, which must hold `count * stride` elements.
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

    /// Returns a part of the rows and of the columns.
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

    /// Returns the elements from `column` of `row` on, up to the end of the view's elements.
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
