//! Quotas of tenants.

use clew_cluster::FillRate;
use clew_core::{TenantName, Violations};
use serde::{Deserialize, Serialize};

const BURST_SECS: f64 = 10.0;

/// Quotas of a tenant over all its keys: an entry `[[tenant]]` of the file. A quota that is left
/// out is unlimited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantEntry {
    /// Name of the tenant.
    pub name: Option<TenantName>,
    /// Requests per second.
    pub requests_per_second: Option<f64>,
    /// Bytes per second of text that is stored, or sent to graph builders.
    pub bytes_per_second: Option<f64>,
    /// Tokens per second that models read and write for the tenant's questions, and for texts that
    /// graph builders read for the tenant.
    pub tokens_per_second: Option<f64>,
    /// Seconds' worth of a quota that may be used at once after a pause, 1 to 3600; 10 by default.
    pub burst_secs: Option<f64>,
}

impl TenantEntry {
    pub(crate) fn rate(&self, per_second: f64) -> FillRate {
        FillRate { per_second, burst: per_second * self.burst_secs.unwrap_or(BURST_SECS) }
    }

    pub(crate) fn check(&self, violations: &mut Violations) {
        let mut within = |name: &str, value: Option<f64>, low: f64, high: f64| {
            if value.is_some_and(|value| !(low..=high).contains(&value)) {
                violations.push(format!("tenant.{name}"), format!("expected {low} to {high}"));
            }
        };
        within("requests_per_second", self.requests_per_second, 0.001, 1e9);
        within("bytes_per_second", self.bytes_per_second, 1.0, 1e12);
        within("tokens_per_second", self.tokens_per_second, 0.001, 1e9);
        within("burst_secs", self.burst_secs, 1.0, 3600.0);
        if self.name.is_none() {
            violations.push("tenant.name", "expected the name of a tenant");
        }
    }
}
