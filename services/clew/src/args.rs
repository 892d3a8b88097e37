//! Arguments that several commands share.

pub mod chat;
pub mod chunking;
pub mod filter;
pub mod global;
pub mod memory;
pub mod search;
pub mod structure;
