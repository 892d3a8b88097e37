//! The generator service: reads evidence and writes answers, with a language model or by extractive
//! rules.
//!
//! ```text
//! RemoteReasoners ─┐                        ┌─► reasoner ─► encoder, or
//!                  ├─► pool ─► GeneratorRpc ┤      │
//! RemoteGenerator ─┘                        └─► language model: endpoints, LocalGenerator
//! ```
//!
//! Both sides of the wire implement the traits `clew_core::{Reasoners, Generator}`. Each question
//! has a reasoner and a guide that work on its account: a call carries the budget that is left, and
//! the spending comes back.

pub mod config;
mod counted;
mod guide;
mod local;
mod models;
mod received;
mod remote;
mod role;
mod service;

pub use config::GeneratorConfig;
pub use counted::troubles;
pub use guide::RemoteReasoners;
pub use local::LocalGenerator;
pub use models::{Judgement, model};
pub use received::{Received, Told};
pub use remote::RemoteGenerator;
pub use role::start;
pub use service::GeneratorRpc;
