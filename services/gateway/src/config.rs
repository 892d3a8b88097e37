//! Configuration section `gateway`.

use std::time::{Duration, Instant};

use clew_core::{Error, Violations};
use serde::{Deserialize, Serialize};

/// Section `gateway`: bounds of what clients may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayConfig {
    /// Seconds a request may take that names no deadline, 1 to 3,600.
    pub default_deadline_secs: u64,
    /// Questions in flight, 1 to 100,000. Beyond it they are refused with a retry delay.
    pub questions: u32,
    /// Documents of one ingest stream that wait for their acknowledgement, 1 to 10,000. Beyond it the
    /// stream is not read until there is room.
    pub ingest_window: usize,
    /// Requests one connection may have in flight, 1 to 10,000.
    pub requests_per_connection: usize,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            default_deadline_secs: 60,
            questions: 256,
            ingest_window: 512,
            requests_per_connection: 256,
        }
    }
}

impl GatewayConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] naming every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u64, high: u64| {
            if !(1..=high).contains(&value) {
                violations
                    .push(format!("gateway.{key}"), format!("expected 1 to {high}, got {value}"));
            }
        };
        within("default_deadline_secs", self.default_deadline_secs, 3600);
        within("questions", self.questions.into(), 100_000);
        within("ingest_window", self.ingest_window as u64, 10_000);
        within("requests_per_connection", self.requests_per_connection as u64, 10_000);
        violations.into_result()
    }

    /// The deadline of a request: what the client says (`grpc-timeout`), less a margin for the way
    /// back, else the default.
    pub(crate) fn deadline<T>(&self, request: &tonic::Request<T>) -> Instant {
        let said = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
        let patience = said
            .and_then(parse_grpc_timeout)
            .map_or(Duration::from_secs(self.default_deadline_secs), |said| {
                said - (said / 20).min(Duration::from_millis(50))
            });
        Instant::now() + patience.min(MAX_PATIENCE)
    }
}

/// Longest deadline that is honoured: a request holds its permits no longer.
const MAX_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Parses the gRPC timeout header: up to eight digits and a unit.
fn parse_grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount * 3600)),
        "M" => Some(Duration::from_secs(amount * 60)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_parse() {
        assert_eq!(parse_grpc_timeout("2S"), Some(Duration::from_secs(2)));
        assert_eq!(parse_grpc_timeout("150m"), Some(Duration::from_millis(150)));
        for bad in ["", "S", "12", "123456789S", "-1S", "1é"] {
            assert_eq!(parse_grpc_timeout(bad), None, "{bad}");
        }
    }
}
