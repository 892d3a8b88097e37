//! Splitting the texts of a call into batches.

use clew_proto::convert::encoder::max_texts;

/// Maximum number of bytes of text in one batch, well below the 4 MiB of a message. A text has at
/// most 1 MiB.
const BATCH_BYTES: usize = 2 << 20;

/// Minimum number of bytes of text per token in most languages. Only the sizes of batches depend on
/// it.
const BYTES_PER_TOKEN: usize = 4;

/// Special tokens that frame a text.
const FRAME_TOKENS: usize = 2;

/// Bounds of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Approximate maximum number of tokens.
    pub tokens: usize,
    /// Maximum number of tokens that the model reads of one text.
    pub window_tokens: usize,
    /// Dimension of the model's vectors.
    pub dimension: u32,
}

/// Part of a call that is embedded together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Texts, in the order of the call.
    pub texts: Vec<String>,
    /// Approximate number of tokens. The exact number would cost as much as tokenising, which the
    /// encoder does anyway.
    pub tokens: usize,
}

/// Splits `texts` into parts within `bounds`, in order. A text that alone exceeds the bounds is a
/// part by itself.
pub(crate) fn split(texts: Vec<String>, bounds: Bounds) -> Vec<Part> {
    let most_texts = max_texts(bounds.dimension);
    let mut parts: Vec<Part> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        let tokens = (text.len() / BYTES_PER_TOKEN + FRAME_TOKENS).min(bounds.window_tokens).max(1);
        bytes += text.len();
        match parts.last_mut() {
            Some(part)
                if part.tokens + tokens <= bounds.tokens
                    && bytes <= BATCH_BYTES
                    && part.texts.len() < most_texts =>
            {
                part.tokens += tokens;
                part.texts.push(text);
            }
            _ => {
                bytes = text.len();
                parts.push(Part { texts: vec![text], tokens });
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_text_once_in_order_and_keep_to_their_bounds() {
        let bounds = Bounds { tokens: 100, window_tokens: 64, dimension: 1 << 16 };
        let texts: Vec<String> = (0..200).map(|i| "x".repeat(i * 37 % 400)).collect();
        let parts = split(texts.clone(), bounds);
        let again: Vec<String> = parts.iter().flat_map(|part| part.texts.clone()).collect();
        assert_eq!(again, texts);
        assert!(parts.iter().all(|part| part.tokens <= 100));
        assert!(parts.iter().all(|part| part.texts.len() <= max_texts(1 << 16)));
        assert!(split(Vec::new(), bounds).is_empty());
    }

    #[test]
    fn a_batch_of_long_texts_stays_below_the_size_of_a_message() {
        let bounds = Bounds { tokens: 8192, window_tokens: 256, dimension: 384 };
        let parts = split(vec!["x".repeat(1 << 20); 5], bounds);
        assert!(parts.iter().all(|part| part.texts.len() <= 2), "at most 2 MiB each");
    }
}
