//! The graph-builder role of a node.

use std::sync::Arc;

use clew_core::{Error, GraphBuilders, Limits};
use clew_node::{Node, Server};
use clew_remote::GraphBuilderRpc;

use crate::GraphBuilderConfig;

/// Adds the graph-builder service to a node's server.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
pub fn start(
    node: &Arc<Node>,
    server: &mut Server,
    builders: Arc<dyn GraphBuilders>,
    config: &GraphBuilderConfig,
) -> Result<(), Error> {
    config.validate()?;
    let service = GraphBuilderRpc::new(builders, Limits::default(), config.queue_bytes);
    let gate = service.gate().clone();
    node.parts().add(move || gate.node());
    server.add(service.into_service());
    Ok(())
}
