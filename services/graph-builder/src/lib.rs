//! The graph-builder service: extracts summaries, entities and relations from texts, for the trees
//! and graphs of a corpus.
//!
//! ```text
//! GraphBuilderRpc ─┬─► ExtractiveGraphBuilder ──► clew_text, clew_graph
//!                  └─► clew_reason's Prompted ──► language model
//! ```
//!
//! Both sides of the wire implement the trait `clew_core::GraphBuilders`. The other side, and
//! `GraphBuilderRpc`, which gateways offer as well, are in `clew_remote`. A graph builder keeps no
//! state between calls: any of them can answer, and the caller decides what is stored.

mod builder;
mod config;
mod extractive;
mod given;
mod role;

pub use builder::builder;
pub use config::{GraphBuilderConfig, Reader};
pub use extractive::ExtractiveGraphBuilder;
pub use role::start;
