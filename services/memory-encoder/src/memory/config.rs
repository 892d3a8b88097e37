//! Configuration section `memory_model`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clew_cluster::Address;
use clew_core::{Error, Violations};
use clew_model::memory::SnapshotFormat;
use clew_model::{DeviceChoice, LanguageModelOptions, PrecisionChoice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::peers::MOST_NODES;

/// Section `memory_model`: the model that forms compressed memories and drafts from them, and how
/// much work may wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryModelConfig {
    /// Folder of the model in Hugging Face layout, with `beacon_*` keys in its `config.json`.
    /// Without it, no compressed memories are formed here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Prompts of the model: `clew` (our words), `memorag` (those of the checkpoints that the
    /// authors of MemoRAG published), or the path of a file of prompts. If absent, they are
    /// `memory_prompts.md` of the model's folder if that exists, else `memorag` if the checkpoint's
    /// name contains that word, else `clew`. After a change of the prompts or of their version all
    /// memories are formed anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<String>,
    /// Device to compute on: `cpu`, `cuda:0` in builds with the feature `cuda`, or `vulkan:0` in
    /// builds with the feature `wgpu`.
    pub device: DeviceChoice,
    /// Number format of the weights. `auto` takes `bfloat16`, half the memory, on a GPU that has
    /// it.
    pub precision: PrecisionChoice,
    /// Number of CPU threads that compute, 0 to 1,024; 0 means one per core. A GPU needs none.
    pub threads: usize,
    /// Bytes on the device for memories that are kept ready, 1 MiB to 1 TiB. The least recently
    /// used are removed first. With a larger number callers send snapshots less often. A memory
    /// that alone exceeds it is not kept, and is sent with every question. Corpora whose memories
    /// would exceed it are not created. Snapshots and texts that are arriving from callers may take
    /// as much again and 64 MiB more; a snapshot that alone exceeds that arrives when nothing else
    /// does.
    pub cache_bytes: u64,
    /// Maximum number of tokens of texts that wait or are being read, 1,024 to 100,000,000, and of
    /// drafts as many. Beyond it drafts are refused with a retry delay, and texts wait for room.
    pub queue_tokens: u32,
    /// Maximum number of tokens in one draft, 1 to 4,096. A larger number lets a draft say more,
    /// and makes a question wait longer.
    pub draft_tokens: usize,
    /// Addresses of other encoders with the same model and number format, such as
    /// `http://10.0.0.7:7421`, at most 63. Texts of at least four passes for each node, of up to
    /// 4,096 tokens each, are read together with those that serve. The memory is that of one
    /// encoder. If a peer is lost, refuses or is late, the texts are read here alone. All encoders
    /// may have the same list: each skips its own address.
    pub peers: Vec<Address>,
    /// Number format of snapshots. `bfloat16` and `int8` take about a half and a quarter of the
    /// bytes of float32.
    pub snapshot: SnapshotFormat,
}

impl Default for MemoryModelConfig {
    fn default() -> Self {
        Self {
            folder: None,
            prompts: None,
            device: DeviceChoice::default(),
            precision: PrecisionChoice::default(),
            threads: 0,
            cache_bytes: 4 << 30,
            queue_tokens: 1_000_000,
            draft_tokens: 128,
            peers: Vec::new(),
            snapshot: SnapshotFormat::default(),
        }
    }
}

impl MemoryModelConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] with every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("memory_model.{key}"), problem);
            }
        };
        within("threads", self.threads as u64, 0, 1024);
        within("cache_bytes", self.cache_bytes, 1 << 20, 1 << 40);
        within("queue_tokens", self.queue_tokens.into(), 1024, 100_000_000);
        within("draft_tokens", self.draft_tokens as u64, 1, 4096);
        if self.peers.len() >= MOST_NODES {
            let problem =
                format!("expected at most {} addresses, got {}", MOST_NODES - 1, self.peers.len());
            violations.push("memory_model.peers", problem);
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = self.peers.iter().find(|address| !known.insert(*address)) {
            let problem = format!("expected each address once, got `{twice}` twice");
            violations.push("memory_model.peers", problem);
        }
        if self.folder.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
            let problem = "expected the folder of a model, got an empty name";
            violations.push("memory_model.folder", problem);
        }
        if self.prompts.as_ref().is_some_and(String::is_empty) {
            let problem = "expected `clew`, `memorag` or the path of a file, got an empty name";
            violations.push("memory_model.prompts", problem);
        }
        violations.into_result()
    }

    /// Returns the options for loading the model, or `None` if there is none.
    pub(super) fn model_options(&self) -> Option<LanguageModelOptions> {
        Some(LanguageModelOptions {
            folder: self.folder.clone()?,
            tokenizer: None,
            name: None,
            device: self.device,
            precision: self.precision.of_decoder(self.device),
            threads: self.threads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_at_fault_is_named() {
        assert!(MemoryModelConfig::default().validate().is_ok());
        let config = MemoryModelConfig {
            folder: Some(PathBuf::new()),
            prompts: Some(String::new()),
            threads: 2000,
            cache_bytes: 10,
            queue_tokens: 0,
            draft_tokens: 0,
            peers: vec!["http://10.0.0.7:7421".parse().unwrap(); MOST_NODES],
            ..MemoryModelConfig::default()
        };
        let error = config.validate().unwrap_err();
        let mut fields = error.fields_at_fault();
        // There are too many peers, and they are the same.
        fields.dedup();
        let keys = [
            "threads",
            "cache_bytes",
            "queue_tokens",
            "draft_tokens",
            "peers",
            "folder",
            "prompts",
        ];
        assert_eq!(fields, keys.map(|key| format!("memory_model.{key}")));
    }
}
