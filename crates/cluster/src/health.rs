//! Self-description of a Redis: whether leases are safe there, and how far its clock is off.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use clew_core::{ClockOffset, Error, ErrorKind};
use redis::RedisError;

use crate::config::ClusterConfig;
use crate::connection::{Place, Redis, is_refusal};

/// Health of a Redis, as it reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct RedisHealth {
    /// Version; empty if the server does not tell it.
    pub version: String,
    /// Behaviour when memory is full. `None` if the server does not tell it.
    pub eviction: Option<Eviction>,
    /// Difference between its clock and this machine's.
    pub clock: ClockOffset,
}

/// Behaviour of a Redis when its memory is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The `maxmemory-policy`: `noeviction`, or which keys it evicts.
    pub policy: String,
    /// The `maxmemory` in bytes. 0 means no limit, so that nothing is evicted.
    pub max_memory: u64,
}

impl RedisHealth {
    /// Asks the configured Redis, or all masters of a cluster, and returns the worst answer.
    /// Returns `None` if no Redis is configured.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if Redis does not answer in time, and
    /// [`ErrorKind::InvalidInput`] if its configuration cannot be used.
    pub async fn ask(config: &ClusterConfig) -> Result<Option<Self>, Error> {
        let Some(redis) = Redis::new(config).await? else { return Ok(None) };
        let (mut worst, mut away): (Option<Self>, Option<Error>) = (None, None);
        for master in redis.masters().await? {
            match Self::of(&redis, &master).await {
                Ok(health) => {
                    if worst.as_ref().is_none_or(|worst| worst.is_better_than(&health)) {
                        worst = Some(health);
                    }
                }
                Err(error) => away = Some(error),
            }
        }
        match (worst, away) {
            // An answer counts even if other masters are unreachable.
            (Some(worst), _) => Ok(Some(worst)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    fn is_better_than(&self, other: &Self) -> bool {
        let badness = |health: &Self| {
            (health.check().is_err(), health.eviction.is_none(), health.clock.seconds().abs())
        };
        badness(self) < badness(other)
    }

    async fn of(redis: &Redis, master: &Place) -> Result<Self, Error> {
        let told = info(redis, master).await?;
        let eviction = told.as_deref().and_then(|told| {
            Eviction::told(value(told, "maxmemory_policy"), value(told, "maxmemory"))
        });
        let eviction = match eviction {
            None => configured(redis, master).await?,
            told => told,
        };
        let version = told.as_deref().and_then(|told| value(told, "redis_version"));
        // The time is asked last, because there is a connection by now and the reply comes quickly.
        let mut time = redis::pipe();
        time.cmd("TIME");
        let asked = SystemTime::now();
        let ((seconds, micros),): ((u64, u64),) =
            redis.query_at("asking for the time", master, &time).await?;
        let answered = SystemTime::now();
        let theirs = Duration::from_secs(seconds).checked_add(Duration::from_micros(micros));
        let theirs = theirs.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
        let theirs = theirs.ok_or_else(|| {
            let message = format!("Redis tells a time that is none: {seconds} s and {micros} µs");
            Error::new(ErrorKind::Unavailable, "REDIS_UNAVAILABLE", message)
        })?;
        Ok(Self {
            version: version.unwrap_or_default().to_owned(),
            eviction,
            clock: ClockOffset::seen(theirs, Duration::from_micros(1), asked, answered),
        })
    }

    /// Rejects a Redis that evicts leases when its memory is full.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`], with the setting to change, if Redis may evict leases.
    pub fn check(&self) -> Result<(), Error> {
        let Some(Eviction { policy, max_memory }) = &self.eviction else { return Ok(()) };
        // All keys of Clew expire, so every other policy may evict some of them.
        if policy == "noeviction" || *max_memory == 0 {
            return Ok(());
        }
        let message = format!(
            "expected a Redis that keeps what it was told (`maxmemory-policy` `noeviction`), got `{policy}` with \
             `maxmemory` {max_memory}: it drops leases and members when its memory is full; set `maxmemory-policy \
             noeviction` there (redis.conf, `CONFIG SET`, or the parameters of a managed one)"
        );
        Err(Error::new(ErrorKind::WrongState, "REDIS_EVICTS", message))
    }
}

impl Eviction {
    fn told(policy: Option<&str>, max_memory: Option<&str>) -> Option<Self> {
        let policy = policy?.to_owned();
        Some(Self { policy, max_memory: max_memory?.parse().ok()? })
    }
}

/// Returns whether the server that has `key` uses more than three quarters of its memory, so that
/// caching should stop. Returns `false` if the server is unreachable or does not tell.
pub(crate) async fn is_nearly_full(redis: &Redis, key: &str) -> bool {
    let mut memory = redis::pipe();
    memory.cmd("INFO").arg("memory");
    let asked = redis.query_alone::<(String,)>("asking for its memory", key, &memory).await;
    let Ok((told,)) = asked else { return false };
    let bytes = |key| value(&told, key).and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0);
    let (used, most) = (bytes("used_memory"), bytes("maxmemory"));
    most > 0 && used > most / 4 * 3
}

/// Returns the reply to `INFO`, which managed servers answer even if they deny `CONFIG`. Returns
/// `None` if it is refused.
async fn info(redis: &Redis, master: &Place) -> Result<Option<String>, Error> {
    let mut info = redis::pipe();
    info.cmd("INFO");
    let told =
        unless_refused(redis.query_at::<(String,)>("asking for its health", master, &info).await)?;
    Ok(told.map(|(told,)| told))
}

/// Returns the eviction settings of the server, or `None` if it does not tell them.
async fn configured(redis: &Redis, master: &Place) -> Result<Option<Eviction>, Error> {
    let mut config = redis::pipe();
    config.cmd("CONFIG").arg("GET").arg("maxmemory-policy");
    config.cmd("CONFIG").arg("GET").arg("maxmemory");
    type Pairs = Vec<String>;
    let asked =
        redis.query_at::<(Pairs, Pairs)>("asking for its configuration", master, &config).await;
    let Some((policy, max_memory)) = unless_refused(asked)? else { return Ok(None) };
    let of = |pair: &Pairs| pair.get(1).cloned();
    Ok(Eviction::told(of(&policy).as_deref(), of(&max_memory).as_deref()))
}

/// Turns a refusal by the server (no permission, unknown command) into `None`.
fn unless_refused<T>(asked: Result<T, Error>) -> Result<Option<T>, Error> {
    let error = match asked {
        Ok(told) => return Ok(Some(told)),
        Err(error) => error,
    };
    let cause = error.source().and_then(|cause| cause.downcast_ref::<RedisError>());
    if cause.is_some_and(is_refusal) { Ok(None) } else { Err(error) }
}

/// Returns the value that follows `key:` at the beginning of a line.
fn value<'a>(told: &'a str, key: &str) -> Option<&'a str> {
    let line = told.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_redis_that_drops_keys_is_refused() {
        let now = SystemTime::now();
        let check = |eviction| {
            let clock = ClockOffset::seen(now, Duration::ZERO, now, now);
            RedisHealth { version: String::new(), eviction, clock }.check()
        };
        let eviction =
            |policy: &str, max_memory| Some(Eviction { policy: policy.into(), max_memory });
        assert!(check(None).is_ok());
        assert!(check(eviction("noeviction", 100)).is_ok());
        assert!(check(eviction("allkeys-lru", 0)).is_ok());
        for policy in ["allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random"] {
            let error = check(eviction(policy, 100)).unwrap_err();
            assert_eq!(error.reason(), "REDIS_EVICTS");
            assert!(error.message().contains(policy) && error.message().contains("noeviction"));
        }
    }
}
