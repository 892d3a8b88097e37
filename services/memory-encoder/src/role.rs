//! The encoder as a role of a node.

use std::sync::Arc;

use clew_core::Error;
use clew_node::{Node, Server, Stop};

use crate::service::EncoderEndpoint;
use crate::{EncoderConfig, EncoderPool};

/// Offers `pool` to the other nodes: adds its service.
pub fn start(
    node: &Arc<Node>,
    server: &mut Server,
    pool: Arc<EncoderPool>,
    config: &EncoderConfig,
) -> Stop {
    let endpoint = EncoderEndpoint::of_pool(Arc::clone(&pool), config.stream_batches);
    server.add(endpoint.service());
    let shown = Arc::clone(&pool);
    node.parts().add(move || shown.node());
    Box::new(move |_deadline| {
        Box::pin(async move {
            endpoint.leave();
            pool.stop().await;
            Ok::<(), Error>(())
        })
    })
}
