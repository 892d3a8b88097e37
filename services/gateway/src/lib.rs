//! The gRPC front: validates, routes to shards, coordinates questions.
//!
//! ```text
//! CorpusService ─┐
//! IngestService ─┼─► Backends ─► corpora and their shards, in process or on retrievers (`remote`)
//! QueryService  ─┘      └─► one coordinator actor per question ─► strategy over the seams
//! GraphBuilderService ─► a graph builder, in process or in the cluster
//! ```
//!
//! Handlers convert, call and convert back; what is decided, is decided in the crates behind them.

mod backends;
mod cached_questions;
pub mod chat_service;
mod cluster_service;
mod compressed;
mod config;
mod corpora;
mod corpus_service;
mod ingest_service;
mod memory;
mod memory_service;
mod moderation;
mod query_service;
mod question;
mod reading;
mod remote;
mod reranked;
mod role;
mod scatter;
mod server;
mod shards;

pub use backends::Backends;
pub use config::GatewayConfig;
pub use corpora::{AllCorpora, CallersCorpora};
pub use moderation::{Moderation, Policy};
pub use role::{Seams, start};
pub use server::{Server, router};
