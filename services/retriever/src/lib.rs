//! Owns shards: takes documents in, derives what is missing, searches and maintains.
//!
//! ```text
//! Retriever ── one supervised line of actors per shard
//!   shard k ── writer      every commit, one at a time, grouped; owns the tables' write side
//!           ├─ indexer     works off the difference between what is accepted and what is derived
//!           ├─ maintainer  compacts, refreshes indexes and prunes, through the writer's queue
//!           └─ checker     holds the tables against the promises, a page at a time, and counts
//! ```
//!
//! Searching is a function over a snapshot and needs no actor. A line that fails is made anew from
//! the tables ([`clew_runtime::supervise`]), so what a shard knows is always what its tables say.

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
