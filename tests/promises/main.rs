//! Tests of the README's promises on the real program: what is acknowledged is kept, what is
//! forgotten is gone, labels hold, and bad input and damaged data are refused, also while processes
//! are killed, upgraded and restored. Telemetry and `clew doctor` say what is wrong.
//!
//! Every test starts its own processes on its own data directory with a tiny but real model, waits
//! for conditions with a deadline, and cleans up in any case. See `tests/README.md`.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]
#![allow(clippy::print_stdout, reason = "a seed or a count in the output of a failed test")]

#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/client.rs"]
mod client;
mod cluster;
mod doctor;
mod export;
mod forget;
mod format;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/harness.rs"]
mod harness;
mod kill;
mod labels;
mod large_documents;
mod load;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/other_models.rs"]
mod other_models;
#[path = "../shared/processes.rs"]
mod processes;
mod refusals;
mod replace;
mod s3;
#[path = "../shared/seed.rs"]
mod seed;
mod snapshots;
mod source_versions;
mod telemetry;
#[path = "../shared/twin.rs"]
mod twin;
mod upgrade;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/words.rs"]
mod words;
