//! The encoder as a role of a node.

use std::sync::Arc;

use clew_core::Error;
use clew_node::{Node, Server, Stop};

use crate::service::EncoderEndpoint;
use crate::{EncoderConfig, EncoderPools, MemoryPool};

/// Offers the models of `pools`, and the memory model if there is one, to the other nodes: adds their service.
pub fn start(
    node: &Arc<Node>,
    server: &mut Server,
    pools: EncoderPools,
    memory: Option<Arc<MemoryPool>>,
    config: &EncoderConfig,
) -> Stop {
    let endpoint =
        EncoderEndpoint::of_pools(&pools, config.stream_batches).with_memory(memory.clone());
    server.add(endpoint.service());
    let (seen, shown) = (pools.clone(), pools.clone());
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
            pools.stop().await;
            Ok::<(), Error>(())
        })
    })
}
