//! How much of something may be used in a time, counted over all nodes.
//!
//! A quota is a bucket that fills evenly and holds at most what [`Rate::burst`] says. One number describes it:
//! the time at which it will be full again (the generic cell rate algorithm). In a cluster that number is in
//! Redis; while Redis is away each node counts for itself, so that a quota holds for each node alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::Redis;

/// KEYS: when the bucket is full again, in microseconds of Redis' clock. ARGV: the time that filling what is taken
/// takes, and that filling the whole bucket takes, in microseconds; whether to take it in any case. Returns in how
/// many microseconds it could be taken: 0 if it was.
///
/// More than the bucket holds may be taken when it is full: it could never be taken otherwise.
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

/// How long Redis is waited for; beyond it this node counts for itself.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a Redis that did not answer is left alone.
const PAUSE: Duration = Duration::from_secs(2);
/// Buckets of this node at most; the fullest are given up, which lose nothing.
const BUCKETS: usize = 10_000;

/// How fast a bucket fills, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Units a second, above 0.
    pub per_second: f64,
    /// Units that may be taken at once after a rest.
    pub burst: f64,
}

impl Rate {
    fn time_for(&self, units: f64) -> Duration {
        Duration::try_from_secs_f64(units / self.per_second).unwrap_or(Duration::MAX / 4)
    }
}

/// The buckets. Cheap to clone.
#[derive(Clone)]
pub struct Quotas {
    redis: Option<Arc<Redis>>,
    here: Arc<Mutex<Here>>,
}

#[derive(Default)]
struct Here {
    away_until: Option<Instant>,
    /// When each bucket is full again.
    full_at: HashMap<String, Instant>,
}

impl Quotas {
    /// Buckets of this process alone.
    pub fn local() -> Self {
        Self::new(None)
    }

    pub(crate) fn new(redis: Option<Arc<Redis>>) -> Self {
        Self { redis, here: Arc::default() }
    }

    /// Takes `units` out of the bucket called `name`.
    ///
    /// # Errors
    /// In how much time there may be enough; nothing was taken then.
    pub async fn take(&self, name: &str, units: f64, rate: Rate) -> Result<(), Duration> {
        self.change(name, units, rate, false).await
    }

    /// Takes `units` that are used already, whether the bucket holds them or not: what comes next waits until
    /// it has filled again.
    pub async fn charge(&self, name: &str, units: f64, rate: Rate) {
        // Nothing is refused.
        self.change(name, units, rate, true).await.ok();
    }

    async fn change(
        &self,
        name: &str,
        units: f64,
        rate: Rate,
        in_any_case: bool,
    ) -> Result<(), Duration> {
        let (cost, whole) = (rate.time_for(units), rate.time_for(rate.burst));
        match self.in_redis(name, cost, whole, in_any_case).await {
            Some(Duration::ZERO) => Ok(()),
            Some(wait) => Err(wait),
            None => self.lock().change(name, cost, whole, in_any_case),
        }
    }

    /// `None` if Redis does not say.
    async fn in_redis(
        &self,
        name: &str,
        cost: Duration,
        whole: Duration,
        in_any_case: bool,
    ) -> Option<Duration> {
        let redis = self.redis.as_ref()?;
        if self.lock().away_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let mut command = redis::pipe();
        let key = redis.key_alone(format_args!("quota:{name}"));
        command.cmd("EVAL").arg(TAKE).arg(1).arg(&key);
        command.arg(micros(cost)).arg(micros(whole)).arg(u8::from(in_any_case));
        match redis.query_soon("counting a quota", key, command, PATIENCE).await {
            Some((wait,)) => Some(Duration::from_micros(wait)),
            None => {
                self.lock().away_until = Some(Instant::now() + PAUSE);
                None
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Here> {
        // Nothing is left half done by a panic in here.
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// At most some ten thousand years.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(1 << 48)
}

impl Here {
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

    const RATE: Rate = Rate { per_second: 10.0, burst: 5.0 };

    #[tokio::test]
    async fn a_bucket_holds_its_burst_and_says_when_there_is_more() {
        let quotas = Quotas::local();
        for _ in 0..5 {
            quotas.take("a", 1.0, RATE).await.unwrap();
        }
        let wait = quotas.take("a", 1.0, RATE).await.unwrap_err();
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        quotas.take("b", 1.0, RATE).await.unwrap();
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
