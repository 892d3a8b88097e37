//! The gRPC front: validates, routes to shards, coordinates questions.
//!
//! ```text
//! CorpusService ─┐
//! IngestService ─┼─► Node ─► Retriever (shards) ─► ...
//! QueryService  ─┘      └─► one coordinator actor per question ─► strategy over the seams
//! ```
//!
//! Handlers convert, call and convert back; what is decided, is decided in the crates behind them.

mod config;
mod corpus_service;
mod ingest_service;
mod node;
mod query_service;
mod question;
mod scatter;
mod server;

pub use config::GatewayConfig;
pub use node::Node;
pub use server::{Server, router};
