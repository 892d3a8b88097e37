//! The generator service: reads evidence and writes answers, with a language model or by extractive
//! rules.
//!
//! ```text
//!                               ┌─► reasoner ─► encoder and reader, or
//! other nodes ─► GeneratorRpc ──┤      │
//!                               └─► language model: endpoints, LocalGenerator
//! ```
//!
//! [`Judgement`] implements the trait `clew_core::Reasoners` here, and `clew_remote` implements it
//! on the nodes that call. Each question has a reasoner and a guide that work on its account. A
//! call carries the budget that is left, and the spending comes back.

pub mod config;
mod counted;
mod local;
mod models;
mod role;
mod service;

pub use config::GeneratorConfig;
pub use counted::troubles;
pub use local::LocalGenerator;
pub use models::{Judgement, model};
pub use role::start;
pub use service::GeneratorRpc;
