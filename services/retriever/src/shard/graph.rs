//! The graph of a shard, in memory: the union of what was extracted from its current segments.
//!
//! The graph mirrors the tables. Each query first reads what changed since the last one and removes
//! what is gone, so a query never sees a forgotten document or a replaced version.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use clew_core::{Access, Counts, DocumentId, Error, GraphQuery, Recipe, Subgraph, Version};
use clew_graph::{Graph, GraphDocument, GraphSegment};
use clew_index::{DocumentSegments, SegmentNode, ShardView, StructureChanges, StructuredDocument};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Number of documents that are read at once.
const PAGE: usize = 256;
/// Maximum number of removed documents that the next query looks at. After more, it looks at all.
const REMOVED: usize = 4_096;

/// Graph of a shard. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub(crate) struct ShardGraph {
    mirror: Arc<Mutex<Mirror>>,
}

#[derive(Default)]
struct Mirror {
    graph: Graph,
    /// Documents in the graph.
    documents: HashMap<DocumentId, (Version, Recipe)>,
    /// Documents that the shard shows, at the revision.
    shown: HashMap<DocumentId, StructuredDocument>,
    /// Revision of the shard that the graph mirrors.
    revision: Option<u64>,
    /// Documents that were removed from the graph, whether or not the shard has forgotten them.
    removed: Vec<DocumentId>,
}

impl ShardGraph {
    /// Returns the part of the graph around the names in `query`, as if the graph held only what
    /// the caller sees, and whether documents that they see are still to be added. Queries run one
    /// at a time. Most take microseconds; the first one after documents came takes as long as
    /// reading their extractions.
    pub(crate) async fn subgraph(
        &self,
        view: &ShardView,
        query: &GraphQuery,
    ) -> Result<Subgraph, Error> {
        let mut mirror = Arc::clone(&self.mirror).lock_owned().await;
        // First, because a document that is added to the tables later may be missing in the graph.
        let is_being_built = is_being_built(&view.counts());
        let changes = view.reader().structure_changes(mirror.revision, &mirror.removed);
        if mirror.revision != Some(changes.revision) || !changes.documents.is_empty() {
            // If reading fails, the next query sees the same changes again.
            let revision = changes.revision;
            let due = mirror.change(changes);
            for page in due.chunks(PAGE) {
                let read = view.reader().read_segments(page).await?;
                mirror = blocking(mirror, move |mirror| mirror.insert(read)).await?.0;
            }
            mirror.revision = Some(revision);
            mirror.removed.clear();
        }
        let (query, access) = (query.clone(), view.access().clone());
        let ask = move |mirror: &mut Mirror| {
            let hidden = mirror.hidden(&access);
            mirror.graph.without(hidden).subgraph(&query)
        };
        let (_, found) = blocking(mirror, ask).await?;
        Ok(Subgraph { is_being_built, ..found })
    }

    /// Removes documents at once, without waiting for the next query.
    pub(crate) async fn remove(&self, ids: &[DocumentId]) {
        let mut mirror = self.mirror.lock().await;
        for id in ids {
            mirror.drop_document(id);
            mirror.removed.push(id.clone());
        }
        if mirror.removed.len() > REMOVED {
            mirror.removed.clear();
            mirror.revision = None;
        }
    }
}

