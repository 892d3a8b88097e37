//! Passages for tests, and a small but meaningful encoder: texts with the same words are close,
//! texts without a common word are not.

use std::sync::Mutex;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    ChunkId, CorpusName, DocumentId, Embedding, Encoder, EncoderIdentity, Error, Evidence,
    Priority, Span, TextKind, Version,
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
