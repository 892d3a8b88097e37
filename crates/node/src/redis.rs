//! Checks whether leases are safe in Redis, before the node joins and periodically afterwards.

use std::time::Duration;

use clew_cluster::{ClusterConfig, RedisHealth};
use clew_core::Error;
use clew_telemetry::{Severity, Trouble};
use tokio::sync::watch;

/// Intervals between two checks: of a Redis that has not answered yet, and of one that has.
const LOOK_INTERVALS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Returns the health of Redis. Returns `None` if there is no Redis or it is unreachable: a node
/// can start without it.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::WrongState`] if leases are not safe there.
pub(crate) async fn examine(config: &ClusterConfig) -> Result<Option<RedisHealth>, Error> {
    // Boxed because a handshake is a large future.
    let asking = Box::pin(RedisHealth::ask(config));
    let Ok(Some(health)) = asking.await else { return Ok(None) };
    health.check()?;
    if health.eviction.is_none() {
        tracing::warn!(
            "Redis does not tell its `maxmemory-policy`, which has to be `noeviction`; permit `INFO` to see it here"
        );
    }
    Ok(Some(health))
}

/// Checks Redis repeatedly. A node that already serves keeps serving and reports the problem.
pub(crate) async fn look_after(config: ClusterConfig, seen: watch::Sender<Option<RedisHealth>>) {
    let (eager, relaxed) = LOOK_INTERVALS;
    let mut was_good = true;
    loop {
        let is_known = seen.borrow().is_some();
        tokio::time::sleep(if is_known { relaxed } else { eager }).await;
        let Ok(Some(health)) = RedisHealth::ask(&config).await else { continue };
        let checked = health.check();
        match &checked {
            Err(error) if was_good => {
                tracing::warn!(error = error.chain(), "leases are not safe in Redis");
            }
            Ok(()) | Err(_) => {}
        }
        was_good = checked.is_ok();
        seen.send_replace(Some(health));
    }
}

/// Returns the problem that health checks report.
pub(crate) fn troubles(health: Option<&RedisHealth>) -> Vec<Trouble> {
    let trouble = |error: Error| Trouble {
        part: "redis".to_owned(),
        problem: error.message().to_owned(),
        severity: Severity::Degraded,
    };
    health.and_then(|health| health.check().err()).map(trouble).into_iter().collect()
}
