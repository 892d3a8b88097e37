//! Who gets in, what he reaches, and what those who mean harm can do: on real servers with real certificates.

mod cluster;
mod keys;
mod probe;
mod snapshots;
mod spending;
mod wire;
mod world;
