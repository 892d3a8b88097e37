//! Calls of the services on behalf of the sender of one request.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Request};
use clew_client::{MAX_GRAPH_BYTES, Services};
use clew_core::{CorpusName, Error, ErrorKind};
use clew_http::CallHeaders;
use clew_proto::auth::v1::access_service_client::AccessServiceClient;
use clew_proto::auth::v1::{Scope, WhoAmIRequest};
use clew_proto::chat::v1::chat_service_client::ChatServiceClient;
use clew_proto::corpus::v1::ListCorporaRequest;
use clew_proto::corpus::v1::corpus_service_client::CorpusServiceClient;
use clew_proto::from_status;
use clew_proto::ingest::v1::ingest_service_client::IngestServiceClient;
use clew_proto::ingest::v1::{Document, DocumentState, GetDocumentRequest};
use clew_proto::memory::v1::memory_service_client::MemoryServiceClient;
use clew_proto::query::v1::query_service_client::QueryServiceClient;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tonic::Status;

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
/// Number of corpora that an error names.
const CORPORA_TOLD: u32 = 20;

/// The corpus that the path of a request names. The other corpora cannot be reached by it.
#[derive(Clone, Debug)]
pub(crate) struct PinnedCorpus(pub CorpusName);

/// The refusal of the key of a request, told to the endpoint, which answers it by a status of HTTP.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRefusal(pub Arc<OnceLock<Error>>);

/// The sender of one request, with the services that answer it.
pub(crate) struct Caller {
    services: Services,
    headers: CallHeaders,
    refusal: KeyRefusal,
    pinned: Option<CorpusName>,
}

impl Caller {
    /// Returns the sender of the request with this context.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if a header of the request is broken.
    pub fn of(services: &Services, context: &RequestContext<RoleServer>) -> Result<Self, Error> {
        let mut parts = context.extensions.get::<Parts>().cloned().unwrap_or_else(no_http);
        // The revision 2026-07-28 carries the trace in the message. A broken one is ignored, as
        // W3C's recommendation says.
        if let Some(Ok(trace)) = context.meta.get_traceparent().map(HeaderValue::from_str) {
            parts.headers.insert(TRACE_PARENT, trace);
        }
        let headers = CallHeaders::of(&parts)
            .map_err(|failure| Error::invalid("headers", failure.message))?;
        Ok(Self {
            services: services.clone(),
            headers,
            refusal: parts.extensions.remove().unwrap_or_default(),
            pinned: parts.extensions.remove().map(|PinnedCorpus(name)| name),
        })
    }

    /// Sets the time that a call of a service may take, unless the sender said so.
    pub fn waiting_at_most(mut self, patience: Duration) -> Self {
        self.headers = self.headers.waiting_at_most(patience);
        self
    }

    /// Restricts the request to `corpus`, unless its path names one.
    pub fn restricted_to(mut self, corpus: &CorpusName) -> Self {
        self.pinned.get_or_insert_with(|| corpus.clone());
        self
    }

    /// Returns the corpus to which this request is restricted.
    pub fn pinned(&self) -> Option<&CorpusName> {
        self.pinned.as_ref()
    }

    /// Returns the call of a service with the sender's key and trace.
    pub fn request<T>(&self, message: T) -> tonic::Request<T> {
        self.headers.request(message)
    }

    /// Returns the error of a call that ended with `status`. The refusal of the key is also told to
    /// the endpoint.
    pub fn failed(&self, status: &Status) -> Error {
        let error = from_status(status);
        if error.kind() == ErrorKind::Unauthenticated {
            // The first one is enough: all calls of a request show the same key.
            drop(self.refusal.0.set(error.again()));
        }
        error
    }

    /// Returns the scopes of the sender's key.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unauthenticated`] if the key is refused.
    pub async fn scopes(&self) -> Result<Vec<Scope>, Error> {
        let mut access = AccessServiceClient::new(self.services.clone());
        let told = access.who_am_i(self.request(WhoAmIRequest {})).await;
        Ok(told.map_err(|status| self.failed(&status))?.into_inner().scopes().collect())
    }

    /// Returns the corpus of a call: the one that it names, the one of the path, or the only one
    /// that there is.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if there is no choice, or too much.
    pub async fn corpus(&self, named: Option<CorpusName>) -> Result<CorpusName, Error> {
        match (&self.pinned, named) {
            (None, Some(named)) => Ok(named),
            (Some(pinned), None) => Ok(pinned.clone()),
            (Some(pinned), Some(named)) if *pinned == named => Ok(named),
            (Some(pinned), Some(named)) => {
                let problem = format!(
                    "expected no other corpus than `{pinned}`, to which this connection is restricted, got `{named}`"
                );
                Err(Error::invalid("corpus", problem))
            }
            (None, None) => self.only_corpus().await,
        }
    }

    async fn only_corpus(&self) -> Result<CorpusName, Error> {
        let request =
            ListCorporaRequest { page_size: CORPORA_TOLD, ..ListCorporaRequest::default() };
        let page = self.corpora().list_corpora(self.request(request)).await;
        let page = page.map_err(|status| self.failed(&status))?.into_inner();
        match page.corpora.as_slice() {
            [] => {
                let problem = "there is no corpus yet; ask the user to create one, for example by `clew corpus create NAME`";
                Err(Error::new(ErrorKind::WrongState, "NO_CORPUS", problem))
            }
            [only] if page.next_page_token.is_empty() => only.name.parse(),
            several => {
                let names: Vec<String> =
                    several.iter().map(|corpus| format!("`{}`", corpus.name)).collect();
                let more = if page.next_page_token.is_empty() { "" } else { " and more" };
                let problem = format!(
                    "expected the name of a corpus, because there are several: {}{more}",
                    names.join(", ")
                );
                Err(Error::invalid("corpus", problem))
            }
        }
    }

    /// Reads a document with its state. The document has as much of its text as the response of the
    /// service has.
    ///
    /// # Errors
    /// Returns [`ErrorKind::NotFound`] if there is no such corpus or document.
    pub async fn document(
        &self,
        corpus: &CorpusName,
        id: &str,
    ) -> Result<(Document, DocumentState), Error> {
        let request = GetDocumentRequest {
            corpus: corpus.to_string(),
            document_id: id.to_owned(),
            ..GetDocumentRequest::default()
        };
        let read = self.documents().get_document(self.request(request)).await;
        let read = read.map_err(|status| self.failed(&status))?.into_inner();
        Ok((read.document.unwrap_or_default(), read.state.unwrap_or_default()))
    }

    pub fn corpora(&self) -> CorpusServiceClient<Services> {
        CorpusServiceClient::new(self.services.clone())
    }

    pub fn documents(&self) -> IngestServiceClient<Services> {
        IngestServiceClient::new(self.services.clone())
    }

    pub fn queries(&self) -> QueryServiceClient<Services> {
        QueryServiceClient::new(self.services.clone())
    }

    pub fn chats(&self) -> ChatServiceClient<Services> {
        ChatServiceClient::new(self.services.clone())
    }

    pub fn memories(&self) -> MemoryServiceClient<Services> {
        let client = MemoryServiceClient::new(self.services.clone());
        client.max_decoding_message_size(MAX_GRAPH_BYTES)
    }
}

/// Returns the head of a request that did not come by HTTP.
fn no_http() -> Parts {
    Request::new(()).into_parts().0
}