/// Returns whether documents are still to be indexed, or to be read for the graph. Those that are
/// set aside are not waited for.
fn is_being_built(counts: &Counts) -> bool {
    counts.pending + counts.retrying + counts.unstructured > 0
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
    /// Takes over what changed in the shard, and removes documents that are not shown any more as
    /// they were. Returns the documents that have to be read.
    fn change(&mut self, changes: StructureChanges) -> Vec<DocumentId> {
        if changes.is_whole {
            let shown: HashSet<&DocumentId> = changes.documents.iter().map(|(id, _)| id).collect();
            let is_gone = |id: &&DocumentId| !shown.contains(*id);
            let gone: Vec<DocumentId> = self.documents.keys().filter(is_gone).cloned().collect();
            for id in &gone {
                self.drop_document(id);
            }
            self.shown.clear();
        }
        let mut due = Vec::new();
        for (id, now) in changes.documents {
            let wanted = now.as_ref().map(|now| (now.version, now.recipe));
            if self.documents.get(&id).copied() != wanted {
                self.drop_document(&id);
                due.extend(wanted.map(|_| id.clone()));
            }
            match now {
                Some(now) => self.shown.insert(id, now),
                None => self.shown.remove(&id),
            };
        }
        due.sort_unstable();
        due
    }

    fn drop_document(&mut self, id: &DocumentId) {
        if self.documents.remove(id).is_some() {
            self.graph.remove(id);
        }
    }

    /// Returns the documents that the caller does not see. A version that was read after its labels
    /// were looked at is hidden.
    fn hidden<'a>(&'a self, access: &'a Access) -> impl Iterator<Item = &'a DocumentId> {
        let is_seen = |id: &DocumentId, version: Version| {
            let shown = self.shown.get(id).filter(|shown| shown.version == version);
            shown.is_some_and(|shown| access.admits(&shown.labels))
        };
        let documents = (!access.is_all()).then_some(&self.documents).into_iter().flatten();
        documents.filter(move |(id, (version, _))| !is_seen(id, *version)).map(|(id, _)| id)
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
        let shown = |name: &str, labels: &[&str]| {
            let labels = Labels::parse(labels).unwrap();
            (id(name), StructuredDocument { version: Version(1), recipe: Recipe(1), labels })
        };
        let looked_at = [shown("open", &[]), shown("secret", &["a"]), shown("replaced", &[])];
        let mut mirror = Mirror { shown: looked_at.into_iter().collect(), ..Mirror::default() };
        for (name, version) in [("open", 1), ("secret", 1), ("replaced", 2), ("new", 1)] {
            mirror.documents.insert(id(name), (Version(version), Recipe(1)));
        }
        let hidden = |access: &Access| -> Vec<String> {
            let mut hidden: Vec<String> = mirror.hidden(access).map(ToString::to_string).collect();
            hidden.sort_unstable();
            hidden
        };
        let holding = |labels: &[&str]| Access::holding(labels.iter().map(|l| l.parse().unwrap()));
        assert_eq!(hidden(&holding(&[])), ["new", "replaced", "secret"]);
        assert_eq!(hidden(&holding(&["a"])), ["new", "replaced"]);
        assert!(hidden(&Access::all()).is_empty());
    }

    #[test]
    fn what_changed_is_read_and_what_is_gone_is_dropped() {
        let id = |name: &str| -> DocumentId { name.parse().unwrap() };
        let now = |name: &str, version| {
            let (recipe, labels) = (Recipe(1), Labels::default());
            (id(name), Some(StructuredDocument { version: Version(version), recipe, labels }))
        };
        let changes =
            |is_whole, documents: Vec<_>| StructureChanges { revision: 1, is_whole, documents };
        let mut mirror = Mirror::default();
        let due = mirror.change(changes(true, vec![now("b", 1), now("a", 1), now("c", 1)]));
        assert_eq!(due, [id("a"), id("b"), id("c")]);
        for document in &due {
            mirror.documents.insert(document.clone(), (Version(1), Recipe(1)));
        }
        // Of some documents: the others stay.
        let due = mirror.change(changes(false, vec![now("a", 2), (id("b"), None), now("c", 1)]));
        assert_eq!(due, [id("a")]);
        assert_eq!(mirror.documents.keys().collect::<Vec<_>>(), [&id("c")]);
        assert!(mirror.shown.contains_key(&id("a")) && !mirror.shown.contains_key(&id("b")));
        // Of all: the others go.
        let due = mirror.change(changes(true, vec![now("a", 2)]));
        assert_eq!(due, [id("a")]);
        assert!(mirror.documents.is_empty() && mirror.shown.len() == 1);
    }
}
