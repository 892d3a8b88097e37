//! OpenAI-compatible endpoint for a single test, which replies by script or rule and misbehaves on
//! demand.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Maximum size of a request in bytes.
const MOST_REQUEST_BYTES: usize = 64 << 20;

/// A reply of the model, or a failure of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelReply {
    /// A complete text.
    Text(String),
    /// A text that ends because it reached the maximum number of tokens.
    Cut(String),
    /// No text, because a filter withheld it.
    Filtered,
    /// A text as one JSON object, even if a stream was requested.
    Whole(String),
    /// A text with a pause between its words.
    Slow(String, Duration),
    /// A text without an end, followed by silence on an open connection. If the text is empty, not
    /// even a status is sent.
    Stalled(String),
    /// A text without an end, followed by a closed connection.
    Dropped(String),
    /// A text without an end, followed by an error instead of the next word.
    BreaksWithError(String),
    /// A text repeated for as long as the client listens.
    Endless(String),
    /// A line that never ends.
    EndlessLine,
    /// A refusal with a status and, optionally, a header `Retry-After`.
    Status(u16, Option<String>),
    /// A refusal with a status and this message.
    Refusal(u16, String),
    /// A success with this content type and body.
    Raw(String, String),
}

impl From<&str> for ModelReply {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A request that was received.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRequest {
    /// Path and query.
    pub path: String,
    /// The key, from whichever header.
    pub key: Option<String>,
    /// The body. Null if it was not JSON.
    pub body: Value,
}

impl ModelRequest {
    /// Returns the messages so far: roles and texts.
    pub fn messages(&self) -> Vec<(&str, &str)> {
        let messages = self.body["messages"].as_array().into_iter().flatten();
        let text =
            |value: &'static str, message| Value::get(message, value).and_then(Value::as_str);
        messages
            .map(|message| {
                (text("role", message).unwrap_or(""), text("content", message).unwrap_or(""))
            })
            .collect()
    }

    /// Returns the text of the last message.
    pub fn last(&self) -> &str {
        self.messages().last().map_or("", |(_, text)| text)
    }
}

type Rule = Box<dyn FnMut(&ModelRequest) -> ModelReply + Send>;

struct Script {
    queue: VecDeque<ModelReply>,
    rule: Rule,
    requests: Vec<ModelRequest>,
    tells_usage: bool,
    dimension: usize,
}

/// A server on the loopback interface with `/v1/chat/completions`, `/v1/embeddings` and
/// `/v1/rerank`. It runs on a thread of its own, so that it also serves other processes and tests
/// whose clock is paused.
///
/// Each request is answered with the next reply of the queue, or by the rule if the queue is empty.
/// The initial rule repeats the last message. Embeddings count the characters of each text and are
/// sent in reverse order, as the protocol allows. The score of a passage is the share of its words
/// that occur in the question. Scores are sent best first. Dropping the server closes all
/// connections.
pub struct ModelEndpoint {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelEndpoint {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// Returns an error if the system provides no listener or thread.
    pub fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let script = Arc::new(Mutex::new(Script {
            queue: VecDeque::new(),
            rule: Box::new(|request| ModelReply::Text(request.last().to_owned())),
            requests: Vec::new(),
            tells_usage: true,
            dimension: 8,
        }));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let shared = Arc::clone(&script);
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, shared) => {}
                    _ = ended => {}
                }
            });
        });
        Ok(Self { address, script, end: Some(end), thread: Some(thread) })
    }

    /// Returns the URL for the configuration.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds replies to the queue.
    pub fn script(&self, replies: impl IntoIterator<Item = ModelReply>) {
        self.held().queue.extend(replies);
    }

    /// Replies by a rule whenever the queue is empty. The rule must not block.
    pub fn reply_by(&self, rule: impl FnMut(&ModelRequest) -> ModelReply + Send + 'static) {
        self.held().rule = Box::new(rule);
    }

    /// Sets whether replies contain token counts, which they do initially. Words are counted as
    /// tokens.
    pub fn tell_usage(&self, tells: bool) {
        self.held().tells_usage = tells;
    }

    /// Sets the dimension of the embeddings, which is 8 initially.
    pub fn set_dimension(&self, dimension: usize) {
        self.held().dimension = dimension;
    }

    /// Returns all requests that were received, oldest first.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.held().requests.clone()
    }

    fn held(&self) -> MutexGuard<'_, Script> {
        hold(&self.script)
    }
}

