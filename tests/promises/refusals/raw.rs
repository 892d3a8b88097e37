//! Generated clients, which send whatever they are given, and errors as programs see them.
//!
//! Each call is made by gRPC, by JSON and by gRPC-Web, and must come to the same in every way.

use clew_client::{Credentials, Services};
use clew_proto::corpus::v1::corpus_service_client::CorpusServiceClient;
use clew_proto::ingest::v1 as ingest;
use clew_proto::ingest::v1::ingest_request::Payload;
use clew_proto::ingest::v1::ingest_service_client::IngestServiceClient;
use clew_proto::query::v1::query_service_client::QueryServiceClient;
use futures::StreamExt;
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::{BoxError, ServiceExt};

use crate::harness::Server;
use crate::twin::Way;

/// The one method whose requests are a stream, which JSON has no form for.
const INGEST: &str = "/clew.ingest.v1.IngestService/Ingest";

/// Generated clients, which send whatever they are given.
#[derive(Clone)]
pub(super) struct Raw {
    pub corpora: CorpusServiceClient<Services>,
    pub ingest: IngestServiceClient<Services>,
    pub queries: QueryServiceClient<Services>,
}

impl Raw {
    pub async fn to(server: &Server) -> Self {
        let mut ways = Vec::new();
        for way in Way::ALL {
            ways.push((way, way.to(server, &Credentials::default()).await));
        }
        let services =
            Services::over(tower::service_fn(move |request| in_every_way(ways.clone(), request)));
        Self {
            corpora: CorpusServiceClient::new(services.clone()),
            ingest: IngestServiceClient::new(services.clone()),
            queries: QueryServiceClient::new(services),
        }
    }

    /// Sends the messages in one stream. Returns the responses to the documents, and the error of
    /// the stream.
    pub async fn send(
        &self,
        messages: Vec<ingest::IngestRequest>,
    ) -> (Vec<ingest::IngestResponse>, Option<Status>) {
        let mut client = self.ingest.clone();
        let mut responses = match client.ingest(futures::stream::iter(messages)).await {
            Ok(responses) => responses.into_inner(),
            Err(status) => return (Vec::new(), Some(status)),
        };
        let mut received = Vec::new();
        while let Some(response) = responses.next().await {
            match response {
                Ok(response) => received.push(response),
                Err(status) => return (received, Some(status)),
            }
        }
        (received, None)
    }
}

/// Makes a call in every way, and returns what gRPC comes to.
async fn in_every_way(
    ways: Vec<(Way, Services)>,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    if request.uri().path() == INGEST {
        return ways[0].1.clone().oneshot(request).await;
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut first: Option<(Response<Body>, String)> = None;
    for (way, services) in ways {
        let body = Body::new(http_body_util::Full::new(body.clone()));
        let answered = services.oneshot(Request::from_parts(head.clone(), body)).await?;
        let (answered, ended) = answered.into_parts();
        let ended = ended.collect().await?;
        let trailers = ended.trailers().unwrap_or(&answered.headers);
        let status = Status::from_header_map(trailers).expect("every call ends with a status");
        let said = match status.code() {
            Code::Ok => "it was done".to_owned(),
            _ => format!("{:?} {}", Refusal::of(&status), status.message()),
        };
        match &first {
            Some((_, by_grpc)) => assert_eq!(&said, by_grpc, "{way:?}: {}", head.uri.path()),
            None => first = Some((Response::from_parts(answered, Body::new(ended)), said)),
        }
    }
    Ok(first.expect("gRPC is one of the ways").0)
}

/// Error as a program sees it.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    pub code: Code,
    pub reason: String,
    pub fields: Vec<String>,
}

impl Refusal {
    pub fn invalid(field: &str) -> Self {
        let reason = "INVALID_INPUT".to_owned();
        Self { code: Code::InvalidArgument, reason, fields: vec![field.to_owned()] }
    }

    pub fn of(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
        assert_eq!(info.domain, "clew");
        let violations = details.bad_request().into_iter().flat_map(|bad| &bad.field_violations);
        Self {
            code: status.code(),
            reason: info.reason.clone(),
            fields: violations.map(|violation| violation.field.clone()).collect(),
        }
    }
}

/// Returns a message that begins and ends a document of the corpus `notes`.
pub(super) fn begin(id: &str, text: impl Into<Vec<u8>>) -> ingest::IngestRequest {
    let text: Vec<u8> = text.into();
    let document = ingest::Document { id: id.to_owned(), text: text.into(), ..Default::default() };
    let payload = Some(Payload::Document(document));
    ingest::IngestRequest { corpus: "notes".to_owned(), payload, continues: false, text_bytes: 0 }
}
