//! Configuration of budgets, a part of the sections whose work uses a language model.

use std::time::Duration;

use clew_core::{Budget, Error, Violations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Budget of model use for one piece of work: a question with all its steps, or one text. Work that
/// would exceed it fails with `RESOURCE_EXHAUSTED` and the reason `BUDGET_SPENT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetConfig {
    /// Maximum number of calls, 1 to 1,000,000.
    pub calls: u32,
    /// Maximum number of tokens, prompts and replies together, 1,000 to 4,000,000,000.
    pub tokens: u32,
    /// Maximum time that the model works, in seconds, summed over all calls, 1 to 1,000,000.
    pub seconds: u32,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        let Budget { calls, tokens, time } = Budget::default();
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self { calls: number(calls), tokens: number(tokens), seconds: number(time.as_secs()) }
    }
}

impl BudgetConfig {
    /// Converts the section to a [`Budget`].
    pub fn budget(&self) -> Budget {
        Budget {
            calls: self.calls.into(),
            tokens: self.tokens.into(),
            time: Duration::from_secs(self.seconds.into()),
        }
    }

    /// Checks that all values are in range; errors name the keys as `section.key`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming each invalid key.
    pub fn validate(&self, section: &str) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u32, low: u32, high: u32| {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("{section}.{key}"), problem);
            }
        };
        within("calls", self.calls, 1, 1_000_000);
        within("tokens", self.tokens, 1000, 4_000_000_000);
        within("seconds", self.seconds, 1, 1_000_000);
        violations.into_result()
    }
}
