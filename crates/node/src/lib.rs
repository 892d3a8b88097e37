//! Parts that every node of a cluster runs besides its roles: membership, connections to other
//! nodes, and a server.
//!
//! ```text
//! NodeConfig ─► Node::join ─┬─► pools of peers, one for each needed role, following the members
//!                           └─► Server: the roles' services, NodeService, health, reflection
//! ```
//!
//! Each role lives in its own crate. Its `start` takes what it needs from a [`Node`], adds services
//! to the [`NodeServer`], and shares seams with the other roles of the process ([`SharedSeams`]).
//! So one process can run any set of roles.

mod body;
mod config;
mod in_process;
mod layers;
mod metrics;
mod node;
mod node_service;
mod observed;
mod peers;
mod redis;
mod run;
mod seams;
mod server;
mod signals;

pub use config::{NodeConfig, may_listen};
pub use in_process::in_process;
pub use node::{Node, Parts};
pub use observed::observed;
pub use peers::addresses;
pub use run::{Stop, run, service_main};
pub use seams::{Shared, SharedSeams};
pub use server::{NodeServer, Transport, transport};
pub use signals::Signals;
