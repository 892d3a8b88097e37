//! What a process tells about itself, by its configuration.

use std::path::Path;

use clew_core::Error;
use clew_telemetry::{Logging, Telemetry, TelemetryConfig};
use serde::{Deserialize, Serialize};

/// What of the configuration is needed before anything else; the rest is passed over.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Observed {
    telemetry: TelemetryConfig,
}

/// No key of it is set by the command line.
#[derive(Serialize)]
struct NoFlags {}

/// Starts what the process `program` tells about itself, as the configuration says. See [`Telemetry::start`].
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] naming the key at fault, or the file if it cannot be read.
pub fn observed(
    config: Option<&Path>,
    program: &str,
    logging: Logging<'_>,
) -> Result<Telemetry, Error> {
    let observed: Observed = clew_runtime::config::load(config, NoFlags {})?;
    Telemetry::start(&observed.telemetry, program, logging)
}
