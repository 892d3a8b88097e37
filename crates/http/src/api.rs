//! Routes below `/api`: every call of the services that clients may make, as JSON and by gRPC-Web.
//!
//! `POST /api/PACKAGE.Service/Method` has the message as JSON in its body, and answers with one, as
//! the Connect protocol has it for unary calls. A call that answers with a stream sends lines of
//! JSON, server-sent events, or what Connect's own clients ask for. The content type chooses. All
//! of it is generic over the descriptors, so that a new method is here at once.

mod encoding;
mod methods;
mod raw;
mod streamed;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, Version};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use clew_client::Services;
use clew_core::Error;
use tonic::Code;
use tonic_web::{GrpcWebLayer, GrpcWebService};
use tower::{Layer, ServiceExt};

use self::encoding::Encoding;
use self::methods::{Method, Methods};
use self::streamed::Framing;
use crate::errors::JSON;
use crate::{CallHeaders, Failure, Received};

/// The description of all calls for tools, generated from the proto files.
const OPENAPI: &str = include_str!("../../../docs/openapi.json");

/// Media type of a message as the wire has it.
const PROTO: HeaderValue = HeaderValue::from_static("application/proto");

/// What the routes share.
struct Api {
    services: Services,
    web: GrpcWebService<Services>,
    methods: Methods,
}

/// Returns the routes below `/api`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the descriptors do not decode, which a test rules
/// out.
pub(crate) fn routes(services: Services) -> Result<Router, Error> {
    let web = GrpcWebLayer::new().layer(services.clone());
    let api = Arc::new(Api { services, web, methods: Methods::of_clients()? });
    Ok(Router::new()
        .route("/api/{service}/{method}", post(call))
        .route("/api/openapi.json", get(openapi))
        .with_state(api))
}

async fn openapi() -> Response {
    ([(CONTENT_TYPE, JSON)], OPENAPI).into_response()
}

/// What a request's content type asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// One message in the body.
    Plain(Encoding),
    /// Framed messages in the body, as Connect's clients send them for streams.
    Connect(Encoding),
    GrpcWeb,
}

impl Protocol {
    fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let sent = sent.unwrap_or_default();
        let (kind, parameters) = sent.split_once(';').unwrap_or((sent, ""));
        let parameters = parameters.trim().to_ascii_lowercase();
        let protocol = match kind.trim().to_ascii_lowercase().as_str() {
            "application/json" => Some(Self::Plain(Encoding::Json)),
            "application/proto" => Some(Self::Plain(Encoding::Proto)),
            "application/connect+json" => Some(Self::Connect(Encoding::Json)),
            "application/connect+proto" => Some(Self::Connect(Encoding::Proto)),
            "application/grpc-web"
            | "application/grpc-web+proto"
            | "application/grpc-web-text"
            | "application/grpc-web-text+proto" => Some(Self::GrpcWeb),
            _ => None,
        };
        protocol.filter(|_| ["", "charset=utf-8"].contains(&parameters.as_str())).ok_or_else(|| {
            let expected = "expected the header `Content-Type: application/json`, with the message as JSON in the body";
            Failure::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Code::InvalidArgument,
                "OTHER_MEDIA_TYPE",
                expected,
            )
        })
    }
}

async fn call(State(api): State<Arc<Api>>, request: Request) -> Result<Response, Failure> {
    let path = request.uri().path().strip_prefix("/api").unwrap_or_default();
    let method = api.methods.get(path)?;
    let protocol = Protocol::of(request.headers())?;
    if protocol == Protocol::GrpcWeb {
        return by_grpc_web(&api, method, request).await;
    }
    check_headers(request.headers())?;
    if method.streams_requests {
        return Err(method.needs_a_stream());
    }
    let (accepts_events, headers) = (
        accepts_events(request.headers()),
        CallHeaders::taken(request.headers(), request.extensions())?,
    );
    let Received(body) = Received::from_request(request, &()).await?;
    match (protocol, method.streams_responses) {
        (Protocol::Plain(encoding), false) => {
            let message = encoding.read(&method.input, body)?;
            let answer = raw::unary(&api.services, method, headers.request(message)).await?;
            answered(method, encoding, answer)
        }
        (Protocol::Plain(Encoding::Proto), true) => Err(streams(method)),
        (Protocol::Plain(encoding), true) => {
            let message = encoding.read(&method.input, body)?;
            let framing = if accepts_events { Framing::Events } else { Framing::Lines };
            let messages = raw::stream(&api.services, method, headers.request(message)).await?;
            Ok(streamed::respond(messages, framing, method, headers.patience()))
        }
        (Protocol::Connect(_), false) => {
            let expected = format!(
                "expected `Content-Type: application/json`: `{}` answers with one message",
                method.name()
            );
            Err(Failure::invalid("", expected))
        }
        (Protocol::Connect(encoding), true) => {
            let framing = Framing::Connect(encoding);
            // Of this protocol, the response has the failure at its end, and the status 200.
            let messages = async {
                let message = encoding.read(&method.input, streamed::unframed(body)?)?;
                raw::stream(&api.services, method, headers.request(message)).await
            };
            Ok(match messages.await {
                Ok(messages) => streamed::respond(messages, framing, method, headers.patience()),
                Err(failure) => streamed::refuse(&failure, framing),
            })
        }
        (Protocol::GrpcWeb, _) => Err(Failure::invalid("", "expected a message")),
    }
}

