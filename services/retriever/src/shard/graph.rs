//! The graph of a shard, in memory: the union of what was extracted from its current segments.
//!
//! The graph mirrors the tables. Each query first reads what changed since the last one and removes
//! what is gone, so a query never sees a forgotten document or a replaced version.

use std::collections::HashMap;
use std::sync::Arc;

use clew_core::{Access, DocumentId, Error, GraphQuery, Recipe, Subgraph, Version};
use clew_graph::{Graph, GraphDocument, GraphSegment};
use clew_index::{DocumentSegments, SegmentNode, ShardView, StructuredDocument};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Number of documents that are read at once.
const PAGE: usize = 256;

/// Graph of a shard. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub(crate) struct ShardGraph {
    mirror: Arc<Mutex<Mirror>>,
}

#[derive(Default)]
struct Mirror {
    graph: Graph,
    documents: HashMap<DocumentId, (Version, Recipe)>,
    /// Revision of the shard that the graph mirrors.
    revision: Option<u64>,
}

impl ShardGraph {
    /// Returns the part of the graph around the names in `query`, as if the graph held only what
    /// the caller sees. Queries run one at a time. Most take microseconds; the first one after
    /// documents came takes as long as reading their extractions.
    pub(crate) async fn subgraph(
        &self,
        view: &ShardView,
        query: &GraphQuery,
    ) -> Result<Subgraph, Error> {
        let mut mirror = Arc::clone(&self.mirror).lock_owned().await;
        let (revision, shown) = view.reader().structured();
        if mirror.revision != Some(revision) {
            let due = mirror.due(&shown);
            for page in due.chunks(PAGE) {
                let read = view.reader().read_segments(page).await?;
                mirror = blocking(mirror, move |mirror| mirror.insert(read)).await?.0;
            }
            mirror.revision = Some(revision);
        }
        let (query, access) = (query.clone(), view.access().clone());
        let ask = move |mirror: &mut Mirror| {
            let hidden = mirror.hidden(&shown, &access);
            mirror.graph.without(hidden).subgraph(&query)
        };
        let (_, found) = blocking(mirror, ask).await?;
        Ok(found)
    }

    /// Removes documents at once, without waiting for the next query.
    pub(crate) async fn remove(&self, ids: &[DocumentId]) {
        let mut mirror = self.mirror.lock().await;
        for id in ids {
            mirror.graph.remove(id);
            mirror.documents.remove(id);
        }
        mirror.revision = None;
    }
}

/// Runs `work` on the graph where blocking is allowed.
async fn blocking<R: Send + 'static>(
    mut mirror: OwnedMutexGuard<Mirror>,
    work: impl FnOnce(&mut Mirror) -> R + Send + 'static,
) -> Result<(OwnedMutexGuard<Mirror>, R), Error> {
    let work = move || {
        let result = work(&mut mirror);
        (mirror, result)
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|panic| Error::internal("reading the graph panicked").with_source(panic))
}

impl Mirror {
    /// Removes documents that are not shown any more. Returns the documents that have to be read.
    fn due(&mut self, shown: &[StructuredDocument]) -> Vec<DocumentId> {
        let shown: HashMap<&DocumentId, (Version, Recipe)> =
            shown.iter().map(|of| (&of.document_id, (of.version, of.recipe))).collect();
        let gone: Vec<DocumentId> = self
            .documents
            .iter()
            .filter(|(id, known)| shown.get(id) != Some(known))
            .map(|(id, _)| id.clone())
            .collect();
        for id in &gone {
            self.graph.remove(id);
            self.documents.remove(id);
        }
        let is_new = |id: &&&DocumentId| !self.documents.contains_key(**id);
        let mut due: Vec<DocumentId> =
            shown.keys().filter(is_new).map(|id| (*id).clone()).collect();
        due.sort_unstable();
        due
    }

    /// Returns the documents that the caller does not see; `shown` has the labels that they
    /// require. A version that was read after `shown` was taken is hidden, because its labels are
    /// not known.
    fn hidden<'a>(
        &'a self,
        shown: &'a [StructuredDocument],
        access: &Access,
    ) -> impl Iterator<Item = &'a DocumentId> {
        let seen = shown.iter().filter(|of| access.admits(&of.labels));
        let seen: HashMap<&DocumentId, &Version> =
            seen.map(|of| (&of.document_id, &of.version)).collect();
        let is_all = access.is_all();
        let known = self.documents.iter().map(|(id, (version, _))| (id, version));
        known
            .filter(move |(id, version)| !is_all && seen.get(id) != Some(version))
            .map(|(id, _)| id)
    }

    fn insert(&mut self, read: Vec<DocumentSegments>) {
        for DocumentSegments { document_id, version, recipe, title, segments } in read {
            let segment = |segment: SegmentNode| GraphSegment {
                ordinal: segment.ordinal,
                span: segment.span,
                extraction: segment.extraction,
            };
            let segments = segments.into_iter().map(segment).collect();
            self.documents.insert(document_id.clone(), (version, recipe));
            self.graph.insert(GraphDocument { document_id, version, title, segments });
        }
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Labels;

    use super::*;

    #[test]
    fn what_was_read_after_its_labels_were_looked_at_is_hidden() {
        let id = |name: &str| -> DocumentId { name.parse().unwrap() };
        let shown = |name: &str, labels: &[&str]| StructuredDocument {
            document_id: id(name),
            version: Version(1),
            recipe: Recipe(1),
            labels: Labels::parse(labels).unwrap(),
        };
        let looked_at = [shown("open", &[]), shown("secret", &["a"]), shown("replaced", &[])];
        let mut mirror = Mirror::default();
        for (name, version) in [("open", 1), ("secret", 1), ("replaced", 2), ("new", 1)] {
            mirror.documents.insert(id(name), (Version(version), Recipe(1)));
        }
        let hidden = |access: Access| {
            let mut hidden: Vec<&str> =
                mirror.hidden(&looked_at, &access).map(DocumentId::as_str).collect();
            hidden.sort_unstable();
            hidden
        };
        let holding = |labels: &[&str]| Access::holding(labels.iter().map(|l| l.parse().unwrap()));
        assert_eq!(hidden(holding(&[])), ["new", "replaced", "secret"]);
        assert_eq!(hidden(holding(&["a"])), ["new", "replaced"]);
        assert!(hidden(Access::all()).is_empty());
    }
}
