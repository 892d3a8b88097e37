//! Settings that a shard is opened with.

use std::time::Duration;

use clew_core::{CorpusName, CorpusSettings, Recipe, Recipes};

use crate::catalogue::record::Wanted;
use crate::error::{Error, Result};
use crate::storage::session::IndexMemory;
use crate::table::ownership::Left;
use crate::table::vectors::VectorColumn;
use crate::values::text_memory::TextMemory;
use crate::values::vector_memory::VectorMemory;

/// Settings that a shard is opened with.
#[derive(Clone, Debug)]
pub struct ShardSettings {
    /// Corpus of the shard. Chunk ids are derived from it.
    pub corpus: CorpusName,
    /// Recipes that chunks should be made by. Searches find a document by its other chunks until it
    /// has these.
    pub recipes: Recipes,
    /// Recipe that trees and graphs should be made by, with the maximum number of children of a
    /// tree node. `None` if there should be none; existing ones are then swept.
    pub structure: Option<(Recipe, u32)>,
    /// Vector columns, by name: one, or two while the corpus moves from one model to another.
    pub vectors: Vec<VectorColumn>,
    /// Fingerprint of the model whose vectors are searched, unless a query says otherwise.
    pub searched: String,
    /// Fingerprint of the corpus' first model.
    pub first: String,
    /// Limits of maintenance and of retries.
    pub tuning: Tuning,
    /// Memory of searches.
    pub memory: SearchMemory,
}

/// Memory that searches of all shards of a process share. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SearchMemory {
    /// Room for the directions of vectors.
    pub vectors: VectorMemory,
    /// Memory for what searches read of indexes.
    pub indexes: IndexMemory,
    /// Memory for the texts of passages that searches showed.
    pub texts: TextMemory,
}

impl ShardSettings {
    /// Returns the settings of the shards of a corpus.
    pub fn of(corpus: &CorpusSettings) -> Self {
        Self {
            corpus: corpus.name.clone(),
            recipes: corpus.recipes(),
            structure: corpus
                .structure_recipe()
                .zip(corpus.structure.map(|structure| structure.max_children)),
            vectors: VectorColumn::all_of(corpus),
            searched: corpus.encoder.fingerprint(),
            first: corpus.first_encoder().fingerprint(),
            tuning: Tuning::default(),
            memory: SearchMemory::default(),
        }
    }

    /// Checks that vectors of these dimensions can be stored.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for a dimension that is out of range.
    pub(crate) fn check(&self) -> Result<()> {
        for VectorColumn { encoder, .. } in &self.vectors {
            if !(1..=MAX_DIMENSION).contains(&encoder.dimension) {
                return Err(Error::invalid(
                    "dimension",
                    format!("expected 1 to {MAX_DIMENSION}, got {}", encoder.dimension),
                ));
            }
        }
        Ok(())
    }

    /// Returns what should be derived from documents.
    pub(crate) fn wanted(&self) -> Wanted {
        let structure = self.structure.map(|(recipe, _)| recipe);
        Wanted { chunks: self.recipes, structure }
    }

    /// Returns the maximum number of children of a tree node.
    pub(crate) fn max_children(&self) -> u32 {
        self.structure.map_or(2, |(_, max_children)| max_children)
    }
}

/// Limits of maintenance and of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Number of failed attempts after which a document is set aside.
    pub attempts: u32,
    /// Number of rows from which a table has scalar indexes. Below it, a filter reads every row,
    /// which takes a few milliseconds.
    pub index_rows: u64,
    /// Number of chunks from which there is a vector index. A search compares up to as many vectors
    /// one by one: all of a smaller shard, or those that a filter leaves. 20,000 vectors of 384
    /// dimensions take about 2 ms.
    pub vector_index_rows: u64,
    /// Number of chunks outside an index whose words a search may have to look through in memory.
    pub unindexed_chunks: u64,
    /// Stored bytes of documents outside the index of whole documents whose words a search may have
    /// to look through in memory.
    pub unindexed_document_bytes: u64,
    /// Number of small fragments from which they are merged. Each costs a search file accesses.
    pub small_fragments: u64,
    /// Number of stored versions of a table from which old ones are removed.
    pub versions: u64,
    /// Time for which the vectors of an abandoned model are kept, for callers that do not know yet
    /// that it was abandoned. Longer than a question that is already being answered can take.
    pub vectors_linger: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            attempts: 8,
            index_rows: 2_000,
            vector_index_rows: 20_000,
            unindexed_chunks: 4_000,
            unindexed_document_bytes: 1 << 20,
            small_fragments: 32,
            versions: 64,
            vectors_linger: Duration::from_secs(600),
        }
    }
}

/// Way in which an owner obtains a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// No other process opens the shard for writing, which something outside ensures, such as a
    /// lock on the directory. If another does so anyway, the second to write fails with
    /// [`Error::LostRace`].
    Uncontested,
    /// From any current owner. Once the shard is open, no write of an earlier owner succeeds,
    /// whatever that owner believes. The text names this owner; it is kept in the tables for people
    /// to read.
    By(String),
    /// By the owner that left the shard so and has not written to it since. If nobody else has
    /// either, nothing is written: what was written when it took the shard over still stands.
    Back(Left),
}

impl Takeover {
    /// Returns the text that names the owner, if there is one.
    pub(crate) fn owner(&self) -> Option<&str> {
        match self {
            Self::Uncontested => None,
            Self::By(owner) => Some(owner),
            Self::Back(left) => Some(left.owner()),
        }
    }
}

/// Maximum dimension of the vectors of a shard.
const MAX_DIMENSION: u32 = 65_536;
