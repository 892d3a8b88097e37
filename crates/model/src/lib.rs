//! Models: loading, tokenising, batching and running them on processors and GPUs.
//!
//! ```text
//! folder ──► ModelFolder ──► Engine ─────────────┬─► EmbeddingModel
//!            config.json     packed (x86-64)     │     encode: text      ─► token ids
//!            tokenizer.json  Burn (portable, GPU)│     embed:  token ids ─► unit vectors
//!            *.safetensors                       └─► Reranker
//!                                                      score:  question, passages ─► scores
//! folder ──► decoder::Decoder                          step:   token ids ─► logits
//! folder ──► memory::MemoryModel                       read:   token ids ─► memory, logits
//! folder, texts ──► memory::training::Trainer          run:    ─► folder
//! ```
//!
//! | family      | read by                          | runs on      | texts of a batch          |
//! |-------------|----------------------------------|--------------|---------------------------|
//! | BERT        | [`EmbeddingModel`], [`Reranker`] | packed, Burn | packed; on Burn padded    |
//! | XLM-RoBERTa | [`EmbeddingModel`], [`Reranker`] | packed, Burn | packed; on Burn padded    |
//! | Qwen2       | [`EmbeddingModel`]               | Burn         | one after the other       |
//!
//! [`EmbeddingModel::load`] reads a sentence-transformers folder and refuses one that is incomplete,
//! inconsistent or of another kind, before anything is computed. The same weights of a BERT run on two engines:
//! the packed forward of `clew-packed-bert`, which is the fastest on x86-64, and Burn, which is
//! portable, drives GPUs and is the oracle of the packed one in tests.
//!
//! Everything here blocks and runs on the caller's thread: who owns threads, queues and deadlines
//! (and with them the `Encoder` seam of `clew-core`) decides how many calls run at once.

pub mod batch;
mod bert;
mod chat;
mod checkpoint;
mod constraint;
pub mod decoder;
mod dense;
mod device;
mod embedding_model;
mod engine;
mod error;
mod folder;
pub mod generation;
mod language;
mod language_model;
pub mod memory;
mod options;
mod pooling;
mod qwen2;
mod reranker;
mod roofline;
mod route;
mod sampler;
mod weights;

pub use clew_tokenizer::{EncodedPair, EncodedText};
pub use embedding_model::{Description, EmbeddingModel};
pub use engine::Scratch;
pub use error::Error;
pub use language_model::LanguageModel;
pub use options::{DeviceChoice, LanguageModelOptions, ModelOptions, PathChoice, PrecisionChoice};
pub use reranker::Reranker;
pub use roofline::Roofline;
pub use route::Precision;
