//! Sessions of the storage engine, and the memory for indexes that those of a process share.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use lance::session::Session;
use lance_core::cache::{
    CacheBackend, CacheCodec, CacheEntry, InternalCacheKey, QuickCacheBackend,
    QuickCacheShardPolicy,
};
use lance_io::object_store::ObjectStoreRegistry;

/// Maximum bytes of descriptions of a shard's files that the storage engine caches in memory.
const METADATA_CACHE: usize = 32 << 20;

/// Memory for what searches read of the indexes of all shards of a process. What was not used for
/// the longest time makes room, and is read again when it is needed. Clones share it.
#[derive(Clone)]
pub struct IndexMemory(Arc<dyn CacheBackend>);

impl IndexMemory {
    /// Creates memory of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let policy = QuickCacheShardPolicy::Single;
        Self(Arc::new(QuickCacheBackend::with_shard_policy(limit, policy)))
    }

    /// Returns about how many bytes are taken.
    pub fn taken(&self) -> u64 {
        self.0.approx_size_bytes() as u64
    }
}

/// Half a gibibyte, enough for the indexes of 1.4 million passages with vectors of 384 dimensions.
impl Default for IndexMemory {
    fn default() -> Self {
        Self::new(512 << 20)
    }
}

impl fmt::Debug for IndexMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexMemory").field("taken", &self.taken()).finish_non_exhaustive()
    }
}

/// Part of the shared memory that belongs to one session. The storage engine tells entries apart by
/// the address of their table. A place may later belong to another corpus of the same name, so the
/// session's own number is mixed into each key. Keys are hashes.
#[derive(Debug)]
struct OfSession {
    shared: Arc<dyn CacheBackend>,
    number: u128,
}

impl OfSession {
    fn key(&self, key: &InternalCacheKey) -> InternalCacheKey {
        let key = u128::from_le_bytes(*key.as_bytes()) ^ self.number;
        InternalCacheKey::from_bytes(key.to_le_bytes())
    }
}

#[async_trait]
impl CacheBackend for OfSession {
    async fn get_resident(&self, key: &InternalCacheKey) -> Option<CacheEntry> {
        self.shared.get_resident(&self.key(key)).await
    }

    async fn get(&self, key: &InternalCacheKey, codec: Option<CacheCodec>) -> Option<CacheEntry> {
        self.shared.get(&self.key(key), codec).await
    }

    async fn insert(
        &self,
        key: &InternalCacheKey,
        entry: CacheEntry,
        size_bytes: usize,
        codec: Option<CacheCodec>,
    ) {
        self.shared.insert(&self.key(key), entry, size_bytes, codec).await;
    }

    async fn get_or_insert<'a>(
        &self,
        key: &InternalCacheKey,
        loader: Pin<Box<dyn Future<Output = lance_core::Result<(CacheEntry, usize)>> + Send + 'a>>,
        codec: Option<CacheCodec>,
    ) -> lance_core::Result<(CacheEntry, bool)> {
        self.shared.get_or_insert(&self.key(key), loader, codec).await
    }

    /// Does nothing: the memory is shared, and nothing of this crate clears the cache of a session.
    async fn clear(&self) {}

    async fn num_entries(&self) -> usize {
        self.shared.num_entries().await
    }

    async fn size_bytes(&self) -> usize {
        self.shared.size_bytes().await
    }

    fn capacity_bytes(&self) -> Option<usize> {
        self.shared.capacity_bytes()
    }
}

/// Returns a session of the storage engine: its caches for a shard, and the stores that it knows.
pub(crate) fn session(stores: ObjectStoreRegistry, memory: &IndexMemory) -> Arc<Session> {
    static SESSIONS: AtomicU64 = AtomicU64::new(1);
    let number = SESSIONS.fetch_add(1, Ordering::Relaxed).into();
    let indexes = OfSession { shared: Arc::clone(&memory.0), number };
    let session =
        Session::with_index_cache_backend(Arc::new(indexes), METADATA_CACHE, Arc::new(stores));
    Arc::new(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sessions_share_memory_and_not_what_is_in_it() {
        let memory = IndexMemory::new(1 << 20);
        let part = |number| OfSession { shared: Arc::clone(&memory.0), number };
        let (one, other) = (part(1), part(2));
        let key = InternalCacheKey::from_bytes([7; 16]);
        one.insert(&key, Arc::new("text"), 1_000, None).await;
        assert!(one.get(&key, None).await.is_some());
        assert!(other.get(&key, None).await.is_none());
        assert!(memory.taken() >= 1_000, "{memory:?}");
        for number in 0..2_000_u32 {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            let key = InternalCacheKey::from_bytes(bytes);
            other.insert(&key, Arc::new(number), 1_000, None).await;
        }
        assert!(memory.taken() <= 1 << 20, "{memory:?}");
    }
}
