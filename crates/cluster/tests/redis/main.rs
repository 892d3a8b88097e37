//! Tests of membership, leases, caches and quotas against real Redis servers that are killed,
//! emptied and paused: a single server, one with TLS, one that a Sentinel watches, and a cluster.
//!
//! Times to live are long enough that a busy machine is not mistaken for a crashed one. No test
//! expects anything at a certain time, only eventually or never.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod cache;
mod fixture;
mod kinds;
mod leases;
mod membership;
mod quotas;
mod stopped_process;
