//! Traits of a shard: what it does with documents, for questions and for operators.

use std::pin::Pin;
use std::time::Instant;

use async_trait::async_trait;

use crate::{
    Accepted, CandidateQuery, Candidates, CheckQuery, Checked, ChunkListQuery, ChunkRef, ChunkText,
    ClueQuery, ConversationQuery, Counts, DescribedDocument, Document, DocumentId, DocumentStatus,
    DraftedClues, Erasure, Error, Evidence, ExportPage, GraphQuery, IfThere, ListQuery,
    ListedChunks, ListedMemories, Reembedded, SegmentId, Selection, ShardCopy, ShardIndex,
    SnapshotName, StoredDocument, StoredTurns, Subgraph, TreeNode, TreeQuery, ViewName,
};

/// Future that resolves once a document that a shard had room for is committed and synced, or was
/// not accepted.
pub type Accepting = Pin<Box<dyn Future<Output = Result<Accepted, Error>> + Send>>;

/// Shard of a corpus, in this process or on another machine, as far as one caller sees it
/// ([`crate::Access`]). For all of its calls, anything that needs an access label that the caller
/// does not hold does not exist.
///
/// Every call may be repeated: what is done already is not done twice. In addition to the errors
/// named at each call, all calls fail with [`crate::ErrorKind::Unavailable`] while the shard moves
/// or restarts, and with [`crate::ErrorKind::DeadlineExceeded`].
pub trait Shard: ShardStore + ShardSearch + ShardAdmin {
    /// Returns the index of this shard in its corpus.
    fn index(&self) -> ShardIndex;
}

/// Documents of a [`Shard`]: accepts, forgets, reads and counts them.
#[async_trait]
pub trait ShardStore: Send + Sync {
    /// Waits until the shard has room for the document. The returned future resolves once the
    /// document is committed and synced.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if there was no room in time. The returned future
    /// fails with [`crate::ErrorKind::Denied`] and the reason `LABEL_NOT_HELD` if the document
    /// would replace one that the caller does not see, and with the errors of
    /// [`IfThere::check_replaced`]. After any other error of that future the document may or may
    /// not be accepted. Sending it again is safe.
    async fn accept(
        &self,
        document: Document,
        if_there: IfThere,
        deadline: Instant,
    ) -> Result<Accepting, Error>;

    /// Forgets documents, down to the bytes in storage, and looks for what is left of them: in a
    /// scan of the stored data, and in the snapshots of the corpus.
    ///
    /// # Errors
    /// Returns the errors of the shard. Another call finishes what was begun.
    async fn forget(&self, ids: &[DocumentId], deadline: Instant) -> Result<Erasure, Error>;

    /// Returns the documents of these ids with their states, in no particular order. Each is the
    /// version that searches find, or else the newest. Documents that do not exist are left out.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::DataLoss`] if a text cannot be read back.
    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error>;

    /// Returns the document of an id as [`ShardStore::documents`] does, if it exists.
    ///
    /// # Errors
    /// Returns the errors of [`ShardStore::documents`].
    async fn document(
        &self,
        id: &DocumentId,
        deadline: Instant,
    ) -> Result<Option<(StoredDocument, DocumentStatus)>, Error> {
        Ok(self.documents(std::slice::from_ref(id), deadline).await?.pop())
    }

    /// Returns a page of documents, ordered by id.
    ///
    /// # Errors
    /// Returns the errors of the shard.
    async fn list(
        &self,
        query: &ListQuery,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error>;

    /// Returns up to `limit` documents that are selected and come after `after`, ordered by id.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn select(
        &self,
        selection: &Selection,
        after: Option<&DocumentId>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error>;

    /// Returns the number of documents that are selected.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn count_selected(&self, selection: &Selection, deadline: Instant) -> Result<u64, Error>;

    /// Returns the titles and attributes of documents, in no particular order, of the version that
    /// searches find, or else of the newest. Documents that do not exist are left out.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn describe(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<DescribedDocument>, Error>;

    /// Returns the totals of the shard.
    ///
    /// # Errors
    /// Returns the errors of the shard.
    async fn counts(&self, deadline: Instant) -> Result<Counts, Error>;

    /// Returns a page of the users, or of the sessions of a user, of whom the shard holds turns, in
    /// the order of the ids of their turns. Takes as long as those of the page have turns.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn conversations(
        &self,
        query: &ConversationQuery,
        deadline: Instant,
    ) -> Result<Vec<StoredTurns>, Error>;
}

