//! The graph-builder role of a node.

use std::sync::Arc;

use clew_core::{Error, Generator, Limits};
use clew_node::{Node, NodeServer};
use clew_remote::{GraphBuilderRpc, RemoteGenerator, SharedReplies};

use crate::{GraphBuilderConfig, Reader, builder};

/// Starts the graph builder of a cluster: adds the graph-builder service to `server`, and offers
/// the graph builder to the other roles of this process. A model that reads is that of this process
/// or of the cluster's generators.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid, and the errors
/// of [`builder`].
pub async fn start(
    node: &Arc<Node>,
    server: &mut NodeServer,
    config: &GraphBuilderConfig,
) -> Result<(), Error> {
    config.validate()?;
    let model = match config.reader {
        Reader::Rules => None,
        Reader::Model => {
            let connect = async {
                Ok(Some(Arc::new(RemoteGenerator::of(node).await?) as Arc<dyn Generator>))
            };
            node.seams().generator.or_connect(connect).await?
        }
    };
    let builders = builder(config, model, Some(SharedReplies::of(node)))?;
    node.seams().graph_builders.offer(Arc::clone(&builders));
    let service = GraphBuilderRpc::new(builders, Limits::default(), config.queue_bytes);
    let gate = service.gate().clone();
    node.parts().add(move || gate.node());
    server.add(service.into_service());
    Ok(())
}
