//! Embedding models: loading, tokenising, batching and running them on processors and GPUs.
//!
//! ```text
//! folder ──► ModelFolder ──► Engine ─────────────┐
//!            config.json     packed (x86-64)     ├─► EmbeddingModel
//!            tokenizer.json  Burn (portable, GPU)┘     encode: text      ─► token ids
//!            *.safetensors                             embed:  token ids ─► unit vectors
//! ```
//!
//! [`EmbeddingModel::load`] reads a sentence-transformers folder and refuses one that is incomplete,
//! inconsistent or of another kind, before anything is computed. The same weights run on two engines:
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
mod device;
mod embedding_model;
mod engine;
mod error;
mod folder;
pub mod generation;
mod language_model;
mod options;
mod pooling;
mod route;
mod sampler;
mod weights;

pub use clew_tokenizer::EncodedText;
pub use embedding_model::{Description, EmbeddingModel};
pub use engine::Scratch;
pub use error::Error;
pub use language_model::{LanguageModel, LanguageModelOptions};
pub use options::{DeviceChoice, ModelOptions, PathChoice, PrecisionChoice};
pub use route::Precision;
