//! Responses that are streams of events (SSE).

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use futures::{Stream, StreamExt, stream};
use serde_json::Value;

/// Time after which a comment tells the client, and what is between, that the answer is under way.
/// Below the shortest time after which proxies commonly give a connection up.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns an event with `data`.
pub(crate) fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// Returns the event of a failure, after which there is no other.
pub(crate) fn failed(error: &Value) -> String {
    format!("event: error\ndata: {error}\n\n")
}

/// Returns the event that ends a stream of OpenAI.
pub(crate) fn done() -> String {
    "data: [DONE]\n\n".to_owned()
}

/// Returns a response that streams `events`, and a comment whenever there is none for a while.
pub(crate) fn response(events: impl Stream<Item = String> + Send + 'static) -> Response {
    let kept_alive = stream::unfold(Box::pin(events), |mut events| async move {
        let text = match tokio::time::timeout(KEEP_ALIVE, events.next()).await {
            Ok(event) => event?,
            Err(_elapsed) => ": under way\n\n".to_owned(),
        };
        Some((Ok::<_, Infallible>(text), events))
    });
    let mut response = Response::new(Body::from_stream(kept_alive));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would otherwise hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_pauses_is_kept_alive() {
        let events = stream::iter([1, 2]).then(|number| async move {
            tokio::time::sleep(KEEP_ALIVE * 3 / 2).await;
            data(&json!(number))
        });
        let body = to_bytes(response(events).into_body(), 1000).await.unwrap();
        let alive = ": under way\n\n";
        assert_eq!(body, format!("{alive}data: 1\n\n{alive}data: 2\n\n"));
    }
}
