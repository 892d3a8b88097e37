//! Embedding models, rerankers, readers, language models and memory models, run on CPUs and GPUs.
//!
//! ```text
//! folder ──► ModelFolder ──► Engine ─────────────┬─► EmbeddingModel
//!            config.json     packed (x86-64)     │     encode: text      ─► token ids
//!            tokenizer.json  Burn (portable, GPU)│     embed:  token ids ─► unit vectors
//!            *.safetensors                       ├─► Reranker
//!                                                │     score:  question, passages ─► scores
//!                             with an adapter    └─► Reader
//!                                                      read:   question, passages ─► spans
//! folder ──► decoder::Decoder                          step:   token ids ─► logits
//! folder ──► memory::MemoryModel                       read:   token ids ─► memory, logits
//! folder, texts ──► memory::training::Trainer          run:    ─► folder
//! ```
//!
//! | family      | read by                               | runs on      | texts of a batch       |
//! |-------------|---------------------------------------|--------------|------------------------|
//! | BERT        | [`EmbeddingModel`], [`RerankerModel`] | packed, Burn | packed; on Burn padded |
//! | XLM-RoBERTa | [`EmbeddingModel`], [`RerankerModel`] | packed, Burn | packed; on Burn padded |
//! | Qwen2       | [`EmbeddingModel`]                    | Burn         | packed                 |
//!
//! A BERT is also the base of a [`ReaderModel`].
//!
//! [`EmbeddingModel::load`] reads a sentence-transformers folder. It refuses a folder that is
//! incomplete, inconsistent or of another kind before it computes anything. The same BERT weights
//! run on two engines. The packed forward pass of `clew-packed-bert` is the fastest on x86-64. Burn
//! is portable, drives GPUs, and is the oracle for the packed engine in tests.
//!
//! Everything here blocks and runs on the caller's thread, except that an embedding model is loaded
//! on three. The caller owns threads, queues and deadlines (and with them the `Encoder` trait of
//! `clew-core`), and decides how many calls run at once.

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
mod reader;
mod reranker;
mod roofline;
mod route;
pub mod sampling;
mod trust;
mod weights;

pub use clew_tokenizer::{EncodedPair, EncodedText};
pub use device::open as open_device;
pub use embedding_model::{Description, EmbeddingModel};
pub use engine::Scratch;
pub use error::Error;
pub use language_model::LanguageModel;
pub use options::{
    DeviceChoice, LanguageModelOptions, ModelOptions, PathChoice, Precision, PrecisionChoice,
};
pub use reader::{EncodedWindow, ReaderCard, ReaderModel, SpanScore, TrainingData, WindowScore};
pub use reranker::RerankerModel;
pub use roofline::Roofline;
