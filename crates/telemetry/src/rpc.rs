//! Telemetry of gRPC calls: spans, metrics, and the trace context that they carry.

use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use opentelemetry::metrics::{Counter, Histogram, UpDownCounter};
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::metrics::{counter, durations, label, level};
use crate::propagation::{extract, inject, is_in_trace};

/// A stream that lives as long as a connection. Each batch on it has a span of its own.
const LONG_STREAM: &str = "/clew.encoder.v1.EncoderService/Embed";
/// Prefix of the health and reflection services.
const NOT_OURS: &str = "/grpc.";

struct Instruments {
    requests: Counter<u64>,
    durations: Histogram<f64>,
    in_flight: UpDownCounter<i64>,
    calls: Counter<u64>,
}

static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(|| Instruments {
    requests: counter("clew_rpc_requests", "Requests that ended, by method and gRPC code."),
    durations: durations("clew_rpc_duration", "Time from a request's head to its response's end."),
    in_flight: level("clew_rpc_in_flight", "Requests that are being answered."),
    calls: counter("clew_rpc_calls", "Calls of other servers that ended, by method and gRPC code."),
});

/// A layer that records a server's requests. See [`RpcService`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RpcLayer;

impl<S> Layer<S> for RpcLayer {
    type Service = RpcService<S>;

    fn layer(&self, inner: S) -> RpcService<S> {
        RpcService { inner }
    }
}

/// A service whose requests continue the traces of their callers, have a span and are counted,
/// until the last byte of their responses.
#[derive(Clone, Debug)]
pub struct RpcService<S> {
    inner: S,
}

type Answering<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

impl<S, B> Service<Request<B>> for RpcService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answering<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        let method = method_of(path);
        let span = if !has_span(path) {
            Span::none()
        } else {
            let span = tracing::info_span!(
                "rpc",
                otel.name = method,
                otel.kind = "server",
                otel.status_code = Empty,
                rpc.system = "grpc",
                rpc.method = method,
                rpc.grpc.status_code = Empty,
            );
            if let Some(origin) = extract(request.headers()) {
                origin.parent_of(&span);
            }
            span
        };
        INSTRUMENTS.in_flight.add(1, &[]);
        let seen = Seen { side: Side::Server, method, span, began: Instant::now(), code: None };
        let answering = seen.span.in_scope(|| self.inner.call(request));
        Box::pin(answered(answering, seen))
    }
}

/// A channel whose calls carry the trace context, have a span and are counted.
#[derive(Clone, Debug)]
pub struct Traced<S> {
    inner: S,
    begins: bool,
}

impl<S> Traced<S> {
    /// Wraps the channel of a client: a call outside a trace begins one.
    pub fn beginning(inner: S) -> Self {
        Self { inner, begins: true }
    }

    /// Wraps the channel of a server that calls others: calls outside a trace are not traced.
    pub fn following(inner: S) -> Self {
        Self { inner, begins: false }
    }
}

impl<S> Service<Request<Body>> for Traced<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answering<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let method = method_of(path);
        let is_seen = self.begins || is_in_trace();
        let span = if !is_seen || !has_span(path) {
            Span::none()
        } else {
            tracing::info_span!(
                "call",
                otel.name = method,
                otel.kind = "client",
                otel.status_code = Empty,
                rpc.system = "grpc",
                rpc.method = method,
                rpc.grpc.status_code = Empty,
            )
        };
        if is_seen {
            inject(&span, request.headers_mut());
        }
        let seen = Seen { side: Side::Client, method, span, began: Instant::now(), code: None };
        let answering = seen.span.in_scope(|| self.inner.call(request));
        Box::pin(answered(answering, seen))
    }
}

/// Returns the full name of the method at the path of a request.
fn method_of(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

/// Returns whether a call of the method at `path` has a span of its own.
fn has_span(path: &str) -> bool {
    !path.starts_with(NOT_OURS) && path != LONG_STREAM
}

/// Awaits the response, and records its end.
async fn answered<E>(
    answering: impl Future<Output = Result<Response<Body>, E>>,
    mut seen: Seen,
) -> Result<Response<Body>, E> {
    let span = seen.span.clone();
    match answering.instrument(span).await {
        Ok(response) => {
            // A response without a body has its status in the headers.
            seen.code = code_in(response.headers());
            Ok(response.map(|body| Body::new(Watched { body, seen })))
        }
        Err(error) => {
            seen.code = Some(Code::Unavailable);
            Err(error)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Server,
    Client,
}

/// A call until its end, which is recorded when this value is dropped.
struct Seen {
    side: Side,
    method: String,
    span: Span,
    began: Instant,
    /// Status code, once it is known. `None` at the end means that the caller went away.
    code: Option<Code>,
}

impl Drop for Seen {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(Code::Cancelled);
        self.span.record("rpc.grpc.status_code", code as i32);
        if is_error(self.side, code) {
            self.span.record("otel.status_code", "ERROR");
        }
        if self.side == Side::Server {
            let (method, code, took) = (&self.method, name(code), self.began.elapsed());
            self.span.in_scope(|| tracing::debug!(method, code, ?took, "answered"));
        }
        // Clients can call any path: all unknown methods share one label.
        let is_known = code != Code::Unimplemented;
        let method = if is_known { std::mem::take(&mut self.method) } else { "unknown".to_owned() };
        let method = label("method", method);
        let labels = [method.clone(), label("code", name(code))];
        match self.side {
            Side::Client => INSTRUMENTS.calls.add(1, &labels),
            Side::Server => {
                INSTRUMENTS.requests.add(1, &labels);
                INSTRUMENTS.durations.record(self.began.elapsed().as_secs_f64(), &[method]);
                INSTRUMENTS.in_flight.add(-1, &[]);
            }
        }
    }
}

/// Returns whether a span with this code is an error. A server that refuses a bad request works
/// correctly.
fn is_error(side: Side, code: Code) -> bool {
    match side {
        Side::Client => code != Code::Ok,
        Side::Server => matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        ),
    }
}

fn code_in(headers: &HeaderMap) -> Option<Code> {
    headers.get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
}

/// Returns the name of a code, as gRPC writes it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// A body that is read within the span of its call and records the call's status.
struct Watched {
    body: Body,
    seen: Seen,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Self { body, seen } = &mut *self;
        let span = seen.span.clone();
        let polled = span.in_scope(|| Pin::new(body).poll_frame(context));
        if let Poll::Ready(frame) = &polled {
            match frame {
                Some(Ok(frame)) => {
                    if let Some(trailers) = frame.trailers_ref() {
                        seen.code = code_in(trailers).or(seen.code);
                    }
                }
                Some(Err(status)) => seen.code = Some(status.code()),
                None => seen.code = seen.code.or(Some(Code::Unknown)),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
