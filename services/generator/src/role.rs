//! The generator as a role of a node.

use std::sync::Arc;

use clew_core::{Error, Limits};
use clew_node::{Node, Server};
use clew_proto::generator::v1::generator_service_server::GeneratorServiceServer;

use crate::counted::troubles;
use crate::{GeneratorConfig, GeneratorRpc, Judgement};

/// Largest message taken: a question with as much evidence as a search may find.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Starts a generator: adds its service.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
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
