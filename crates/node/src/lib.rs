//! What every node of a cluster runs beside its roles: membership, connections to the others, its server.
//!
//! ```text
//! NodeConfig ─► Node::join ─┬─► pools of peers, one for each role that is needed, in step with the members
//!                           └─► Server: the roles' services, NodeService, health, reflection
//! ```
//!
//! A role is added by its own crate: it takes what it needs of a [`Node`] and hands its services to the
//! [`Server`]. So one process runs any set of roles.

mod body;
mod config;
mod encoders;
mod metrics;
mod node;
mod node_service;
mod observed;
mod peers;
mod redis;
mod run;
mod server;
mod signals;

pub use config::{NodeConfig, may_listen};
pub use node::{Node, Parts};
pub use observed::observed;
pub use run::{Stop, run, service_main};
pub use server::{Server, Transport, transport};
pub use signals::Signals;
