//! Reads evidence and composes answers for question coordinators on any node.
//!
//! ```text
//! RemoteReasoners ─┐                        ┌─► reasoner ─► encoder, or
//!                  ├─► pool ─► GeneratorRpc ┤      │
//! RemoteGenerator ─┘                        └─► language model: endpoints, LocalGenerator
//! ```
//!
//! Both sides of the wire are the seams `clew_core::{Reasoners, Generator}`: each question has a reasoner and a guide
//! that work on its account, of which what is left goes over the wire and what was spent comes back.

pub mod config;
mod counted;
mod guide;
mod local;
mod models;
mod received;
mod remote;
mod replies;
mod role;
mod service;

pub use config::GeneratorConfig;
pub use counted::troubles;
pub use guide::RemoteReasoners;
pub use local::LocalGenerator;
pub use models::{Judgement, model, prompted};
pub use received::{Received, Told};
pub use remote::RemoteGenerator;
pub use role::start;
pub use service::GeneratorRpc;
