//! The services that clients call, wherever they run.

use std::fmt;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

/// The services that clients call, behind a connection or in this process. The generated clients of
/// tonic work over it. Cheap to clone.
///
/// A request carries what its caller presents, such as a key, in its own headers. So one value
/// serves many callers.
#[derive(Clone)]
pub struct Services(BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>);

impl Services {
    /// Creates services that `service` answers. It gets requests as a gRPC server does: with the
    /// method in the path, and messages framed by gRPC in the body.
    pub fn over<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Self(BoxCloneSyncService::new(service.map_err(Into::into)))
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

impl Service<Request<Body>> for Services {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = <BoxCloneSyncService<Request<Body>, Response<Body>, BoxError> as Service<
        Request<Body>,
    >>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request)
    }
}
