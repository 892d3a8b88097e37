//! The bounds every request is held to.

/// Bounds on what one request may carry; each is checked before anything is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest document text, in bytes.
    pub document_bytes: usize,
    /// Longest title, in bytes.
    pub title_bytes: usize,
    /// Most attributes of a document.
    pub attributes: usize,
    /// Most bytes of all attribute names and values of a document.
    pub attribute_bytes: usize,
    /// Longest query text, in bytes.
    pub query_bytes: usize,
    /// Most evidence items of one search.
    pub results: usize,
    /// Most candidates of one search that a reranker reads.
    pub reranked: usize,
    /// Most tokens of evidence that a question may have read.
    pub evidence_tokens: usize,
    /// Most points of a working memory that are read with evidence.
    pub points: usize,
    /// Most document ids in one filter or one forget request.
    pub document_ids: usize,
    /// Most shards of a corpus.
    pub shards: u32,
    /// Longest passage whose entities are extracted, in bytes.
    pub passage_bytes: usize,
    /// Most texts that are summarised into one.
    pub summary_parts: usize,
    /// Most bytes of all texts that are summarised into one.
    pub summary_task_bytes: usize,
    /// Longest summary, in bytes.
    pub summary_bytes: usize,
    /// Most tasks of one call of a graph builder.
    pub graph_tasks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 16 << 20,
            title_bytes: 1024,
            attributes: 64,
            attribute_bytes: 16 << 10,
            query_bytes: 16 << 10,
            results: 1000,
            reranked: 200,
            evidence_tokens: 32 << 10,
            points: 256,
            document_ids: 1000,
            shards: 256,
            passage_bytes: 64 << 10,
            summary_parts: 1000,
            summary_task_bytes: 256 << 10,
            summary_bytes: 16 << 10,
            graph_tasks: 256,
        }
    }
}
