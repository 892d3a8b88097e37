//! Sessions of the storage engine.

use std::sync::Arc;

use lance::session::Session;
use lance_io::object_store::ObjectStoreRegistry;

/// Maximum bytes of a shard's indexes that the storage engine caches in memory, so that searches
/// need not read them again. Together with [`METADATA_CACHE`], enough for the indexes of some
/// 100,000 passages. By default the engine caches seven gigabytes per shard, most of them of
/// removed versions.
const INDEX_CACHE: usize = 96 << 20;
/// Maximum bytes of descriptions of a shard's files that the storage engine caches in memory.
const METADATA_CACHE: usize = 32 << 20;

/// Returns a session of the storage engine: its caches for a shard, and the stores that it knows.
pub(crate) fn session(stores: ObjectStoreRegistry) -> Arc<Session> {
    Arc::new(Session::new(INDEX_CACHE, METADATA_CACHE, Arc::new(stores)))
}
