//! Peers and pools of them over real servers and connections on loopback.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod peer;
mod pool;
mod server;
