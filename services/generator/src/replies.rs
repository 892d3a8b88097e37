//! The cache of language model replies: in this process, and shared by the nodes of a cluster.

use async_trait::async_trait;
use clew_cluster::Cache;
use clew_reason::prompted::{RecentReplies, ReplyCache, ReplyKey};

/// Capacity of the cache in this process, in bytes.
const KEPT_BYTES: usize = 64 << 20;

/// Cache of replies in this process and, in a cluster, shared with the other nodes.
pub(crate) struct KeptReplies {
    here: RecentReplies,
    shared: Option<Cache>,
}

impl KeptReplies {
    pub(crate) fn new(shared: Option<Cache>) -> Self {
        Self { here: RecentReplies::new(KEPT_BYTES), shared }
    }
}

fn name(key: &ReplyKey) -> String {
    format!("reply:{key}")
}

#[async_trait]
impl ReplyCache for KeptReplies {
    async fn get(&self, key: &ReplyKey) -> Option<Vec<u8>> {
        if let Some(sealed) = self.here.get(key).await {
            return Some(sealed);
        }
        let sealed = self.shared.as_ref()?.get(&name(key)).await?;
        self.here.put(*key, sealed.clone()).await;
        Some(sealed)
    }

    async fn put(&self, key: ReplyKey, sealed: Vec<u8>) {
        if let Some(shared) = &self.shared {
            shared.put(&name(&key), sealed.clone());
        }
        self.here.put(key, sealed).await;
    }
}
