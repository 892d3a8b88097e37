//! Configuration section `graph_builder`.

use std::path::PathBuf;

use clew_core::{Error, Violations};
use clew_generator::config::BudgetConfig;
use serde::{Deserialize, Serialize};

/// Section `graph_builder`: who reads texts, and how many at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphBuilderConfig {
    /// `rules`, or `model`: the language model of this process or of the cluster's generators.
    pub reader: Reader,
    /// Bytes of text that are read or wait to be read, 1 MiB to 1 GiB. Beyond it calls are refused with a
    /// retry delay. More lets more callers wait, and takes as much memory.
    pub queue_bytes: u32,
    /// Texts that are read at once, 0 to 1,024; 0 means one per core, or eight if a model reads.
    pub threads: u32,
    /// Questions that a model asks itself about each passage of a document, to find what it missed at first
    /// (QRMeM, section 2.1), 0 to 16. A question that is new costs two more calls.
    pub questions: u32,
    /// What a model may be asked for one text; of a text that is read for a question, no more than the question has left.
    pub budget: BudgetConfig,
    /// File of a graph that was made elsewhere, as `clew graph --file` reads them: passages of documents with
    /// the title of one of its passages hold what it tells, and are not read. What was made of documents
    /// before stays as it is.
    pub graph: Option<PathBuf>,
}

/// Who reads texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reader {
    /// Rules: what is said stands in the texts.
    #[default]
    Rules,
    /// A language model, by prompts.
    Model,
}

impl Default for GraphBuilderConfig {
    fn default() -> Self {
        Self {
            reader: Reader::default(),
            queue_bytes: 32 << 20,
            threads: 0,
            questions: 0,
            budget: BudgetConfig::default(),
            graph: None,
        }
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
        if self.questions > 16 {
            let problem = format!("expected 0 to 16, got {}", self.questions);
            violations.push("graph_builder.questions", problem);
        }
        violations.take(self.budget.validate("graph_builder.budget"));
        violations.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        assert!(GraphBuilderConfig::default().validate().is_ok());
        let budget = BudgetConfig { seconds: 0, ..BudgetConfig::default() };
        let config = GraphBuilderConfig {
            queue_bytes: 1,
            threads: 9999,
            questions: 99,
            budget,
            ..GraphBuilderConfig::default()
        };
        let error = config.validate().unwrap_err();
        let keys: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(
            keys,
            [
                "graph_builder.queue_bytes",
                "graph_builder.threads",
                "graph_builder.questions",
                "graph_builder.budget.seconds"
            ]
        );
    }
}
