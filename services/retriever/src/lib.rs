//! The retriever service: owns shards, accepts documents, derives chunks and structure from them,
//! searches, and maintains the tables.
//!
//! ```text
//! Retriever ── one supervised line of actors per shard
//!   shard k ── writer            makes every commit, one at a time, in groups
//!           ├─ indexer           derives what accepted documents lack: chunks, trees, graph
//!           ├─ settings watcher  applies changed settings of the corpus
//!           ├─ maintainer        rewrites, indexes and prunes tables beside the writer; erases
//!           ├─ scrubber          compares tables with promises, a page at a time, and counts
//!           ├─ retention         forgets documents that are older than the corpus retains
//!           └─ memory builder    forms compressed memories, if the corpus has them
//! ```
//!
//! A search works on a view of the tables and needs no actor. A line that fails is rebuilt from the
//! tables ([`clew_runtime::supervise`]), so a shard's state in memory always agrees with its
//! tables.

mod cluster;
mod config;
mod grpc;
mod leftovers;
mod local;
mod role;
mod runs;
mod seams;
mod shard;
mod snapshots;

pub use clew_index::Probed;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use clew_index::act_as_next_release;
pub use config::{RetrieverConfig, StorageConfig, Tried};
pub use local::LocalRetriever;
pub use role::{start, try_out};
pub use seams::ShardSeams;
pub use shard::metrics::troubles;
