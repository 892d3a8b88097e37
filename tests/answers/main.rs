//! Tests of the way from sources to answers on the real program: what is taken in, the models that
//! embed, read, rerank and write, the memories that are made, and what searches and questions find.
//!
//! Every test starts its own processes on its own data directory with a tiny but real model, waits
//! for conditions with a deadline, and cleans up in any case. See `tests/README.md`.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]
#![allow(clippy::print_stdout, reason = "a seed or a count in the output of a failed test")]

mod answers_in_words;
mod batch;
mod budget;
mod chat;
#[path = "../shared/client.rs"]
mod client;
mod compressed;
mod estimate;
mod evaluation;
mod files;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/harness.rs"]
mod harness;
mod lists;
mod memory;
mod missing;
mod model_folder;
mod models;
#[path = "../shared/other_models.rs"]
mod other_models;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/processes.rs"]
mod processes;
mod reader;
mod reembed;
mod rerank;
mod runs;
#[path = "../shared/scripts.rs"]
mod scripts;
#[path = "../shared/seed.rs"]
mod seed;
mod selection;
mod sources;
#[path = "../shared/tales.rs"]
mod tales;
mod together;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/words.rs"]
mod words;
