//! Configuration section `generator`.

use std::path::PathBuf;

use clew_core::{Error, Violations};
use clew_endpoint::EndpointConfig;
pub use clew_model::{DeviceChoice, Precision, PrecisionChoice};
use clew_reason::BudgetConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `generator`: how many requests run at once, and on which language model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorConfig {
    /// Maximum number of readings and replies in progress, 1 to 10,000. Further ones are refused
    /// with a retry delay.
    pub readings: u32,
    /// Language model behind an OpenAI-compatible endpoint. Without any language model, answers are
    /// extracted from the evidence by rules.
    pub endpoint: Option<EndpointConfig>,
    /// Endpoints to use, in this order, while the first one fails.
    pub fallback: Vec<EndpointConfig>,
    /// Language model that runs in this process. It is tried after all endpoints.
    pub local: Option<LocalConfig>,
    /// Budget of model use for one question, over all its steps and on all nodes. In a cluster the
    /// generators' value applies. A question that would exceed it fails with `RESOURCE_EXHAUSTED`
    /// and the reason `BUDGET_SPENT`.
    pub budget: BudgetConfig,
}

/// Section `generator.local`: a language model that runs in this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalConfig {
    /// Folder of the model in Hugging Face layout: Qwen2, Llama or Mistral.
    pub model: PathBuf,
    /// Folder of the tokenizer, if it is not the model's folder.
    #[serde(default)]
    pub tokenizer: Option<PathBuf>,
    /// Device to compute on: `cpu`, `cuda:0` in builds with the feature `cuda`, or `vulkan:0` in
    /// builds with the feature `wgpu`.
    #[serde(default)]
    pub device: DeviceChoice,
    /// Number format of the weights. `auto` takes `bfloat16`, half the memory, on a GPU that has
    /// it.
    #[serde(default)]
    pub precision: PrecisionChoice,
    /// Number of CPU threads that compute, 0 to 1,024; 0 means one per core. A GPU needs none.
    #[serde(default)]
    pub threads: u32,
    /// Maximum number of replies that are being generated or wait for it, 1 to 1,000. Further
    /// requests are refused with a retry delay.
    #[serde(default = "default_replies")]
    pub replies: u32,
    /// Maximum number of tokens of all replies in progress with their prompts, 256 to 100,000,000.
    /// It bounds the memory for their keys and values. A request that does not fit beside the
    /// others is refused with a retry delay; one that is larger than this by itself is invalid.
    #[serde(default = "default_cache_tokens")]
    pub cache_tokens: u32,
    /// Maximum number of tokens that one step processes, 1 to 100,000. A larger value processes
    /// prompts faster; a smaller one shortens the pauses of replies in progress.
    #[serde(default = "default_step_tokens")]
    pub step_tokens: u32,
}

fn default_replies() -> u32 {
    32
}

fn default_cache_tokens() -> u32 {
    1 << 16
}

fn default_step_tokens() -> u32 {
    512
}

impl LocalConfig {
    /// Returns the default configuration for the model in a folder.
    pub fn of(model: PathBuf) -> Self {
        Self {
            model,
            tokenizer: None,
            device: DeviceChoice::default(),
            precision: PrecisionChoice::default(),
            threads: 0,
            replies: default_replies(),
            cache_tokens: default_cache_tokens(),
            step_tokens: default_step_tokens(),
        }
    }
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self {
            readings: 64,
            endpoint: None,
            fallback: Vec::new(),
            local: None,
            budget: BudgetConfig::default(),
        }
    }
}

impl GeneratorConfig {
    /// Checks that all values are in range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming each invalid key.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u32, high: u32| {
            if !(1..=high).contains(&value) {
                let problem = format!("expected 1 to {high}, got {value}");
                violations.push(format!("generator.{key}"), problem);
            }
        };
        within("readings", self.readings, 10_000);
        if let Some(local) = &self.local {
            within("local.replies", local.replies, 1000);
            within("local.step_tokens", local.step_tokens, 100_000);
            within("local.threads", local.threads.max(1), 1024);
            if !(256..=100_000_000).contains(&local.cache_tokens) {
                let problem = format!("expected 256 to 100000000, got {}", local.cache_tokens);
                violations.push("generator.local.cache_tokens", problem);
            }
        }
        if let Some(endpoint) = &self.endpoint {
            violations.take(endpoint.validate("generator.endpoint"));
        }
        for (place, endpoint) in self.fallback.iter().enumerate() {
            violations.take(endpoint.validate(&format!("generator.fallback[{place}]")));
        }
        violations.take(self.budget.validate("generator.budget"));
        violations.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_at_fault_is_named() {
        assert!(GeneratorConfig::default().validate().is_ok());
        let local = LocalConfig { replies: 0, step_tokens: 0, ..LocalConfig::of("m".into()) };
        let config = GeneratorConfig {
            readings: 0,
            local: Some(local),
            budget: BudgetConfig { calls: 0, tokens: 10, seconds: 5 },
            ..GeneratorConfig::default()
        };
        let error = config.validate().unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(
            fields,
            [
                "generator.readings",
                "generator.local.replies",
                "generator.local.step_tokens",
                "generator.budget.calls",
                "generator.budget.tokens"
            ]
        );
        assert_eq!("cuda:1".parse(), Ok(DeviceChoice::Cuda { index: 1 }));
        assert!("gpu".parse::<DeviceChoice>().is_err());
    }
}
