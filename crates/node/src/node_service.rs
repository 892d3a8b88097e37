//! `NodeService`: description and draining of this node.

use std::sync::Arc;

use clew_proto::cluster::v1 as wire;
use clew_proto::cluster::v1::node_service_server::NodeService;
use clew_runtime::tree::RunningPart;
use tonic::{Request, Response, Status};

use crate::Node;

/// Handler of `NodeService`.
pub(crate) struct NodeRpc {
    pub node: Arc<Node>,
}

/// Converts a tree to its wire form.
fn tree_to_wire(tree: RunningPart) -> wire::TreeNode {
    wire::TreeNode {
        name: tree.name,
        kind: tree.kind.into_owned(),
        state: tree.state.into_owned(),
        restarts: tree.restarts,
        queued: tree.queued,
        capacity: tree.capacity,
        children: tree.children.into_iter().map(tree_to_wire).collect(),
    }
}

#[tonic::async_trait]
impl NodeService for NodeRpc {
    async fn describe_node(
        &self,
        _request: Request<wire::DescribeNodeRequest>,
    ) -> Result<Response<wire::DescribeNodeResponse>, Status> {
        let tree = Some(tree_to_wire(self.node.tree()));
        Ok(Response::new(wire::DescribeNodeResponse { tree }))
    }

    async fn drain(
        &self,
        _request: Request<wire::DrainRequest>,
    ) -> Result<Response<wire::DrainResponse>, Status> {
        self.node.drain().await;
        Ok(Response::new(wire::DrainResponse {}))
    }
}
