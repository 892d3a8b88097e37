//! Telemetry of a process: traces, metrics, logs and health.
//!
//! ```text
//! tracing spans ──► W3C context on every call ──► OTLP ──► collector
//! instruments ─┬─► OTLP ──► collector
//!              └─► GET /metrics ─┐
//! Health ──────────► GET /health ┴─ admin port
//! tracing events ──► standard error, JSON lines with the ids of their trace
//! ```
//!
//! `main` calls [`Telemetry::start`] once, before anything else: an instrument that is used earlier
//! records nothing. Libraries create spans with `tracing`, record with [`metrics`], and report
//! their state to the [`Health`] that they are given.
//!
//! # Privacy
//!
//! Spans, logs and labels carry ids, counts and sizes, and never the text of a document or a
//! question. Corpus names are tenants' data, so a label identifies a corpus by its creation time,
//! unless [`TelemetryConfig::corpus_names`] is set.
//!
//! # Traces across processes
//!
//! A client's call begins a trace. [`Traced`] carries it to the server, where [`RpcLayer`]
//! continues it, and messages between actors carry the span of their sender. Work done for several
//! requests at once, such as documents that are committed or derived together, appears in the trace
//! of each request. Every document has a span for its wait and one for its commit. The spans of the
//! commit itself are below the commit span of the first document; those of the other documents link
//! to it. A batch of the indexer continues the trace of its first document and links to those of
//! the others.
//!
//! # Cost
//!
//! Nothing waits for a collector. Spans go into a bounded queue and are dropped when it is full;
//! `clew_telemetry_spans_total` and `clew_telemetry_spans_exported_total` show how many.

mod admin;
mod config;
mod export;
mod health;
mod instruments;
mod logging;
pub mod metrics;
mod propagation;
mod queue;
mod rpc;
mod start;
mod weak_registry;

pub use admin::Admin;
pub use config::{AdminConfig, TelemetryConfig};
pub use health::{Health, ProcessPhase, Severity, Trouble};
pub use logging::LogFormat;
pub use propagation::{Origin, child, linked, trace_parent};
pub use queue::Queue;
pub use rpc::{RpcLayer, RpcService, Traced};
pub use start::{Logging, Telemetry};
pub use weak_registry::WeakRegistry;
