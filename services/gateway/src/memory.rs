//! The tree and the graph of a corpus, over all of its shards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    ChunkId, Corpus, DocumentId, DocumentStatus, Documents, Error, ErrorKind, Evidence, Filter,
    GraphMemory, GraphQuery, Grouping, ListQuery, NodeId, Query, Retriever, SegmentId, Shard,
    ShardIndex, Span, StoredDocument, Subgraph, Tree, TreeNode, TreeQuery, WholeDocument,
};
use clew_runtime::timing::{Part, measured};
use futures::future::{join_all, try_join_all};

use crate::Backends;
use crate::scatter::Scatter;

/// Nodes at the top that are shown.
const MOST_TOPS: usize = 256;
/// Documents whose trees are walked where a filter restricts the question, or where there are too many
/// nodes at the top: those that a search for the question finds first.
const DOCUMENTS: usize = 200;
/// Segments whose texts are read by one call.
const SEGMENTS_AT_ONCE: usize = 256;

/// The tree and the graph of one corpus.
#[derive(Clone)]
pub(crate) struct CorpusMemory {
    pub corpus: Arc<Corpus>,
    pub search: Scatter,
    /// How long one shard may take.
    pub patience: Duration,
}

impl CorpusMemory {
    /// The memory of `corpus`, with what the services share.
    pub(crate) fn over(backends: &Backends, corpus: Arc<Corpus>) -> Self {
        let search = Scatter::over(backends, Arc::clone(&corpus));
        Self { corpus, search, patience: backends.config.shard_patience() }
    }

    fn check(&self) -> Result<(), Error> {
        let settings = self.corpus.settings();
        match settings.structure {
            Some(_) => Ok(()),
            None => Err(Error::new(
                ErrorKind::WrongState,
                "NO_STRUCTURE",
                format!(
                    "corpus `{}` was made without trees and graph; make one without \
                     `--no-structure`, or use the strategy `direct`",
                    settings.name
                ),
            )),
        }
    }

    fn deadline(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.patience)
    }

    /// Asks every shard; those that fail are left out, unless all do.
    pub(crate) async fn ask_all<T, F: Future<Output = Result<T, Error>>>(
        &self,
        ask: impl Fn(Arc<dyn Shard>) -> F,
    ) -> Result<Vec<T>, Error> {
        let asked = self.corpus.shards().iter().map(|shard| ask(Arc::clone(shard)));
        let (mut answers, mut first_error) = (Vec::new(), None);
        let asked = measured(Part::Store, join_all(asked)).await;
        for (index, answer) in asked.into_iter().enumerate() {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    let error_chain = error.chain();
                    tracing::warn!(shard = index, error = error_chain, "a shard did not answer");
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            Some(error) if answers.is_empty() => Err(error),
            _ => Ok(answers),
        }
    }

    /// The documents that a search finds first.
    async fn found_first(
        &self,
        question: &str,
        filter: &Filter,
        deadline: Instant,
    ) -> Result<Vec<DocumentId>, Error> {
        let mut query = Query::new(question, DOCUMENTS);
        query.filter = filter.clone();
        query.grouping = Grouping::Documents;
        let found = self.search.retrieve(&query, deadline).await?;
        Ok(found.evidence.into_iter().map(|evidence| evidence.document_id).collect())
    }

    /// The nodes at the top of all shards, those that cover the documents `first` before others.
    pub(crate) async fn all_tops(
        &self,
        first: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<TreeNode>, Error> {
        self.check()?;
        let limit = (MOST_TOPS / self.corpus.shards().len()).max(2);
        let query = TreeQuery::Tops { first: first.to_vec(), limit };
        let (query, deadline) = (&query, self.deadline(deadline));
        let tops = self.ask_all(|shard| async move { shard.tree(query, deadline).await }).await?;
        Ok(tops.into_iter().flatten().collect())
    }

    async fn roots(
        &self,
        documents: Vec<DocumentId>,
        deadline: Instant,
    ) -> Result<Vec<TreeNode>, Error> {
        let mut by_shard: HashMap<ShardIndex, Vec<DocumentId>> = HashMap::new();
        for document in documents {
            let shard = self.corpus.shard_of(&document).index();
            by_shard.entry(shard).or_default().push(document);
        }
        let (by_shard, deadline) = (&by_shard, self.deadline(deadline));
        let roots = self.ask_all(|shard| async move {
            match by_shard.get(&shard.index()) {
                Some(ids) => shard.tree(&TreeQuery::Roots(ids.clone()), deadline).await,
                None => Ok(Vec::new()),
            }
        });
        let mut roots: Vec<TreeNode> = roots.await?.into_iter().flatten().collect();
        roots.sort_by(|a, b| a.documents.cmp(&b.documents));
        Ok(roots)
    }

    fn shard(&self, index: ShardIndex) -> Option<&Arc<dyn Shard>> {
        self.corpus.shards().get(index.0 as usize)
    }
}

#[async_trait]
impl Tree for CorpusMemory {
    async fn tops(
        &self,
        question: &str,
        filter: &Filter,
        deadline: Instant,
    ) -> Result<Vec<TreeNode>, Error> {
        self.check()?;
        if !filter.is_empty() {
            let documents = self.found_first(question, filter, deadline).await?;
            return self.roots(documents, deadline).await;
        }
        let tops = self.all_tops(&[], deadline).await?;
        if tops.len() < MOST_TOPS {
            return Ok(tops);
        }
        let first = self.found_first(question, filter, deadline).await?;
        self.all_tops(&first, deadline).await
    }

