//! A shard on behalf of a caller: every read and write goes through here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_chat::ConversationCount;
use clew_core::{
    Accepted, Accepting, Access, CandidateQuery, Candidates, CheckQuery, Checked, ChunkId,
    ChunkKind, ChunkListQuery, ChunkRef, ChunkText, ClueQuery, ConversationQuery, CorpusName,
    CorpusSettings, Counts, DescribedDocument, Document, DocumentId, DocumentStatus, DraftedClues,
    Erasure, Error, ErrorKind, Evidence, ExportPage, GraphQuery, IfThere, ListQuery, ListedChunks,
    ListedMemories, Reembedded, SegmentId, Selection, Shard, ShardAdmin, ShardCopy, ShardIndex,
    ShardSearch, ShardStore, SnapshotName, Span, StoredDocument, StoredTurns, Subgraph, TreeNode,
    TreeQuery, TurnAddress, ViewName, WantedNodes,
};
use clew_index::{Offer, ShardReader, ShardView};
use clew_runtime::admission::Permit;
use clew_runtime::deadline::{ask, within};
use clew_telemetry::{child, metrics};
use futures::{StreamExt, TryStreamExt, stream};
use tracing::Instrument;

use super::handle::ShardHandle;
use crate::seams::ShardSeams;
use crate::shard::actor::retention;
use crate::shard::actor::writer::{self, Waits};
use crate::shard::derive::memory_builder::{self};
use crate::shard::resources::Resources;
use crate::snapshots;

/// Time after which one call stops copying to a snapshot. No file is removed while it copies, so
/// forgetting waits; its patience is longer than this.
const COPY_BUDGET: Duration = Duration::from_secs(2);
/// Number of documents that are counted at once, before others take their turn.
const COUNTED_AT_ONCE: usize = 1_000;
/// Maximum bytes of the texts of a list of chunks, unless its first chunk has more.
const CHUNK_TEXT_BYTES: usize = 2 << 20;
/// Maximum number of searches of one batch that run, or wait for their turn, at the same time. Few,
/// so that a batch is refused no sooner than single searches are.
pub(super) const BATCH_AT_ONCE: usize = 4;

/// A shard as a caller's access shows it. Cheap to clone.
#[derive(Clone)]
pub struct ShardAccess {
    handle: ShardHandle,
    access: Access,
}

impl ShardHandle {
    /// Returns the shard as the caller's access shows it.
    pub fn with_access(&self, access: Access) -> ShardAccess {
        ShardAccess { handle: self.clone(), access }
    }
}

impl ShardAccess {
    /// Runs `work` on the newest view of the shard, within the deadline. Afterwards it confirms
    /// that no other node can have written to the shard, so that nothing outdated is returned.
    async fn read<T, F>(
        &self,
        doing: &str,
        deadline: Instant,
        work: impl FnOnce(ShardView) -> F + Send,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
        T: Send,
    {
        let shard = self.handle.running(deadline).await?;
        let view = shard.reader.with_access(&self.access);
        within(deadline, doing, async {
            let found = work(view.clone()).await;
            // A later owner removes files that this one still reads, which looks like damage.
            if found.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::DataLoss) {
                self.handle.claim.confirm(view.reader()).await?;
            }
            found
        })
        .await
    }

