//! The encoder role of a node.

use std::sync::Arc;

use clew_core::Error;
use clew_node::{Node, NodeServer, Stop};

use crate::service::EncoderEndpoint;
use crate::{EncoderConfig, Models};

/// Starts an encoder of a cluster: adds the encoder service to `server`, adds the models' health
/// and tree nodes to `node`, and offers the encoders to the other roles of this process. Returns
/// the function that stops the models.
pub fn start(
    node: &Arc<Node>,
    server: &mut NodeServer,
    models: Models,
    config: &EncoderConfig,
) -> Stop {
    let endpoint = EncoderEndpoint::of_pools(&models.encoders, config.stream_batches)
        .with_memory(models.memory.clone())
        .with_reranker(models.reranker.seam())
        .with_reader(models.reader.seam());
    server.add(endpoint.service());
    models.watch(node.health());
    let shown = models.clone();
    node.parts().add_all(move || shown.nodes());
    node.seams().encoders.offer(Arc::new(models.encoders.clone()));
    models.reader.prepare();
    Box::new(move |_deadline| {
        Box::pin(async move {
            endpoint.leave();
            models.stop().await;
            Ok::<(), Error>(())
        })
    })
}
