//! What nobody wants to see costs nothing. In a process of its own, because logs are started once.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use clew_telemetry::{LogFormat, Logging, Telemetry, TelemetryConfig};
use tracing::level_filters::LevelFilter;

#[tokio::test]
async fn lines_below_the_wanted_level_are_skipped_before_any_filter_is_asked() {
    assert_eq!(LevelFilter::current(), LevelFilter::OFF);
    let logging = Logging { filter: "warn", format: LogFormat::Text };
    let telemetry = Telemetry::start(&TelemetryConfig::default(), "test", logging).unwrap();
    // Spans are at this level, and are there whatever lines are wanted.
    assert_eq!(LevelFilter::current(), LevelFilter::INFO);
    assert!(!tracing::info_span!(target: "clew_test", "span").is_disabled());
    assert!(tracing::info_span!(target: "elsewhere", "span").is_disabled());
    assert!(!tracing::enabled!(target: "clew_test", tracing::Level::INFO));
    assert!(tracing::enabled!(target: "clew_test", tracing::Level::WARN));
    telemetry.stop().await;
}
