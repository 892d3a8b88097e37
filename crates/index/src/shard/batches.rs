//! Cuts of what is written in one commit into batches of rows.

use clew_core::{ContentHash, StoredDocument};

use crate::values::derived::{ChunksOf, EmbeddedChunk};

/// Maximum bytes of text in one batch of rows: text columns count bytes in 32 bits.
const BATCH_BYTES: usize = 256 << 20;

/// Size of the text that goes into one row or several.
pub(super) trait TextSize {
    fn text_bytes(&self) -> usize;
}

impl TextSize for (StoredDocument, ContentHash) {
    fn text_bytes(&self) -> usize {
        self.0.document.text.len() + self.0.document.title.len()
    }
}

impl TextSize for ChunksOf<'_> {
    fn text_bytes(&self) -> usize {
        let title = self.document.title.len();
        let row = |row: &EmbeddedChunk| row.chunk.span.len().max(row.chunk.key_text.len()) + title;
        self.chunks.iter().map(row).sum()
    }
}

/// Returns how many of the first of `rows`, at least one, fit into one batch.
pub(super) fn fitting<T: TextSize>(rows: &[T]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&T| {
        bytes += row.text_bytes();
        bytes <= BATCH_BYTES
    };
    rows.iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_cut_by_bytes_and_hold_at_least_one_row() {
        struct Sized(usize);
        impl TextSize for Sized {
            fn text_bytes(&self) -> usize {
                self.0
            }
        }
        let half = || Sized(BATCH_BYTES / 2);
        assert_eq!(fitting(&[half(), half(), half()]), 2);
        assert_eq!(fitting(&[Sized(BATCH_BYTES + 1), half()]), 1);
    }
}