    async fn children(&self, node: &NodeId, deadline: Instant) -> Result<Vec<TreeNode>, Error> {
        self.check()?;
        let shard = match node {
            NodeId::Upper { shard, .. } => self.shard(*shard),
            NodeId::Document { document_id, .. } => Some(self.corpus.shard_of(document_id)),
        };
        let Some(shard) = shard else { return Ok(Vec::new()) };
        let query = TreeQuery::Children(node.clone());
        measured(Part::Store, shard.tree(&query, self.deadline(deadline))).await
    }

    async fn segment(&self, node: &NodeId, deadline: Instant) -> Result<Option<Evidence>, Error> {
        let NodeId::Document { document_id, version, level: 0, ordinal } = node else {
            return Ok(None);
        };
        let (document_id, version, ordinal) = (document_id.clone(), *version, *ordinal);
        let id = SegmentId { document_id, version, ordinal };
        let found = self.segments(std::slice::from_ref(&id), deadline).await?;
        Ok(found.into_iter().next().map(|(_, evidence)| evidence))
    }

    fn covers(&self, node: &TreeNode, found: &Evidence) -> bool {
        match &node.id {
            NodeId::Document { document_id, version, .. } => {
                let overlaps = node
                    .span
                    .is_none_or(|span| span.start < found.span.end && found.span.start < span.end);
                *document_id == found.document_id && *version == found.version && overlaps
            }
            NodeId::Upper { shard, .. } => {
                let (first, last) = &node.documents;
                (first..=last).contains(&&found.document_id)
                    && self.corpus.shard_of(&found.document_id).index() == *shard
            }
        }
    }
}

#[async_trait]
impl GraphMemory for CorpusMemory {
    async fn subgraph(&self, query: &GraphQuery, deadline: Instant) -> Result<Subgraph, Error> {
        self.check()?;
        let deadline = self.deadline(deadline);
        let parts = self.ask_all(|shard| {
            // Places belong to one shard each; names may be known to all.
            let mut asked = query.clone();
            let is_here = |id: &DocumentId| self.corpus.shard_of(id).index() == shard.index();
            asked.places.retain(|place| is_here(&place.document_id));
            async move { shard.subgraph(&asked, deadline).await }
        });
        let mut parts = parts.await?;
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => Ok(clew_graph::union(parts)),
        }
    }

    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        self.check()?;
        let deadline = self.deadline(deadline);
        let mut by_shard: HashMap<ShardIndex, Vec<SegmentId>> = HashMap::new();
        for id in ids {
            let shard = self.corpus.shard_of(&id.document_id).index();
            by_shard.entry(shard).or_default().push(id.clone());
        }
        let by_shard = &by_shard;
        let found = self.ask_all(|shard| async move {
            let mut found = Vec::new();
            let ids = by_shard.get(&shard.index()).map(Vec::as_slice).unwrap_or_default();
            for some in ids.chunks(SEGMENTS_AT_ONCE) {
                found.extend(shard.segments(some, deadline).await?);
            }
            Ok(found)
        });
        Ok(found.await?.into_iter().flatten().collect())
    }
}

/// The documents of these ids with their states, in no particular order; all shards are asked at once.
pub(crate) async fn read_documents(
    corpus: &Corpus,
    ids: &[DocumentId],
    deadline: Instant,
) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error> {
    let reading = corpus.shards().iter().map(|shard| async move {
        let is_here = |id: &&DocumentId| corpus.shard_of(id).index() == shard.index();
        let here: Vec<DocumentId> = ids.iter().filter(is_here).cloned().collect();
        shard.documents(&here, deadline).await
    });
    let read = measured(Part::Store, try_join_all(reading)).await?;
    Ok(read.into_iter().flatten().collect())
}

#[async_trait]
impl Documents for CorpusMemory {
    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Vec<WholeDocument>, Error> {
        let deadline = self.deadline(deadline);
        let read = read_documents(&self.corpus, ids, deadline).await?.into_iter();
        Ok(read.map(|(stored, _)| self.whole(stored)).collect())
    }

    async fn ids(
        &self,
        prefix: &str,
        after: Option<&DocumentId>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<DocumentId>, Error> {
        let deadline = self.deadline(deadline);
        // Nothing that begins so comes before the prefix itself.
        let first: DocumentId = prefix.parse()?;
        let after = Some(after.filter(|after| **after > first).cloned().unwrap_or(first));
        let query = &ListQuery { after, limit, state: None };
        let listing = self.corpus.shards().iter().map(|shard| shard.list(query, deadline));
        let listed = measured(Part::Store, try_join_all(listing)).await?.into_iter().flatten();
        let mut ids: Vec<DocumentId> = listed.map(|status| status.document_id).collect();
        ids.retain(|id| id.as_str().starts_with(prefix));
        ids.sort();
        ids.truncate(limit);
        Ok(ids)
    }
}

impl CorpusMemory {
    fn whole(&self, StoredDocument { document, version, .. }: StoredDocument) -> WholeDocument {
        let corpus = &self.corpus.settings().name;
        let passage = Evidence {
            // A passage that is all of its document has the place of its first segment.
            chunk_id: ChunkId::of_segment(corpus, &document.id, version, 0),
            document_id: document.id.clone(),
            version,
            title: document.title.clone(),
            span: Span::new(0, document.text.len()),
            text: document.text.clone(),
            event_time: document.event_time,
            score: 0.0,
            dense_score: None,
            sparse_score: None,
        };
        WholeDocument { document, passage }
    }
}
