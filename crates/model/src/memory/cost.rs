//! Cost of compressed memories, from a model's configuration alone.

use std::path::Path;

use serde::Serialize;

use super::settings::MemoryModelSettings;
use crate::Error;
use crate::decoder::config::DecoderConfig;
use crate::folder::reader::FolderReader;

/// Bytes per number, in memories and weights in bfloat16.
const HALF: u64 = 2;

/// Shape of a memory model, as far as it affects cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryShape {
    /// Number of tokens in a window.
    pub window: usize,
    /// Number of parameters, including those of memory tokens.
    pub parameters: u64,
    /// Bytes of one slot, in bfloat16.
    pub slot_bytes: u64,
    /// Number of slots that the model was trained to look back over.
    pub positions: usize,
    /// Operations of the layers' matrices for each token that is read, memory tokens included.
    matrix_operations: f64,
    /// Operations for each slot that a token attends to.
    attention_operations: f64,
}

/// Cost of the compressed memories of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryCost {
    /// Number of slots that are kept.
    pub slots: u64,
    /// Bytes of the memories, in bfloat16.
    pub bytes: u64,
    /// Number of memories, each of about the same number of tokens.
    pub memories: u64,
    /// Operations of matrix products.
    pub matrix_operations: f64,
    /// Operations of attention, most of them over the memory.
    pub attention_operations: f64,
}

impl MemoryShape {
    /// Reads the shape from a model folder's configuration. The weights need not be there.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if the configuration cannot be read, and [`Error::Broken`] or
    /// [`Error::Unsupported`] if it is not that of a memory model.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let reader = FolderReader::new(folder);
        let settings = MemoryModelSettings::read(&reader)?;
        let mut config = DecoderConfig::read(&reader)?;
        config.windows.fill(None);
        config.memory = Some(crate::decoder::config::MemoryParts {
            projections: settings.projections.clone(),
            copied_from: None,
        });
        let size = |shape: &[usize]| shape.iter().product::<usize>() as u64;
        let parameters = config.parameters();
        let all = parameters.iter().map(|parameter| size(&parameter.shape)).sum();
        // A row is a word or a memory token. Memory tokens have other matrices of the same sizes,
        // so only the words' matrices count.
        let is_read = |name: &str| name.contains(".layers.") && !name.contains(".beacon_");
        let matrices = parameters.iter().filter(|parameter| is_read(&parameter.name));
        let matrices: u64 = matrices
            .filter(|parameter| parameter.shape.len() == 2)
            .map(|parameter| size(&parameter.shape))
            .sum();
        let attended = (config.layers * config.heads * config.head_width) as f64;
        Ok(Self {
            window: settings.window,
            parameters: all,
            slot_bytes: config.cache_bytes(HALF as usize) as u64,
            positions: config.positions,
            matrix_operations: 2.0 * matrices as f64,
            // One product with the key, and one with the value.
            attention_operations: 4.0 * attended,
        })
    }

    /// Returns the cost of `tokens` tokens, compressed by `ratio` (0 for none), in memories of at
    /// most `segment` tokens.
    pub fn cost(&self, tokens: u64, ratio: u64, segment: u64) -> MemoryCost {
        let segment = segment.min(tokens).max(1);
        let memories = tokens.div_ceil(segment);
        let mut cost = MemoryCost {
            slots: 0,
            bytes: 0,
            memories,
            matrix_operations: 0.0,
            attention_operations: 0.0,
        };
        let last = tokens - segment * memories.saturating_sub(1);
        for (count, tokens) in [(memories.saturating_sub(1), segment), (memories.min(1), last)] {
            let one = self.of_one(tokens, ratio);
            cost.slots += count * one.slots;
            cost.bytes += count * one.bytes;
            cost.matrix_operations += count as f64 * one.matrix_operations;
            cost.attention_operations += count as f64 * one.attention_operations;
        }
        cost
    }

    fn of_one(&self, tokens: u64, ratio: u64) -> MemoryCost {
        let window = self.window as u64;
        let per_window = window.checked_div(ratio).unwrap_or(window);
        let (windows, open) = (tokens / window, tokens % window);
        let kept = |words: u64| words + words.checked_div(ratio).unwrap_or(0);
        let slots = clew_core::kept_slots(tokens, window, ratio);
        // Each row of a window attends to all that is kept, and on average to half of the window.
        let rows = kept(window) as f64;
        let before = per_window as f64 * (windows as f64 - 1.0).max(0.0) / 2.0;
        let looked = windows as f64 * rows * (before + rows / 2.0);
        let tail = kept(open) as f64;
        let looked = looked + tail * ((windows * per_window) as f64 + tail / 2.0);
        MemoryCost {
            slots,
            bytes: slots * self.slot_bytes,
            memories: 1,
            matrix_operations: (windows as f64 * rows + tail) * self.matrix_operations,
            attention_operations: looked * self.attention_operations,
        }
    }

    /// Returns the size of the weights in bytes, in bfloat16.
    pub fn weight_bytes(&self) -> u64 {
        self.parameters * HALF
    }
}

