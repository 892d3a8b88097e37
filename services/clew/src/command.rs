//! Commands, one module for each.

pub mod ask;
pub mod bench;
pub mod chat;
pub mod check;
pub mod cluster;
pub mod completions;
pub mod config;
pub mod corpus;
pub mod doctor;
pub mod eval;
pub mod forget;
pub mod generate;
pub mod graph;
pub mod ingest;
pub mod key;
pub mod man;
pub mod memory;
pub mod outline;
pub mod receipt;
pub mod search;
pub mod serve;
pub mod status;
pub mod strategies;
pub mod trace;
pub mod train_memory;
pub mod tree;
