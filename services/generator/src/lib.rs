//! Reads evidence and composes answers for question coordinators on any node.
//!
//! [`GeneratorRpc`] serves a reasoner of this process; [`RemoteReasoner`] is the same seam over
//! generators elsewhere.

mod config;
mod remote;
mod role;
mod service;

pub use config::GeneratorConfig;
pub use remote::RemoteReasoner;
pub use role::start;
pub use service::GeneratorRpc;
