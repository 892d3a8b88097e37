//! Batches in which fragments are rewritten: bounded by bytes.

use std::num::NonZeroU64;

use lance_table::format::Fragment;

/// Stored bytes of the rows that a rewriting decodes at a time. In memory they take a few times as
/// much: decoded, on the way to the writer, and in its pages. A larger value is not faster.
const COMPACTED_AT_ONCE: u64 = 16 << 20;

/// Minimum and maximum number of rows of a batch. With fewer, a table that mixes small
/// rows with a few large ones would take long to compact. The maximum is the engine's own default.
const ROWS_OF_A_BATCH: (u64, u64) = (8, 8192);

/// Most stored bytes of the minimum of rows. A batch of larger rows has fewer of them.
const MOST_OF_FEWEST: u64 = 160 << 20;

/// Returns the rows and the stored bytes of a fragment.
pub(super) fn size_of(fragment: &Fragment) -> (u64, u64) {
    let files = fragment.files.iter().filter_map(|file| file.file_size_bytes.get());
    (fragment.physical_rows.unwrap_or(0) as u64, files.map(NonZeroU64::get).sum())
}

/// Returns the number of rows of a batch. The batches that are decoded at a time, one for each
/// core, have about [`COMPACTED_AT_ONCE`] bytes together. `fragments` yields rows and bytes. The
/// largest rows decide, except those of fragments that are no larger than this limit themselves,
/// such as one large document: a batch never spans fragments.
pub(super) fn rows_of_a_batch(fragments: impl Iterator<Item = (u64, u64)>, cores: usize) -> usize {
    let divided = fragments.filter(|(_, bytes)| *bytes > COMPACTED_AT_ONCE);
    let largest = divided.map(|(rows, bytes)| bytes / rows.max(1)).max();
    let rows = COMPACTED_AT_ONCE / cores.max(1) as u64 / largest.unwrap_or(0).max(1);
    let (fewest, most) = ROWS_OF_A_BATCH;
    let fewest = (MOST_OF_FEWEST / largest.unwrap_or(0).max(1)).clamp(1, fewest);
    rows.clamp(fewest, most) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_as_many_rows_as_fit_whatever_they_are() {
        let check = |fragments: &[(u64, u64)], cores, expected| {
            let rows = rows_of_a_batch(fragments.iter().copied(), cores);
            assert_eq!(rows, expected, "{fragments:?} on {cores}");
        };
        const MIB: u64 = 1 << 20;
        check(&[], 4, 8192);
        // Chunks with their vectors and texts.
        check(&[(100_000, 200 * MIB), (0, 0)], 1, 8000);
        check(&[(100_000, 200 * MIB)], 8, 1000);
        // Documents of 128 KiB, and of 16 MiB.
        check(&[(800, 100 * MIB), (100_000, 100 * MIB)], 1, 128);
        check(&[(6, 100 * MIB)], 1, 8);
        // Documents of 64 MiB, and of 256 MiB.
        check(&[(3, 192 * MIB)], 2, 2);
        check(&[(2, 512 * MIB)], 2, 1);
        // One document of 16 MiB, which is a batch by itself, beside many small ones.
        check(&[(1, 16 * MIB), (100_000, 100 * MIB)], 1, 8192);
    }
}
