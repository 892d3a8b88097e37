//! Points in time with microsecond precision, as the tables store them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Point in time: microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the Unix epoch.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since the Unix epoch.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns this time plus `duration`, saturating at the end of representable time.
    pub fn saturating_add(self, duration: std::time::Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// Returns the duration since `earlier`; zero if this time is not after it.
    pub fn saturating_since(self, earlier: Self) -> std::time::Duration {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        std::time::Duration::from_micros(micros.unsigned_abs())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    /// Parses RFC 3339 (`2024-05-20T02:21:00Z`) or a plain date (`2024-05-20`, midnight UTC).
    fn from_str(text: &str) -> Result<Self, Error> {
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(Self(time.as_microsecond()));
        }
        text.parse::<jiff::civil::Date>()
            .and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC))
            .map(|zoned| Self(zoned.timestamp().as_microsecond()))
            .map_err(|_| {
                Error::invalid("time", format!("expected RFC 3339 or YYYY-MM-DD, got `{text}`"))
            })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_timestamps_parse_and_print() {
        let time: Timestamp = "2024-05-20".parse().unwrap();
        assert_eq!(time.to_string(), "2024-05-20T00:00:00Z");
        assert_eq!("2024-05-20T00:00:00Z".parse::<Timestamp>().unwrap(), time);
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
