//! Encrypted connections between nodes and with clients, and limits on incoming connections.
//!
//! A node has one certificate, which it presents as a server and as a client. The cluster's own
//! authority certifies it for the name [`NODE_NAME`], which proves to others that it is a node;
//! host names could not, since nodes come and go at addresses that no certificate can name. Further
//! names of the form `ROLE.node.clew.internal` state its roles. Other nodes use it in these roles
//! only, and let it call only the methods that these roles need. Clients check the host name that
//! they connect to, as browsers do.
//!
//! The files are read again while the process runs, so certificates are renewed without a restart.

mod client;
mod config;
mod followed;
mod incoming;
mod material;
mod roles;
mod stream;
mod trust;

pub use client::{ClientTls, connect, port_of};
pub use config::TlsConfig;
pub use followed::{Followed, NamedFile};
pub use incoming::{ConnectionLimits, incoming};
pub use material::Tls;
pub use roles::{NODE_NAME, NodeRoles};
pub use stream::{ConnectInfo, IncomingConnection, Keeping, Proof, Stream};
pub use trust::{Trust, TrustKeys};
