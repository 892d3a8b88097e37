//! Generated texts: the same number gives the same text.
//!
//! How often a word comes follows Zipf's law. A text has one topic of a thousand, which half of its
//! words are of, so that texts have neighbours.

use crate::command::bench::growth::encoder::hash;

/// Number of paragraphs of each text, each of which is a chunk.
pub const PARAGRAPHS: u64 = 4;

/// Words of a paragraph, most of them one token: two paragraphs are longer than a chunk.
const WORDS_OF_A_PARAGRAPH: usize = 75;
const VOCABULARY: u64 = 50_000;
const TOPICS: u64 = 1_000;
const WORDS_OF_A_TOPIC: u64 = 200;
const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 5] = b"aeiou";

/// Returns a text in one of its editions, which differ.
pub fn text(number: u64, edition: u64) -> String {
    let mut random = fastrand::Rng::with_seed(hash((number, edition)));
    let topic = random.u64(..TOPICS);
    let paragraphs = (0..PARAGRAPHS).map(|_| words(&mut random, topic, WORDS_OF_A_PARAGRAPH));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn words(random: &mut fastrand::Rng, topic: u64, count: usize) -> String {
    let draw = |random: &mut fastrand::Rng| match random.bool() {
        true => hash((topic, zipf(random, WORDS_OF_A_TOPIC))) % VOCABULARY,
        false => zipf(random, VOCABULARY),
    };
    let words: Vec<String> = (0..count).map(|_| word(draw(random))).collect();
    words.join(" ")
}

/// Draws a number below `count`. The number `n` comes about as often as `1 / (n + 1)`.
fn zipf(random: &mut fastrand::Rng, count: u64) -> u64 {
    let drawn = ((count + 1) as f64).powf(random.f64()) as u64;
    drawn.clamp(1, count) - 1
}

/// Returns a word of the vocabulary: syllables, fewer for the commonest words.
fn word(mut number: u64) -> String {
    let mut word = String::new();
    loop {
        let (consonant, vowel) = (number % 16, number / 16 % 5);
        word.push(char::from(CONSONANTS[consonant as usize]));
        word.push(char::from(VOWELS[vowel as usize]));
        number /= 80;
        if number == 0 {
            return word;
        }
        number -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_number_gives_one_text() {
        assert_eq!(text(7, 0), text(7, 0));
        assert_ne!(text(7, 0), text(8, 0));
        assert_ne!(text(7, 0), text(7, 1));
    }

    #[test]
    fn words_are_told_apart() {
        let words: BTreeSet<String> = (0..VOCABULARY).map(word).collect();
        assert_eq!(words.len() as u64, VOCABULARY);
    }
}
