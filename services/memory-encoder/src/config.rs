//! Configuration section `encoder`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clew_core::Error;
use clew_endpoint::EmbeddingConfig;
use clew_model::{DeviceChoice, ModelOptions, PathChoice, PrecisionChoice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Threads that feed a GPU: while one waits for a batch, the other prepares the next. More are not
/// faster (BENCHMARKS.md).
const GPU_THREADS: usize = 2;
/// Tokens of a batch by default. A GPU embeds twenty times as fast with its number as with a
/// CPU's (BENCHMARKS.md).
const CPU_BATCH_TOKENS: usize = 1024;
const GPU_BATCH_TOKENS: usize = 65_536;

/// Section `encoder`: the model that embeds, the devices it runs on, and how much work may wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderConfig {
    /// Folder of the model in Hugging Face layout (`config.json`, `model.safetensors`,
    /// `tokenizer.json`); also `--model` and `CLEW_MODEL_DIR`. If none of them is set, the program
    /// `clew` looks for the default model where `make setup` puts it, beside the installed program,
    /// and in the user's cache folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// Whether the program `clew` may fetch the default model into the user's cache folder if
    /// it finds none. Only a program that was installed as a Python package does so.
    pub fetch_model: bool,
    /// Embedding model behind an OpenAI-compatible endpoint, instead of a folder. Excludes `model`,
    /// which is then not searched for. The keys about devices have no effect on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EmbeddingConfig>,
    /// Folder of a second model, which corpora are to be reembedded with. It runs beside the first,
    /// takes its own memory, and has as many worker threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_model: Option<PathBuf>,
    /// Second model behind an endpoint, for the same purpose. Excludes `next_model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_endpoint: Option<EmbeddingConfig>,
    /// Device to compute on: `cpu`, or the N-th GPU: `cuda:N` in builds with the feature `cuda`,
    /// `vulkan:N` in builds with the feature `wgpu`.
    pub device: String,
    /// Number format of the factors of matrix products. `auto` takes bfloat16 if the device has
    /// instructions for it: twice as fast, vectors within cosine 0.9999 of float32.
    #[schemars(extend("enum" = ["auto", "float32", "bfloat16"]))]
    pub precision: String,
    /// Implementation that computes: `packed` is hand-written kernels for x86-64 CPUs, and `burn`
    /// is portable. `auto` takes the packed kernels if the model and the CPU allow it.
    #[schemars(extend("enum" = ["auto", "packed", "burn"]))]
    pub path: String,
    /// Number of worker threads, 1 to 256; 0 means one per core of a CPU, and two for a GPU. Each
    /// computes one batch at a time.
    pub threads: usize,
    /// Maximum number of tokens in one batch, 64 to 1,048,576; 0 means 1,024 on a CPU and 65,536 on
    /// a GPU. A larger number keeps a device busier, and makes a question that arrives behind a
    /// batch wait longer. A GPU computes a batch in parts that its memory has room for.
    pub batch_tokens: usize,
    /// Maximum number of tokens that wait or are computed, 1,024 to 100,000,000. Beyond it
    /// interactive callers are refused with a retry delay, and bulk callers wait for room.
    pub queue_tokens: u32,
    /// Time, in milliseconds, that texts of questions may wait for a worker, 1 to 60,000. Then they
    /// are refused with a retry delay. A larger number lets bursts through, and makes answers late
    /// under sustained load.
    pub question_wait_ms: u64,
    /// Maximum number of batches that one stream of the network service has under way, 1 to 1,000.
    /// Beyond it the stream is not read until one is done.
    pub stream_batches: usize,
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            model: None,
            fetch_model: true,
            endpoint: None,
            next_model: None,
            next_endpoint: None,
            device: "cpu".to_owned(),
            precision: "auto".to_owned(),
            path: "auto".to_owned(),
            threads: 0,
            batch_tokens: 0,
            queue_tokens: 1_000_000,
            question_wait_ms: 2_000,
            stream_batches: 32,
        }
    }
}

impl EncoderConfig {
    /// Returns whether the embedding model runs in this process, and needs a folder.
    pub fn needs_folder(&self) -> bool {
        self.endpoint.is_none()
    }

