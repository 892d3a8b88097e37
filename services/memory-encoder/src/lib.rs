//! Encoder service: embeds texts on this machine's devices, with a queue that has a limit and
//! supervised worker threads.
//!
//! ```text
//! embed ── permit by tokens ──► queue (interactive first) ──► worker threads ──► replies
//!                                                                 ▲
//!                                             DeviceWorker actors own and restart them
//! ```
//!
//! Device work never runs on the asynchronous runtime. Each worker actor owns a thread that takes
//! batches from the queue. If the device fails in a batch, also by a panic of its code, the callers
//! of that batch are told to retry, and a [`Breaker`](clew_runtime::breaker::Breaker) keeps further
//! work from a device that then fails its check. A thread that panics elsewhere ends its actor, and
//! the supervisor restarts both after a back-off.
//!
//! A model behind an endpoint ([`OwnEncoder::Endpoint`]) takes the place of a pool. A reranker, if
//! configured, computes as encoders do, with a queue and workers of its own, or is behind an
//! endpoint ([`OwnReranker`]). A reader that finds answers in passages ([`OwnReader`]) computes in
//! the same way, and is loaded after the others.
//!
//! If a memory model is configured, a [`MemoryPool`] forms compressed memories of texts, and drafts
//! clues from them.
//!
//! [`Models`] are all of these, with one [`OwnEncoder`] for each embedding model. They run in the
//! process of their callers, or [`start`] offers them to other nodes, which reach them through
//! `clew-remote`.

mod config;
mod devices;
mod memory;
mod models;
mod pool;
mod pools;
mod queue;
mod reader;
mod relevance;
mod reranker;
mod role;
pub mod service;
mod worker;

pub use config::EncoderConfig;
pub use memory::{MemoryModelConfig, MemoryPool, memory_encoder};
pub use models::Models;
pub use pool::EncoderPool;
pub use pools::{EncoderPools, OwnEncoder};
pub use reader::{OwnReader, ReaderConfig, ReaderPool};
pub use reranker::{OwnReranker, RerankerConfig, RerankerPool};
pub use role::start;