impl fmt::Debug for ModelEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelEndpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for ModelEndpoint {
    fn drop(&mut self) {
        // If the server's thread has failed, the test reports that itself.
        drop(self.end.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Locks the script. A panic in a rule fails its test, but the script can still be inspected.
fn hold(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: std::net::TcpListener, script: Arc<Mutex<Script>>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        // Send each word immediately.
        stream.set_nodelay(true).ok();
        let script = Arc::clone(&script);
        let service = service_fn(move |request| answer(request, Arc::clone(&script)));
        connections.spawn(async move {
            // Clients disconnect and bodies break off on purpose.
            let connection = hyper::server::conn::http1::Builder::new();
            drop(connection.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

/// An operation that is answered without a script.
enum Operation {
    Embed,
    Rerank,
}

/// A body that is sent in pieces. An error closes the connection.
type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

async fn answer(
    request: Request<Incoming>,
    script: Arc<Mutex<Script>>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = header(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    let body = Limited::new(body, MOST_REQUEST_BYTES).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let asked = ModelRequest {
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        key: bearer.or_else(|| header("api-key")).map(str::to_owned),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let path = head.uri.path();
    let by_itself = match path.rsplit('/').next() {
        Some("embeddings") => Some(Operation::Embed),
        Some("rerank") => Some(Operation::Rerank),
        _ => None,
    };
    let (reply, tells_usage, dimension) = {
        let mut script = hold(&script);
        let reply = match script.queue.pop_front() {
            Some(reply) => Some(reply),
            None if by_itself.is_some() => None,
            None => Some((script.rule)(&asked)),
        };
        script.requests.push(asked.clone());
        (reply, script.tells_usage, script.dimension)
    };
    Ok(match reply {
        _ if by_itself.is_none() && !path.ends_with("/chat/completions") => {
            refusal(404, None, "no such path")
        }
        None => match by_itself {
            Some(Operation::Rerank) => scores(&asked),
            Some(Operation::Embed) | None => embeddings(&asked, dimension),
        },
        Some(reply) => respond(&asked, reply, tells_usage).await,
    })
}

async fn respond(asked: &ModelRequest, reply: ModelReply, tells_usage: bool) -> Response<Body> {
    let prompt_tokens: usize = asked.messages().iter().map(|(_, text)| words(text).len()).sum();
    let usage = |text: &str| {
        tells_usage.then(
            || json!({"prompt_tokens": prompt_tokens, "completion_tokens": words(text).len()}),
        )
    };
    let is_streamed = asked.body["stream"] == true;
    let said = |text: &str, reason: &str| match is_streamed {
        true => events(said_events(text).chain(end_events(reason, usage(text)))),
        false => whole(text, reason, usage(text)),
    };
    match reply {
        ModelReply::Text(text) => said(&text, "stop"),
        ModelReply::Cut(text) => said(&text, "length"),
        ModelReply::Filtered => said("", "content_filter"),
        ModelReply::Whole(text) => whole(&text, "stop", usage(&text)),
        ModelReply::Slow(text, pause) => {
            let all: Vec<Bytes> =
                said_events(&text).chain(end_events("stop", usage(&text))).collect();
            let slow = stream::iter(all).then(move |event| async move {
                tokio::time::sleep(pause).await;
                Ok(event)
            });
            response(200, "text/event-stream", slow.boxed())
        }
        ModelReply::Stalled(text) if text.is_empty() => std::future::pending().await,
        ModelReply::Stalled(text) => breaking(&text, stream::pending().boxed()),
        ModelReply::Dropped(text) => {
            let cut = stream::once(async {
                // Yield first, so that the text before the error is sent.
                tokio::task::yield_now().await;
                Err(io::Error::other("cut off, as the test wants it"))
            });
            breaking(&text, cut.boxed())
        }
        ModelReply::BreaksWithError(text) => {
            let error = event(&json!({"error": {"message": "the model crashed", "code": 500}}));
            breaking(&text, stream::iter([Ok(error)]).boxed())
        }
        ModelReply::Endless(text) => {
            let event = said_event(&text);
            endless(event)
        }
        ModelReply::EndlessLine => endless(Bytes::from_static(&[b'x'; 4096])),
        ModelReply::Status(status, retry_after) => {
            refusal(status, retry_after, "as the test wants it")
        }
        ModelReply::Refusal(status, message) => refusal(status, None, &message),
        ModelReply::Raw(content_type, body) => one(200, &content_type, body),
    }
}

/// Splits a text into words, each with the white space after it.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(char::is_whitespace).collect()
}

fn event(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

fn said_event(text: &str) -> Bytes {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": null});
    event(&json!({"object": "chat.completion.chunk", "choices": [choice]}))
}

fn said_events(text: &str) -> impl Iterator<Item = Bytes> {
    let words: Vec<Bytes> = words(text).into_iter().map(said_event).collect();
    words.into_iter()
}

fn end_events(reason: &str, usage: Option<Value>) -> impl Iterator<Item = Bytes> + use<> {
    let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
    let end = event(&json!({"choices": [choice]}));
    let usage = usage.map(|usage| event(&json!({"choices": [], "usage": usage})));
    [Some(end), usage, Some(Bytes::from_static(b"data: [DONE]\n\n"))].into_iter().flatten()
}

fn events(events: impl Iterator<Item = Bytes>) -> Response<Body> {
    let events: Vec<io::Result<Bytes>> = events.map(Ok).collect();
    response(200, "text/event-stream", stream::iter(events).boxed())
}

/// Sends a text and continues with `then`.
fn breaking(text: &str, then: BoxStream<'static, io::Result<Bytes>>) -> Response<Body> {
    let said: Vec<io::Result<Bytes>> = said_events(text).map(Ok).collect();
    response(200, "text/event-stream", stream::iter(said).chain(then).boxed())
}

fn endless(piece: Bytes) -> Response<Body> {
    // Yield after each piece: a loop over ready pieces would starve the other tasks of this thread.
    let pieces = stream::repeat(piece).then(|piece| async {
        tokio::task::yield_now().await;
        Ok(piece)
    });
    response(200, "text/event-stream", pieces.boxed())
}

fn whole(text: &str, reason: &str, usage: Option<Value>) -> Response<Body> {
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    let body = json!({"object": "chat.completion", "choices": [choice], "usage": usage});
    one(200, "application/json", body.to_string())
}

fn refusal(status: u16, retry_after: Option<String>, message: &str) -> Response<Body> {
    let body = json!({"error": {"message": message, "type": "test", "code": null}});
    let mut refusal = one(status, "application/json", body.to_string());
    if let Some(value) = retry_after.and_then(|value| value.parse().ok()) {
        refusal.headers_mut().insert(RETRY_AFTER, value);
    }
    refusal
}

/// Returns a vector for each text: the number of its characters by their code modulo the dimension.
fn embeddings(asked: &ModelRequest, dimension: usize) -> Response<Body> {
    let texts = asked.body["input"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let of_text = |(index, text): (usize, &str)| {
        let mut vector = vec![0u32; dimension];
        for character in text.chars() {
            vector[character as usize % dimension] += 1;
        }
        json!({"index": index, "embedding": vector})
    };
    let mut data: Vec<Value> = texts.enumerate().map(of_text).collect();
    data.reverse();
    one(200, "application/json", json!({"object": "list", "data": data}).to_string())
}

/// Returns a score for each passage, in the format of the request: the share of its words that
/// occur in the question.
fn scores(asked: &ModelRequest) -> Response<Body> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|character: char| !character.is_alphanumeric());
        words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let question = words(asked.body["query"].as_str().unwrap_or(""));
    let is_tei = asked.body["texts"].is_array();
    let passages = if is_tei { &asked.body["texts"] } else { &asked.body["documents"] };
    let passages = passages.as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut scored: Vec<(usize, f64)> = passages
        .map(|passage| {
            let words = words(passage);
            let shared = words.iter().filter(|word| question.contains(word)).count();
            shared as f64 / words.len().max(1) as f64
        })
        .enumerate()
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    let item = |(index, score): &(usize, f64)| match is_tei {
        true => json!({"index": index, "score": score}),
        false => json!({"index": index, "relevance_score": score}),
    };
    let items: Vec<Value> = scored.iter().map(item).collect();
    let body = if is_tei { json!(items) } else { json!({ "results": items }) };
    one(200, "application/json", body.to_string())
}

fn one(status: u16, content_type: &str, body: String) -> Response<Body> {
    response(status, content_type, stream::iter([Ok(Bytes::from(body))]).boxed())
}

fn response(
    status: u16,
    content_type: &str,
    pieces: BoxStream<'static, io::Result<Bytes>>,
) -> Response<Body> {
    let mut response =
        Response::new(StreamBody::new(pieces.map(|piece| piece.map(Frame::data)).boxed()));
    if let Ok(status) = status.try_into() {
        *response.status_mut() = status;
    }
    if let Ok(content_type) = content_type.parse() {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    /// Sends one request and returns everything that comes back on the connection.
    fn post(server: &ModelEndpoint, path: &str, body: &Value) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer key\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            server.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn say(text: &str, stream: bool) -> Value {
        json!({"messages": [{"role": "user", "content": text}], "stream": stream})
    }

    #[test]
    fn replies_come_from_the_queue_and_then_by_the_rule() {
        let server = ModelEndpoint::start().unwrap();
        server.script(["first".into(), ModelReply::Status(429, Some("7".to_owned()))]);
        let path = "/v1/chat/completions";
        assert!(post(&server, path, &say("a", false)).contains("\"content\":\"first\""));
        let refused = post(&server, path, &say("b", false));
        assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
        assert!(refused.contains("retry-after: 7"), "{refused}");
        assert!(post(&server, path, &say("again", true)).contains("\"content\":\"again\""));
        server.reply_by(|request| ModelReply::Text(request.last().to_uppercase()));
        assert!(post(&server, path, &say("loud", true)).contains("LOUD"));
        let requests = server.requests();
        assert_eq!(requests.len(), 4);
        assert_eq!(requests[0].messages(), [("user", "a")]);
        assert_eq!(requests[0].key.as_deref(), Some("key"));
        assert_eq!(requests[0].path, path);
    }

    #[test]
    fn a_dropped_reply_has_no_end() {
        let server = ModelEndpoint::start().unwrap();
        server.script([ModelReply::Dropped("half ".to_owned()), "whole".into()]);
        let dropped = post(&server, "/v1/chat/completions", &say("a", true));
        assert!(dropped.contains("half") && !dropped.ends_with("\r\n0\r\n\r\n"), "{dropped}");
        let whole = post(&server, "/v1/chat/completions", &say("a", true));
        assert!(whole.contains("[DONE]") && whole.ends_with("\r\n0\r\n\r\n"), "{whole}");
    }

    #[test]
    fn embeddings_come_in_reverse_order() {
        let server = ModelEndpoint::start().unwrap();
        server.set_dimension(2);
        let answer = post(&server, "/v1/embeddings", &json!({"input": ["a", "bb"]}));
        let begin = answer.find('{').unwrap();
        let end = answer.rfind('}').unwrap();
        let answer: Value = serde_json::from_str(&answer[begin..=end]).unwrap();
        assert_eq!(answer["data"][0], json!({"index": 1, "embedding": [2, 0]}));
        assert_eq!(answer["data"][1], json!({"index": 0, "embedding": [0, 1]}));
    }
}
