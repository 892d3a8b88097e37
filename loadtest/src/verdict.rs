//! Verdict on an expectation.

use serde::Serialize;

/// Verdict on an expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExpectationVerdict {
    /// Description of what was expected.
    pub expected: String,
    /// Description of what was found.
    pub found: String,
    /// Whether the expectation holds.
    pub holds: bool,
}
