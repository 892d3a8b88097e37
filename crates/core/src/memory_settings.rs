//! How compressed memories of a corpus are formed.

use serde::{Deserialize, Serialize};

use crate::{Error, MemoryModelIdentity, SNAPSHOT_BYTES, Violations, ready_bytes};

/// Maximum number of tokens that one memory covers. Beyond it, a model's positions are far from
/// those it was trained on.
const MOST_SEGMENT_TOKENS: u32 = 4_000_000;
/// Maximum number of tokens for each one that is kept.
const MOST_RATIO: u32 = 128;

/// Settings for forming the compressed memories of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySettings {
    /// Number of tokens for each one that is kept. The model's window is a multiple of it.
    pub ratio: u32,
    /// Approximate number of tokens that one memory covers. A larger corpus has several memories.
    pub segment_tokens: u32,
}

impl Default for MemorySettings {
    /// Returns the ratio of the published models, and as many tokens as fit into their positions at
    /// it.
    fn default() -> Self {
        Self { ratio: 4, segment_tokens: 100_000 }
    }
}

impl MemorySettings {
    /// Checks that `model` can form such memories, and that they can be stored and kept ready.
    /// Their size is an estimate, because the tokens of a memory are.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] with every field at fault and the figures.
    pub fn check_for(&self, model: &MemoryModelIdentity) -> Result<(), Error> {
        let Self { ratio, segment_tokens } = *self;
        let mut violations = Violations::default();
        if ratio == 0 || !model.window.is_multiple_of(ratio) {
            let problem = format!(
                "expected a divisor of the memory model's window, {}, got {ratio}",
                model.window
            );
            violations.push("corpus.memory.ratio", problem);
        }
        let (slots, slot_bytes) = (model.slots(segment_tokens.into(), ratio), model.slot_bytes);
        let kept = format!(
            "{segment_tokens} tokens at ratio {ratio} keep {slots}, of {slot_bytes} bytes each"
        );
        let stored = slots.saturating_mul(slot_bytes);
        if stored > SNAPSHOT_BYTES as u64 {
            let problem = format!(
                "expected memories of at most {SNAPSHOT_BYTES} bytes, which is what can be stored, \
                 got {stored}: {kept}; take fewer tokens or a larger ratio"
            );
            violations.push("corpus.memory.segment_tokens", problem);
        }
        let ready = ready_bytes(slots, slot_bytes);
        if let Some(cache_bytes) = model.cache_bytes.filter(|bytes| ready > *bytes) {
            let problem = format!(
                "expected memories that take at most {cache_bytes} bytes while they are ready \
                 (`memory_model.cache_bytes` of the encoders), got {ready}: {kept}, and half as \
                 much again for rotated keys; take fewer tokens or a larger ratio, or raise that key"
            );
            violations.push("corpus.memory.segment_tokens", problem);
        }
        violations.into_result()
    }

    pub(crate) fn check(&self, violations: &mut Violations) {
        if !(1..=MOST_RATIO).contains(&self.ratio) {
            let problem = format!("expected 1 to {MOST_RATIO}, got {}", self.ratio);
            violations.push("corpus.memory.ratio", problem);
        }
        if !(256..=MOST_SEGMENT_TOKENS).contains(&self.segment_tokens) {
            let problem =
                format!("expected 256 to {MOST_SEGMENT_TOKENS}, got {}", self.segment_tokens);
            violations.push("corpus.memory.segment_tokens", problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a model like Qwen2-7B in bfloat16: 28 layers, 4 heads of 128 for keys and values.
    fn model(cache_bytes: Option<u64>) -> MemoryModelIdentity {
        MemoryModelIdentity {
            model: "qwen2-7b".to_owned(),
            fingerprint: "0".to_owned(),
            window: 2048,
            slot_bytes: 28 * 2 * 4 * 128 * 2,
            prompts: "clew@1".to_owned(),
            cache_bytes,
        }
    }

    #[test]
    fn memories_that_cannot_be_kept_or_stored_are_refused_with_the_figures() {
        let settings = |ratio, segment_tokens| MemorySettings { ratio, segment_tokens };
        let most = Some(4 << 30);
        assert!(MemorySettings::default().check_for(&model(most)).is_ok());
        assert!(settings(16, 400_000).check_for(&model(most)).is_ok());
        // An encoder of an earlier release does not tell its room.
        assert!(settings(4, 1_000_000).check_for(&model(None)).is_ok());

        let error = settings(4, 1_000_000).check_for(&model(most)).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["corpus.memory.segment_tokens"]);
        let slots = model(most).slots(1_000_000, 4);
        let expected = format!("at most {} bytes", 4_u64 << 30);
        let got = format!("got {}: 1000000 tokens at ratio 4", slots * 57_344 / 2 * 3);
        assert!(error.message().contains(&expected), "{error}");
        assert!(error.message().contains(&got), "{error}");

        let error = settings(4, 4_000_000).check_for(&model(None)).unwrap_err();
        assert!(error.message().contains(&format!("at most {SNAPSHOT_BYTES} bytes")), "{error}");
        let error = settings(3, 1000).check_for(&model(most)).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["corpus.memory.ratio"]);
        assert!(error.message().contains("2048, got 3"), "{error}");
    }
}
