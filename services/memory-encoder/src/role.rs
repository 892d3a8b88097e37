//! The encoder role of a node.

use std::sync::Arc;

use clew_core::Error;
use clew_node::{Node, Server, Stop};

use crate::service::EncoderEndpoint;
use crate::{EncoderConfig, EncoderPools, MemoryPool, OwnReranker};

/// Models that an encoder offers to other nodes.
pub struct Offered {
    /// Embedding models.
    pub pools: EncoderPools,
    /// The memory model, if there is one.
    pub memory: Option<Arc<MemoryPool>>,
    /// The reranker, if there is one.
    pub reranker: OwnReranker,
}

/// Offers models to other nodes: adds the encoder service to `server`, and the models' health and
/// tree nodes to `node`. Returns the function that stops them.
pub fn start(
    node: &Arc<Node>,
    server: &mut Server,
    offered: Offered,
    config: &EncoderConfig,
) -> Stop {
    let Offered { pools, memory, reranker } = offered;
    let endpoint = EncoderEndpoint::of_pools(&pools, config.stream_batches)
        .with_memory(memory.clone())
        .with_reranker(reranker.seam());
    server.add(endpoint.service());
    let (seen, shown) = (pools.clone(), pools.clone());
    node.health().watch(move || seen.troubles());
    node.parts().add_all(move || shown.nodes());
    let (seen, shown) = (reranker.clone(), reranker.clone());
    node.health().watch(move || seen.troubles());
    node.parts().add_all(move || shown.nodes());
    if let Some(shown) = memory.clone() {
        node.parts().add(move || shown.node());
    }
    Box::new(move |_deadline| {
        Box::pin(async move {
            endpoint.leave();
            if let Some(memory) = memory {
                memory.stop().await;
            }
            reranker.stop().await;
            pools.stop().await;
            Ok::<(), Error>(())
        })
    })
}
