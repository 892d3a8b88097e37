//! Tests of security on real servers with real certificates: who gets in, what they can reach, and
//! what attackers can do.

mod cluster;
mod keys;
mod mcp;
mod probe;
mod snapshots;
mod spending;
mod wire;
mod world;

pub(crate) use world::World;
