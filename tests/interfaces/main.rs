//! Tests of the interfaces of the real program: gRPC, HTTP, OpenAI's shapes, tools for agents, the
//! console, the command line, and clients in several languages. Callers without the right key,
//! label or certificate are refused.
//!
//! Every test starts its own processes on its own data directory with a tiny but real model, waits
//! for conditions with a deadline, and cleans up in any case. See `tests/README.md`.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]
#![allow(clippy::print_stdout, reason = "a seed or a count in the output of a failed test")]

#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/client.rs"]
mod client;
mod clients;
mod command_line;
mod console;
mod examples;
#[path = "../shared/harness.rs"]
mod harness;
mod http;
mod mcp;
mod openai;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/other_models.rs"]
mod other_models;
mod pages;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/processes.rs"]
mod processes;
mod python;
#[path = "../shared/scripts.rs"]
mod scripts;
mod security;
#[path = "../shared/tales.rs"]
mod tales;
#[path = "../shared/twin.rs"]
mod twin;
#[allow(dead_code, reason = "shared with the other tests of the whole")]
#[path = "../shared/words.rs"]
mod words;
