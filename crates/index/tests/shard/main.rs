//! The laws of a shard, checked on real tables: in a temporary folder, and on an
//! S3-compatible server.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod check;
mod damage;
mod erasure;
mod fixture;
mod maintenance;
mod ownership;
mod s3;
mod search;
mod state;
mod visibility;