    /// Refuses values out of range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] with every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = clew_core::Violations::default();
        violations.take(self.model_options());
        let models = [
            ("endpoint", &self.endpoint, "model", &self.model),
            ("next_endpoint", &self.next_endpoint, "next_model", &self.next_model),
        ];
        for (key, endpoint, folder_key, folder) in models {
            let Some(endpoint) = endpoint else { continue };
            if folder.is_some() {
                let problem = format!("expected either it or `encoder.{folder_key}`, got both");
                violations.push(format!("encoder.{key}"), problem);
            }
            violations.take(endpoint.validate(&format!("encoder.{key}")));
        }
        if self.threads > 256 {
            violations.push("encoder.threads", format!("expected 0 to 256, got {}", self.threads));
        }
        if self.batch_tokens != 0 && !(64..=1 << 20).contains(&self.batch_tokens) {
            let problem = format!("expected 0 or 64 to {}, got {}", 1 << 20, self.batch_tokens);
            violations.push("encoder.batch_tokens", problem);
        }
        if !(1024..=100_000_000).contains(&self.queue_tokens) {
            violations.push(
                "encoder.queue_tokens",
                format!("expected 1024 to 100000000, got {}", self.queue_tokens),
            );
        }
        if !(1..=60_000).contains(&self.question_wait_ms) {
            let problem = format!("expected 1 to 60000, got {}", self.question_wait_ms);
            violations.push("encoder.question_wait_ms", problem);
        }
        if !(1..=1000).contains(&self.stream_batches) {
            let problem = format!("expected 1 to 1000, got {}", self.stream_batches);
            violations.push("encoder.stream_batches", problem);
        }
        violations.into_result()
    }

    /// Returns the options for loading the model.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] with the key whose value is unknown.
    pub fn model_options(&self) -> Result<ModelOptions, Error> {
        let device = self.device.parse();
        let device =
            device.map_err(|_| unknown("device", "cpu, cuda:N or vulkan:N", &self.device))?;
        let precision = match self.precision.as_str() {
            "auto" => PrecisionChoice::Auto,
            "float32" => PrecisionChoice::Float32,
            "bfloat16" => PrecisionChoice::BFloat16,
            other => return Err(unknown("precision", "auto, float32 or bfloat16", other)),
        };
        let path = match self.path.as_str() {
            "auto" => PathChoice::Auto,
            "packed" => PathChoice::Packed,
            "burn" => PathChoice::Burn,
            other => return Err(unknown("path", "auto, packed or burn", other)),
        };
        Ok(ModelOptions { device, precision, path, ..ModelOptions::default() })
    }

    /// Returns the number of worker threads, with 0 resolved.
    pub fn worker_threads(&self) -> usize {
        match self.threads {
            0 if self.is_on_cpu() => {
                std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
            }
            0 => GPU_THREADS,
            threads => threads,
        }
    }

    /// Returns the maximum number of tokens in one batch, with 0 resolved.
    pub fn tokens_of_a_batch(&self) -> usize {
        match self.batch_tokens {
            0 if self.is_on_cpu() => CPU_BATCH_TOKENS,
            0 => GPU_BATCH_TOKENS,
            tokens => tokens,
        }
    }

    fn is_on_cpu(&self) -> bool {
        self.device == String::from(DeviceChoice::Cpu)
    }
}

fn unknown(key: &str, expected: &str, got: &str) -> Error {
    Error::invalid(format!("encoder.{key}"), format!("expected {expected}, got `{got}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_fed_by_two_threads_with_large_batches_and_a_cpu_by_one_per_core() {
        let feeding = |device: &str, threads, batch_tokens| {
            let device = device.to_owned();
            let config = EncoderConfig { device, threads, batch_tokens, ..Default::default() };
            config.validate().unwrap();
            (config.worker_threads(), config.tokens_of_a_batch())
        };
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        assert_eq!(feeding("cpu", 0, 0), (cores, 1024));
        assert_eq!(feeding("cuda:1", 0, 0), (2, 65_536));
        assert_eq!(feeding("cuda:1", 5, 64), (5, 64));
    }

    #[test]
    fn a_folder_and_an_endpoint_contradict_each_other() {
        let endpoint = EmbeddingConfig {
            url: "http://localhost:8000/v1".to_owned(),
            model: "model".to_owned(),
            dimension: 64,
            ..EmbeddingConfig::default()
        };
        let alone = EncoderConfig {
            endpoint: Some(endpoint.clone()),
            next_endpoint: Some(endpoint.clone()),
            ..EncoderConfig::default()
        };
        assert!(alone.validate().is_ok());
        let folder = Some(PathBuf::from("model"));
        let both = EncoderConfig { model: folder.clone(), next_model: folder, ..alone };
        let unsound = EmbeddingConfig { dimension: 0, ..endpoint };
        let both = EncoderConfig { next_endpoint: Some(unsound), ..both };
        let error = both.validate().unwrap_err();
        let fields = error.fields_at_fault();
        let keys = ["endpoint", "next_endpoint", "next_endpoint.dimension"];
        assert_eq!(fields, keys.map(|key| format!("encoder.{key}")));
    }
}
