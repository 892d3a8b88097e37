//! Configuration section `graph_builder`.

use std::path::PathBuf;

use clew_core::{Error, Violations};
use clew_reason::BudgetConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `graph_builder`: how texts are read, and how many at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GraphBuilderConfig {
    /// Way of reading texts.
    pub reader: Reader,
    /// Maximum bytes of text that are being read or wait for it, 1 MiB to 1 GiB. Further calls are
    /// refused with a retry delay. A larger value lets more callers wait and uses as much memory.
    pub queue_bytes: u32,
    /// Maximum number of texts that are read at once, 0 to 1,024; 0 means one per core, or eight if
    /// a model reads.
    pub threads: u32,
    /// Maximum number of questions that a model asks itself about each passage of a document, to
    /// find what it missed at first (QRMeM, section 2.1), 0 to 16. Each new question costs two more
    /// calls.
    pub questions: u32,
    /// Budget of model use for one text. For a text that is read for a question, the question's
    /// remaining budget applies as well.
    pub budget: BudgetConfig,
    /// File of an existing graph, in a format that `clew graph --file` reads: GraphML as LightRAG
    /// writes it, or triples as HippoRAG writes them. Passages of documents whose title occurs in
    /// the file take their entities and relations from it and are not read. Graphs of earlier
    /// documents stay unchanged.
    pub graph: Option<PathBuf>,
}

/// Way of reading texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reader {
    /// Rules, which take summaries and entities literally from the texts.
    #[default]
    Rules,
    /// Prompts to the language model of this process or of the cluster's generators.
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
    /// Checks that all values are in range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming each invalid key.
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
        let keys = error.fields_at_fault();
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
