//! Buffers that are aligned to cache lines.

use crate::rows::RowsMut;

/// Bytes of a cache line and of the widest vector.
const LINE_BYTES: usize = 64;

/// Zero-initialised buffer whose first element lies at the start of a cache line.
///
/// A 64-byte vector that straddles two lines costs two reads, and nearly all reads here are
/// vectors. `Vec` promises only the alignment of its element, hence the few elements of slack.
#[derive(Debug)]
pub(crate) struct Aligned<E> {
    storage: Vec<E>,
    start: usize,
    length: usize,
}

impl<E> Default for Aligned<E> {
    fn default() -> Self {
        Self { storage: Vec::new(), start: 0, length: 0 }
    }
}

impl<E: Copy + Default> Aligned<E> {
    const LINE_ELEMENTS: usize = LINE_BYTES / size_of::<E>();

    pub(crate) fn zeroed(length: usize) -> Self {
        let storage = vec![E::default(); length + Self::LINE_ELEMENTS];
        let start = storage.as_ptr().align_offset(LINE_BYTES).min(Self::LINE_ELEMENTS);
        Self { storage, start, length }
    }

    pub(crate) fn as_slice(&self) -> &[E] {
        &self.storage[self.start..][..self.length]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [E] {
        &mut self.storage[self.start..][..self.length]
    }

    /// Returns the first `length` elements, with the values that an earlier use left in them.
    /// Replaces a buffer that is too short by a zeroed one.
    pub(crate) fn first(&mut self, length: usize) -> &mut [E] {
        if self.length < length {
            *self = Self::zeroed(length);
        }
        &mut self.as_mut_slice()[..length]
    }

    /// Returns `count` rows of `width` elements, with the values that an earlier use left in them.
    ///
    /// Each row starts on a line, and the rows are an odd number of lines apart. A tile reads the
    /// same column of twelve rows at once. In many models the natural distance of rows is a
    /// multiple of 2 KiB; those lines would then compete for one or two sets of the nearest cache,
    /// which costs a fifth of the speed at a width of 1536 floats.
    pub(crate) fn rows(&mut self, count: usize, width: usize) -> RowsMut<'_, E> {
        let lines = width.div_ceil(Self::LINE_ELEMENTS) | 1;
        let stride = lines * Self::LINE_ELEMENTS;
        RowsMut::strided(self.first(count * stride), count, width, stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_a_line_and_grow() {
        let mut buffer = Aligned::<f32>::default();
        for length in [1, 5, 100, 99, 1000] {
            let slice = buffer.first(length);
            assert_eq!(slice.len(), length);
            assert_eq!(slice.as_ptr().addr() % LINE_BYTES, 0);
        }
    }

    #[test]
    fn rows_start_on_lines_an_odd_number_apart() {
        let mut buffer = Aligned::<f32>::default();
        for width in [1, 16, 17, 384, 1536] {
            let rows = buffer.rows(3, width);
            let rows = rows.as_rows();
            assert_eq!(rows.row(2).len(), width);
            assert_eq!(rows.row(2).as_ptr().addr() % LINE_BYTES, 0);
            assert_eq!(rows.stride() * size_of::<f32>() / LINE_BYTES % 2, 1);
        }
    }
}
