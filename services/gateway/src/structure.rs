//! The tree and the graph of a corpus, over all its shards.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Account, ChunkId, Corpus, DocumentId, DocumentStatus, Documents, Error, ErrorKind, Evidence,
    Filter, GraphMemory, GraphQuery, Grouping, ListQuery, Partial, Query, RelationEdge, Retriever,
    SegmentId, ShardIndex, Span, StoredDocument, Subgraph, Tree, TreeNode, TreeNodeId, TreeQuery,
    WantedNodes, WholeDocument,
};
use clew_runtime::timing::{Part, measured};
use futures::future::try_join_all;

use crate::Backends;
use crate::scatter::Scatter;
use crate::shards::Shards;

/// Maximum number of top tree nodes that are shown.
const MOST_TOPS: usize = 256;
/// Number of documents whose trees are navigated if a filter restricts the question or there are
/// too many top nodes: those that a search for the question ranks first.
const DOCUMENTS: usize = 200;
/// Maximum number of segments whose texts one call reads.
const SEGMENTS_AT_ONCE: usize = 256;

/// Minimum number of nearest entities that a shard is asked for.
const LEAST_NEAREST: usize = 8;

/// Tree, graph and documents of one corpus.
#[derive(Clone)]
pub(crate) struct CorpusStructure {
    pub corpus: Arc<Corpus>,
    /// The corpus' shards, which the search asks as well.
    pub shards: Shards,
    pub search: Scatter,
}

