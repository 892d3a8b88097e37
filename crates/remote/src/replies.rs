//! The cache of language model replies that the nodes of a cluster share.

use std::sync::Arc;

use async_trait::async_trait;
use clew_cluster::Cache;
use clew_node::Node;
use clew_reason::prompted::{ReplyCache, ReplyKey};

/// Cache of replies that all nodes of a cluster share.
pub struct SharedReplies(Cache);

impl SharedReplies {
    /// Returns the cache of the node's cluster.
    pub fn of(node: &Node) -> Arc<dyn ReplyCache> {
        Arc::new(Self(node.cache().clone()))
    }
}

fn name(key: &ReplyKey) -> String {
    format!("reply:{key}")
}

#[async_trait]
impl ReplyCache for SharedReplies {
    async fn get(&self, key: &ReplyKey) -> Option<Vec<u8>> {
        self.0.get(&name(key)).await
    }

    async fn put(&self, key: ReplyKey, sealed: Vec<u8>) {
        self.0.put(&name(&key), sealed);
    }
}
