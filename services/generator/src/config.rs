//! Configuration section `generator`.

use clew_core::Error;
use serde::{Deserialize, Serialize};

/// Section `generator`: bounds of what is read at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorConfig {
    /// Readings in progress, 1 to 10,000. Beyond it they are refused with a retry delay.
    pub readings: u32,
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self { readings: 64 }
    }
}

impl GeneratorConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] naming the key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        match self.readings {
            1..=10_000 => Ok(()),
            other => {
                let problem = format!("expected 1 to 10000, got {other}");
                Err(Error::invalid("generator.readings", problem))
            }
        }
    }
}
