//! Tests of `kill -9` at random moments: what was acknowledged is stored, complete and once.

mod conversing;
mod ingesting;
mod replacing;

/// Number of kills in each test while a server works.
const KILLS: usize = 30;
