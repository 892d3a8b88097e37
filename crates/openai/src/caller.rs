//! The caller of a route, and the services as they reach them.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bytes::Bytes;
use clew_client::Services;
use clew_http::{CallHeaders, Failure, Received};
use clew_proto::auth::v1::access_service_client::AccessServiceClient;
use clew_proto::chat::v1::chat_service_client::ChatServiceClient;
use clew_proto::corpus::v1::corpus_service_client::CorpusServiceClient;
use clew_proto::ingest::v1::ingest_service_client::IngestServiceClient;
use clew_proto::query::v1::query_service_client::QueryServiceClient;
use serde::de::DeserializeOwned;

use crate::{Shared, UserHeaders};

/// Maximum bytes of a response of the services, which are in this process: the vectors of one call
/// of `Embed`, or the passages of one search.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// The caller of a route. An extractor that reads no body.
#[derive(Clone)]
pub(crate) struct Caller {
    services: Services,
    call: CallHeaders,
    headers: HeaderMap,
    users: UserHeaders,
}

impl Caller {
    /// Returns `message` as a request of the caller.
    pub fn request<T>(&self, message: T) -> tonic::Request<T> {
        self.call.request(message)
    }

    pub fn access(&self) -> AccessServiceClient<Services> {
        AccessServiceClient::new(self.services.clone())
    }

    pub fn corpora(&self) -> CorpusServiceClient<Services> {
        CorpusServiceClient::new(self.services.clone())
    }

    pub fn documents(&self) -> IngestServiceClient<Services> {
        IngestServiceClient::new(self.services.clone())
    }

    pub fn queries(&self) -> QueryServiceClient<Services> {
        let client = QueryServiceClient::new(self.services.clone());
        client.max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub fn chats(&self) -> ChatServiceClient<Services> {
        ChatServiceClient::new(self.services.clone())
    }

    /// Returns the value of a header, without white space around it. Returns `None` if it is absent
    /// or empty.
    ///
    /// # Errors
    /// Returns a failure that names the header if its value is not UTF-8.
    pub fn header(&self, name: &str) -> Result<Option<&str>, Failure> {
        let Some(value) = self.headers.get(name) else { return Ok(None) };
        let value = std::str::from_utf8(value.as_bytes())
            .map_err(|_| Failure::invalid(name, "expected UTF-8"))?;
        Ok(Some(value.trim()).filter(|value| !value.is_empty()))
    }

    /// Returns which headers name users.
    pub fn users(&self) -> UserHeaders {
        self.users
    }
}

impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Failure> {
        Ok(Self {
            services: shared.services.clone(),
            call: CallHeaders::of(parts)?,
            headers: parts.headers.clone(),
            users: shared.users,
        })
    }
}

/// A request with its body.
pub(crate) struct Call {
    /// Who sent it.
    pub caller: Caller,
    body: Bytes,
}

impl Call {
    /// Returns the body.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// Returns a failure that says where it is not what was expected.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let expected = |error| format!("expected the JSON of a request: {error}");
        serde_json::from_slice(&self.body).map_err(|error| Failure::invalid("", expected(error)))
    }
}

impl FromRequest<Arc<Shared>> for Call {
    type Rejection = Failure;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Failure> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, shared).await?;
        let request = Request::from_parts(parts, body);
        let Received(body) = Received::from_request(request, shared).await?;
        Ok(Self { caller, body })
    }
}
