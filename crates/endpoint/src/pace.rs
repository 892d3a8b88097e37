//! The pace of requests to an endpoint: a rate limit, a retry budget, and the pause that the server
//! asks for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clew_core::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Token bucket for a number of requests per minute, with bursts of six seconds' worth.
///
/// The state is the time at which the bucket will be full, as in the "generic cell rate algorithm"
/// of ITU-T I.371: one number, and nothing to refill.
#[derive(Debug)]
pub(crate) struct RateLimit {
    interval: Duration,
    burst: Duration,
    full_at: Mutex<Instant>,
}

impl RateLimit {
    pub(crate) fn new(per_minute: u32, now: Instant) -> Self {
        let interval = Duration::from_secs(60) / per_minute.max(1);
        let burst = interval * (per_minute / 10).saturating_sub(1);
        Self { interval, burst, full_at: Mutex::new(now) }
    }

    /// Reserves the next slot for a request. Returns how long to wait for it. A caller that goes
    /// away while it waits has still used the slot.
    ///
    /// # Errors
    /// Returns the time until a slot is free, if that is longer than `patience`. No slot is
    /// reserved then.
    pub(crate) fn take(&self, now: Instant, patience: Duration) -> Result<Duration, Duration> {
        let mut full_at = held(&self.full_at);
        let full_from_now = full_at.saturating_duration_since(now);
        let wait = full_from_now.saturating_sub(self.burst);
        if wait > patience {
            return Err(wait);
        }
        *full_at = now + full_from_now + self.interval;
        Ok(wait)
    }
}

/// Limit of retries to a fraction of the first attempts, so that a failing endpoint is not flooded
/// with retries. After linkerd's retry budget: each call earns a fraction of a retry, and time
/// earns a few more for callers that ask rarely.
#[derive(Debug)]
pub(crate) struct RetryBudget(Mutex<Saved>);

#[derive(Debug)]
struct Saved {
    /// Saved thousandths of a retry. An integer, since a sum of fractions is not exact.
    thousandths: u64,
    at: Instant,
}

/// Thousandths of a retry that a call earns.
const EARNED_PER_CALL: u64 = 200;
/// Thousandths of a retry that a millisecond earns.
const EARNED_PER_MILLISECOND: u64 = 1;
/// Maximum number of saved thousandths.
const MOST_SAVED: u64 = 20_000;

impl RetryBudget {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Saved { thousandths: MOST_SAVED, at: now }))
    }

    /// Earns the share of one call, which begins now.
    pub(crate) fn earn(&self) {
        let mut saved = held(&self.0);
        saved.thousandths = (saved.thousandths + EARNED_PER_CALL).min(MOST_SAVED);
    }

    /// Spends one retry. Returns whether there was one to spend.
    pub(crate) fn spend(&self, now: Instant) -> bool {
        let mut saved = held(&self.0);
        let waited = now.saturating_duration_since(saved.at).as_millis();
        let waited = u64::try_from(waited).unwrap_or(MOST_SAVED).min(MOST_SAVED);
        let all = (saved.thousandths + waited * EARNED_PER_MILLISECOND).min(MOST_SAVED);
        let left = all.checked_sub(1000);
        // Keeps the older time if less than a millisecond has passed, so that none of it is lost.
        let at = if waited == 0 { saved.at } else { now };
        *saved = Saved { thousandths: left.unwrap_or(all), at };
        left.is_some()
    }
}

/// Locks a mutex, even a poisoned one. The guarded values change only by assignments, which a panic
/// cannot interrupt halfway.
fn held<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the pause that a server asks for: `Retry-After` in seconds or as a date (RFC 9110,
/// section 10.2.3), or the finer `retry-after-ms` of OpenAI and Azure.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let micros = date.as_microsecond().saturating_sub(now.as_micros());
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_lets_a_burst_through_and_then_one_at_a_time() {
        let now = Instant::now();
        let rate = RateLimit::new(20, now);
        let patience = Duration::from_secs(5);
        let waits = [(); 4].map(|()| rate.take(now, patience));
        let seconds = [Ok(0), Ok(0), Ok(3), Err(6)];
        assert_eq!(
            waits,
            seconds.map(|wait| wait.map(Duration::from_secs).map_err(Duration::from_secs))
        );
        // The refused request reserved no slot.
        let later = now + Duration::from_secs(6);
        assert_eq!(rate.take(later, Duration::ZERO), Ok(Duration::ZERO));
        // A long pause saves no more than the burst.
        let much_later = now + Duration::from_secs(600);
        let waits = [(); 3].map(|()| rate.take(much_later, patience).unwrap());
        assert_eq!(waits.map(|wait| wait.as_secs()), [0, 0, 3]);
    }

    #[test]
    fn repetitions_are_a_part_of_calls_and_a_few_more() {
        let now = Instant::now();
        let budget = RetryBudget::new(now);
        let spent = (0..100).filter(|_| budget.spend(now)).count();
        assert_eq!(spent, 20);
        (0..10).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.spend(now)).count(), 2);
        let later = now + Duration::from_secs(3);
        assert_eq!((0..100).filter(|_| budget.spend(later)).count(), 3);
    }

    #[test]
    fn servers_ask_for_pauses_in_seconds_or_as_dates() {
        // Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110.
        let now = Timestamp::from_micros(784_111_777_000_000);
        let cases = [
            ("retry-after", "0", Some(0)),
            ("retry-after", " 120 ", Some(120_000)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("retry-after-ms", "70", Some(70)),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("retry-after", "", None),
            ("x", "1", None),
        ];
        for (name, value, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            let expected = expected.map(Duration::from_millis);
            assert_eq!(retry_after(&headers, now), expected, "{name}: {value}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
