//! Calls of generated clients, made by HTTP instead of gRPC.
//!
//! A [`Twin`] takes what such a client sends to a gRPC server, calls the same method by JSON or by
//! gRPC-Web, and gives back what a gRPC server would have sent. So a test of gRPC is one of HTTP.

use std::path::Path;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use clew_client::{Credentials, Services, Wire};
use clew_proto::FILE_DESCRIPTOR_SET;
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde_json::Value;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tonic::{Code, Status};

use crate::harness::{PATIENCE, Server};

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap());

/// How a test reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Grpc,
    Json,
    GrpcWeb,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Grpc, Self::Json, Self::GrpcWeb];

    /// Returns the services of `server`, with a key and the authority that certifies it.
    pub async fn to(self, server: &Server, credentials: &Credentials) -> Services {
        if self == Self::Grpc {
            return Wire::connect(&server.endpoint, credentials).await.unwrap().into();
        }
        let twin = Twin {
            way: self,
            http: client(credentials.tls.ca.as_deref()),
            base: server.http() + "/api",
            key: credentials.api_key.clone(),
        };
        Services::over(tower::service_fn(move |request| twin.clone().call(request)))
    }
}

/// Returns a client of HTTP that trusts an authority.
pub fn client(ca: Option<&Path>) -> reqwest::Client {
    let mut client = reqwest::Client::builder().timeout(PATIENCE).no_proxy();
    if let Some(ca) = ca {
        let ca = std::fs::read(ca).unwrap();
        client = client.add_root_certificate(reqwest::Certificate::from_pem(&ca).unwrap());
    }
    client.build().unwrap()
}

#[derive(Clone)]
struct Twin {
    way: Way,
    http: reqwest::Client,
    base: String,
    key: Option<String>,
}

impl Twin {
    async fn call(self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let framed = body.collect().await?.to_bytes();
        let kind = match self.way {
            Way::Json => "application/json",
            Way::Grpc | Way::GrpcWeb => "application/grpc-web+proto",
        };
        let mut sent = self.http.post(self.base.clone() + &path).header("content-type", kind);
        if let Some(key) = &self.key {
            sent = sent.bearer_auth(key);
        }
        let method = method(&path);
        let body = match (self.way, &method) {
            (Way::Json, Some(method)) => to_json(&method.input(), &framed[5..]),
            (Way::Json, None) => b"{}".to_vec(),
            (Way::Grpc | Way::GrpcWeb, _) => framed.to_vec(),
        };
        let answered = sent.body(body).send().await;
        let answered = answered.map_err(|error| Status::unavailable(format!("{error:?}")))?;
        let (status, headers) = (answered.status(), answered.headers().clone());
        let body = answered.bytes().await;
        let body = body.map_err(|error| Status::unavailable(format!("{error:?}")))?;
        match (self.way, method) {
            (Way::Json, _) if !status.is_success() => {
                let failure: Value = serde_json::from_slice(&body).unwrap_or_else(|error| {
                    panic!("{path}: {status} without JSON ({error}): {body:?}")
                });
                let failed = failed(&failure);
                let is_unknown = failure["reason"] == "UNKNOWN_METHOD";
                assert_eq!(status, http_status(failed.code(), is_unknown), "{failure}");
                let has_delay = headers.contains_key("retry-after");
                assert!(!has_delay || status.as_u16() == 429 || status.as_u16() == 503);
                Ok(failed.into_http())
            }
            (Way::Json, Some(method)) => Ok(from_json(&method, &body)),
            (Way::Json, None) => panic!("{path} was answered"),
            (Way::Grpc | Way::GrpcWeb, _) => Ok(from_web(status, &headers, body)),
        }
    }
}

fn method(path: &str) -> Option<MethodDescriptor> {
    let (service, name) = path.strip_prefix('/')?.split_once('/')?;
    POOL.get_service_by_name(service)?.methods().find(|method| method.name() == name)
}

/// Returns a message on the wire as JSON.
pub fn to_json(of: &MessageDescriptor, message: &[u8]) -> Vec<u8> {
    let message = DynamicMessage::decode(of.clone(), message).unwrap();
    serde_json::to_vec(&message).unwrap()
}

