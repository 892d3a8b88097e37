//! `ClusterService`: inspection and draining of a cluster's nodes, through any gateway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_auth::Caller;
use clew_cluster::{MemberState, NodeId, Role, ShardKey, placement};
use clew_core::{CorpusEntry, Error, ErrorKind, ShardIndex};
use clew_node::Node;
use clew_proto::cluster::v1 as wire;
use clew_proto::cluster::v1::cluster_service_server::ClusterService;
use clew_proto::cluster::v1::node_service_client::NodeServiceClient;
use clew_proto::{from_status, respond, to_status};
use clew_runtime::deadline::{of_request, within};
use clew_runtime::peer::Channel;
use clew_runtime::pool::Pool;
use tonic::{Request, Response, Status};

use crate::Backends;

/// Time limit of a call without a deadline.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that one node may take to describe itself.
const NODE_PATIENCE: Duration = Duration::from_secs(2);

/// Handler of `ClusterService`.
pub(crate) struct ClusterRpc {
    pub node: Arc<Node>,
    pub backends: Arc<Backends>,
    /// Connections to all nodes, whatever their roles.
    pub nodes: Pool,
}

impl ClusterRpc {
    async fn topology(
        &self,
        caller: &Caller,
        deadline: Instant,
    ) -> Result<wire::GetTopologyResponse, Error> {
        let members = self.node.members();
        let members = Arc::clone(&members.borrow());
        let mut keys = Vec::new();
        for listed in self.backends.corpora.of(caller).list("", usize::MAX, deadline).await? {
            // If the settings of a corpus cannot be read, its number of shards is not known.
            let CorpusEntry::Usable(corpus) = listed else { continue };
            let settings = corpus.settings();
            keys.extend(
                (0..settings.shards).map(|shard| ShardKey {
                    corpus: settings.name.clone(),
                    shard: ShardIndex(shard),
                }),
            );
        }
        let owners = match self.node.leases().owners(&keys).await {
            Ok(owners) => owners,
            // Without coordination the owners are not known; members and placement still are.
            Err(error) => {
                tracing::debug!(error = error.chain(), "it is not known who has which shard");
                BTreeMap::new()
            }
        };
        let name = |id: Option<&NodeId>| id.map(ToString::to_string).unwrap_or_default();
        let shards = keys.iter().map(|key| wire::Shard {
            corpus: key.corpus.to_string(),
            shard: key.shard.0,
            owner: name(owners.get(key)),
            placed_on: name(placement::owner(key, members.as_slice()).map(|member| &member.id)),
        });
        Ok(wire::GetTopologyResponse {
            members: members.as_slice().iter().map(member_to_wire).collect(),
            is_stale: members.is_stale(),
            shards: shards.collect(),
        })
    }

    async fn tree(&self, deadline: Instant) -> wire::GetTreeResponse {
        let deadline = deadline.min(Instant::now() + NODE_PATIENCE);
        let members = self.node.members();
        let members = Arc::clone(&members.borrow());
        let described = members.as_slice().iter().map(|member| async {
            let described = self.on_node(&member.id, deadline, |mut node| async move {
                let described = node.describe_node(wire::DescribeNodeRequest {}).await?;
                Ok(described.into_inner().tree)
            });
            (member.id.to_string(), described.await)
        });
        let mut response = wire::GetTreeResponse::default();
        for (id, described) in futures::future::join_all(described).await {
            match described {
                Ok(Some(tree)) => response.nodes.push(tree),
                Ok(None) => {
                    let problem = "it answered without a tree".to_owned();
                    response.silent.push(wire::Silent { id, problem });
                }
                Err(error) => {
                    let problem = error.message().to_owned();
                    response.silent.push(wire::Silent { id, problem });
                }
            }
        }
        response
    }

    async fn drain(&self, id: &str, deadline: Instant) -> Result<(), Error> {
        let id: NodeId = id.parse()?;
        let members = self.node.members();
        if members.borrow().get(&id).is_none() {
            return Err(Error::not_found("node", &id));
        }
        self.on_node(&id, deadline, |mut node| async move {
            node.drain(wire::DrainRequest {}).await.map(drop)
        })
        .await
    }

    async fn on_node<T, F: Future<Output = Result<T, Status>>>(
        &self,
        id: &NodeId,
        deadline: Instant,
        call: impl FnOnce(NodeServiceClient<Channel>) -> F,
    ) -> Result<T, Error> {
        let peers = self.nodes.members();
        let peer = peers.iter().find(|peer| peer.name() == id.as_str());
        let link = peer.and_then(|peer| peer.view().borrow().link.clone());
        let link = link.ok_or_else(|| {
            let problem = format!("there is no connection to node `{id}`");
            Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem)
        })?;
        let answer = call(NodeServiceClient::new(link.channel()));
        let answer = async { answer.await.map_err(|status| from_status(&status)) };
        within(deadline, "asking the node", link.run(answer)).await
    }
}

fn member_to_wire(member: &clew_cluster::Member) -> wire::Member {
    wire::Member {
        id: member.id.to_string(),
        address: member.address.to_string(),
        roles: member.roles.iter().map(|role: &Role| role.as_str().to_owned()).collect(),
        is_draining: member.state == MemberState::Draining,
    }
}

#[tonic::async_trait]
impl ClusterService for ClusterRpc {
    async fn get_topology(
        &self,
        request: Request<wire::GetTopologyRequest>,
    ) -> Result<Response<wire::GetTopologyResponse>, Status> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let told = match Caller::of(&request) {
            Ok(caller) => self.topology(&caller, deadline).await,
            Err(unknown) => Err(unknown),
        };
        respond(told)
    }

    async fn get_tree(
        &self,
        request: Request<wire::GetTreeRequest>,
    ) -> Result<Response<wire::GetTreeResponse>, Status> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        Ok(Response::new(self.tree(deadline).await))
    }

    async fn drain_node(
        &self,
        request: Request<wire::DrainNodeRequest>,
    ) -> Result<Response<wire::DrainNodeResponse>, Status> {
        let deadline = of_request(&request, DEFAULT_PATIENCE);
        let drained = self.drain(&request.get_ref().id, deadline).await;
        let response = |()| Response::new(wire::DrainNodeResponse {});
        drained.map(response).map_err(|error| to_status(&error))
    }
}
