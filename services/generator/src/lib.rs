//! Reads evidence and composes answers for question coordinators on any node.
//!
//! [`GeneratorRpc`] serves a reasoner of this process; [`RemoteReasoner`] is the same seam over
//! generators elsewhere. [`LocalGenerator`] is a language model of this process.

pub mod config;
mod local;
mod models;
mod remote;
mod role;
mod service;

pub use config::GeneratorConfig;
pub use local::LocalGenerator;
pub use models::{model, reasoner};
pub use remote::RemoteReasoner;
pub use role::start;
pub use service::GeneratorRpc;