/// Evidence in a [`Shard`]: searches passages, and reads the tree, the graph and the memories that
/// were derived from its documents.
#[async_trait]
pub trait ShardSearch: Send + Sync {
    /// Returns the candidates of several searches, in their order, or fails as a whole.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn candidates_of_all(
        &self,
        queries: &[CandidateQuery],
        deadline: Instant,
    ) -> Result<Vec<Candidates>, Error>;

    /// Returns the candidates of one search.
    ///
    /// # Errors
    /// Returns the errors of [`ShardSearch::candidates_of_all`].
    async fn candidates(
        &self,
        query: &CandidateQuery,
        deadline: Instant,
    ) -> Result<Candidates, Error> {
        let found = self.candidates_of_all(std::slice::from_ref(query), deadline).await?.pop();
        found.ok_or_else(|| Error::internal("a shard returned nothing for a search"))
    }

    /// Returns what is shown of chunks, in no particular order. Looks for them in the kept state
    /// `view`, and in the newest without a name or if the shard does not have that state any more.
    /// Leaves out chunks that searches no longer find there.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn chunks(
        &self,
        wanted: &[ChunkRef],
        view: Option<ViewName>,
        deadline: Instant,
    ) -> Result<Vec<(ChunkRef, ChunkText)>, Error>;

    /// Returns a page of the chunks of a document, by ordinal, or `None` if there is no document of
    /// this id. A page with texts has fewer chunks where the texts are long.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn chunks_of(
        &self,
        query: &ChunkListQuery,
        deadline: Instant,
    ) -> Result<Option<ListedChunks>, Error>;

    /// Returns nodes of the tree; none if the corpus has no tree.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn tree(&self, query: &TreeQuery, deadline: Instant) -> Result<Vec<TreeNode>, Error>;

    /// Returns the part of this shard's graph around what `query` names; an empty part if the
    /// corpus has no graph.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn subgraph(&self, query: &GraphQuery, deadline: Instant) -> Result<Subgraph, Error>;

    /// Returns the texts of segments, in no particular order. Segments that no longer exist are
    /// left out.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run.
    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error>;

    /// Drafts clues from the shard's compressed memories; none if it has no memories.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] if too many searches run, and the errors of
    /// [`crate::MemoryEncoder::draft`].
    async fn clues(&self, query: &ClueQuery, deadline: Instant) -> Result<DraftedClues, Error>;

    /// Returns the compressed memories that the shard stores, and what fails with others.
    ///
    /// # Errors
    /// Returns the errors of the shard.
    async fn memories(&self, deadline: Instant) -> Result<ListedMemories, Error>;
}

/// Care for a [`Shard`]: checks, maintains, re-embeds, exports and copies it.
#[async_trait]
pub trait ShardAdmin: Send + Sync {
    /// Checks a page of documents, ordered by id, against every [`crate::Invariant`]. A page holds
    /// fewer documents than requested if their texts are long.
    ///
    /// # Errors
    /// Returns the errors of the shard, and [`crate::ErrorKind::DataLoss`] if a row cannot be read
    /// at all.
    async fn check(&self, query: &CheckQuery, deadline: Instant) -> Result<Checked, Error>;

    /// Does the maintenance that the tables need, now.
    ///
    /// # Errors
    /// Returns the errors of the tables.
    async fn maintain(&self, deadline: Instant) -> Result<(), Error>;

    /// Returns the progress of the shard with the vectors that the corpus wants.
    async fn reembedded(&self, deadline: Instant) -> Result<Reembedded, Error>;

    /// Returns a page of everything that the shard holds and shows. `after` is empty for the first
    /// page, and otherwise [`ExportPage::next`] of the previous page. Each document is in one page
    /// as a whole.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] for any other `after`.
    async fn export(&self, after: &str, deadline: Instant) -> Result<ExportPage, Error>;

    /// Continues, for some seconds, to copy one state of the shard to a snapshot of its corpus: the
    /// newest state at the time of each call. Call it again until the copy is complete; writes go
    /// on meanwhile.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::AlreadyExists`] if there is a complete snapshot of that name,
    /// [`crate::ErrorKind::WrongState`] if no place for snapshots is configured, and
    /// [`crate::ErrorKind::Exhausted`] while another call copies this shard.
    async fn copy_to_snapshot(
        &self,
        snapshot: &SnapshotName,
        deadline: Instant,
    ) -> Result<ShardCopy, Error>;
}
