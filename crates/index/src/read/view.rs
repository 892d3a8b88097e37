//! Views of a shard, each one complete state, their publication to readers, and those that are kept
//! for further pages of searches.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clew_core::{Access, CorpusName, ViewName};
use futures::FutureExt;
use futures::future::{Shared, join_all};
use lancedb::Table;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use crate::catalogue::Catalogue;
use crate::read::resident::fragment::RowOwner;
use crate::read::table_view::TableView;
use crate::table::vectors::Vectors;

/// Maximum number of kept views of which no second page was read, and as many others. Views share
/// almost all that they have in memory, as long as no fragment is rewritten.
const MOST_KEPT: usize = 16;

/// View of the shard: tables pinned at a version, with the catalogue that belongs to them.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Name by which further pages of a search find it.
    pub name: ViewName,
    pub corpus: CorpusName,
    /// Vector columns.
    pub vectors: Vectors,
    pub sources: Table,
    pub chunks: Table,
    pub nodes: Table,
    /// `chunks` as searches see it.
    pub chunk_rows: TableView,
    /// `sources` as searches see it.
    pub source_rows: TableView,
    /// Maximum number of vectors that a search compares one by one, where an index could propose
    /// rows.
    pub compared: usize,
    /// Maximum number of children of a corpus tree node.
    pub max_children: u32,
    pub catalogue: Catalogue,
    /// Dropped with the view, which tells the publisher that nobody reads it any more.
    pub _held: oneshot::Sender<Infallible>,
}

impl Snapshot {
    /// Returns whether a caller's searches find the rows of an owner. Whoever lacks a label of a
    /// newer version of the document, which cannot be found yet, does not see this one either.
    pub(crate) fn shows(&self, access: &Access, owner: &RowOwner) -> bool {
        let record = self.catalogue.get(&owner.document_id);
        record.is_some_and(|record| {
            record.is_live(owner.version, owner.recipe) && record.is_seen_by(access)
        })
    }
}

/// Publisher of the newest view, which knows which older ones are still read.
///
/// A query holds its view while it runs. Files may be removed once no view that names them is held.
/// So a search never waits for maintenance, and maintenance waits for searches only as long as it
/// likes.
#[derive(Debug)]
pub(crate) struct Publisher {
    current: watch::Sender<Arc<Snapshot>>,
    current_released: View,
    retired: Vec<View>,
    kept: KeptViews,
}

/// Ends once nobody reads a view any more.
type View = Shared<oneshot::Receiver<Infallible>>;

/// Views that were replaced, and may still be read.
#[derive(Debug)]
pub(crate) struct Released(Vec<View>);

impl Released {
    /// Waits until none of the views is read any more. Returns whether that happened in time.
    pub(crate) async fn within(self, patience: Duration) -> bool {
        tokio::time::timeout(patience, join_all(self.0)).await.is_ok()
    }
}

impl Publisher {
    /// Starts with the view that `make` returns.
    pub(crate) fn new(make: impl FnOnce(oneshot::Sender<Infallible>) -> Snapshot) -> Self {
        let (held, current_released) = oneshot::channel();
        Self {
            current: watch::Sender::new(Arc::new(make(held))),
            current_released: current_released.shared(),
            retired: Vec::new(),
            kept: KeptViews::default(),
        }
    }

    /// Replaces the current view by the one that `make` returns.
    pub(crate) fn publish(&mut self, make: impl FnOnce(oneshot::Sender<Infallible>) -> Snapshot) {
        let (held, released) = oneshot::channel();
        drop(self.current.send_replace(Arc::new(make(held))));
        self.retired.push(std::mem::replace(&mut self.current_released, released.shared()));
        self.retired.retain(|released| released.clone().now_or_never().is_none());
    }

    /// Returns the views before the current one, of which none is kept for further pages any more.
    pub(crate) fn old_snapshots(&self) -> Released {
        self.kept.let_go();
        Released(self.retired.clone())
    }

    /// Returns the views that are kept for further pages.
    pub(crate) fn kept(&self) -> &KeptViews {
        &self.kept
    }

    /// Returns a receiver of the views from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }
}

/// Views of a shard that searches may come back to, for further pages of their results. Those that
/// were not searched for the longest time make room. Those of which further pages were read stay
/// whatever the number of other searches. Clones share them.
///
/// They never hold up anybody: whoever removes files or forgets documents lets go of all of them
/// first. Their searches then go on with the newest view.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptViews(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Views of first pages, the last searched last.
    begun: VecDeque<Arc<Snapshot>>,
    /// Views of further pages, the last searched last.
    continued: VecDeque<Arc<Snapshot>>,
}

impl KeptViews {
    /// Keeps the newest view and returns it. `newest` is called when nobody can let go of views. So
    /// a view that was replaced before [`Self::let_go`] is not kept after it.
    pub(crate) fn keep(&self, newest: impl FnOnce() -> Arc<Snapshot>) -> Arc<Snapshot> {
        let mut kept = self.lock();
        let newest = newest();
        let is_it = |view: &Arc<Snapshot>| view.name == newest.name;
        if kept.continued.iter().any(is_it) {
            return newest;
        }
        let dropped = put_last(&mut kept.begun, Arc::clone(&newest));
        drop(kept);
        drop(dropped);
        newest
    }

    /// Returns the kept view of a name, and keeps it as one of which further pages are read.
    pub(crate) fn named(&self, name: ViewName) -> Option<Arc<Snapshot>> {
        let mut kept = self.lock();
        let is_it = |view: &Arc<Snapshot>| view.name == name;
        let place = kept.begun.iter().position(is_it);
        let begun = place.and_then(|place| kept.begun.remove(place));
        let view = begun.or_else(|| kept.continued.iter().find(|view| is_it(view)).cloned())?;
        let dropped = put_last(&mut kept.continued, Arc::clone(&view));
        drop(kept);
        drop(dropped);
        Some(view)
    }

    /// Lets go of all views.
    pub(crate) fn let_go(&self) {
        let kept = std::mem::take(&mut *self.lock());
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a view at the end of a list that has it at most once. Returns the one that makes room.
fn put_last(views: &mut VecDeque<Arc<Snapshot>>, view: Arc<Snapshot>) -> Option<Arc<Snapshot>> {
    views.retain(|other| other.name != view.name);
    views.push_back(view);
    (views.len() > MOST_KEPT).then(|| views.pop_front()).flatten()
}

/// Returns a new name for a view.
pub(crate) fn new_name() -> ViewName {
    loop {
        if let Some(name) = ViewName::new(Uuid::new_v4().as_fields().0) {
            return name;
        }
    }
}
