//! Channel to a server that adds the caller's key to every request.

use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use clew_telemetry::Traced;
use clew_tls::ClientTls;
use hyper_util::rt::TokioIo;
use tonic::body::Body;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::Service;

use crate::Services;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Credentials that a client presents to a server.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The API key.
    pub api_key: Option<String>,
    /// Trusted authorities and the client's own certificate, for endpoints that begin with
    /// `https://`.
    pub tls: ClientTls,
}

impl std::fmt::Debug for Credentials {
    /// Formats the credentials without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let api_key = self.api_key.as_ref().map(|_| "..");
        f.debug_struct("Credentials").field("api_key", &api_key).field("tls", &self.tls).finish()
    }
}

/// A way to the services that authenticates its requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Wire {
    services: Traced<Services>,
    authorization: Option<HeaderValue>,
}

impl From<Services> for Wire {
    /// Creates a wire without an API key.
    fn from(services: Services) -> Self {
        Self { services: Traced::beginning(services), authorization: None }
    }
}

impl From<Channel> for Wire {
    /// Creates a wire without an API key.
    fn from(channel: Channel) -> Self {
        Services::over(channel).into()
    }
}

impl From<Wire> for Services {
    /// Creates services that add the wire's key to every request.
    fn from(wire: Wire) -> Self {
        Self::over(wire)
    }
}

impl Wire {
    /// Connects to `endpoint`, such as `http://127.0.0.1:7421`.
    ///
    /// # Errors
    /// Returns the errors of [`crate::Client::connect`].
    pub async fn connect(endpoint: &str, credentials: &Credentials) -> Result<Self, Error> {
        let refused = || {
            let expected = "expected an address like http://127.0.0.1:7421";
            Error::invalid("endpoint", format!("{expected}, got `{endpoint}`"))
        };
        let uri = Uri::from_str(endpoint).map_err(|error| refused().with_source(error))?;
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refused()),
        };
        let host = uri.host().ok_or_else(refused)?.to_owned();
        let port = clew_tls::port_of(&uri);
        let authorization = credentials.api_key.as_deref().map(bearer).transpose()?;
        let tls = encrypted.then(|| credentials.tls.clone());
        let address = format!("{host}:{port}");
        let (host, tls) = (Arc::<str>::from(host), Arc::new(tls));
        // The first connection is made here, so that its errors have Clew's own messages.
        let first = clew_tls::connect(&host, port, tls.as_ref().as_ref());
        let first = tokio::time::timeout(CONNECT_PATIENCE, first).await.map_err(|_elapsed| {
            let problem = format!(
                "no server answers at `{address}` within {} s; see that it runs there and can be reached from here",
                CONNECT_PATIENCE.as_secs()
            );
            Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem)
        })??;
        let mut first = Some(first);
        let connector = tower::service_fn(move |_: Uri| {
            let (made, host, tls) = (first.take(), Arc::clone(&host), Arc::clone(&tls));
            async move {
                let stream = match made {
                    Some(made) => made,
                    None => clew_tls::connect(&host, port, tls.as_ref().as_ref()).await?,
                };
                Ok::<_, Error>(TokioIo::new(stream))
            }
        });
        let channel = Endpoint::from(uri)
            .connect_timeout(CONNECT_PATIENCE)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10))
            .connect_with_connector(connector)
            .await
            .map_err(|error| {
                let problem = format!(
                    "expected a Clew server at `{address}`, and got an answer of something else; correct the address"
                );
                Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem).with_source(error)
            })?;
        Ok(Self { authorization, ..channel.into() })
    }
}

/// Returns the header of a key, marked so that printing a request never shows it.
fn bearer(key: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::try_from(format!("Bearer {key}"))
        .map_err(|_| Error::invalid("api_key", "expected a key as `clew key` prints it"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Service<Request<Body>> for Wire {
    type Response = Response<Body>;
    type Error = <Traced<Services> as Service<Request<Body>>>::Error;
    type Future = <Traced<Services> as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.services, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Service::call(&mut self.services, request)
    }
}
