//! Quotas: limits on how much of something may be used in a time, counted over all nodes.
//!
//! A quota is a bucket that fills at a constant rate and holds at most [`FillRate::burst`]. One
//! number describes it: the time at which it will be full again (the generic cell rate algorithm).
//! In a cluster, Redis holds that number. While Redis is unreachable, each node counts for itself
//! and the quota applies to each node separately.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::Redis;

/// KEYS: the time at which the bucket is full again, in microseconds of Redis' clock. ARGV: the
/// times, in microseconds, in which the units to take and the whole bucket fill up; whether to take
/// the units in any case. Returns after how many microseconds the units could be taken, or 0 if
/// they were taken.
///
/// A full bucket allows taking more than it holds. Otherwise such a request could never succeed.
const TAKE: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
local missing = full_at + ARGV[1] - now - ARGV[2]
if ARGV[3] == '0' and full_at > now and missing > 0 then
    return missing
end
full_at = full_at + ARGV[1]
redis.call('SET', KEYS[1], string.format('%.0f', full_at), 'PX', string.format('%.0f', (full_at - now) / 1000 + 1000))
return 0
";

/// KEYS: as for [`TAKE`]. Returns the microseconds after which the bucket is full again.
const LOOK: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
return math.max(tonumber(redis.call('GET', KEYS[1]) or '0') - now, 0)
";

/// Maximum wait for Redis. After it, this node counts for itself.
const PATIENCE: Duration = Duration::from_millis(50);
/// Time for which a Redis that did not answer is not asked again.
const PAUSE: Duration = Duration::from_secs(2);
/// Number of local buckets above which full buckets are dropped, which loses nothing.
const BUCKETS: usize = 10_000;

/// Fill rate and capacity of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FillRate {
    /// Units per second, above 0.
    pub per_second: f64,
    /// Units that may be taken at once when the bucket is full.
    pub burst: f64,
}

impl FillRate {
    fn time_for(&self, units: f64) -> Duration {
        Duration::try_from_secs_f64(units / self.per_second).unwrap_or(Duration::MAX / 4)
    }
}

/// All buckets. Cheap to clone.
#[derive(Clone)]
pub struct Quotas {
    redis: Option<Arc<Redis>>,
    here: Arc<Mutex<Here>>,
}

#[derive(Default)]
struct Here {
    away_until: Option<Instant>,
    /// The time at which each bucket is full again.
    full_at: HashMap<String, Instant>,
}

impl Quotas {
    /// Creates buckets for this process alone.
    pub fn local() -> Self {
        Self::new(None)
    }

    pub(crate) fn new(redis: Option<Arc<Redis>>) -> Self {
        Self { redis, here: Arc::default() }
    }

    /// Takes `units` out of the bucket called `name`.
    ///
    /// # Errors
    /// Returns the time after which there may be enough units. In that case nothing was taken.
    pub async fn take(&self, name: &str, units: f64, rate: FillRate) -> Result<(), Duration> {
        self.change(name, units, rate, false).await
    }

    /// Takes `units` that were already used, even if the bucket does not hold them. Later requests
    /// wait until it has filled again.
    pub async fn charge(&self, name: &str, units: f64, rate: FillRate) {
        // With `in_any_case`, nothing is refused.
        self.change(name, units, rate, true).await.ok();
    }

    /// Returns the units that are left in the bucket called `name`, 0 to [`FillRate::burst`].
    pub async fn left(&self, name: &str, rate: FillRate) -> f64 {
        let full_in = |key: &str| {
            let mut command = redis::pipe();
            command.cmd("EVAL").arg(LOOK).arg(1).arg(key);
            command
        };
        let full_in = match self.ask_redis(name, full_in).await {
            Some(micros) => Duration::from_micros(micros),
            None => self.lock().full_in(name),
        };
        (rate.burst - full_in.as_secs_f64() * rate.per_second).max(0.0)
    }

