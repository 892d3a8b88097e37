//! Limits on the size of requests.

/// Bounds on what one request may carry. Each is checked before anything is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a document's text, in bytes.
    pub document_bytes: usize,
    /// Maximum length of a title, in bytes.
    pub title_bytes: usize,
    /// Maximum number of attributes of a document.
    pub attributes: usize,
    /// Maximum size of all attribute names and values of a document, in bytes.
    pub attribute_bytes: usize,
    /// Maximum number of levels of a condition.
    pub condition_depth: usize,
    /// Maximum number of conditions in a condition, itself included.
    pub condition_nodes: usize,
    /// Maximum number of values that a condition compares with.
    pub condition_values: usize,
    /// Maximum size of all names and values of a condition, in bytes.
    pub condition_bytes: usize,
    /// Maximum length of a query text, in bytes.
    pub query_bytes: usize,
    /// Maximum number of evidence items of one search.
    pub results: usize,
    /// Maximum number of evidence items of one search, or of one batch of searches, that come with
    /// the attributes of their documents.
    pub results_with_attributes: usize,
    /// Maximum number of searches in one batch.
    pub searches: usize,
    /// Maximum number of texts that a client has embedded in one request.
    pub embedded_texts: usize,
    /// Maximum number of candidates of one search that a reranker reads.
    pub reranked: usize,
    /// Maximum number of tokens of evidence that a question may have read.
    pub evidence_tokens: usize,
    /// Maximum number of points of a working memory that are read with evidence.
    pub points: usize,
    /// Maximum number of document ids in one filter or one forget request.
    pub document_ids: usize,
    /// Maximum number of shards of a corpus.
    pub shards: u32,
    /// Maximum length of a passage for extraction, or of a text to embed, in bytes.
    pub passage_bytes: usize,
    /// Maximum number of texts that are summarised into one.
    pub summary_parts: usize,
    /// Maximum size of all texts that are summarised into one, in bytes.
    pub summary_task_bytes: usize,
    /// Maximum length of a summary, in bytes.
    pub summary_bytes: usize,
    /// Maximum number of tasks in one call of a graph builder.
    pub graph_tasks: usize,
}

impl Limits {
    /// Largest [`Self::document_bytes`] that may be configured. A batch of rows holds as much text.
    pub const MOST_DOCUMENT_BYTES: usize = 256 << 20;

    /// Returns the limits of documents between nodes, and of stored ones: a gateway has checked
    /// them by its own limit, which may have been larger than it is now.
    pub fn of_stored() -> Self {
        Self { document_bytes: Self::MOST_DOCUMENT_BYTES, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 16 << 20,
            title_bytes: 1024,
            attributes: 64,
            attribute_bytes: 16 << 10,
            condition_depth: 16,
            condition_nodes: 256,
            condition_values: 1000,
            condition_bytes: 64 << 10,
            query_bytes: 16 << 10,
            results: 1000,
            results_with_attributes: 200,
            searches: 32,
            embedded_texts: 128,
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
