//! Words of the rows of a fragment that the text index does not cover yet.

use std::collections::HashMap;

use lance_index::scalar::inverted::document_tokenizer::LanceTokenizer;
use lance_index::scalar::inverted::{MemBM25Scorer, Scorer};

/// Words of rows, split and stemmed as the text index does it.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Number of words of each row that was read, by its place in the fragment.
    lengths: HashMap<u32, u32>,
    /// Number of words of all rows.
    total: u64,
    /// Rows that hold a word, with how often they hold it.
    postings: HashMap<Box<str>, Vec<(u32, u32)>>,
}

impl Words {
    /// Adds the text of the row at a place.
    pub(crate) fn add(&mut self, place: u32, text: &str, tokenizer: &mut dyn LanceTokenizer) {
        let mut counts: HashMap<String, u32> = HashMap::new();
        let mut length = 0;
        let mut stream = tokenizer.token_stream_for_doc(text);
        while let Some(token) = stream.next() {
            length += 1;
            match counts.get_mut(&token.text) {
                Some(count) => *count += 1,
                None => drop(counts.insert(token.text.clone(), 1)),
            }
        }
        for (word, count) in counts {
            self.postings.entry(word.into_boxed_str()).or_default().push((place, count));
        }
        self.lengths.insert(place, length);
        self.total += u64::from(length);
    }

    /// Returns the number of rows and of their words.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.lengths.len(), self.total)
    }

    /// Returns the number of rows that hold a word.
    pub(crate) fn frequency(&self, word: &str) -> usize {
        self.postings.get(word).map_or(0, Vec::len)
    }

    /// Adds the scores that rows get for a word. `is_allowed` tells which rows count.
    pub(crate) fn score(
        &self,
        word: &str,
        scorer: &MemBM25Scorer,
        is_allowed: impl Fn(u32) -> bool,
        scores: &mut HashMap<u32, f32>,
    ) {
        let weight = scorer.query_weight(word);
        for &(place, count) in self.postings.get(word).into_iter().flatten() {
            if is_allowed(place) {
                let length = self.lengths.get(&place).copied().unwrap_or(0);
                *scores.entry(place).or_default() += weight * scorer.doc_weight(count, length);
            }
        }
    }
}
