//! Traits by which strategies find evidence and read documents.

use std::time::Instant;

use async_trait::async_trait;

use crate::{Cost, Document, DocumentId, Error, Evidence, Partial, Query, ShardIndex};

/// Result of a search over all shards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retrieved {
    /// Best items, best first.
    pub evidence: Vec<Evidence>,
    /// Shards that did not answer.
    pub shards_missing: Vec<ShardIndex>,
    /// Cost of the search.
    pub cost: Cost,
}

/// Search over one corpus.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// Returns the best evidence for `query`.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] for a bad query,
    /// [`crate::ErrorKind::Unavailable`] if no shard answered, and
    /// [`crate::ErrorKind::DeadlineExceeded`].
    async fn retrieve(&self, query: &Query, deadline: Instant) -> Result<Retrieved, Error>;

    /// Returns the best evidence for each of `queries`, in their order: what [`Self::retrieve`]
    /// returns for each. The batch is done or fails as a whole. All queries are checked before
    /// anything is done, and what may fail afterwards concerns all of them: the encoder, the
    /// shards, or the time.
    ///
    /// This implementation runs one search after another. It is for fakes.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] for more than [`crate::Limits::searches`]
    /// queries, and the errors of [`Self::retrieve`].
    async fn retrieve_all(
        &self,
        queries: &[Query],
        deadline: Instant,
    ) -> Result<Vec<Retrieved>, Error> {
        let mut retrieved = Vec::with_capacity(queries.len());
        for query in queries {
            retrieved.push(self.retrieve(query, deadline).await?);
        }
        Ok(retrieved)
    }
}

/// Document with its text as one passage.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeDocument {
    /// The document.
    pub document: Document,
    /// The whole text.
    pub passage: Evidence,
}

/// Access to whole documents of one corpus. Each result names the shards that should have been
/// asked and did not answer. If none answered, the call fails.
#[async_trait]
pub trait Documents: Send + Sync {
    /// Returns the documents of these ids, in no particular order. Documents that do not exist are
    /// left out.
    ///
    /// # Errors
    /// Returns the errors of the shards.
    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Partial<Vec<WholeDocument>>, Error>;

    /// Returns up to `limit` ids that begin with `prefix` and come after `after`, in order.
    ///
    /// # Errors
    /// Returns the errors of the shards.
    async fn ids(
        &self,
        prefix: &str,
        after: Option<&DocumentId>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Partial<Vec<DocumentId>>, Error>;
}
