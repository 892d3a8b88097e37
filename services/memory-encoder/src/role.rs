//! The encoder role of a node.

use std::sync::Arc;

use clew_cluster::Role;
use clew_core::Error;
use clew_node::{Node, NodeServer, Stop};

use crate::service::EncoderEndpoint;
use crate::{EncoderConfig, Models};

/// Starts an encoder of a cluster: adds the encoder service to `server`, adds the models' health
/// and tree nodes to `node`, and offers the encoders to the other roles of this process. Other
/// nodes are told to ask another encoder while an embedding model's devices fail; what fails of the
/// other models is refused call by call. Returns the function that stops the models.
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
    let encoders = models.encoders.clone();
    server.add_while(endpoint.service(), move || encoders.take_work());
    models.watch(node.health());
    if let Some(memory) = models.memory.clone() {
        let reach = node.reach(Some(Role::Encoder));
        let own = node.members().borrow().get(node.me()).map(|member| member.address.clone());
        node.keep(async move {
            if let Err(error) = memory.connect(reach, own.as_ref()).await {
                tracing::error!(error = error.chain(), "texts are read without other encoders");
            }
        });
    }
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
