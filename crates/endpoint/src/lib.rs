//! Language models, embedding models and rerankers behind endpoints.
//!
//! An [`Endpoint`] is a [`clew_core::Generator`] that asks a server such as vLLM, Ollama, OpenAI or Azure;
//! a [`Fallback`] asks several generators in order. An [`EmbeddingEndpoint`] is a [`clew_core::Encoder`], a
//! [`RerankEndpoint`] a [`clew_core::Reranker`].
//!
//! A server is not trusted: whatever it sends ends in a reply of the format that was asked for, or in a
//! typed error, within the deadline, the number of attempts and a bound on memory. `tests/faults.rs` has a
//! row for each way to misbehave. Messages of errors never hold a prompt, a reply or a key.
//!
//! Deliberately absent: tools, images, and several replies to one request.

mod chat;
mod config;
mod connection;
mod embedding;
mod endpoint;
mod fallback;
mod format;
mod pace;
mod prompts;
mod repair;
mod rerank;
mod schema;
mod sse;
mod tokens;

pub use config::{ApiKey, EndpointConfig, Flavour, StructuredOutput};
pub use embedding::{EmbeddingConfig, EmbeddingEndpoint, Shortening};
pub use endpoint::Endpoint;
pub use fallback::Fallback;
pub use rerank::{RerankConfig, RerankDialect, RerankEndpoint};
pub use tokens::estimate_tokens;
