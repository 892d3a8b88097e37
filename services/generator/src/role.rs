//! The generator role of a node.

use std::sync::Arc;

use clew_core::{Error, Limits};
use clew_node::{Node, Server};
use clew_proto::generator::v1::generator_service_server::GeneratorServiceServer;

use crate::counted::troubles;
use crate::{GeneratorConfig, GeneratorRpc, Judgement};

/// Maximum size of a message: a question with as much evidence as a search may return.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Adds the generator service to a node's server.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
pub fn start(
    node: &Arc<Node>,
    server: &mut Server,
    judgement: Judgement,
    config: GeneratorConfig,
) -> Result<(), Error> {
    config.validate()?;
    let service =
        GeneratorRpc::new(Arc::new(judgement.clone()), judgement.model, Limits::default(), &config);
    let gate = service.gate().clone();
    node.parts().add(move || gate.node());
    node.health().watch(troubles);
    server.add(GeneratorServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE_BYTES));
    Ok(())
}
