//! Configuration sections `telemetry` and `admin`.

use std::time::Duration;

use clew_core::{Error, Violations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `telemetry`: export of traces and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// Address of a collector that accepts OTLP over gRPC, such as `http://collector:4317`. If it
    /// is empty, nothing is exported, and metrics are available at the admin port only.
    pub otlp_endpoint: String,
    /// Share of the traces begun in this process that are recorded, 0 to 1. A trace begun by
    /// another process is recorded if that process decided so.
    pub trace_ratio: f64,
    /// `service.name` of exported data. If it is empty, the name of the program.
    pub service_name: String,
    /// Interval between exports of metrics, in seconds, 1 to 3,600.
    pub metrics_interval_secs: u64,
    /// Whether labels carry names of corpora instead of their creation times. The names are
    /// tenants' data.
    pub corpus_names: bool,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            otlp_endpoint: String::new(),
            trace_ratio: 1.0,
            service_name: String::new(),
            metrics_interval_secs: 30,
            corpus_names: false,
        }
    }
}

// Only NaN is unequal to itself, and `validate` refuses it.
impl Eq for TelemetryConfig {}

impl TelemetryConfig {
    /// Refuses values that are out of range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let endpoint = &self.otlp_endpoint;
        if !endpoint.is_empty() && !endpoint.starts_with("http://") {
            let problem =
                format!("expected an address like http://collector:4317, got `{endpoint}`");
            violations.push("telemetry.otlp_endpoint", problem);
        }
        if !(0.0..=1.0).contains(&self.trace_ratio) {
            let problem = format!("expected 0 to 1, got {}", self.trace_ratio);
            violations.push("telemetry.trace_ratio", problem);
        }
        if !(1..=3600).contains(&self.metrics_interval_secs) {
            let problem = format!("expected 1 to 3600, got {}", self.metrics_interval_secs);
            violations.push("telemetry.metrics_interval_secs", problem);
        }
        violations.into_result()
    }

    pub(crate) fn metrics_interval(&self) -> Duration {
        Duration::from_secs(self.metrics_interval_secs)
    }
}

/// Section `admin`: the port that serves metrics and health over plain HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Address of the admin port, such as `0.0.0.0:9464`. Port 0 selects a free port; if the
    /// address is empty, there is no admin port. It requires no key: let only probes and Prometheus
    /// reach it.
    pub listen: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_at_fault_is_named() {
        assert!(TelemetryConfig::default().validate().is_ok());
        let config = TelemetryConfig {
            // Without a scheme, the exporter would assume https.
            otlp_endpoint: "collector:4317".to_owned(),
            trace_ratio: f64::NAN,
            metrics_interval_secs: 0,
            ..TelemetryConfig::default()
        };
        let error = config.validate().unwrap_err();
        let fields = error.fields_at_fault();
        let expected = ["otlp_endpoint", "trace_ratio", "metrics_interval_secs"];
        assert_eq!(fields, expected.map(|key| format!("telemetry.{key}")));
    }
}
