//! The admin port: metrics and health over plain HTTP, for Prometheus and for probes, which cannot
//! use TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::health::Health;
use crate::{AdminConfig, start};

/// Maximum number of connections served at once. Further ones wait to be accepted.
const CONNECTIONS: usize = 32;
/// Maximum duration until a request's head has arrived.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum duration of a connection, which serves one request.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(15);
/// Maximum size, in bytes, of a request's head.
const HEAD_BYTES: usize = 16 << 10;
/// Pause after an error of `accept`, for example while the process has too many files open.
const LISTENER_PAUSE: Duration = Duration::from_millis(100);

/// The admin port, which is open until this value is dropped.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    /// Task of the server, which is aborted when this is dropped.
    _serving: JoinSet<()>,
}

impl Admin {
    /// Starts to listen on the configured address. Returns `None` if none is configured.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if it cannot listen there.
    pub async fn start(config: &AdminConfig, health: &Health) -> Result<Option<Self>, Error> {
        if config.listen.is_empty() {
            return Ok(None);
        }
        let failed = |error| {
            let problem =
                format!("cannot listen on `{}`; choose another `admin.listen`", config.listen);
            Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem).with_source(error)
        };
        let listener = TcpListener::bind(&config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, health.clone()));
        Ok(Some(Self { address, _serving: serving }))
    }

    /// Returns the address that the port listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, health: Health) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let health = health.clone();
                connections.spawn(async move {
                    // A slower client is cut off.
                    drop(
                        tokio::time::timeout(CONNECTION_PATIENCE, connection(stream, health)).await,
                    );
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to the admin port was not taken");
                tokio::time::sleep(LISTENER_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, health: Health) {
    let service = service_fn(move |request| {
        let health = health.clone();
        async move { Ok::<_, Infallible>(answer(&request, &health).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Connection errors concern only the client.
    drop(served.await);
}

async fn answer(request: &Request<Incoming>, health: &Health) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "expected GET\n");
    }
    match request.uri().path() {
        "/metrics" => metrics().await,
        "/health" => {
            let report = health.report();
            let status = status(report.ready);
            let json = serde_json::to_string(&report).unwrap_or_default();
            reply(status, "application/json", json + "\n")
        }
        "/health/live" => said(health.report().alive, "alive\n", "not alive, see /health\n"),
        "/health/ready" => said(health.report().ready, "ready\n", "not ready, see /health\n"),
        _ => {
            let known = "expected /metrics, /health, /health/live or /health/ready\n";
            text(StatusCode::NOT_FOUND, known)
        }
    }
}

async fn metrics() -> Response<Full<Bytes>> {
    // Blocking: some metrics are read from files under `/proc`.
    match tokio::task::spawn_blocking(start::prometheus_text).await {
        Ok(Some(metrics)) => {
            reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", metrics)
        }
        Ok(None) | Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "metrics could not be read\n"),
    }
}

fn status(is_well: bool) -> StatusCode {
    if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn said(is_so: bool, yes: &'static str, no: &'static str) -> Response<Full<Bytes>> {
    text(status(is_so), if is_so { yes } else { no })
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    reply(status, "text/plain; charset=utf-8", body)
}

fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::health::ProcessPhase;

    async fn admin(health: &Health) -> Admin {
        let config = AdminConfig { listen: "127.0.0.1:0".to_owned() };
        Admin::start(&config, health).await.unwrap().unwrap()
    }

    async fn get(admin: &Admin, path: &str) -> String {
        let mut stream = TcpStream::connect(admin.address()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn readiness_follows_the_phase_and_what_is_unknown_is_said_to_be() {
        let health = Health::default();
        let admin = admin(&health).await;
        assert!(get(&admin, "/health/live").await.starts_with("HTTP/1.1 200"));
        assert!(get(&admin, "/health/ready").await.starts_with("HTTP/1.1 503"));
        health.enter(ProcessPhase::Serving);
        assert!(get(&admin, "/health/ready").await.starts_with("HTTP/1.1 200"));
        let report = get(&admin, "/health").await;
        assert!(
            report.ends_with(
                "{\"alive\":true,\"ready\":true,\"phase\":\"serving\",\"degraded\":[]}\n"
            )
        );
        assert!(get(&admin, "/secrets").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn a_head_without_end_is_cut_off() {
        let admin = admin(&Health::default()).await;
        let mut stream = TcpStream::connect(admin.address()).await.unwrap();
        let head = format!("GET /health HTTP/1.1\r\nx: {}", "y".repeat(2 * HEAD_BYTES));
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        // The server may answer 431, or reset the connection because of unread bytes.
        if stream.read_to_string(&mut response).await.is_ok() {
            assert!(response.is_empty() || response.starts_with("HTTP/1.1 431"), "{response}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_send_nothing_hold_up_nobody_for_long() {
        let admin = admin(&Health::default()).await;
        let mut silent = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            silent.push(TcpStream::connect(admin.address()).await.unwrap());
        }
        assert!(get(&admin, "/health/live").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_refused_by_its_key() {
        let health = Health::default();
        let first = admin(&health).await;
        let config = AdminConfig { listen: first.address().to_string() };
        let error = Admin::start(&config, &health).await.unwrap_err();
        assert!(error.message().contains("admin.listen"), "{}", error.message());
    }
}
