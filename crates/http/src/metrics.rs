//! Metrics of the listener. What a request does behind it is counted as a call of gRPC.

use std::sync::LazyLock;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use clew_telemetry::metrics::{Counter, UpDownCounter, counter, label, level};

struct Instruments {
    requests: Counter<u64>,
    connections: UpDownCounter<i64>,
    refused: Counter<u64>,
}

static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(|| Instruments {
    requests: counter("clew_http_requests", "Requests of HTTP, by shape and status."),
    connections: level("clew_http_connections", "Connections of HTTP that are open."),
    refused: counter(
        "clew_http_connections_refused",
        "Connections of HTTP that were refused because the limit was reached and none was idle.",
    ),
});

/// Adds 0 to what raises alerts: an absent counter would raise none.
pub(crate) fn begin() {
    INSTRUMENTS.connections.add(0, &[]);
    INSTRUMENTS.refused.add(0, &[]);
}

/// Answers a request, and counts it by the status of its response.
pub(crate) async fn counted(request: Request, next: Next) -> Response {
    let shape = shape(request.uri().path());
    let response = next.run(request).await;
    let status = i64::from(response.status().as_u16());
    INSTRUMENTS.requests.add(1, &[label("shape", shape), label("status", status)]);
    response
}

/// Returns which of the listener's shapes a path belongs to. Paths that nobody serves are one, so
/// that a stranger cannot make labels.
fn shape(path: &str) -> &'static str {
    match path.split('/').nth(1).unwrap_or_default() {
        "api" => "api",
        "v1" => "openai",
        "dify" => "dify",
        "mcp" => "mcp",
        "healthz" => "health",
        _ => "other",
    }
}

/// Counts a connection that was refused.
pub(crate) fn connection_refused() {
    INSTRUMENTS.refused.add(1, &[]);
}

/// An open connection, which counts as long as this lives.
#[derive(Debug)]
pub(crate) struct OpenConnection(());

impl OpenConnection {
    pub(crate) fn new() -> Self {
        INSTRUMENTS.connections.add(1, &[]);
        Self(())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        INSTRUMENTS.connections.add(-1, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_paths_are_one_shape() {
        let paths = ["/api/x", "/v1/models", "/mcp", "/mcp/notes", "/dify/retrieval", "/healthz"];
        assert_eq!(paths.map(shape), ["api", "openai", "mcp", "mcp", "dify", "health"]);
        assert_eq!(["", "/", "/apis", "/%61pi", "//api"].map(shape), ["other"; 5]);
    }
}
