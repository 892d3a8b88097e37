//! Start of logging, traces and metrics from the configuration.

use std::path::Path;

use clew_core::Error;
use clew_telemetry::{Logging, Telemetry, TelemetryConfig};
use serde::{Deserialize, Serialize};

/// The part of the configuration that is needed before anything else. Other keys are ignored.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Observed {
    telemetry: TelemetryConfig,
}

/// The command line sets none of these keys.
#[derive(Serialize)]
struct NoFlags {}

/// Starts the telemetry of the process `program` as configured, see [`Telemetry::start`].
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`], naming the offending key, or the file if it
/// cannot be read.
pub fn observed(
    config: Option<&Path>,
    program: &str,
    logging: Logging<'_>,
) -> Result<Telemetry, Error> {
    let observed: Observed = clew_runtime::config::load(config, NoFlags {})?;
    Telemetry::start(&observed.telemetry, program, logging)
}
