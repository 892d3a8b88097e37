//! Generated clients, which send whatever they are given, and errors as programs see them.

use clew_proto::corpus::v1::corpus_service_client::CorpusServiceClient;
use clew_proto::ingest::v1 as ingest;
use clew_proto::ingest::v1::ingest_request::Payload;
use clew_proto::ingest::v1::ingest_service_client::IngestServiceClient;
use clew_proto::query::v1::query_service_client::QueryServiceClient;
use futures::StreamExt;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::harness::{PATIENCE, Server};

/// Generated clients, which send whatever they are given.
#[derive(Clone)]
pub(super) struct Raw {
    pub corpora: CorpusServiceClient<Channel>,
    pub ingest: IngestServiceClient<Channel>,
    pub queries: QueryServiceClient<Channel>,
}

impl Raw {
    pub async fn to(server: &Server) -> Self {
        let endpoint = Endpoint::from_shared(server.endpoint.clone()).unwrap().timeout(PATIENCE);
        let channel = endpoint.connect().await.unwrap();
        Self {
            corpora: CorpusServiceClient::new(channel.clone()),
            ingest: IngestServiceClient::new(channel.clone()),
            queries: QueryServiceClient::new(channel),
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