/// Returns what a gRPC server sends for messages in JSON, of which a stream has one in each line.
fn from_json(method: &MethodDescriptor, body: &[u8]) -> Response<Body> {
    let mut frames = BytesMut::new();
    let mut ended = Status::ok("");
    let texts: Vec<&[u8]> = match method.is_server_streaming() {
        false => vec![body],
        true => body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect(),
    };
    for text in texts {
        let value: Value = serde_json::from_slice(text).unwrap();
        match value.get("error") {
            Some(failure) if method.is_server_streaming() => ended = failed(failure),
            _ => {
                let message = DynamicMessage::deserialize(method.output(), value).unwrap();
                let message = message.encode_to_vec();
                frames.put_u8(0);
                frames.put_u32(message.len() as u32);
                frames.put_slice(&message);
            }
        }
    }
    response(frames.freeze(), trailers(&ended))
}

/// Returns the status in the JSON of a failure. Fails if that says anything twice and differently.
pub fn failed(failure: &Value) -> Status {
    let names = (0..=16).map(Code::from);
    let code = names.clone().find(|code| failure["code"] == clew_http::errors::code_name(*code));
    let code = code.unwrap_or_else(|| panic!("{failure}"));
    let message = failure["message"].as_str().unwrap();
    let details = failure["details"].as_array().cloned().unwrap_or_default();
    let details = details.iter().map(|detail| prost_types::Any {
        type_url: format!("type.googleapis.com/{}", detail["type"].as_str().unwrap()),
        value: STANDARD_NO_PAD.decode(detail["value"].as_str().unwrap()).unwrap(),
    });
    let status = tonic_types::pb::Status {
        code: code as i32,
        message: message.to_owned(),
        details: details.collect(),
    };
    let status = Status::with_details(code, message, status.encode_to_vec().into());
    let error = clew_proto::from_status(&status);
    let fields = failure["violations"].as_array().cloned().unwrap_or_default();
    let fields: Vec<_> = fields.iter().map(|at| at["field"].as_str().unwrap()).collect();
    assert_eq!(error.fields_at_fault(), fields, "{failure}");
    // What the transport of gRPC refuses has no reason there.
    if error.reason() != "TRANSPORT" {
        assert_eq!(error.reason(), failure["reason"], "{failure}");
    }
    status
}

/// Returns the status of HTTP that belongs to a code: Google's table, written once more.
fn http_status(code: Code, is_unknown: bool) -> u16 {
    match code {
        Code::Ok => 200,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::ResourceExhausted => 429,
        Code::Cancelled => 499,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
        Code::Unimplemented if is_unknown => 404,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::DeadlineExceeded => 504,
    }
}

/// Returns what a gRPC server sends, out of a response of gRPC-Web, whose trailers are in the body.
fn from_web(status: reqwest::StatusCode, headers: &HeaderMap, mut body: Bytes) -> Response<Body> {
    if headers.contains_key(Status::GRPC_STATUS) {
        return response(Bytes::new(), headers.clone());
    }
    if !status.is_success() {
        let failure = serde_json::from_slice(&body).unwrap();
        return failed(&failure).into_http();
    }
    let (mut frames, mut trailers) = (BytesMut::new(), HeaderMap::new());
    while !body.is_empty() {
        let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
        let frame = body.split_to(5 + length);
        if frame[0] & 0x80 == 0 {
            frames.put_slice(&frame);
            continue;
        }
        for line in std::str::from_utf8(&frame[5..]).unwrap().lines() {
            let (name, value) = line.split_once(':').unwrap();
            let name = HeaderName::try_from(name.trim()).unwrap();
            trailers.insert(name, HeaderValue::try_from(value.trim()).unwrap());
        }
    }
    assert!(trailers.contains_key(Status::GRPC_STATUS), "{trailers:?}");
    response(frames.freeze(), trailers)
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers).unwrap();
    trailers
}

fn response(frames: Bytes, trailers: HeaderMap) -> Response<Body> {
    let parts =
        [Ok::<_, Status>(http_body::Frame::data(frames)), Ok(http_body::Frame::trailers(trailers))];
    let mut response = Response::new(Body::new(StreamBody::new(futures::stream::iter(parts))));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", kind);
    response
}
