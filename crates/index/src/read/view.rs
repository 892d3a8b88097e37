//! Views of a shard, each one complete state, and their publication to readers.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Access, CorpusName};
use futures::future::join_all;
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
    current_released: oneshot::Receiver<Infallible>,
    retired: Vec<oneshot::Receiver<Infallible>>,
}

impl Publisher {
    /// Starts with the view that `make` returns.
    pub(crate) fn new(make: impl FnOnce(oneshot::Sender<Infallible>) -> Snapshot) -> Self {
        let (held, current_released) = oneshot::channel();
        Self {
            current: watch::Sender::new(Arc::new(make(held))),
            current_released,
            retired: Vec::new(),
        }
    }

    /// Replaces the current view by the one that `make` returns.
    pub(crate) fn publish(&mut self, make: impl FnOnce(oneshot::Sender<Infallible>) -> Snapshot) {
        let (held, released) = oneshot::channel();
        drop(self.current.send_replace(Arc::new(make(held))));
        self.retired.push(std::mem::replace(&mut self.current_released, released));
        self.retired.retain_mut(|released| {
            matches!(released.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        });
    }

    /// Waits until only the current view is read. Returns whether that happened in time.
    pub(crate) async fn old_snapshots_released(&mut self, patience: Duration) -> bool {
        let all = join_all(self.retired.iter_mut());
        if tokio::time::timeout(patience, all).await.is_err() {
            return false;
        }
        self.retired.clear();
        true
    }

    /// Returns a receiver of the views from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }
}
