//! One shard: its line of actors, its handle, and the access of a caller to it.

pub(crate) mod access;
pub(crate) mod actor;
pub(crate) mod claim;
pub(crate) mod derive;
pub(crate) mod graph;
pub(crate) mod handle;
pub(crate) mod idleness;
pub(crate) mod keeper;
pub(crate) mod line;
pub(crate) mod metrics;
pub(crate) mod resources;
pub(crate) mod trace_contexts;

pub(crate) use access::ShardAccess;
pub(crate) use handle::ShardHandle;
pub(crate) use line::ShardLine;

#[cfg(test)]
mod tests;
