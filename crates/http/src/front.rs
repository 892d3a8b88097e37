//! The routes of the front, and the layers before them.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clew_client::Services;
use clew_core::Error;
use clew_tls::Tls;
use tokio::net::TcpListener;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::admission::{Admission, admit};
use crate::metrics::counted;
use crate::{Failure, HttpConfig, api, connections};

/// Service whose health is that of the front.
const HEALTH_OF: &str = "clew.query.v1.QueryService";

/// The HTTP front: routes that call the services.
#[derive(Debug)]
pub struct Front {
    router: Router,
    config: HttpConfig,
}

impl Front {
    /// Creates a front with the routes `/api` and `/healthz`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub fn new(services: Services, config: HttpConfig) -> Result<Self, Error> {
        config.validate()?;
        let router = Router::new().route("/healthz", get(health)).with_state(services.clone());
        let router = router.merge(api::routes(services)?);
        Ok(Self { router, config })
    }

    /// Adds the routes of `router`, which must have no fallback and no path that is there already.
    #[must_use]
    pub fn merge(self, router: Router) -> Self {
        Self { router: self.router.merge(router), ..self }
    }

    /// Adds the routes of `router` below `path`.
    #[must_use]
    pub fn nest(self, path: &str, router: Router) -> Self {
        Self { router: self.router.nest(path, router), ..self }
    }

    /// Serves connections until `shutdown` resolves. It then closes the listener and idle
    /// connections, and returns when the requests under way are answered. The caller bounds that
    /// wait, and dropping the future cuts what is left.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Unavailable`] if the listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Option<Tls>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let admission = Arc::new(Admission::new(&self.config, tls.is_some()));
        let router = self
            .router
            .fallback(unknown_path)
            .method_not_allowed_fallback(other_method)
            .layer(from_fn_with_state(admission, admit))
            .layer(from_fn(counted));
        connections::serve(router, listener, tls, &self.config, shutdown).await
    }
}

/// Answers whether the services accept requests.
async fn health(State(services): State<Services>) -> Response {
    let asked = HealthCheckRequest { service: HEALTH_OF.to_owned() };
    let said = HealthClient::new(services).check(asked).await;
    match said.map(|said| said.into_inner().status()) {
        Ok(ServingStatus::Serving) => (StatusCode::OK, "ok\n").into_response(),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "not serving\n").into_response(),
    }
}

async fn unknown_path() -> Failure {
    let problem =
        "there is nothing at this path; the calls are below `/api`, see `/api/openapi.json`";
    Failure::new(StatusCode::NOT_FOUND, Code::Unimplemented, "UNKNOWN_PATH", problem)
}

async fn other_method() -> Failure {
    let problem = "this path does not take this method; calls are made by POST";
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented, "OTHER_METHOD", problem)
}
