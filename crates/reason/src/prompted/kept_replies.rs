//! Cache of replies in this process and, with a second one behind it, on other nodes as well.

use std::sync::Arc;

use async_trait::async_trait;

use super::{RecentReplies, ReplyCache, ReplyKey};

/// Capacity of the cache in this process, in bytes.
const KEPT_BYTES: usize = 64 << 20;

/// Cache of replies in this process and, if there is one, in a cache that nodes share.
pub(super) struct KeptReplies {
    here: RecentReplies,
    shared: Option<Arc<dyn ReplyCache>>,
}

impl KeptReplies {
    pub(super) fn new(shared: Option<Arc<dyn ReplyCache>>) -> Self {
        Self { here: RecentReplies::new(KEPT_BYTES), shared }
    }
}

#[async_trait]
impl ReplyCache for KeptReplies {
    async fn get(&self, key: &ReplyKey) -> Option<Vec<u8>> {
        if let Some(sealed) = self.here.get(key).await {
            return Some(sealed);
        }
        let sealed = self.shared.as_ref()?.get(key).await?;
        self.here.put(*key, sealed.clone()).await;
        Some(sealed)
    }

    async fn put(&self, key: ReplyKey, sealed: Vec<u8>) {
        if let Some(shared) = &self.shared {
            shared.put(key, sealed.clone()).await;
        }
        self.here.put(key, sealed).await;
    }
}
