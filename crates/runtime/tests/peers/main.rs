//! Tests of peers and pools with real servers and connections on loopback.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod peer;
mod pool;
mod server;
