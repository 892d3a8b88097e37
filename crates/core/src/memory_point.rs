//! A point of the working memory, as a reader is shown it.

/// Point of a working memory: a hyperedge over entities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPoint {
    /// Entities that it is about.
    pub entities: Vec<String>,
    /// Statement about them.
    pub text: String,
}
