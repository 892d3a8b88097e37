//! Tests of the HTTP front on real servers: with `curl` as its users do, and with what no client
//! should send.
//!
//! That each refusal of gRPC has its twin by HTTP is tested where gRPC is:
//! `tests/promises/refusals/grpc.rs` makes each call in every way, and so does `security/probe.rs`.

mod api;
pub(crate) mod curl;
mod hostile;
mod security;
