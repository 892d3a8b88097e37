//! What nodes of a role keep for each other to save work, and may lose at any time.
//!
//! A cache is never waited for long: a Redis that is slow or away counts as one that holds nothing, and
//! is asked again only after a pause. Nor does a cache take the room that leases and members need.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::connection::Redis;
use crate::health::is_nearly_full;

/// How long an answer is waited for; what a cache saves takes longer.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a Redis that did not answer is left alone.
const PAUSE: Duration = Duration::from_secs(2);
/// How long an entry is kept.
const KEPT: Duration = Duration::from_secs(600);
/// Bytes of an entry at most; more is not kept.
const ENTRY_BYTES: usize = 64 << 10;
/// Entries that are written at the same time: what they take while it is found out that there is no room is little
/// beside what is left free.
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

    /// What was kept by that key; `None` also if it cannot be known soon.
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

    /// Keeps `value` for a while, if there is room and it can be done soon; does not wait for it.
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
            // Redis drops nothing by itself, and a full one takes no signs of life either.
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
        // Nothing is left half done by a panic in here.
        self.away_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
