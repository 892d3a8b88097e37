//! Colours of a page, in tables and in plots.

/// Number of colours. Further runs reuse them and differ by their numbers.
const SERIES: usize = 8;

/// Returns the class of the colour of the run at `index`.
pub(super) fn series(index: usize) -> String {
    format!("s{}", index % SERIES + 1)
}
