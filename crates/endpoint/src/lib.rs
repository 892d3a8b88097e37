//! Clients for language models, embedding models and rerankers behind HTTP endpoints.
//!
//! An [`Endpoint`] is a [`clew_core::Generator`] that asks a server such as vLLM, Ollama, OpenAI or
//! Azure. A [`Fallback`] asks several generators in order. An [`EmbeddingEndpoint`] is a
//! [`clew_core::Encoder`], a [`RerankEndpoint`] a [`clew_core::Reranker`].
//!
//! ```text
//! request ─► admission ─► prompt ─► rate limit ─► HTTP ─► bounded reader ─► format check ─► reply
//!                           ▲          ▲                        │                 │
//!                           │          └── transient failures ◄─┘                 │
//!                           └───────── once, if the reply misses its format ◄─────┘
//! ```
//!
//! Servers are not trusted. Every call ends in a reply of the requested format or in a typed error,
//! within the deadline, the number of attempts and a memory bound. `tests/faults.rs` has a row for
//! each kind of misbehaviour. Error messages never contain a prompt, a reply or a key.
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
mod payload;
mod prompts;
mod repair;
mod rerank;
mod schema;
mod sse;

pub use config::{EndpointConfig, EndpointKey, Flavour, StructuredOutput};
pub use embedding::{EmbeddingConfig, EmbeddingEndpoint, Shortening};
pub use endpoint::Endpoint;
pub use fallback::Fallback;
pub use rerank::{RerankConfig, RerankDialect, RerankEndpoint};
