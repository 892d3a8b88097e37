//! Passages for tests, a small but meaningful encoder, which finds texts with the same words close
//! and others not, and a reader that is told what it finds.

use std::sync::Mutex;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    ChunkId, CorpusName, DocumentId, Embedding, Encoder, EncoderIdentity, Error, Evidence,
    FoundSpan, PassageRead, PassagesRead, Priority, ReadPassage, Span, SpanReader, TextKind,
    Version,
};

/// Returns a passage of `document` that begins at its byte `start`.
pub(crate) fn passage(document: &str, start: usize, text: &str, score: f32) -> Evidence {
    let corpus: CorpusName = "test".parse().unwrap();
    let document_id: DocumentId = document.parse().unwrap();
    let version = Version(1);
    Evidence {
        chunk_id: ChunkId::derive(&corpus, &document_id, version, start as u32),
        document_id,
        version,
        title: String::new(),
        span: Span::new(start, start + text.len()),
        text: text.to_owned(),
        event_time: None,
        score,
        dense_score: None,
        sparse_score: None,
    }
}

/// An encoder that counts words, hashed into a unit vector. A token is a word.
pub(crate) struct BagOfWords {
    identity: EncoderIdentity,
    /// Kind and number of texts of each call.
    pub(crate) calls: Mutex<Vec<(TextKind, usize)>>,
}

const DIMENSION: usize = 512;

impl BagOfWords {
    pub(crate) fn new() -> Self {
        let identity = EncoderIdentity {
            model: "bag-of-words".to_owned(),
            revision: "1".to_owned(),
            dimension: DIMENSION as u32,
            max_tokens: u32::MAX,
        };
        Self { identity, calls: Mutex::default() }
    }
}

#[async_trait]
impl Encoder for BagOfWords {
    fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        words(text)
            .map(|word| {
                let start = word.as_ptr() as usize - text.as_ptr() as usize;
                Span::new(start, start + word.len())
            })
            .collect()
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        _: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        if Instant::now() >= deadline {
            return Err(Error::deadline("embedding"));
        }
        self.calls.lock().unwrap().push((kind, texts.len()));
        Ok(texts.iter().map(|text| embedding(text)).collect())
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn embedding(text: &str) -> Embedding {
    let mut vector = vec![0.0f32; DIMENSION];
    for word in words(text) {
        // FNV-1a gives the same hash on every machine.
        let hash = word.to_lowercase().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        vector[(hash % DIMENSION as u64) as usize] += 1.0;
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    vector.iter_mut().for_each(|x| *x /= length);
    Embedding { vector, tokens: words(text).count() as u32, truncated: false }
}

/// A reader that finds what it is told. A token is a word.
#[derive(Default)]
pub(crate) struct ScriptedReader {
    /// A part of a question, words that answer it in any passage that holds them, and with which
    /// probability.
    told: Vec<(String, String, f32)>,
    /// Questions and passages of each call.
    pub(crate) calls: Mutex<Vec<(String, Vec<ReadPassage>)>>,
}

impl ScriptedReader {
    pub(crate) fn new(told: &[(&str, &str, f32)]) -> Self {
        let owned = |&(question, words, probability): &(&str, &str, f32)| {
            (question.to_owned(), words.to_owned(), probability)
        };
        Self { told: told.iter().map(owned).collect(), calls: Mutex::default() }
    }

    /// Returns the questions that were asked, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(question, _)| question.clone()).collect()
    }

    fn read(&self, question: &str, passage: &ReadPassage) -> PassageRead {
        let applies = |told: &&(String, String, f32)| question.contains(&told.0);
        let mut found: Vec<(Span, f32)> = (self.told.iter().filter(applies))
            .filter_map(|(_, words, probability)| {
                let start = passage.text.find(words)?;
                Some((Span::new(start, start + words.len()), *probability))
            })
            .collect();
        found.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        found.truncate(PassageRead::MOST_SPANS);
        let answers = found.first().map_or(0.01, |(_, best)| *best);
        let sum: f32 = found.iter().map(|(_, probability)| probability).sum();
        let spans = found.into_iter().map(|(span, it)| FoundSpan { span, share: it / sum });
        PassageRead { answers, relevance: answers, spans: spans.collect() }
    }
}

#[async_trait]
impl SpanReader for ScriptedReader {
    async fn reader_model(&self, _: Instant) -> Result<Option<String>, Error> {
        Ok(Some("scripted".to_owned()))
    }

    async fn read_spans(
        &self,
        question: &str,
        passages: Vec<ReadPassage>,
        deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        if Instant::now() >= deadline {
            return Err(Error::deadline("reading"));
        }
        let read = passages.iter().map(|passage| self.read(question, passage)).collect();
        let tokens = passages.iter().map(|it| words(question).count() + words(&it.text).count());
        let tokens = tokens.sum::<usize>() as u64;
        self.calls.lock().unwrap().push((question.to_owned(), passages));
        Ok(PassagesRead { passages: read, tokens })
    }
}
