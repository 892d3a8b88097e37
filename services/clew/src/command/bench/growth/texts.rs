//! Generated documents: the same number gives the same document.
//!
//! How often a word comes follows Zipf's law. A document has one topic of a thousand, which half of
//! its words are of, so that documents have neighbours. The encoder adds up a few signed places for
//! each word: texts with common words get near vectors, and it takes next to no time.

use std::hash::{DefaultHasher, Hash, Hasher};

use clew_core::{Attributes, Chunk, Document, DocumentId, Labels, MediaType, Span};

/// Number of chunks of each document, which are its paragraphs.
pub const CHUNKS_OF_A_DOCUMENT: u64 = 4;
/// Dimension of the vectors: that of a small model of sentences.
pub const DIMENSION: usize = 384;

/// Words of a chunk. Its rare words are several tokens each, so that it has about a hundred.
const WORDS_OF_A_CHUNK: usize = 75;
const TOKENS_OF_A_CHUNK: u32 = 100;
const WORDS_OF_A_QUESTION: usize = 9;
const VOCABULARY: u64 = 50_000;
const TOPICS: u64 = 1_000;
const WORDS_OF_A_TOPIC: u64 = 200;
/// Places of a vector that a word adds to.
const PLACES_OF_A_WORD: usize = 16;
const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 5] = b"aeiou";

/// Returns the id of a document.
pub fn id(number: u64) -> DocumentId {
    let name = format!("document-{number:013}");
    name.parse().unwrap_or_else(|_| unreachable!("letters, digits and a hyphen are an id"))
}

/// Returns a document in one of its editions, which have different texts.
pub fn document(number: u64, edition: u64) -> Document {
    let mut random = random(number, edition);
    let topic = random.u64(..TOPICS);
    let paragraphs = (0..CHUNKS_OF_A_DOCUMENT).map(|_| words(&mut random, topic, WORDS_OF_A_CHUNK));
    Document {
        id: id(number),
        text: paragraphs.collect::<Vec<_>>().join("\n"),
        media_type: MediaType::Plain,
        title: String::new(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::default(),
    }
}

/// Cuts a document into its paragraphs.
pub fn chunks(document: &Document) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut start = 0;
    for line in document.text.split_inclusive('\n') {
        let span = Span::new(start, start + line.len());
        start = span.end;
        chunks.push(Chunk {
            ordinal: chunks.len() as u32,
            span,
            key_text: line.trim_end().to_owned(),
            tokens: TOKENS_OF_A_CHUNK,
            attributes: Attributes::new(),
        });
    }
    chunks
}

/// Returns a question that one of the first `documents` answers, by its words.
pub fn question(documents: u64, number: u64) -> String {
    let mut random = random(number, u64::MAX);
    let document = document(random.u64(..documents.max(1)), 0);
    let words: Vec<&str> = document.text.split_whitespace().collect();
    let first = random.usize(..words.len() - WORDS_OF_A_QUESTION);
    words[first..first + WORDS_OF_A_QUESTION].join(" ")
}

/// Returns the vector of a text: `[DIMENSION]`. Leaves out words of two letters, which are the
/// commonest and in every text.
pub fn embed(text: &str) -> Vec<f32> {
    // No vector is zero, also if all words are common.
    let mut vector = vec![1e-3_f32; DIMENSION];
    for word in text.split_whitespace().filter(|word| word.len() > 2) {
        let mut places = fastrand::Rng::with_seed(hash(word));
        for _ in 0..PLACES_OF_A_WORD {
            let sign = if places.bool() { 1.0 } else { -1.0 };
            vector[places.usize(..DIMENSION)] += sign;
        }
    }
    vector
}

fn random(number: u64, edition: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(hash((number, edition)))
}

fn hash(value: impl Hash) -> u64 {
    // It has no random keys.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
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
    fn a_number_gives_one_document_and_its_chunks_cover_it() {
        assert_eq!(document(7, 0), document(7, 0));
        assert_ne!(document(7, 0).text, document(8, 0).text);
        assert_ne!(document(7, 0).text, document(7, 1).text);
        let document = document(7, 0);
        let chunks = chunks(&document);
        assert_eq!(chunks.len() as u64, CHUNKS_OF_A_DOCUMENT);
        let covered: String =
            chunks.iter().map(|chunk| chunk.span.of(&document.text).unwrap()).collect();
        assert_eq!(covered, document.text);
        let question = question(8, 3);
        let texts = (0..8).map(|number| super::document(number, 0).text.replace('\n', " "));
        assert!(texts.into_iter().any(|text| text.contains(&question)), "{question}");
    }

    #[test]
    fn words_are_told_apart() {
        let words: BTreeSet<String> = (0..VOCABULARY).map(word).collect();
        assert_eq!(words.len() as u64, VOCABULARY);
    }

    #[test]
    fn chunks_of_one_document_are_nearer_than_those_of_others() {
        let cosine = |a: &[f32], b: &[f32]| {
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
        };
        let vectors = |number| -> Vec<Vec<f32>> {
            chunks(&document(number, 0)).iter().map(|chunk| embed(&chunk.key_text)).collect()
        };
        let all: Vec<Vec<Vec<f32>>> = (0..20).map(vectors).collect();
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate().filter(|(j, _)| *j != i) {
                let (near, far) = (cosine(&one[0], &one[1]), cosine(&one[0], &other[1]));
                assert!(near > far, "documents {i} and {j}: {near} and {far}");
            }
        }
    }
}
