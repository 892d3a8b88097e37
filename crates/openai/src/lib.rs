//! OpenAI's and Dify's shapes over Clew's services.
//!
//! ```text
//! /v1/models            ─► CorpusService.ListCorpora, GetCorpus; QueryService.ListStrategies
//! /v1/chat/completions  ─► QueryService.Answer; of conversations: ChatService.Answer, AppendTurns
//! /v1/embeddings        ─► QueryService.Embed
//! /v1/vector_stores     ─► CorpusService; QueryService.SearchBatch; IngestService
//! /v1/files             ─► IngestService, on the corpus `files`
//! /dify/retrieval       ─► QueryService.Search
//! ```
//!
//! A corpus is a model, and a strategy is a suffix of its name. Every route is a thin client of the
//! services on behalf of its caller: it reads a request ([`serde_json`] and the pure functions
//! beside each route), calls, and tells the response in the shape that its clients know. Nothing is
//! kept between two requests.
//!
//! Parameters that Clew has no use for, such as `temperature`, are ignored, because clients send
//! them without being asked. What would change the answer is refused by name: images, token ids.

mod attributes;
mod caller;
mod chat;
mod citation;
mod dify;
mod embeddings;
mod events;
mod files;
mod listing;
mod model;
mod models;
mod passage;
mod refusal;
mod vector_stores;

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use clew_client::Services;
use clew_core::{Clock, SystemClock};
use clew_http::Failure;
use clew_proto::Timestamp;
use clew_proto::convert::timestamp_to_wire;
use serde_json::Value;
use tonic::Code;

use crate::refusal::Refusal;

/// Headers that name users and sessions, besides those of Clew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserHeaders {
    /// Whether the headers that Open WebUI forwards name the user and the session.
    pub open_webui: bool,
}

/// What the routes share.
struct Shared {
    services: Services,
    users: UserHeaders,
}

/// Returns the routes below `/v1` and `/dify` over `services`.
pub fn routes(services: Services, users: UserHeaders) -> Router {
    Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::describe))
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/embeddings", post(embeddings::embed))
        .route("/v1/files", get(files::list).post(files::upload))
        .route("/v1/files/{id}", get(files::describe).delete(files::delete))
        .route("/v1/files/{id}/content", get(files::content))
        .route("/v1/vector_stores", get(vector_stores::list).post(vector_stores::create))
        .route("/v1/vector_stores/{id}", get(vector_stores::describe).delete(vector_stores::delete))
        .route("/v1/vector_stores/{id}/search", post(vector_stores::search))
        .route(
            "/v1/vector_stores/{id}/files",
            get(vector_stores::list_files).post(vector_stores::attach),
        )
        .route(
            "/v1/vector_stores/{id}/files/{file}",
            get(vector_stores::describe_file).delete(vector_stores::detach),
        )
        .route("/v1/{*path}", any(unknown))
        .route("/dify/retrieval", post(dify::retrieve))
        .with_state(Arc::new(Shared { services, users }))
}

/// Refuses a path below `/v1` that is not there.
async fn unknown(method: Method, Path(path): Path<String>) -> Refusal {
    let problem = format!(
        "expected a path of models, chat completions, embeddings, vector stores or files, got {method} `/v1/{path}`"
    );
    Failure::new(StatusCode::NOT_FOUND, Code::Unimplemented, "UNKNOWN_PATH", problem).into()
}

/// Returns the time of now on the wire.
fn now() -> Timestamp {
    timestamp_to_wire(SystemClock.now())
}

/// A response of JSON.
struct Json(Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        let media_type = HeaderValue::from_static("application/json");
        ([(CONTENT_TYPE, media_type)], self.0.to_string()).into_response()
    }
}
