//! Reads of a shard: views of one state, and the searches, listings and checks that work on them.

mod check;
mod chunk_list;
mod export;
pub(crate) mod reader;
pub(crate) mod resident;
mod search;
mod select;
mod structure;
pub(crate) mod table_view;
pub(crate) mod view;
