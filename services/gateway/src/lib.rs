//! The gateway service: the gRPC front of Clew, which validates requests, routes them to shards and
//! coordinates questions.
//!
//! ```text
//! CorpusService, IngestService ─┐
//! QueryService, ChatService    ─┼─► Backends ─► corpora and their shards, here or on retrievers
//! MemoryService                ─┘      └─► one coordinator actor per question ─► strategy
//! GraphBuilderService ─► a graph builder, in process or in the cluster
//! ClusterService      ─► the nodes of the cluster
//! AccessService       ─► what the guard knows of the caller
//! HTTP front          ─► all of these, as a client in this process
//! ```
//!
//! Handlers convert requests, call a crate behind them and convert the results back. Decisions are
//! made in those crates.

mod access_service;
mod backends;
mod cached_questions;
pub mod chat_service;
mod cluster_service;
mod compressed;
mod config;
mod corpora;
mod corpus_service;
mod described;
mod front;
mod ingest_service;
mod memory_service;
mod moderation;
mod pages;
mod query_service;
mod question;
mod reading;
mod reranked;
mod role;
mod scatter;
mod server;
mod shards;
mod strategies;
mod structure;

pub use backends::{Backends, GatewaySeams};
pub use config::GatewayConfig;
pub use corpora::{AllCorpora, CallersCorpora};
pub use front::HttpListener;
pub use moderation::{Moderation, Policy};
pub use role::start;
pub use server::{GatewayServer, router};
pub use strategies::strategies;
