//! Cache in Redis that nodes of a role share to save work, and whose entries may vanish at any
//! time.
//!
//! No caller waits long for the cache. If Redis is slow or unreachable, the cache behaves as if it
//! were empty and Redis is asked again only after a pause. The cache also leaves free the memory
//! that leases and members need.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::connection::Redis;
use crate::health::is_nearly_full;

/// Maximum wait for an answer. The work that the cache saves takes longer.
const PATIENCE: Duration = Duration::from_millis(50);
/// Time for which a Redis that did not answer is not asked again.
const PAUSE: Duration = Duration::from_secs(2);
/// Time to live of an entry.
const KEPT: Duration = Duration::from_secs(600);
/// Maximum size of an entry in bytes. Longer values are not cached.
const ENTRY_BYTES: usize = 64 << 10;
/// Maximum number of concurrent writes. The memory that they take while they check for room is
/// small compared with what is left free.
const WRITES: usize = 16;

/// A cache that the nodes of a cluster share. Cheap to clone.
#[derive(Clone)]
pub struct Cache {
    redis: Option<Arc<Redis>>,
    away_until: Arc<Mutex<Option<Instant>>>,
    writes: Arc<Semaphore>,
}

impl Cache {
    pub(crate) fn new(redis: Option<Arc<Redis>>) -> Self {
        Self { redis, away_until: Arc::default(), writes: Arc::new(Semaphore::new(WRITES)) }
    }

    /// Returns the cached value. Returns `None` on a miss or if Redis does not answer in time.
    pub async fn get(&self, key: &str) -> Option<Vec<u8>> {
        let redis = self.reachable()?;
        let mut command = redis::pipe();
        let key = redis.key_alone(format_args!("cache:{key}"));
        command.cmd("GET").arg(&key);
        match redis.query_soon("reading the cache", key, command, PATIENCE).await {
            Some((found,)) => found,
            None => {
                self.leave_alone();
                None
            }
        }
    }

    /// Caches `value` for ten minutes if there is room and Redis answers soon. Does not wait for
    /// the write.
    pub fn put(&self, key: &str, value: Vec<u8>) {
        let Some(redis) = self.reachable().filter(|_| value.len() <= ENTRY_BYTES) else { return };
        let redis = Arc::clone(redis);
        let mut command = redis::pipe();
        let key = redis.key_alone(format_args!("cache:{key}"));
        command.cmd("SET").arg(&key).arg(value).arg("EX").arg(KEPT.as_secs()).ignore();
        let cache = self.clone();
        tokio::spawn(async move {
            let turn = tokio::time::timeout(PATIENCE, cache.writes.acquire()).await;
            let Ok(Ok(_turn)) = turn else { return };
            // Redis evicts nothing by itself, and a full Redis also rejects heartbeats.
            if is_nearly_full(&redis, &key).await {
                return;
            }
            if redis.query_alone::<()>("writing the cache", &key, &command).await.is_err() {
                cache.leave_alone();
            }
        });
    }

    fn reachable(&self) -> Option<&Arc<Redis>> {
        let is_away = self.lock().is_some_and(|until| Instant::now() < until);
        self.redis.as_ref().filter(|_| !is_away)
    }

    fn leave_alone(&self) {
        *self.lock() = Some(Instant::now() + PAUSE);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        // A panic while the lock is held leaves no partial change, so poisoning can be ignored.
        self.away_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
