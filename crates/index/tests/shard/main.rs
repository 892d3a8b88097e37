//! Tests of a shard's invariants on real tables: in a temporary folder, on an S3-compatible server,
//! and in a store that fails.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod check;
mod compaction;
mod damage;
mod erasure;
mod faults;
mod fixture;
mod labels;
mod maintenance;
mod memories;
mod nodes;
mod ownership;
mod pages;
mod parts;
mod reembedding;
mod reference;
mod s3;
mod search;
mod snapshots;
mod source_versions;
mod state;
mod visibility;
