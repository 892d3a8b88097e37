//! Searches a shard.
//!
//! A search runs on one view of the shard. It ranks rows by their numbers and scores, without
//! reading any of their columns: what it must know of a row is in memory. It drops rows that are
//! not visible and, if documents are wanted, all but the best row of each. Then the texts of the
//! remaining rows are read.

mod dense;
pub(crate) mod recall;
mod sparse;
pub(crate) mod texts;

use std::collections::HashSet;
use std::sync::Arc;

use clew_core::{Access, CandidateQuery, Candidates, DocumentId, Grouping, SearchMode};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::error::{Error, Result};
use crate::read::resident::Fragments;
use crate::read::resident::fragment::RowOwner;
use crate::read::resident::masks::Allowed;
use crate::read::view::Snapshot;

/// Number of rows ranked at first per wanted document, if documents are ranked by their best chunk.
const CHUNKS_PER_DOCUMENT: usize = 4;

/// Searches in a task of its own, which ends with the caller. So a search goes on while its caller
/// waits for something else. Otherwise others could wait for it: if several need the same part of
/// an index, the storage engine lets one of them read it.
pub(crate) async fn run(
    snapshot: Arc<Snapshot>,
    seen: Seen,
    query: CandidateQuery,
) -> Result<Candidates> {
    let search = async move { candidates(&snapshot, &seen, &query).await };
    let mut task = EndsWithCaller(tokio::spawn(search.in_current_span()));
    match (&mut task.0).await {
        Ok(found) => found,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::Unavailable {
                doing: "search the shard".to_owned(),
                source: "the process is stopping".into(),
            }),
        },
    }
}

struct EndsWithCaller<T>(JoinHandle<T>);

impl<T> Drop for EndsWithCaller<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a caller sees of a view.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub access: Access,
    /// The newest view, if another one is read. What has been forgotten since is not seen in the
    /// other one, and neither is what needs labels since then that the caller does not hold.
    pub newest: Option<Arc<Snapshot>>,
}

impl Seen {
    /// Returns whether the caller sees the rows of an owner in `snapshot`.
    fn shows(&self, snapshot: &Snapshot, owner: &RowOwner) -> bool {
        snapshot.shows(&self.access, owner) && self.still(&owner.document_id)
    }

    /// Returns whether the caller still sees a document that they see in another view.
    fn still(&self, id: &DocumentId) -> bool {
        self.newest.as_ref().is_none_or(|newest| newest.catalogue.sees(&self.access, id))
    }
}

/// Returns the best chunks or documents for a query, of those that a caller sees.
async fn candidates(
    snapshot: &Snapshot,
    seen: &Seen,
    query: &CandidateQuery,
) -> Result<Candidates> {
    let fragments = snapshot.chunk_rows.fragments().await?;
    let search = Search { snapshot, fragments, allowed: OnceCell::new(), seen, query };
    let dense = async {
        match query.mode.uses_embeddings() {
            true => search.dense().await,
            false => Ok(Vec::new()),
        }
    };
    let sparse = async {
        match query.mode {
            SearchMode::Dense => Ok((Vec::new(), None)),
            SearchMode::Sparse if query.grouping == Grouping::Documents => {
                search.sparse_documents().await
            }
            SearchMode::Sparse | SearchMode::Hybrid => search.sparse().await,
        }
    };
    let (dense, (sparse, attainable)) = tokio::try_join!(dense, sparse)?;
    search.hits(dense, sparse, attainable).await
}

/// Visible row of `chunks` with its rank.
#[derive(Clone, Copy, Debug)]
struct Ranked<'a> {
    row: u64,
    owner: &'a RowOwner,
    ordinal: u32,
    score: f32,
}

/// Query on a view of the shard.
struct Search<'a> {
    snapshot: &'a Snapshot,
    /// Rows of `chunks`.
    fragments: &'a Fragments,
    /// Rows of `chunks` that the caller and the filter allow. Both rankings need them.
    allowed: OnceCell<Allowed>,
    seen: &'a Seen,
    query: &'a CandidateQuery,
}

impl<'a> Search<'a> {
    /// Returns how many rows to rank at first.
    fn first_limit(&self) -> usize {
        match self.query.grouping {
            Grouping::Chunks => self.query.limit,
            Grouping::Documents => self.query.limit.saturating_mul(CHUNKS_PER_DOCUMENT),
        }
    }

    /// Returns the wanted number of visible rows, or `None` if there are fewer and ranking more
    /// rows can yield more.
    fn enough(
        &self,
        rows: impl IntoIterator<Item = (u64, f32)>,
        is_exhausted: bool,
    ) -> Option<Vec<Ranked<'a>>> {
        let mut kept = self.keep(rows);
        let is_enough = kept.len() >= self.query.limit || is_exhausted;
        kept.truncate(self.query.limit);
        is_enough.then_some(kept)
    }

    /// Returns the visible rows, best first, with each chunk or each document once.
    fn keep(&self, rows: impl IntoIterator<Item = (u64, f32)>) -> Vec<Ranked<'a>> {
        let visible = |(row, score): (u64, f32)| {
            let (owner, ordinal) = self.fragments.row(row)?;
            self.seen.shows(self.snapshot, owner).then_some(Ranked { row, owner, ordinal, score })
        };
        let mut kept: Vec<Ranked<'a>> = rows.into_iter().filter_map(visible).collect();
        sort(&mut kept);
        let mut seen: HashSet<(&DocumentId, u32)> = HashSet::with_capacity(kept.len());
        kept.retain(|ranked| {
            let ordinal = match self.query.grouping {
                Grouping::Chunks => ranked.ordinal,
                Grouping::Documents => 0,
            };
            seen.insert((&ranked.owner.document_id, ordinal))
        });
        kept
    }
}

/// Sorts best first, and equal scores by document and position, so that the order is always the
/// same.
fn sort(rows: &mut [Ranked<'_>]) {
    rows.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| (&a.owner.document_id, a.ordinal).cmp(&(&b.owner.document_id, b.ordinal)))
    });
}
