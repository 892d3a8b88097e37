//! Whether an expectation holds.

use serde::Serialize;

/// Whether an expectation holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What was expected.
    pub expected: String,
    /// What came.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
}
