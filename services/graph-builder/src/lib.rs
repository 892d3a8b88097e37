//! The graph-builder service: extracts summaries, entities and relations from texts, for the trees
//! and graphs of a corpus.
//!
//! ```text
//! GraphBuilderRpc ─┬─► Extractive ──► clew_tree, clew_graph         on a graph builder
//!                  ├─► clew_reason's Prompted ──► language model    on a graph builder
//!                  └─► RemoteGraphBuilders ─► pool of graph builders    on a gateway
//! ```
//!
//! Both sides of the wire implement the trait `clew_core::GraphBuilders`. A call carries the budget
//! that is left of its account, and the spending comes back. Texts that clients send are charged to
//! their quotas ([`GraphBuilderRpc`]). A graph builder keeps no state between calls: any of them
//! can answer, and the caller decides what is stored.

mod builder;
mod config;
mod extractive;
mod given;
mod remote;
mod role;
mod service;

pub use builder::builder;
pub use config::{GraphBuilderConfig, Reader};
pub use extractive::Extractive;
pub use remote::RemoteGraphBuilders;
pub use role::start;
pub use service::GraphBuilderRpc;
