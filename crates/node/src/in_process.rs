//! The services of a node, called from its own process.

use std::convert::Infallible;
use std::time::Duration;

use clew_auth::Guard;
use clew_client::Services;
use clew_runtime::deadline::parse_grpc_timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::service::Routes;
use tower::{Layer, Service, ServiceExt};

use crate::layers::layers;

/// Returns the services behind `routes` for callers in this process.
///
/// Requests pass the layers that those of gRPC clients pass on their way from a connection
/// ([`crate::transport`]): they are traced and counted, must arrive in time, and get past `guard`
/// with the key in their own headers. Only HTTP/2 is missing in between.
pub fn in_process(routes: Routes, guard: Guard) -> Services {
    let layered = layers(guard).layer(routes.prepare());
    Services::over(tower::service_fn(move |request| answer(layered.clone(), request)))
}

/// Awaits the response's head for as long as the request says, as a gRPC server does.
async fn answer<S>(service: S, request: Request<Body>) -> Result<Response<Body>, Infallible>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let patience = patience(request.headers());
    let answering = service.oneshot(request);
    let Some(patience) = patience else { return answering.await };
    match tokio::time::timeout(patience, answering).await {
        Ok(answered) => answered,
        Err(_elapsed) => {
            Ok(Status::deadline_exceeded("the request was not answered in time").into_http())
        }
    }
}

fn patience(headers: &HeaderMap) -> Option<Duration> {
    parse_grpc_timeout(headers.get("grpc-timeout")?.to_str().ok()?)
}
