//! Configuration section `graph_builder`.

use clew_core::{Error, Violations};
use serde::{Deserialize, Serialize};

/// Section `graph_builder`: bounds of what is read at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphBuilderConfig {
    /// Bytes of text that are read or wait to be read, 1 MiB to 1 GiB. Beyond it calls are refused with a
    /// retry delay. More lets more callers wait, and takes as much memory.
    pub queue_bytes: u32,
    /// Texts that are read at once, 0 to 1,024; 0 means one per core.
    pub threads: u32,
}

impl Default for GraphBuilderConfig {
    fn default() -> Self {
        Self { queue_bytes: 32 << 20, threads: 0 }
    }
}

impl GraphBuilderConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] naming every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if !(1 << 20..=1 << 30).contains(&self.queue_bytes) {
            let problem = format!("expected {} to {}, got {}", 1 << 20, 1 << 30, self.queue_bytes);
            violations.push("graph_builder.queue_bytes", problem);
        }
        if self.threads > 1024 {
            let problem = format!("expected 0 to 1024, got {}", self.threads);
            violations.push("graph_builder.threads", problem);
        }
        violations.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        assert!(GraphBuilderConfig::default().validate().is_ok());
        let error = GraphBuilderConfig { queue_bytes: 1, threads: 9999 }.validate().unwrap_err();
        let keys: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(keys, ["graph_builder.queue_bytes", "graph_builder.threads"]);
    }
}
