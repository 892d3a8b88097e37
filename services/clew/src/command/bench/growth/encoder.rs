//! Encoder that takes next to no time and keeps neighbourhoods.
//!
//! It is a random projection of what a text consists of: its words without those of grammar, and
//! the runs of three letters in them, so that the forms of a word are near each other. Texts with
//! common words get near vectors. The first dimensions carry most of what tells texts apart, as the
//! principal ones of a trained model do: vectors whose dimensions all counted alike would be
//! farther from each other than those of any model. The same text always has the same vector.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use clew_core::{EncoderIdentity, Span};

/// Dimension of the vectors: that of a small model of sentences.
pub const DIMENSION: usize = 384;
/// Tokens that the encoder reads of a text.
const WINDOW: u32 = 256;
/// Bytes of a token: a longer word is several tokens.
const TOKEN: usize = 6;
/// Length of the shortest word that counts. Shorter ones are the commonest and in every text.
const SHORTEST: usize = 3;
/// Places of a vector that a word adds to, and those of a run of letters.
const PLACES_OF_A_WORD: usize = 16;
const PLACES_OF_A_RUN: usize = 4;
const RUN: usize = 3;
/// Number of dimensions that count about alike. The weight of those behind them falls.
const PRINCIPAL: f32 = 24.0;

static WEIGHTS: LazyLock<Vec<f32>> = LazyLock::new(|| {
    (0..DIMENSION).map(|place| (1.0 + place as f32 / PRINCIPAL).powf(-0.75)).collect()
});

/// Returns the identity of the encoder.
pub fn identity() -> EncoderIdentity {
    EncoderIdentity {
        model: "hashed-words".to_owned(),
        revision: "2".to_owned(),
        dimension: DIMENSION as u32,
        max_tokens: WINDOW,
    }
}

/// Returns the vector of a text: `[DIMENSION]`.
pub fn embed(text: &str) -> Vec<f32> {
    // No vector is zero, also if all words are common.
    let mut vector = vec![1e-3_f32; DIMENSION];
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric());
    for word in words.filter(|word| word.len() >= SHORTEST && !clew_text::is_grammar_word(word)) {
        add(&mut vector, hash(word), PLACES_OF_A_WORD);
        for run in word.as_bytes().windows(RUN) {
            add(&mut vector, hash(run), PLACES_OF_A_RUN);
        }
    }
    vector.iter_mut().zip(WEIGHTS.iter()).for_each(|(value, weight)| *value *= weight);
    vector
}

fn add(vector: &mut [f32], seed: u64, places: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..places {
        let drawn = random.u64(..);
        let sign = if drawn >> 63 == 0 { 1.0 } else { -1.0 };
        vector[(drawn % DIMENSION as u64) as usize] += sign;
    }
}

/// Returns the byte range of each token of a text: a piece of a word, or a mark.
pub fn token_spans(text: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::with_capacity(text.len() / 4);
    let mut is_in_word = false;
    for (start, c) in text.char_indices() {
        let end = start + c.len_utf8();
        let goes_on = is_in_word && c.is_alphanumeric();
        is_in_word = c.is_alphanumeric();
        match spans.last_mut() {
            Some(last) if goes_on && end - last.start <= TOKEN => last.end = end,
            _ if c.is_whitespace() => {}
            _ => spans.push(Span::new(start, end)),
        }
    }
    spans
}

/// Returns a number that is the same in every run.
pub fn hash(value: impl Hash) -> u64 {
    // It has no random keys.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str) -> f32 {
        let (a, b) = (embed(a), embed(b));
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt()
    }

    #[test]
    fn texts_with_common_words_or_forms_of_them_are_near() {
        let text = "The writer commits a batch of documents to the table";
        let (same, forms, other) = (
            cosine(text, "Of documents a batch: the table, to the WRITER, commits"),
            cosine(text, "Writers committed batches of a document to tables"),
            cosine(text, "Rain fell on the mountain all day long"),
        );
        assert!(same > 0.999 && forms > 0.4 && other < 0.25, "{same} {forms} {other}");
        assert_eq!(embed(text), embed(text));
        assert!(embed("of the").iter().all(|value| value.is_finite() && *value != 0.0));
    }

    #[test]
    fn tokens_are_pieces_of_words_and_marks() {
        let tokens = |text: &str| -> Vec<String> {
            token_spans(text).iter().map(|span| span.of(text).unwrap().to_owned()).collect()
        };
        assert_eq!(
            tokens("It's  committed, ünïcödé."),
            ["It", "'", "s", "commit", "ted", ",", "ünïc", "ödé", "."]
        );
        assert_eq!(tokens(" \n"), [""; 0]);
    }
}
