//! What a process tells about itself: traces, metrics, logs and health.
//!
//! ```text
//! tracing spans ──► W3C context on every call ──► OTLP ──► collector
//! instruments ─┬─► OTLP ──► collector
//!              └─► GET /metrics ─┐
//! Health ──────────► GET /health ┴─ admin port
//! tracing events ──► standard error, JSON lines with the ids of their trace
//! ```
//!
//! [`Telemetry::start`] is called once, by a `main`, before anything else: an instrument that is used before
//! counts nothing. Libraries make spans with `tracing`, count with [`metrics`], and say how they are to the
//! [`Health`] they are given.
//!
//! # What is told
//!
//! Spans, logs and labels carry ids, counts and sizes, and never a text of a document or a question. Names of
//! corpora are their tenants' own, so that in labels a corpus stands for itself by the time at which it was made,
//! unless [`TelemetryConfig::corpus_names`] says otherwise.
//!
//! # One trace
//!
//! A client's call begins a trace, and [`Traced`] carries it to the server, where [`RpcLayer`] takes it up; messages
//! of actors carry the span of their sender. Work that is done for several requests at once (documents that are
//! committed together, or derived together) is seen in the trace of each: every document has a span for its wait and
//! one for its commit, of which the first is the one that what the commit does hangs below, and which the others link
//! to. A batch of the indexer goes on with the trace of its first document and links those of the others.
//!
//! # What it costs
//!
//! Nothing waits for a collector. Spans go into a queue of bounded length and are dropped when it is full;
//! `clew_telemetry_spans_total` and `clew_telemetry_spans_exported_total` tell how many.

mod admin;
mod config;
mod export;
mod health;
mod instruments;
mod living;
mod logging;
pub mod metrics;
mod propagation;
mod queue;
mod rpc;
mod start;

pub use admin::Admin;
pub use config::{AdminConfig, TelemetryConfig};
pub use health::{Health, Phase, Severity, Trouble};
pub use living::Living;
pub use logging::LogFormat;
pub use propagation::{Origin, child, linked, trace_parent};
pub use queue::Queue;
pub use rpc::{RpcLayer, RpcService, Traced};
pub use start::{Logging, Telemetry};
