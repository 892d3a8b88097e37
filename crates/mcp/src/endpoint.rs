//! The endpoint of the HTTP front.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use clew_core::CorpusName;
use clew_http::{Failure, Received};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;

use crate::caller::{KeyRefusal, PinnedCorpus};
use crate::server::McpServer;

type Protocol = StreamableHttpService<McpServer, NeverSessionManager>;

/// Returns the routes for agents below a path of the front: `/` for all corpora, and `/CORPUS` for
/// one.
pub fn router(server: McpServer) -> Router {
    let config = StreamableHttpServerConfig::default()
        // Sessions would be in the memory of one gateway, and clients would lose them at the next.
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // The front checks hosts and origins and bounds bodies, for all its paths alike. Second
        // rules here would come to disagree with the first.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(usize::MAX);
    let sessions = Arc::new(NeverSessionManager::default());
    let protocol = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    Router::new()
        .route("/", any(all_corpora))
        .route("/{corpus}", any(one_corpus))
        .with_state(protocol)
}

async fn all_corpora(
    State(protocol): State<Protocol>,
    head: Parts,
    Received(body): Received,
) -> Response {
    answer(&protocol, head, body).await
}

async fn one_corpus(
    State(protocol): State<Protocol>,
    Path(corpus): Path<String>,
    mut head: Parts,
    Received(body): Received,
) -> Response {
    match corpus.parse::<CorpusName>() {
        Ok(corpus) => {
            head.extensions.insert(PinnedCorpus(corpus));
            answer(&protocol, head, body).await
        }
        Err(error) => {
            // There is nothing at such a path, whatever is sent to it.
            let mut failure = Failure::from(error);
            failure.http = StatusCode::NOT_FOUND;
            failure.into_response()
        }
    }
}

/// Answers by the protocol, unless the key of the request turns out to be refused: clients learn
/// from the status of HTTP and its header that they have to present one.
async fn answer(protocol: &Protocol, head: Parts, body: Bytes) -> Response {
    if let Some(refused) = not_json(&head, &body) {
        return refused.into_response();
    }
    let mut request = Request::from_parts(head, Body::from(body));
    let refusal = KeyRefusal::default();
    request.extensions_mut().insert(refusal.clone());
    let response = protocol.handle(request).await;
    match refusal.0.get() {
        None => response.map(Body::new),
        Some(error) => Failure::from(error).into_response(),
    }
}

/// Returns the failure for a message that is no JSON. The protocol's library would answer that its
/// media type is not supported.
fn not_json(head: &Parts, body: &[u8]) -> Option<Failure> {
    if head.method != Method::POST {
        return None;
    }
    let error = serde_json::from_slice::<IgnoredAny>(body).err()?;
    Some(Failure::invalid("", format!("expected a message in JSON: {error}")))
}
