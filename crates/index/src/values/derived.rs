//! Chunks that are made of documents, and what became of them.

use std::sync::Arc;

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

/// Some chunks of a document version that has so many that they are made and committed in parts.
///
/// The first part, which has the chunks from ordinal 0, is committed last, and the others before it
/// in order. So a version of which parts are missing always lacks the chunk of ordinal 0, by which
/// readers of any release know that it is not whole.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedPart {
    /// The document as it was stored.
    pub document: Arc<Document>,
    /// Its version.
    pub version: Version,
    /// Recipe by which the chunks were made.
    pub recipe: Recipe,
    /// Chunks with ascending ordinals that leave none out, at least one.
    pub chunks: Vec<EmbeddedChunk>,
}

/// Chunks of one document version that are written together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunksOf<'a> {
    pub document: &'a Document,
    pub version: Version,
    pub recipe: Recipe,
    pub chunks: &'a [EmbeddedChunk],
}

impl<'a> From<&'a DerivedDocument> for ChunksOf<'a> {
    fn from(derived: &'a DerivedDocument) -> Self {
        let DerivedDocument { document, version, recipe, chunks } = derived;
        Self { document, version: *version, recipe: *recipe, chunks }
    }
}

impl<'a> From<&'a DerivedPart> for ChunksOf<'a> {
    fn from(part: &'a DerivedPart) -> Self {
        let DerivedPart { document, version, recipe, chunks } = part;
        Self { document, version: *version, recipe: *recipe, chunks }
    }
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
