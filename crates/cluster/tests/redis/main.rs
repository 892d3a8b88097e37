//! Membership, leases, caches and quotas against real Redis servers that are killed, emptied and stopped: one, one with
//! TLS, one that a Sentinel watches, and a cluster.
//!
//! Times to live are long enough that a busy machine is not taken for a crashed one, and nothing is
//! expected to happen at a certain time, only at some time or never.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod cache;
mod fixture;
mod kinds;
mod leases;
mod membership;
mod quotas;
mod stopped_process;
