//! What a Redis tells of itself to operators.

use std::time::{SystemTime, UNIX_EPOCH};

use clew_core::Error;

use crate::config::ClusterConfig;
use crate::connection::Redis;

/// What a Redis tells of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RedisHealth {
    /// Its version; empty if it does not say.
    pub version: String,
    /// What it removes when its memory is full; empty if it does not say.
    pub maxmemory_policy: String,
    /// How far its clock is ahead of this machine's, in seconds; behind, if negative.
    pub clock_ahead_seconds: f64,
}

impl RedisHealth {
    /// Asks the configured Redis; `None` if none is configured.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Unavailable`] if it does not answer in time.
    pub async fn ask(config: &ClusterConfig) -> Result<Option<Self>, Error> {
        let Some(redis) = Redis::new(config)? else { return Ok(None) };
        let mut commands = redis::pipe();
        commands.cmd("TIME").cmd("INFO");
        let ((seconds, micros), info): ((u64, u64), String) =
            redis.query("asking for its health", &commands).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let its = seconds as f64 + micros as f64 / 1e6;
        let told = |key: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.unwrap_or_default().trim().to_owned()
        };
        Ok(Some(Self {
            version: told("redis_version"),
            maxmemory_policy: told("maxmemory_policy"),
            clock_ahead_seconds: its - now.as_secs_f64(),
        }))
    }
}
