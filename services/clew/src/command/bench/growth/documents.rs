//! Documents that a shard is filled with: the same number gives the same document.

use clew_core::{
    AttributeName, Attributes, Chunk, Chunking, Document, DocumentId, Filter, Labels, MediaType,
};
use clew_index::EmbeddedChunk;

use crate::command::bench::growth::encoder::{self, hash};
use crate::command::bench::growth::given::{GivenText, GivenTexts};
use crate::command::bench::growth::texts;

/// Maximum number of tokens of a chunk.
pub const CHUNK_TOKENS: u32 = 128;
/// Bytes that a chunk has at most, on average.
const CHUNK_BYTES: u64 = 1_024;
const WORDS_OF_A_QUESTION: usize = 9;
/// Attribute by which a tenth of all documents is told from the others.
const TENTH: &str = "tenth";
/// The same as a number.
const REST_OF_10: &str = "rest";

/// Documents without end.
#[derive(Debug)]
pub enum Supply {
    /// Their texts are generated.
    Generated,
    /// Their texts are those of files.
    Given(GivenTexts),
}

impl Supply {
    /// Returns documents for a shard of `chunks`: with the texts of `paths`, or generated ones if
    /// there are no paths. Blocks.
    ///
    /// # Errors
    /// Returns an error if the paths hold no texts.
    pub fn new(paths: &[String], chunks: u64) -> anyhow::Result<Self> {
        match paths {
            [] => Ok(Self::Generated),
            paths => Ok(Self::Given(GivenTexts::read(paths, chunks * CHUNK_BYTES)?)),
        }
    }

    /// Returns a document in one of its editions, which have different texts.
    ///
    /// # Errors
    /// Returns an error if its text cannot be read.
    pub fn document(&self, number: u64, edition: u64) -> anyhow::Result<Document> {
        let GivenText { title, text, media_type } = match self {
            Self::Generated => GivenText {
                title: String::new(),
                text: texts::text(number, edition),
                media_type: MediaType::Plain,
            },
            Self::Given(given) => given.text(number, edition)?,
        };
        let rest = number % 10;
        let attributes = Attributes::from([
            (tenth()?, rest.to_string().into()),
            (rest_of_10()?, (rest as i64).into()),
        ]);
        Ok(Document {
            id: id(number),
            text,
            media_type,
            title,
            attributes,
            event_time: None,
            labels: Labels::default(),
            source_version: None,
        })
    }

    /// Returns words of one of the first `documents`.
    ///
    /// # Errors
    /// Returns an error if its text cannot be read.
    pub fn question(&self, documents: u64, number: u64) -> anyhow::Result<String> {
        let mut random = fastrand::Rng::with_seed(hash(("question", number)));
        let document = self.document(random.u64(..documents.max(1)), 0)?;
        let words: Vec<&str> = document.text.split_whitespace().collect();
        let first = random.usize(..words.len().saturating_sub(WORDS_OF_A_QUESTION).max(1));
        let last = words.len().min(first + WORDS_OF_A_QUESTION);
        Ok(words[first..last].join(" "))
    }

    /// Says for people what the first `count` documents are.
    pub fn described(&self, count: u64) -> String {
        match self {
            Self::Generated => "generated texts".to_owned(),
            Self::Given(given) => given.described(count),
        }
    }
}

/// Returns the id of a document.
pub fn id(number: u64) -> DocumentId {
    let name = format!("document-{number:013}");
    name.parse().unwrap_or_else(|_| unreachable!("letters, digits and a hyphen are an id"))
}

/// Returns a filter that every tenth document passes.
///
/// # Errors
/// Returns no error: the name is one.
pub fn tenth_of_all(which: u64) -> anyhow::Result<Filter> {
    Ok(Filter { attributes: vec![(tenth()?, (which % 10).to_string())], ..Filter::default() })
}

/// Returns a filter with a condition that every tenth document meets, the same as
/// [`tenth_of_all`]. It compares numbers, so that it has to be worked out for each document.
///
/// # Errors
/// Returns an error if the condition cannot be read.
pub fn under_a_condition(which: u64) -> anyhow::Result<Filter> {
    let rest = which % 10;
    let condition = format!("{REST_OF_10} >= {rest} and not {REST_OF_10} > {rest}");
    Ok(Filter { condition: Some(condition.parse()?), ..Filter::default() })
}

fn tenth() -> anyhow::Result<AttributeName> {
    Ok(TENTH.to_owned().try_into()?)
}

fn rest_of_10() -> anyhow::Result<AttributeName> {
    Ok(REST_OF_10.to_owned().try_into()?)
}

/// Returns how documents are cut.
pub fn chunking() -> Chunking {
    Chunking::Sections { max_tokens: CHUNK_TOKENS }
}

/// Cuts a document as the indexer does.
pub fn cut(document: &Document) -> Vec<Chunk> {
    let window = encoder::identity().max_tokens as usize;
    clew_text::chunk(document, &chunking(), &encoder::token_spans, window)
}

/// Cuts a document and embeds its chunks.
pub fn embedded(document: &Document) -> Vec<EmbeddedChunk> {
    let embed = |chunk: Chunk| {
        let vectors = vec![encoder::embed(&chunk.key_text)];
        EmbeddedChunk { chunk, vectors }
    };
    cut(document).into_iter().map(embed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_document_has_a_chunk_for_each_paragraph() {
        for number in 0..20 {
            let document = Supply::Generated.document(number, 0).unwrap();
            let chunks = cut(&document);
            assert_eq!(chunks.len() as u64, texts::PARAGRAPHS, "{number}");
            let covered: String =
                chunks.iter().map(|chunk| chunk.span.of(&document.text).unwrap()).collect();
            assert_eq!(covered, document.text);
        }
    }

    #[test]
    fn questions_are_words_of_a_document() {
        let question = Supply::Generated.question(8, 3).unwrap();
        let text = |number| Supply::Generated.document(number, 0).unwrap().text;
        let is_in = |number| text(number).replace("\n\n", " ").contains(&question);
        assert!((0..8).any(is_in), "{question}");
    }

    #[test]
    fn a_tenth_of_the_documents_passes_the_filter() {
        for filter in [tenth_of_all(3).unwrap(), under_a_condition(3).unwrap()] {
            let document = |number| Supply::Generated.document(number, 0).unwrap();
            let passes = |number: &u64| filter.admits(&document(*number));
            assert_eq!((0..20).filter(passes).collect::<Vec<_>>(), [3, 13]);
        }
    }

    #[test]
    fn chunks_of_one_document_are_nearer_than_those_of_others() {
        let cosine = |a: &[f32], b: &[f32]| {
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
        };
        let vectors = |number| -> Vec<Vec<f32>> {
            let document = Supply::Generated.document(number, 0).unwrap();
            embedded(&document).into_iter().map(|mut chunk| chunk.vectors.remove(0)).collect()
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