    /// Does the same for work that costs about as much as a search: it takes a place among the
    /// searches of the shard, or is refused.
    async fn search<T, F>(
        &self,
        doing: &str,
        deadline: Instant,
        work: impl FnOnce(ShardView) -> F + Send,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send,
        T: Send,
    {
        let _permit = self.handle.searching.try_enter(1)?;
        self.read(doing, deadline, work).await
    }

    /// Returns the candidates of a search that has a place among the searches of the shard. Waits
    /// for its turn first: each search of a batch takes one, as if it came alone.
    async fn candidates_in_turn(
        &self,
        query: &CandidateQuery,
        deadline: Instant,
    ) -> Result<Candidates, Error> {
        let shard = self.handle.shard.0;
        let span = child(|| tracing::info_span!("shard.search", shard));
        let search = async {
            let whose = self.handle.corpus.takes_turns_as();
            let _slot = self.handle.resources.searches.enter(whose, deadline).await?;
            let work = async |view: ShardView| {
                let found = view.candidates(query).await?;
                keep_up(view.reader(), &self.handle.resources);
                Ok(found)
            };
            self.read("searching the shard", deadline, work).await
        };
        metrics::stage("search_shard", Box::pin(search.instrument(span))).await
    }

    /// Takes room for a document of `bytes` in the shard's queue. Waits for it until `deadline`.
    pub(crate) async fn admit(&self, bytes: usize, deadline: Instant) -> Result<Permit, Error> {
        self.handle.admit(bytes, deadline).await
    }

    /// Accepts a document that has room in the queue.
    pub(crate) async fn accept_admitted(
        &self,
        document: Document,
        if_there: IfThere,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Accepted, Error> {
        let (bytes, shard) = (document.text.len(), self.handle.shard.0);
        let offer = Box::new(Offer { document, access: self.access.clone(), if_there });
        let accepting = child(|| tracing::info_span!("shard.accept", shard, bytes));
        let accept = async {
            let running = self.handle.running(deadline).await?;
            let span = child(|| tracing::info_span!("shard.queue"));
            let waiting = Waits { _writing: self.handle.seen.writes(bytes), _span: span };
            ask(&running.writer, deadline, "accepting the document", |reply| {
                writer::Message::Accept { offer, permit, waiting, reply }
            })
            .await
        };
        accept.instrument(accepting).await
    }
}

/// Does what searches left to be done for the next ones. Not before the first search, because a
/// process that answers only one needs no more than that one reads.
fn keep_up(reader: &ShardReader, resources: &Resources) {
    if !reader.take_upkeep() {
        return;
    }
    let (reader, resources) = (reader.clone(), resources.clone());
    let upkeep = async move {
        if let Err(error) = resources.behind(Box::pin(reader.upkeep(resources.recall))).await {
            let error = Error::from(error);
            tracing::warn!(error = error.chain(), "searches stay slower than they could be");
        }
    };
    tokio::spawn(upkeep.in_current_span());
}

impl Shard for ShardAccess {
    fn index(&self) -> ShardIndex {
        self.handle.shard
    }
}

#[async_trait]
impl ShardStore for ShardAccess {
    async fn accept(
        &self,
        document: Document,
        if_there: IfThere,
        deadline: Instant,
    ) -> Result<Accepting, Error> {
        let permit = self.handle.admit(document.text.len(), deadline).await?;
        let seen = self.clone();
        Ok(Box::pin(
            async move { seen.accept_admitted(document, if_there, permit, deadline).await },
        ))
    }

    async fn forget(&self, ids: &[DocumentId], deadline: Instant) -> Result<Erasure, Error> {
        let running = self.handle.running(deadline).await?;
        let forget = |reply| {
            let (ids, access) = (ids.to_vec(), self.access.clone());
            writer::Message::Forget { ids, access, reply }
        };
        let (documents, traces) = ask(&running.writer, deadline, "forgetting", forget).await?;
        running.graph.remove(ids).await;
        let mut scan = running.maintenance.erase(*traces, deadline).await?;
        let ShardHandle { corpus, shard, .. } = &self.handle;
        retention::warn_of_leftovers(&format!("{corpus}/{shard}"), &scan);
        for left in &mut scan.left {
            left.place = format!("{shard}/{}", left.place);
        }
        let ShardSeams { snapshots, .. } = &self.handle.seams;
        let snapshots = snapshots::holding(snapshots.as_ref(), corpus, ids, &self.access, deadline);
        Ok(Erasure { documents, scan, snapshots: snapshots.await })
    }

    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error> {
        self.read("reading documents", deadline, async |view| Ok(view.get(ids).await?)).await
    }

    async fn list(
        &self,
        query: &ListQuery,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error> {
        self.read("listing documents", deadline, async |view| Ok(view.list(query))).await
    }

    async fn conversations(
        &self,
        query: &ConversationQuery,
        deadline: Instant,
    ) -> Result<Vec<StoredTurns>, Error> {
        let work = async |view: ShardView| {
            let mut count = ConversationCount::new(query.clone());
            let mut after = count.start()?;
            loop {
                let listed = view.list(&ListQuery { after, limit: COUNTED_AT_ONCE, state: None });
                if !listed.iter().all(|status| count.add(status)) || listed.len() < COUNTED_AT_ONCE
                {
                    return Ok(count.finish());
                }
                after = listed.into_iter().last().map(|status| status.document_id);
                // Others take their turn while somebody has many turns.
                tokio::task::yield_now().await;
            }
        };
        self.search("listing conversations", deadline, work).await
    }

    async fn select(
        &self,
        selection: &Selection,
        after: Option<&DocumentId>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<DocumentStatus>, Error> {
        let work =
            async |view: ShardView| Ok(Box::pin(view.select(selection, after, limit)).await?);
        self.search("selecting documents", deadline, work).await
    }

    async fn count_selected(&self, selection: &Selection, deadline: Instant) -> Result<u64, Error> {
        let work = async |view: ShardView| Ok(Box::pin(view.count_selected(selection)).await?);
        self.search("counting documents", deadline, work).await
    }

    async fn describe(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<DescribedDocument>, Error> {
        let work = async |view: ShardView| Ok(Box::pin(view.describe(ids)).await?);
        self.search("describing documents", deadline, work).await
    }

    async fn counts(&self, deadline: Instant) -> Result<Counts, Error> {
        // Nobody has written to a shard that rests while this node owns it.
        if let Some(totals) = self.handle.totals_at_rest() {
            return Ok(totals.counts(&self.access));
        }
        self.read("counting", deadline, async |view| Ok(view.counts())).await
    }
}

#[async_trait]
impl ShardSearch for ShardAccess {
    async fn candidates_of_all(
        &self,
        queries: &[CandidateQuery],
        deadline: Instant,
    ) -> Result<Vec<Candidates>, Error> {
        let _permit = self.handle.searching.try_enter(queries.len())?;
        let searches: Vec<_> =
            queries.iter().map(|query| self.candidates_in_turn(query, deadline)).collect();
        stream::iter(searches).buffered(BATCH_AT_ONCE).try_collect().await
    }

    async fn chunks(
        &self,
        wanted: &[ChunkRef],
        view: Option<ViewName>,
        deadline: Instant,
    ) -> Result<Vec<(ChunkRef, ChunkText)>, Error> {
        let work = async |seen: ShardView| Ok(Box::pin(seen.chunks(wanted, view)).await?);
        self.search("reading chunks", deadline, work).await
    }

    async fn chunks_of(
        &self,
        query: &ChunkListQuery,
        deadline: Instant,
    ) -> Result<Option<ListedChunks>, Error> {
        let settings = Arc::clone(&self.handle.settings.borrow());
        let work = async |view: ShardView| {
            let kinds = ChunkKinds::of(&view, &query.document_id, &settings).await?;
            let listed = Box::pin(view.chunks_of(query, |ordinal| kinds.of_chunk(ordinal))).await?;
            Ok(listed.map(fitting))
        };
        self.search("listing chunks", deadline, work).await
    }

    async fn tree(&self, query: &TreeQuery, deadline: Instant) -> Result<Vec<TreeNode>, Error> {
        let shard = self.handle.shard;
        let work = async |view: ShardView| {
            let encoder = query.encoder.as_deref();
            Ok(match &query.nodes {
                WantedNodes::Tops { first, limit } => {
                    Box::pin(view.tree_tops(shard, first, *limit, encoder)).await?
                }
                WantedNodes::Roots(documents) => {
                    Box::pin(view.tree_roots(documents, encoder)).await?
                }
                WantedNodes::Children(node) => {
                    Box::pin(view.tree_children(shard, node, encoder)).await?
                }
            })
        };
        self.search("reading the tree", deadline, work).await
    }

    async fn subgraph(&self, query: &GraphQuery, deadline: Instant) -> Result<Subgraph, Error> {
        let running = self.handle.running(deadline).await?;
        let work =
            async |view: ShardView| Ok(Box::pin(running.graph.subgraph(&view, query)).await?);
        self.search("reading the graph", deadline, work).await
    }

    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        let corpus = &self.handle.corpus;
        let work = async |view: ShardView| {
            let found = Box::pin(view.segment_texts(ids)).await?;
            let segment = |(id, span, stored): (SegmentId, Span, Arc<StoredDocument>)| {
                let evidence = evidence(corpus, &id, span, &stored);
                (id, evidence)
            };
            Ok(found.into_iter().map(segment).collect())
        };
        self.search("reading segments", deadline, work).await
    }

    async fn memories(&self, deadline: Instant) -> Result<ListedMemories, Error> {
        let running = self.handle.running(deadline).await?;
        let failures = Arc::clone(&running.memory_failures.borrow());
        let list = async |view: ShardView| {
            let failures = view.seen_failures(&failures);
            Ok(ListedMemories { records: view.memories(), failures })
        };
        self.read("listing memories", deadline, list).await
    }

    async fn clues(&self, query: &ClueQuery, deadline: Instant) -> Result<DraftedClues, Error> {
        let running = self.handle.running(deadline).await?;
        let work = async |view: ShardView| {
            let encoder = running.memory_encoder.as_ref();
            Box::pin(memory_builder::draft(&view, encoder, query, deadline)).await
        };
        self.search("drafting clues", deadline, work).await
    }
}

#[async_trait]
impl ShardAdmin for ShardAccess {
    async fn check(&self, query: &CheckQuery, deadline: Instant) -> Result<Checked, Error> {
        let _permit = self.handle.searching.try_enter(1)?;
        let running = self.handle.running(deadline).await?;
        let view = running.reader.with_access(&self.access);
        let checking = self.handle.tally.check(self.handle.shard, &view, &self.handle.claim, query);
        within(deadline, "checking documents", checking).await
    }

    async fn maintain(&self, deadline: Instant) -> Result<(), Error> {
        self.handle.running(deadline).await?.maintenance.maintain(deadline).await
    }

    async fn reembedded(&self, deadline: Instant) -> Result<Reembedded, Error> {
        self.read("asking the storage", deadline, async |view| Ok(view.reader().reembedded())).await
    }

    async fn export(&self, after: &str, deadline: Instant) -> Result<ExportPage, Error> {
        if !self.access.is_all() {
            let problem = "an export holds all of a corpus: it needs a key that holds all labels";
            return Err(Error::new(ErrorKind::Denied, "LABEL_NOT_HELD", problem));
        }
        let work = async |view: ShardView| Ok(Box::pin(view.reader().export(after)).await?);
        self.search("exporting the shard", deadline, work).await
    }

    async fn copy_to_snapshot(
        &self,
        snapshot: &SnapshotName,
        deadline: Instant,
    ) -> Result<ShardCopy, Error> {
        let snapshots = self.handle.seams.snapshots()?;
        let Ok(_alone) = self.handle.copying.try_lock() else {
            return Err(Error::exhausted("the shard's copying to a snapshot", COPY_BUDGET));
        };
        let running = self.handle.running(deadline).await?;
        let reader = &running.reader;
        if reader.is_erasure_wanted() {
            // Forgetting was interrupted. Finish it first.
            self.maintain(deadline).await?;
        }
        within(deadline, "copying the shard to a snapshot", async {
            let copying =
                reader.copy_to_snapshot(snapshots, snapshot, self.handle.shard, COPY_BUDGET);
            Ok(Box::pin(copying).await?)
        })
        .await
    }
}

/// Kinds of the chunks of a document.
enum ChunkKinds {
    /// All chunks are passages, as those of documents that are no turns.
    Passages,
    /// A number of passages come first, and statements follow.
    PassagesFirst(usize),
    /// All chunks are keys of a turn.
    Keys,
}

impl ChunkKinds {
    async fn of(
        view: &ShardView,
        document_id: &DocumentId,
        settings: &CorpusSettings,
    ) -> Result<Self, Error> {
        if TurnAddress::of(document_id).is_none() {
            return Ok(Self::Passages);
        }
        if !settings.chat_keys().is_empty() {
            return Ok(Self::Keys);
        }
        let document_id = document_id.clone();
        let all = ChunkListQuery { document_id, from: 0, limit: usize::MAX, with_texts: false };
        let listed = Box::pin(view.chunks_of(&all, |_| ChunkKind::Passage)).await?;
        let chunks = listed.unwrap_or_default().chunks;
        let spans: Vec<Span> = chunks.iter().map(|chunk| chunk.span).collect();
        Ok(Self::PassagesFirst(clew_chat::passages_among(&spans)))
    }

    fn of_chunk(&self, ordinal: u32) -> ChunkKind {
        match self {
            Self::Keys => ChunkKind::Key,
            Self::PassagesFirst(passages) if ordinal as usize >= *passages => ChunkKind::Statement,
            Self::PassagesFirst(_) | Self::Passages => ChunkKind::Passage,
        }
    }
}

/// Returns the first of the chunks, as many as fit into one response.
fn fitting(mut listed: ListedChunks) -> ListedChunks {
    let mut bytes = 0;
    let fits = listed.chunks.iter().take_while(|chunk| {
        let is_first = bytes == 0;
        bytes += chunk.text.len() + chunk.key_text.len();
        is_first || bytes <= CHUNK_TEXT_BYTES
    });
    let fits = fits.count();
    listed.chunks.truncate(fits);
    listed
}

/// Converts a segment to a passage.
fn evidence(corpus: &CorpusName, id: &SegmentId, span: Span, stored: &StoredDocument) -> Evidence {
    let document = &stored.document;
    Evidence {
        chunk_id: ChunkId::of_segment(corpus, &id.document_id, id.version, id.ordinal),
        document_id: id.document_id.clone(),
        version: id.version,
        title: document.title.clone(),
        span,
        text: span.of(&document.text).unwrap_or_default().to_owned(),
        event_time: document.event_time,
        score: 0.0,
        dense_score: None,
        sparse_score: None,
    }
}
