//! Components that shards work with.

use std::sync::Arc;

use clew_core::{Clock, Encoders, Error, GraphBuilders, MemoryEncoder};
use clew_index::Snapshots;

/// Components that shards work with, in this process or on other nodes.
#[derive(Clone)]
pub struct ShardSeams {
    /// Encoders for documents.
    pub encoders: Arc<dyn Encoders>,
    /// Graph builders for trees and graphs.
    pub graph_builders: Arc<dyn GraphBuilders>,
    /// Model that forms compressed memories.
    pub memory_encoder: Arc<dyn MemoryEncoder>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Place of snapshots, if one is configured.
    pub snapshots: Option<Snapshots>,
}

impl ShardSeams {
    /// Returns the place of snapshots.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] if no place is configured.
    pub(crate) fn snapshots(&self) -> Result<&Snapshots, Error> {
        self.snapshots.as_ref().ok_or_else(|| {
            Error::new(
                clew_core::ErrorKind::WrongState,
                "NO_SNAPSHOT_PLACE",
                "no place for snapshots is configured; set `storage.snapshots` of the retrievers to a \
                 folder or s3://bucket/prefix outside the data directory (--snapshots, where the data \
                 directory is opened by the command itself)",
            )
        })
    }
}
