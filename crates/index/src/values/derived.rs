//! Chunks that are made of documents, and what became of them.

use clew_core::{Chunk, Document, DocumentId, Recipe, Version};

/// Chunk with its embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddedChunk {
    /// The chunk.
    pub chunk: Chunk,
    /// Vectors, one for each of [`crate::ShardSettings::vectors`]: `[dimension]` each, of finite
    /// numbers that are not all zero.
    pub vectors: Vec<Vec<f32>>,
}

/// All chunks of a document version.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedDocument {
    /// The document as it was stored.
    pub document: Document,
    /// Its version.
    pub version: Version,
    /// Recipe by which the chunks were made.
    pub recipe: Recipe,
    /// Chunks by ordinal from 0, at least one.
    pub chunks: Vec<EmbeddedChunk>,
}

/// Outcome of a commit of chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Number of documents that searches find by the committed chunks from now on.
    pub documents: u64,
    /// Number of chunks written.
    pub chunks: u64,
    /// Documents left out because they were forgotten, replaced by a newer version, or committed
    /// already.
    pub dropped: Vec<DocumentId>,
}
