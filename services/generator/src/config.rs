//! Configuration section `generator`.

use std::path::PathBuf;

use clew_core::{Error, Violations};
use clew_endpoint::EndpointConfig;
pub use clew_model::{DeviceChoice, Precision};
use serde::{Deserialize, Serialize};

/// Section `generator`: what is read at once, and with which language model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorConfig {
    /// Readings in progress, 1 to 10,000. Beyond it they are refused with a retry delay.
    pub readings: u32,
    /// A language model behind an OpenAI-compatible endpoint. Without any model evidence is read
    /// extractively.
    pub endpoint: Option<EndpointConfig>,
    /// Endpoints to fall back on, in this order, while the first does not serve.
    pub fallback: Vec<EndpointConfig>,
    /// A language model that runs in this process; it comes last.
    pub local: Option<LocalConfig>,
}

/// A language model of this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalConfig {
    /// Its folder in Hugging Face layout: Qwen2, Llama or Mistral.
    pub model: PathBuf,
    /// Folder of its tokenizer, if it is another.
    #[serde(default)]
    pub tokenizer: Option<PathBuf>,
    /// `cpu`, or `cuda:0` in builds with the feature `cuda`.
    #[serde(default)]
    pub device: DeviceChoice,
    /// `float32`, or `bfloat16`, which halves the memory and pays on GPUs.
    #[serde(default)]
    pub precision: Precision,
    /// Replies that are said or wait to be, 1 to 1,000. Beyond it they are refused with a retry delay.
    #[serde(default = "default_replies")]
    pub replies: u32,
    /// Most tokens that a step reads, 1 to 100,000. More reads prompts sooner; less lets those who speak
    /// go on sooner.
    #[serde(default = "default_step_tokens")]
    pub step_tokens: u32,
}

fn default_replies() -> u32 {
    32
}

fn default_step_tokens() -> u32 {
    512
}

impl LocalConfig {
    /// The model in a folder, as it runs by default.
    pub fn of(model: PathBuf) -> Self {
        Self {
            model,
            tokenizer: None,
            device: DeviceChoice::default(),
            precision: Precision::default(),
            replies: default_replies(),
            step_tokens: default_step_tokens(),
        }
    }
}

impl Default for GeneratorConfig {
    fn default() -> Self {
        Self { readings: 64, endpoint: None, fallback: Vec::new(), local: None }
    }
}

impl GeneratorConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] naming every key at fault.
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
        }
        if let Some(endpoint) = &self.endpoint {
            violations.take(endpoint.validate("generator.endpoint"));
        }
        for (place, endpoint) in self.fallback.iter().enumerate() {
            violations.take(endpoint.validate(&format!("generator.fallback[{place}]")));
        }
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
        let config =
            GeneratorConfig { readings: 0, local: Some(local), ..GeneratorConfig::default() };
        let error = config.validate().unwrap_err();
        let fields: Vec<&str> = error.violations().iter().map(|v| v.field.as_str()).collect();
        assert_eq!(
            fields,
            ["generator.readings", "generator.local.replies", "generator.local.step_tokens"]
        );
        assert_eq!("cuda:1".parse(), Ok(DeviceChoice::Cuda { index: 1 }));
        assert!("gpu".parse::<DeviceChoice>().is_err());
    }
}
