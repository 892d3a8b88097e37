//! What every request passes before it reaches a service, whether it comes by gRPC or from this
//! process.

use clew_auth::Guard;
use clew_telemetry::RpcLayer;
use tower::ServiceBuilder;
use tower::layer::util::{Identity, Stack};

use crate::body::BodyPatience;

/// The layers, the outermost last.
pub type Layers = Stack<Guard, Stack<BodyPatience, Stack<RpcLayer, Identity>>>;

/// Returns the layers before services that `guard` protects.
pub(crate) fn layers(guard: Guard) -> Layers {
    let layers = ServiceBuilder::new()
        // Outermost, so that rejected requests are counted as well.
        .layer(RpcLayer)
        .layer(BodyPatience::default())
        .layer(guard);
    layers.into_inner()
}
