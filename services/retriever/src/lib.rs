//! The retriever service: owns shards, accepts documents, derives chunks and structure from them,
//! searches, and maintains the tables.
//!
//! ```text
//! Retriever ── one supervised line of actors per shard
//!   shard k ── writer      makes every commit, one at a time, in groups
//!           ├─ indexer     derives what accepted documents lack: chunks, trees, graph
//!           ├─ settler     applies changed settings of the corpus
//!           ├─ maintainer  compacts, updates indexes and prunes, through the writer's queue
//!           ├─ checker     compares the tables with the promises, a page at a time, and counts
//!           ├─ retention   forgets documents that are older than the corpus retains
//!           └─ memoriser   forms compressed memories, if the corpus has them
//! ```
//!
//! A search works on a view of the tables and needs no actor. A line that fails is rebuilt from the
//! tables ([`clew_runtime::supervise`]), so a shard's state in memory always agrees with its
//! tables.

mod catalogue;
mod checker;
mod claim;
mod config;
mod graph;
mod indexer;
mod keeper;
mod lock;
mod maintainer;
mod memoriser;
mod metrics;
mod origins;
mod retention;
mod retriever;
mod role;
mod service;
mod settler;
mod shard;
mod shared;
mod snapshots;
mod structurer;
mod turn;
mod turns;
mod writer;

pub use clew_index::Probed;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use clew_index::act_as_next_release;
pub use config::{RetrieverConfig, StorageConfig, Tried};
pub use metrics::troubles;
pub use retriever::Retriever;
pub use role::{Seams, start, try_out};