impl CorpusStructure {
    /// Creates the memory of `corpus` on `account`, with the components that the services share.
    pub(crate) fn over(backends: &Backends, corpus: Arc<Corpus>, account: &Account) -> Self {
        let shards = Shards::over(backends, Arc::clone(&corpus));
        let search = Scatter::over(backends, shards.clone(), account);
        Self { corpus, shards, search }
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

    /// Returns the documents that a search ranks first.
    async fn found_first(
        &self,
        question: &str,
        filter: &Filter,
        deadline: Instant,
    ) -> Result<Partial<Vec<DocumentId>>, Error> {
        let mut query = Query::new(question, DOCUMENTS);
        query.filter = filter.clone();
        query.grouping = Grouping::Documents;
        let found = self.search.retrieve(&query, deadline).await?;
        let documents = found.evidence.into_iter().map(|evidence| evidence.document_id).collect();
        Ok(Partial { found: documents, shards_missing: found.shards_missing })
    }

    /// Returns the top tree nodes of all shards, those that cover the documents `first` before
    /// others, with the vectors of `encoder`.
    pub(crate) async fn all_tops(
        &self,
        first: &[DocumentId],
        encoder: Option<&str>,
        deadline: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error> {
        self.check()?;
        let limit = (MOST_TOPS / self.corpus.shards().len()).max(2);
        let nodes = WantedNodes::Tops { first: first.to_vec(), limit };
        let query = TreeQuery { nodes, encoder: encoder.map(ToOwned::to_owned) };
        let (query, deadline) = (&query, self.shards.deadline(deadline));
        let tops =
            self.shards.ask_all(|shard| async move { shard.tree(query, deadline).await }).await?;
        Ok(tops.map(|tops| tops.into_iter().flatten().collect()))
    }

    /// Returns the roots of the trees of documents, with the vectors of `encoder`. Leaves out
    /// documents without a tree.
    pub(crate) async fn roots(
        &self,
        documents: Vec<DocumentId>,
        encoder: Option<&str>,
        deadline: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error> {
        self.check()?;
        let by_shard = &self.by_shard(documents, |document| document);
        let deadline = self.shards.deadline(deadline);
        let roots = self.shards.ask(
            |shard| by_shard.contains_key(&shard),
            |shard| async move {
                let ids = by_shard.get(&shard.index()).cloned().unwrap_or_default();
                let encoder = encoder.map(ToOwned::to_owned);
                let query = TreeQuery { nodes: WantedNodes::Roots(ids), encoder };
                shard.tree(&query, deadline).await
            },
        );
        Ok(roots.await?.map(|roots| {
            let mut roots: Vec<TreeNode> = roots.into_iter().flatten().collect();
            roots.sort_by(|a, b| a.documents.cmp(&b.documents));
            roots
        }))
    }

    /// Returns the texts that state relations, in their order. A text is empty if its document was
    /// replaced or forgotten since the relation was read, or if its shard does not answer.
    pub(crate) async fn quotes(
        &self,
        relations: &[RelationEdge],
        deadline: Instant,
    ) -> Result<Partial<Vec<String>>, Error> {
        let ids: BTreeSet<&SegmentId> =
            relations.iter().map(|relation| &relation.segment).collect();
        let ids: Vec<SegmentId> = ids.into_iter().cloned().collect();
        let read = self.segments(&ids, deadline).await?;
        Ok(read.map(|read| {
            let segments: HashMap<SegmentId, Evidence> = read.into_iter().collect();
            let quote = |relation: &RelationEdge| {
                let segment = segments.get(&relation.segment)?;
                let Span { start, end } = relation.evidence;
                let within = |byte: usize| byte.checked_sub(segment.span.start);
                segment.text.get(within(start)?..within(end)?)
            };
            relations
                .iter()
                .map(|relation| quote(relation).unwrap_or_default().to_owned())
                .collect()
        }))
    }

    /// Groups items by the shards of their documents.
    fn by_shard<T>(
        &self,
        of_documents: impl IntoIterator<Item = T>,
        document: impl Fn(&T) -> &DocumentId,
    ) -> HashMap<ShardIndex, Vec<T>> {
        let mut by_shard: HashMap<ShardIndex, Vec<T>> = HashMap::new();
        for one in of_documents {
            by_shard.entry(self.corpus.shard_of(document(&one)).index()).or_default().push(one);
        }
        by_shard
    }

    /// Returns the shard that holds a tree node.
    fn shard_of(&self, node: &TreeNodeId) -> ShardIndex {
        match node {
            TreeNodeId::Upper { shard, .. } => *shard,
            TreeNodeId::Document { document_id, .. } => self.corpus.shard_of(document_id).index(),
        }
    }
}

#[async_trait]
impl Tree for CorpusStructure {
    async fn tops(
        &self,
        question: &str,
        filter: &Filter,
        encoder: Option<&str>,
        deadline: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error> {
        self.check()?;
        if !filter.is_empty() {
            let first = self.found_first(question, filter, deadline).await?;
            let roots = self.roots(first.found, encoder, deadline).await?;
            return Ok(roots.missing(first.shards_missing));
        }
        let tops = self.all_tops(&[], encoder, deadline).await?;
        if tops.found.len() < MOST_TOPS {
            return Ok(tops);
        }
        let first = self.found_first(question, filter, deadline).await?;
        let again = self.all_tops(&first.found, encoder, deadline).await?;
        Ok(again.missing(first.shards_missing))
    }

    async fn children(
        &self,
        node: &TreeNodeId,
        encoder: Option<&str>,
        deadline: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error> {
        self.check()?;
        let nodes = WantedNodes::Children(node.clone());
        let query = &TreeQuery { nodes, encoder: encoder.map(ToOwned::to_owned) };
        let (holder, deadline) = (self.shard_of(node), self.shards.deadline(deadline));
        let children = self
            .shards
            .ask(|shard| shard == holder, |shard| async move { shard.tree(query, deadline).await });
        Ok(children.await?.map(|children| children.into_iter().flatten().collect()))
    }

    async fn segment(
        &self,
        node: &TreeNodeId,
        deadline: Instant,
    ) -> Result<Partial<Option<Evidence>>, Error> {
        let TreeNodeId::Document { document_id, version, level: 0, ordinal } = node else {
            return Ok(Partial::whole(None));
        };
        let (document_id, version, ordinal) = (document_id.clone(), *version, *ordinal);
        let id = SegmentId { document_id, version, ordinal };
        let found = self.segments(std::slice::from_ref(&id), deadline).await?;
        Ok(found.map(|found| found.into_iter().next().map(|(_, evidence)| evidence)))
    }

    fn covers(&self, node: &TreeNode, found: &Evidence) -> bool {
        match &node.id {
            TreeNodeId::Document { document_id, version, .. } => {
                let overlaps = node
                    .span
                    .is_none_or(|span| span.start < found.span.end && found.span.start < span.end);
                *document_id == found.document_id && *version == found.version && overlaps
            }
            TreeNodeId::Upper { shard, .. } => {
                let (first, last) = &node.documents;
                (first..=last).contains(&&found.document_id)
                    && self.corpus.shard_of(&found.document_id).index() == *shard
            }
        }
    }
}

/// Returns the number of nearest entities to ask each of `shards` shards for. It is twice the
/// shard's share, because entities are not distributed evenly, and at least [`LEAST_NEAREST`], but
/// no more than `most`.
fn nearest_of_a_shard(most: usize, shards: usize) -> usize {
    (2 * most).div_ceil(shards.max(1)).max(LEAST_NEAREST).min(most)
}

#[async_trait]
impl GraphMemory for CorpusStructure {
    async fn subgraph(
        &self,
        query: &GraphQuery,
        deadline: Instant,
    ) -> Result<Partial<Subgraph>, Error> {
        self.check()?;
        let deadline = self.shards.deadline(deadline);
        let parts = self.shards.ask_all(|shard| {
            // A place belongs to one shard; a name may be known to all.
            let mut asked = query.clone();
            let is_here = |id: &DocumentId| self.corpus.shard_of(id).index() == shard.index();
            asked.places.retain(|place| is_here(&place.document_id));
            if asked.like.is_some() {
                asked.most_entities =
                    nearest_of_a_shard(query.most_entities, self.corpus.shards().len());
            }
            async move { shard.subgraph(&asked, deadline).await }
        });
        Ok(parts.await?.map(|mut parts| match parts.len() {
            1 => parts.remove(0),
            _ => clew_graph::union(parts),
        }))
    }

    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Partial<Vec<(SegmentId, Evidence)>>, Error> {
        self.check()?;
        let deadline = self.shards.deadline(deadline);
        let by_shard = &self.by_shard(ids.iter().cloned(), |id| &id.document_id);
        let found = self.shards.ask(
            |shard| by_shard.contains_key(&shard),
            |shard| async move {
                let mut found = Vec::new();
                let ids = by_shard.get(&shard.index()).map(Vec::as_slice).unwrap_or_default();
                for some in ids.chunks(SEGMENTS_AT_ONCE) {
                    found.extend(shard.segments(some, deadline).await?);
                }
                Ok(found)
            },
        );
        Ok(found.await?.map(|found| found.into_iter().flatten().collect()))
    }
}

/// Reads documents with their states, in no particular order. All shards are asked at once.
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
impl Documents for CorpusStructure {
    async fn documents(
        &self,
        ids: &[DocumentId],
        deadline: Instant,
    ) -> Result<Partial<Vec<WholeDocument>>, Error> {
        let deadline = self.shards.deadline(deadline);
        let by_shard = &self.by_shard(ids.iter().cloned(), |id| id);
        let read = self.shards.ask(
            |shard| by_shard.contains_key(&shard),
            |shard| async move {
                let ids = by_shard.get(&shard.index()).map(Vec::as_slice).unwrap_or_default();
                shard.documents(ids, deadline).await
            },
        );
        Ok(read
            .await?
            .map(|read| read.into_iter().flatten().map(|(stored, _)| self.whole(stored)).collect()))
    }

    async fn ids(
        &self,
        prefix: &str,
        after: Option<&DocumentId>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Partial<Vec<DocumentId>>, Error> {
        let deadline = self.shards.deadline(deadline);
        // No id with this prefix comes before the prefix itself.
        let first: DocumentId = prefix.parse()?;
        let after = Some(after.filter(|after| **after > first).cloned().unwrap_or(first));
        let query = &ListQuery { after, limit, state: None };
        let listed =
            self.shards.ask_all(|shard| async move { shard.list(query, deadline).await }).await?;
        Ok(listed.map(|listed| {
            let ids = listed.into_iter().flatten().map(|status| status.document_id);
            let ids: BTreeSet<DocumentId> =
                ids.filter(|id| id.as_str().starts_with(prefix)).collect();
            ids.into_iter().take(limit).collect()
        }))
    }
}

impl CorpusStructure {
    fn whole(&self, StoredDocument { document, version, .. }: StoredDocument) -> WholeDocument {
        let corpus = &self.corpus.settings().name;
        let passage = Evidence {
            // A passage of a whole document has the id of the document's first segment.
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