/// Refuses what the Connect protocol may ask for and this server does not do.
fn check_headers(headers: &HeaderMap) -> Result<(), Failure> {
    if headers.get("connect-protocol-version").is_some_and(|version| version != "1") {
        return Err(Failure::invalid("Connect-Protocol-Version", "expected 1"));
    }
    let is_compressed = |name: &str| headers.get(name).is_some_and(|value| value != "identity");
    if is_compressed(CONTENT_ENCODING.as_str()) || is_compressed("connect-content-encoding") {
        let problem = "expected a body that is not compressed";
        return Err(Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::Unimplemented,
            "COMPRESSED",
            problem,
        ));
    }
    Ok(())
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("text/event-stream")
    })
}

fn streams(method: &Method) -> Failure {
    let problem = format!(
        "expected `Content-Type: application/json` or `application/connect+proto`: `{}` answers with a stream",
        method.name()
    );
    Failure::invalid("", problem)
}

fn answered(method: &Method, encoding: Encoding, answer: Bytes) -> Result<Response, Failure> {
    let kind = match encoding {
        Encoding::Json => JSON,
        Encoding::Proto => PROTO,
    };
    let body = encoding.write(&method.output, answer)?;
    Ok(([(CONTENT_TYPE, kind)], body).into_response())
}

/// Makes a call by gRPC-Web, whose framing tonic does.
async fn by_grpc_web(api: &Api, method: &Method, request: Request) -> Result<Response, Failure> {
    let headers = CallHeaders::taken(request.headers(), request.extensions())?;
    let (sent, body) = request.into_parts();
    let (metadata, extensions, body) = headers.request(body).into_parts();
    let mut passed = axum::http::Request::new(body);
    *passed.method_mut() = sent.method;
    *passed.uri_mut() = Uri::from(method.path.clone());
    *passed.version_mut() = Version::HTTP_2;
    *passed.headers_mut() = metadata.into_headers();
    for name in [CONTENT_TYPE, ACCEPT] {
        if let Some(value) = sent.headers.get(&name) {
            passed.headers_mut().insert(name, value.clone());
        }
    }
    if let Some(connection) = extensions.get::<clew_tls::ConnectInfo>() {
        passed.extensions_mut().insert(connection.clone());
    }
    match api.web.clone().oneshot(passed).await {
        Ok(response) => Ok(response.map(Body::new)),
        Err(error) => Err(tonic::Status::from_error(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_chooses_the_protocol() {
        let protocol = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            Protocol::of(&headers).ok()
        };
        assert_eq!(protocol("application/json"), Some(Protocol::Plain(Encoding::Json)));
        assert_eq!(protocol("Application/JSON; charset=UTF-8"), protocol("application/json"));
        assert_eq!(protocol("application/proto"), Some(Protocol::Plain(Encoding::Proto)));
        assert_eq!(protocol("application/connect+json"), Some(Protocol::Connect(Encoding::Json)));
        assert_eq!(protocol("application/grpc-web-text"), Some(Protocol::GrpcWeb));
        for other in ["application/x-www-form-urlencoded", "application/json; charset=latin1", ""] {
            assert_eq!(protocol(other), None, "{other}");
        }
        let failure = Protocol::of(&HeaderMap::new()).unwrap_err();
        assert_eq!(failure.http, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }

    #[test]
    fn events_are_sent_to_who_asks_for_them() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, value.parse().unwrap());
            accepts_events(&headers)
        };
        assert!(
            accepts("text/event-stream") && accepts("application/json, Text/Event-Stream;q=0.9")
        );
        assert!(!accepts("*/*") && !accepts("application/json"));
        assert!(!accepts_events(&HeaderMap::new()));
    }
}
