//! The graph builder as a role of a node.

use std::sync::Arc;

use clew_core::{Error, GraphBuilder, Limits};
use clew_node::{Node, Server};

use crate::{GraphBuilderConfig, GraphBuilderRpc};

/// Starts a graph builder: adds its service.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
pub fn start(
    node: &Arc<Node>,
    server: &mut Server,
    builder: Arc<dyn GraphBuilder>,
    config: &GraphBuilderConfig,
) -> Result<(), Error> {
    config.validate()?;
    let service = GraphBuilderRpc::new(builder, Limits::default(), config.queue_bytes);
    let gate = service.gate().clone();
    node.parts().add(move || gate.node());
    server.add(service.into_service());
    Ok(())
}
