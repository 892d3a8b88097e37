//! Reads evidence and composes answers for question coordinators on any node.
//!
//! ```text
//! RemoteReasoner ──┐                        ┌─► reasoner ─► encoder, or
//!                  ├─► pool ─► GeneratorRpc ┤      │
//! RemoteGenerator ─┘                        └─► language model: endpoints, LocalGenerator
//! ```
//!
//! Both sides of the wire are the seams `clew_core::{Reasoner, Generator}`. [`RemoteGuide`] is the seams
//! `Navigator` over a [`RemoteGenerator`].

pub mod config;
mod counted;
mod guide;
mod local;
mod models;
mod remote;
mod replies;
mod role;
mod service;

pub use config::GeneratorConfig;
pub use counted::troubles;
pub use guide::RemoteGuide;
pub use local::LocalGenerator;
pub use models::{Judgement, model, prompted};
pub use remote::{RemoteGenerator, RemoteReasoner};
pub use role::start;
pub use service::GeneratorRpc;
