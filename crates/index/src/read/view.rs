//! Views of a shard, each one complete state, and their publication to readers.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Access, CorpusName};
use futures::FutureExt;
use futures::future::{Shared, join_all};
use lancedb::Table;
use tokio::sync::{oneshot, watch};

use crate::catalogue::Catalogue;
use crate::read::resident::fragment::RowOwner;
use crate::read::table_view::TableView;
use crate::table::vectors::Vectors;

/// View of the shard: tables pinned at a version, with the catalogue that belongs to them.
#[derive(Debug)]
pub(crate) struct Snapshot {
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
        }
    }

    /// Replaces the current view by the one that `make` returns.
    pub(crate) fn publish(&mut self, make: impl FnOnce(oneshot::Sender<Infallible>) -> Snapshot) {
        let (held, released) = oneshot::channel();
        drop(self.current.send_replace(Arc::new(make(held))));
        self.retired.push(std::mem::replace(&mut self.current_released, released.shared()));
        self.retired.retain(|released| released.clone().now_or_never().is_none());
    }

    /// Returns the views before the current one.
    pub(crate) fn old_snapshots(&self) -> Released {
        Released(self.retired.clone())
    }

    /// Returns a receiver of the views from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }
}
