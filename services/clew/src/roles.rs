//! Node of a cluster, with any set of roles.

use std::collections::BTreeSet;
use std::sync::Arc;

use clew_cluster::Role;
use clew_core::{
    Clock, Encoders, Error, Generator, GraphBuilders, MemoryEncoder, Reasoners, Reranker,
    SystemClock,
};
use clew_gateway::Seams;
use clew_generator::Judgement;
use clew_graph_builder::Reader;
use clew_memory_encoder::{MemoryPool, Offered, OwnReranker};
use clew_node::{Node, Server, Stop};
use clew_remote::{
    RemoteEncoders, RemoteGenerator, RemoteGraphBuilders, RemoteMemoryEncoder, RemoteReasoners,
    RemoteReranker, SharedReplies,
};

use crate::config::NodeConfig;
use crate::node::start_encoders;

/// Runs a node with `roles` until it is told to end.
///
/// # Errors
/// Returns the errors of the configuration and of starting.
pub async fn run(config: NodeConfig, roles: BTreeSet<Role>) -> Result<(), Error> {
    if !config.cluster.is_cluster() {
        return Err(Error::invalid(
            "cluster",
            "expected `cluster.redis`, `cluster.members` or `cluster.services` for a node with --roles; without \
             --roles all roles run in one process",
        ));
    }
    let node_config = clew_node::NodeConfig {
        listen: config.listen.clone(),
        shutdown_secs: config.shutdown_secs,
        cluster: config.cluster.clone(),
        peers: config.peers.clone(),
        tls: config.tls.clone(),
        auth: config.auth.clone(),
        admin: config.admin.clone(),
        telemetry: config.telemetry.clone(),
    };
    let started = roles.clone();
    clew_node::run(node_config, roles, async move |node, server| {
        start(&config, &started, node, server).await
    })
    .await
}

async fn start(
    config: &NodeConfig,
    roles: &BTreeSet<Role>,
    node: Arc<Node>,
    mut server: Server,
) -> Result<(Server, Vec<Stop>), Error> {
    let mut stops: Vec<Stop> = Vec::new();
    let data_dir = config.data_dir.to_string_lossy();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let local = match roles.contains(&Role::Encoder) {
        true => {
            let pools = start_encoders(config).await?;
            let memory = MemoryPool::load(&config.memory_model).await?;
            let reranker = OwnReranker::load(&config.reranker, &config.encoder).await?;
            let offered = Offered { pools: pools.clone(), memory, reranker };
            let stop = clew_memory_encoder::start(&node, &mut server, offered, &config.encoder);
            Some((pools, stop))
        }
        false => None,
    };
    // After the models, so that no data directory is created for a node that cannot start.
    let tried = match roles.contains(&Role::Retriever) {
        true => Some(clew_retriever::try_out(&node, &config.storage, &data_dir).await?),
        false => None,
    };
    let others = [Role::Gateway, Role::Retriever, Role::Generator];
    // Encoders of this process embed without the network. Once the node listens, those of other
    // nodes help too.
    let encoders: Option<Arc<dyn Encoders>> = match &local {
        Some((pools, _)) => Some(Arc::new(pools.clone())),
        None if others.iter().any(|role| roles.contains(role)) => {
            Some(RemoteEncoders::of(&node, config.remote_encoder.clone()).await?)
        }
        None => None,
    };
    let mut judgement = None;
    if let (Some(encoders), true) = (&encoders, roles.contains(&Role::Generator)) {
        let (encoders, replies) = (Arc::clone(encoders), Some(SharedReplies::of(&node)));
        let loaded = Judgement::load(&config.generator, encoders, replies).await?;
        judgement = Some(loaded.clone());
        clew_generator::start(&node, &mut server, loaded, config.generator.clone())?;
    }
    let mut own_graph_builders = None;
    if roles.contains(&Role::GraphBuilder) {
        let model: Option<Arc<dyn Generator>> = match (config.graph_builder.reader, judgement) {
            (Reader::Rules, _) => None,
            (Reader::Model, Some(judgement)) => judgement.model,
            (Reader::Model, None) => Some(Arc::new(RemoteGenerator::of(&node).await?)),
        };
        let replies = Some(SharedReplies::of(&node));
        let builder = clew_graph_builder::builder(&config.graph_builder, model, replies)?;
        own_graph_builders = Some(Arc::clone(&builder));
        clew_graph_builder::start(&node, &mut server, builder, &config.graph_builder)?;
    }
    let calls_all = [Role::Gateway, Role::Retriever].iter().any(|role| roles.contains(role));
    if let (Some(encoders), true) = (encoders, calls_all) {
        let graph_builders: Arc<dyn GraphBuilders> = match own_graph_builders {
            Some(builders) => builders,
            None => Arc::new(RemoteGraphBuilders::of(&node).await?),
        };
        let memory_encoder: Arc<dyn MemoryEncoder> =
            Arc::new(RemoteMemoryEncoder::of(&node).await?);
        if let Some(tried) = tried {
            let seams = clew_retriever::ShardSeams {
                encoders: Arc::clone(&encoders),
                graph_builders: Arc::clone(&graph_builders),
                memory_encoder: Arc::clone(&memory_encoder),
                clock: Arc::clone(&clock),
                snapshots: config.storage.snapshots(&data_dir).await?,
            };
            let retriever = config.retriever.clone();
            let stop = clew_retriever::start(&node, &mut server, tried, seams, retriever);
            stops.push(stop.await?);
        }
        if roles.contains(&Role::Gateway) {
            let reasoners: Arc<dyn Reasoners> =
                Arc::new(RemoteReasoners::of(&node, Arc::clone(&encoders)).await?);
            let reranker: Arc<dyn Reranker> = Arc::new(RemoteReranker::of(&node).await?);
            let seams =
                Seams { encoders, reasoners, graph_builders, memory_encoder, reranker, clock };
            clew_gateway::start(&node, &mut server, seams, config.gateway.clone()).await?;
        }
    }
    if let Some((_, stop)) = local {
        // Last, because the other roles embed until they have ended.
        stops.push(stop);
    }
    Ok((server, stops))
}
