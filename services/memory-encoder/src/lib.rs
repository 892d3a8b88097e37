//! Embeds texts on this machine's devices: a queue with a limit, and a supervised worker per device.
//!
//! ```text
//! embed ── permit by tokens ──► queue (interactive first) ──► worker threads ──► replies
//!                                                                 ▲
//!                                             DeviceWorker actors own and restart them
//! ```
//!
//! Device work never runs on the asynchronous runtime: each worker actor owns a thread that takes
//! batches from the queue. A thread that panics ends its actor; the supervisor makes both anew after
//! a back-off, and the callers whose batch was lost are told to retry.
//!
//! A model behind an endpoint ([`OwnEncoder::Endpoint`]) takes the place of a pool. Where a reranker is configured, it
//! computes as encoders do, with a queue and workers of its own, or is behind an endpoint ([`OwnReranker`]).
//!
//! Where a memory model is configured, a [`MemoryPool`] beside it forms compressed memories of texts, and drafts
//! clues from them.
//!
//! [`EncoderPools`], one [`OwnEncoder`] for each model, is what runs in the process of its callers; [`service`] offers
//! it to other nodes, which reach it through `clew-remote-encoder`.

mod config;
mod devices;
mod memory;
mod pool;
mod pools;
mod queue;
mod reranker;
mod role;
pub mod service;
mod worker;

pub use config::EncoderConfig;
pub use memory::{MemoryModelConfig, MemoryPool, memory_encoder};
pub use pool::EncoderPool;
pub use pools::{EncoderPools, OwnEncoder};
pub use reranker::{OwnReranker, RerankerConfig, RerankerPool};
pub use role::{Offered, start};
