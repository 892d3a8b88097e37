//! The generator role of a node.

use std::sync::Arc;

use clew_core::{Error, Limits};
use clew_node::{Node, NodeServer};
use clew_proto::generator::v1::generator_service_server::GeneratorServiceServer;
use clew_remote::{RemoteEncoderConfig, RemoteEncoders, RemoteReader, SharedReplies};

use crate::counted::troubles;
use crate::{GeneratorConfig, GeneratorRpc, Judgement, local};

/// Maximum size of a message: a question with as much evidence as a search may return.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Starts the generator of a cluster: loads the language model, adds the generator service to
/// `server`, and offers the model to the other roles of this process. Other nodes are told to ask
/// another generator while the devices of its only model fail.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid, and the errors
/// of [`Judgement::load`].
pub async fn start(
    node: &Arc<Node>,
    server: &mut NodeServer,
    config: &GeneratorConfig,
    remote_encoder: RemoteEncoderConfig,
) -> Result<(), Error> {
    config.validate()?;
    let encoders = RemoteEncoders::shared(node, remote_encoder).await?;
    let reader = RemoteReader::shared(node).await?;
    let replies = Some(SharedReplies::of(node));
    let judgement = Judgement::load(config, encoders, reader, replies).await?;
    let model = judgement.model.clone();
    node.seams().generator.offer(model.clone());
    let service = GeneratorRpc::new(Arc::new(judgement), model, Limits::default(), config);
    let gate = service.gate().clone();
    node.parts().add(move || gate.node());
    node.health().watch(troubles);
    let service = GeneratorServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE_BYTES);
    // An endpoint replies also while the devices of the model in this process fail.
    let has_endpoint = config.endpoint.is_some() || !config.fallback.is_empty();
    server.add_while(service, move || has_endpoint || local::troubles().is_empty());
    Ok(())
}
