//! Estimate of the number of tokens that a language model makes of a text, without its tokenizer.

/// Returns an estimate of the number of tokens that tends to be too high for the byte-pair
/// vocabularies in use.
///
/// A word of ASCII letters counts one token for every four letters, rounded up; a digit or a sign
/// one; a single space none; other white space one per run. Other characters count by their length
/// in UTF-8: half a token for two bytes, one for three, three for four.
pub fn estimate_tokens(text: &str) -> u32 {
    let mut halves = 0u64;
    let mut letters = 0u64;
    let mut white = White::None;
    for character in text.chars() {
        letters = if character.is_ascii_alphabetic() { letters + 1 } else { 0 };
        halves += match character.len_utf8() {
            1 if letters > 0 => 2 * u64::from(letters % 4 == 1),
            1 if character.is_ascii_whitespace() => 2 * white.cost_of(character),
            1 => 2,
            2 => 1,
            3 => 2,
            _ => 6,
        };
        if !character.is_ascii_whitespace() {
            white = White::None;
        }
    }
    u32::try_from(halves.div_ceil(2)).unwrap_or(u32::MAX)
}

/// White space right before the current character.
enum White {
    None,
    /// One space, which belongs to the next word.
    Space,
    /// A run that is already counted.
    Run,
}

impl White {
    /// Returns the number of tokens that one more character of white space adds.
    fn cost_of(&mut self, character: char) -> u64 {
        let (next, cost) = match self {
            Self::None if character == ' ' => (Self::Space, 0),
            Self::None | Self::Space => (Self::Run, 1),
            Self::Run => (Self::Run, 0),
        };
        *self = next;
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_near_and_not_below_what_vocabularies_make_of_a_text() {
        // Vocabularies in use have a token for each of these words and signs; those of Llama 2 and
        // Qwen split numbers into digits.
        let cases = [
            ("", 0, 0),
            ("Hello", 1, 2),
            ("The quick brown fox jumps over the lazy dog.", 10, 14),
            ("Paris is the capital of France.", 7, 11),
            ("2024-05-17", 10, 10),
            ("a\n\n\n\nb", 3, 3),
            ("東京", 2, 2),
        ];
        for (text, least, most) in cases {
            let estimated = estimate_tokens(text);
            assert!((least..=most).contains(&estimated), "{text:?}: {estimated}");
        }
    }
}
