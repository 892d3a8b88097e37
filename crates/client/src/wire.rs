//! The channel to a server, with what is said with every request.

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

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// What a client shows a server.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The API key.
    pub api_key: Option<String>,
    /// Whom the client trusts and who he is, for endpoints that begin with `https://`.
    pub tls: ClientTls,
}

impl std::fmt::Debug for Credentials {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let api_key = self.api_key.as_ref().map(|_| "..");
        f.debug_struct("Credentials").field("api_key", &api_key).field("tls", &self.tls).finish()
    }
}

/// A channel that says who calls. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Wire {
    channel: Traced<Channel>,
    authorization: Option<HeaderValue>,
}

impl From<Channel> for Wire {
    /// Of somebody who need not say who he is.
    fn from(channel: Channel) -> Self {
        Traced::beginning(channel).into()
    }
}

impl From<Traced<Channel>> for Wire {
    /// Of somebody who need not say who he is.
    fn from(channel: Traced<Channel>) -> Self {
        Self { channel, authorization: None }
    }
}

impl Wire {
    /// Connects to `endpoint`, such as `http://127.0.0.1:7421`.
    ///
    /// # Errors
    /// As [`crate::Client::connect`].
    pub async fn connect(endpoint: &str, credentials: &Credentials) -> Result<Self, Error> {
        let expected = "expected an address like http://127.0.0.1:7421";
        let refused = || Error::invalid("endpoint", expected);
        let uri = Uri::from_str(endpoint).map_err(|error| refused().with_source(error))?;
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refused()),
        };
        let host = uri.host().ok_or_else(refused)?.to_owned();
        let port = uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
        let authorization = credentials.api_key.as_deref().map(bearer).transpose()?;
        let tls = encrypted.then(|| credentials.tls.clone());
        let (host, tls) = (Arc::<str>::from(host), Arc::new(tls));
        // The first connection tells what is wrong in words of ours.
        let first = clew_tls::connect(&host, port, tls.as_ref().as_ref());
        let first = tokio::time::timeout(CONNECT_PATIENCE, first).await.map_err(|_elapsed| {
            let problem =
                "no server answers at the endpoint; is it running, and reachable from here?";
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
                let problem =
                    "what answers at the endpoint is no Clew server, or does not let anybody in";
                Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem).with_source(error)
            })?;
        Ok(Self { channel: Traced::beginning(channel), authorization })
    }
}

/// Never shown by whatever prints requests.
fn bearer(key: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::try_from(format!("Bearer {key}"))
        .map_err(|_| Error::invalid("api_key", "expected a key as `clew key` prints it"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Service<Request<Body>> for Wire {
    type Response = Response<Body>;
    type Error = <Traced<Channel> as Service<Request<Body>>>::Error;
    type Future = <Traced<Channel> as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Service::call(&mut self.channel, request)
    }
}
