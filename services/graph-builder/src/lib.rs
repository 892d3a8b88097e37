//! Reads summaries, entities and relations out of texts, for whoever builds trees and graphs of them.
//!
//! ```text
//! GraphBuilderRpc ─┬─► Extractive ──► clew_tree, clew_graph         on a graph builder
//!                  ├─► clew_reason's Prompted ──► language model    on a graph builder
//!                  └─► RemoteGraphBuilders ─► pool of the former    on a gateway
//! ```
//!
//! Both sides of the wire are the seam `clew_core::GraphBuilders`: what is left of an account goes over the wire, and what
//! was spent comes back. Texts that clients have read are metered ([`GraphBuilderRpc`]). A graph builder keeps nothing between
//! calls: any of them answers, and what is stored is decided by who asks.

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
