//! Reads of a shard: views of one state, and the searches, listings and checks that work on them.

mod attainable;
mod check;
mod export;
pub(crate) mod reader;
mod search;
mod structure;
pub(crate) mod view;
