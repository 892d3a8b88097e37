//! Replies of language models that are kept: in this process, and by the nodes of a cluster for each other.

use async_trait::async_trait;
use clew_cluster::Cache;
use clew_reason::prompted::{RecentReplies, ReplyCache, ReplyKey};

/// Replies that a process keeps, in bytes.
const KEPT_BYTES: usize = 64 << 20;

/// Keeps replies here and, if there is a cluster, with the others.
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