impl MemoryCost {
    /// Returns the minimum time in seconds on a device of this speed.
    pub fn floor_seconds(&self, operations_per_second: f64) -> f64 {
        (self.matrix_operations + self.attention_operations) / operations_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the published configurations of the base models, with the settings of the memory
    /// models.
    fn shape(config: serde_json::Value) -> MemoryShape {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config;
        for (name, value) in [
            ("max_position_embeddings", 32768.into()),
            ("rope_theta", 1e6.into()),
            ("rms_norm_eps", 1e-6.into()),
            ("beacon_window", 2048.into()),
            ("beacon_ratio", 4.into()),
            ("beacon_param", vec!["q", "k", "v"].into()),
        ] {
            config[name] = value;
        }
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        MemoryShape::read(folder.path()).unwrap()
    }

    fn qwen2() -> MemoryShape {
        shape(serde_json::json!({
            "model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584,
            "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4,
        }))
    }

    fn mistral() -> MemoryShape {
        shape(serde_json::json!({
            "model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096,
            "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8,
        }))
    }

    #[test]
    fn published_models_have_their_published_sizes() {
        assert_eq!((qwen2().parameters, qwen2().slot_bytes), (8_078_171_136, 57_344));
        assert_eq!(mistral().slot_bytes, 131_072);
        assert!((mistral().parameters as f64 - 8.047e9).abs() < 1e6);
        for (shape, expected) in [(qwen2(), 13.05e9), (mistral(), 13.96e9)] {
            assert!((shape.matrix_operations - expected).abs() < 0.01e9);
        }
    }

    #[test]
    fn a_million_tokens_cost_what_was_reckoned_by_hand() {
        // At 790 TFLOP/s. Attention over the memory is four fifths of the work at ratio 4.
        for (shape, ratio, seconds, gigabytes) in [
            (qwen2(), 4, 101.0, 14.3),
            (qwen2(), 16, 35.0, 3.6),
            (mistral(), 4, 127.0, 32.8),
            (mistral(), 16, 42.0, 8.2),
        ] {
            let cost = shape.cost(1_000_000, ratio, u64::MAX);
            let floor = cost.floor_seconds(790e12);
            assert!((floor / seconds - 1.0).abs() < 0.02, "{ratio}: {floor} s beside {seconds}");
            let found = cost.bytes as f64 / 1e9;
            assert!(
                (found / gigabytes - 1.0).abs() < 0.02,
                "{ratio}: {found} GB beside {gigabytes}"
            );
        }
    }

    #[test]
    fn memories_of_segments_take_as_much_and_less_time() {
        let whole = qwen2().cost(1_024_000, 4, u64::MAX);
        let parts = qwen2().cost(1_024_000, 4, 102_400);
        assert_eq!((whole.slots, parts.slots, parts.memories), (256_000, 256_000, 10));
        assert!(parts.attention_operations < whole.attention_operations / 5.0);
        assert_eq!(qwen2().cost(0, 4, 100).slots, 0);
        assert_eq!(qwen2().cost(10, 4, 100).slots, 12);
        assert_eq!(qwen2().cost(5000, 0, u64::MAX).slots, 5000);
    }
}
