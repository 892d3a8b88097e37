//! What readers see: one state of the shard, whole.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clew_core::CorpusName;
use futures::future::join_all;
use lancedb::Table;
use tokio::sync::{oneshot, watch};

use crate::catalogue::Catalogue;
use crate::nodes::UpperView;

/// The columns of vectors that a snapshot has.
#[derive(Clone, Debug)]
pub(crate) struct Vectors {
    /// All that are there, also those that are wanted no more.
    pub there: Vec<StoredVectors>,
    /// Names of those that every chunk should have.
    pub wanted: Vec<String>,
    /// Fingerprint of the model whose vectors are searched unless a question says otherwise.
    pub searched: String,
}

/// A column of vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredVectors {
    pub name: String,
    /// Fingerprint of the model that made them.
    pub encoder: String,
    pub dimension: usize,
}

impl Vectors {
    /// The column of a model's vectors; of no model's, that which is searched.
    pub(crate) fn of(&self, encoder: &str) -> Option<&StoredVectors> {
        let wanted = if encoder.is_empty() { self.searched.as_str() } else { encoder };
        self.there.iter().find(|vectors| vectors.encoder == wanted)
    }
}

/// One state of the shard: tables pinned at a version and the catalogue that belongs to them.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub corpus: CorpusName,
    /// The columns of vectors.
    pub vectors: Vectors,
    pub sources: Table,
    pub chunks: Table,
    pub nodes: Table,
    /// Most children of a node above documents.
    pub max_children: u32,
    pub catalogue: Catalogue,
    /// The tree above the documents, once somebody asked for it.
    pub upper: OnceLock<UpperView>,
    /// Dropped with the snapshot, which tells the publisher that nobody reads it any more.
    pub _held: oneshot::Sender<Infallible>,
}

/// Hands out the newest snapshot and knows which older ones are still read.
///
/// A query holds its snapshot while it runs. Files may be removed once no snapshot that names them
/// is held: so a search never waits for maintenance, and maintenance waits for searches only as
/// long as it likes.
#[derive(Debug)]
pub(crate) struct Publisher {
    current: watch::Sender<Arc<Snapshot>>,
    current_released: oneshot::Receiver<Infallible>,
    retired: Vec<oneshot::Receiver<Infallible>>,
}

impl Publisher {
    /// Begins with the snapshot that `make` makes.
    pub(crate) fn new(make: impl FnOnce(oneshot::Sender<Infallible>) -> Snapshot) -> Self {
        let (held, current_released) = oneshot::channel();
        Self {
            current: watch::Sender::new(Arc::new(make(held))),
            current_released,
            retired: Vec::new(),
        }
    }

    /// Shows the snapshot that `make` makes to all who ask from now on.
    pub(crate) fn publish(&mut self, make: impl FnOnce(oneshot::Sender<Infallible>) -> Snapshot) {
        let (held, released) = oneshot::channel();
        drop(self.current.send_replace(Arc::new(make(held))));
        self.retired.push(std::mem::replace(&mut self.current_released, released));
        self.retired.retain_mut(|released| {
            matches!(released.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        });
    }

    /// Waits until only the current snapshot is read. Returns whether that came true in time.
    pub(crate) async fn old_snapshots_released(&mut self, patience: Duration) -> bool {
        let all = join_all(self.retired.iter_mut());
        if tokio::time::timeout(patience, all).await.is_err() {
            return false;
        }
        self.retired.clear();
        true
    }

    /// The snapshots from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }
}
