//! Encrypted connections between nodes and with clients, and the bounds of those that come in.
//!
//! A node has one certificate, which it shows whoever connects to it and whoever it connects to. It is a node
//! to others by being certified by the cluster's own authority for the name [`NODE_NAME`]: nodes come and go at
//! addresses that no certificate can name. Further names of the kind `ROLE.node.clew.internal` say which roles it has:
//! others call it as nothing else, and let it call nothing else than what these need. Clients check the host that they
//! connect to, as browsers do.
//!
//! The files are read again while the process runs, so that certificates are renewed without a restart.

mod client;
mod config;
mod followed;
mod incoming;
mod material;
mod roles;
mod stream;
mod trust;

pub use client::{ClientTls, connect};
pub use config::TlsConfig;
pub use followed::{Followed, NamedFile};
pub use incoming::{Limits, incoming};
pub use material::Tls;
pub use roles::{NODE_NAME, NodeRoles};
pub use stream::{ConnectInfo, Connection, Keeping, Proof, Stream};
pub use trust::{Trust, TrustKeys};
