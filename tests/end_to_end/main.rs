//! Tests of the README's promises on the real program: server processes, their files, the command
//! line, and clients in two languages.
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
mod clients;
mod cluster;
mod command_line;
mod compressed;
mod console;
mod doctor;
mod estimate;
mod evaluation;
mod examples;
mod export;
mod files;
mod forget;
mod format;
#[path = "../shared/harness.rs"]
mod harness;
mod http;
mod kill;
mod labels;
mod large_documents;
mod lists;
mod load;
mod mcp;
mod memory;
mod missing;
mod model_folder;
mod models;
mod openai;
#[path = "../shared/other_models.rs"]
mod other_models;
mod pages;
#[path = "../shared/processes.rs"]
mod processes;
mod python;
mod reader;
mod reembed;
mod refusals;
mod replace;
mod rerank;
mod runs;
mod s3;
#[path = "../shared/scripts.rs"]
mod scripts;
mod security;
#[path = "../shared/seed.rs"]
mod seed;
mod selection;
mod snapshots;
mod source_versions;
mod sources;
#[path = "../shared/tales.rs"]
mod tales;
mod telemetry;
mod together;
#[path = "../shared/twin.rs"]
mod twin;
mod upgrade;
#[allow(dead_code, reason = "shared with the tests of faults")]
#[path = "../shared/words.rs"]
mod words;