    async fn change(
        &self,
        name: &str,
        units: f64,
        rate: FillRate,
        in_any_case: bool,
    ) -> Result<(), Duration> {
        let (cost, whole) = (rate.time_for(units), rate.time_for(rate.burst));
        match self.in_redis(name, cost, whole, in_any_case).await {
            Some(Duration::ZERO) => Ok(()),
            Some(wait) => Err(wait),
            None => self.lock().change(name, cost, whole, in_any_case),
        }
    }

    /// Changes the bucket in Redis. Returns `None` if Redis does not answer.
    async fn in_redis(
        &self,
        name: &str,
        cost: Duration,
        whole: Duration,
        in_any_case: bool,
    ) -> Option<Duration> {
        let take = |key: &str| {
            let mut command = redis::pipe();
            command.cmd("EVAL").arg(TAKE).arg(1).arg(key);
            command.arg(micros(cost)).arg(micros(whole)).arg(u8::from(in_any_case));
            command
        };
        self.ask_redis(name, take).await.map(Duration::from_micros)
    }

    /// Asks Redis for a number about the bucket called `name`. `command` builds the commands for
    /// the bucket's key. Returns `None` if Redis does not answer.
    async fn ask_redis(
        &self,
        name: &str,
        command: impl FnOnce(&str) -> redis::Pipeline,
    ) -> Option<u64> {
        let redis = self.redis.as_ref()?;
        if self.lock().away_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let key = redis.key_alone(format_args!("quota:{name}"));
        let command = command(&key);
        match redis.query_soon("counting a quota", key, command, PATIENCE).await {
            Some((number,)) => Some(number),
            None => {
                self.lock().away_until = Some(Instant::now() + PAUSE);
                None
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Here> {
        // A panic while the lock is held leaves no partial change, so poisoning can be ignored.
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `time` in microseconds, at most 2^48 (about nine years).
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(1 << 48)
}

impl Here {
    /// Returns the time after which a bucket is full again.
    fn full_in(&self, name: &str) -> Duration {
        let full_at = self.full_at.get(name);
        full_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    fn change(
        &mut self,
        name: &str,
        cost: Duration,
        whole: Duration,
        in_any_case: bool,
    ) -> Result<(), Duration> {
        let now = Instant::now();
        if self.full_at.len() >= BUCKETS && !self.full_at.contains_key(name) {
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        let full_at = self.full_at.get(name).map_or(now, |full_at| (*full_at).max(now));
        let used = full_at - now;
        let wait = (used + cost).saturating_sub(whole);
        if !in_any_case && !used.is_zero() && !wait.is_zero() {
            return Err(wait);
        }
        let cost = Duration::from_micros(micros(cost));
        self.full_at.insert(name.to_owned(), full_at + cost);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: FillRate = FillRate { per_second: 10.0, burst: 5.0 };

    #[tokio::test]
    async fn a_bucket_holds_its_burst_and_says_when_there_is_more() {
        let quotas = Quotas::local();
        for _ in 0..5 {
            quotas.take("a", 1.0, RATE).await.unwrap();
        }
        let wait = quotas.take("a", 1.0, RATE).await.unwrap_err();
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        quotas.take("b", 1.0, RATE).await.unwrap();
        let left = async |name| quotas.left(name, RATE).await;
        let (a, b) = (left("a").await, left("b").await);
        assert!(a < 2.0 && (4.0..5.0).contains(&b), "{a}, {b}");
        assert_eq!(left("untouched").await, 5.0);
    }

    #[tokio::test]
    async fn what_was_used_is_waited_for_and_more_than_a_bucket_holds_passes_once() {
        let quotas = Quotas::local();
        quotas.take("a", 50.0, RATE).await.unwrap();
        let wait = quotas.take("a", 1.0, RATE).await.unwrap_err();
        assert!(wait > Duration::from_secs(4), "{wait:?}");
        quotas.charge("b", 100.0, RATE).await;
        assert!(quotas.take("b", 0.0, RATE).await.unwrap_err() > Duration::from_secs(9));
    }
}
