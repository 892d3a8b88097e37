//! An embedding model behind an endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use clew_core::{
    Embedding, Encoder, EncoderIdentity, Error, ErrorKind, Priority, Span, TextKind, Violations,
};
use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;

use crate::config::{ApiKey, EndpointConfig};
use crate::connection::{Connection, Failure, Progress, Reader};

/// Most bytes that a number of a vector takes as text, with what is around it.
const BYTES_PER_NUMBER: usize = 32;
/// What a response may have beyond its vectors.
const SLACK_BYTES: usize = 1 << 20;
/// Characters of a word that count as one token, where the model's tokenizer is not at hand.
const CHARACTERS_PER_TOKEN: usize = 4;

/// An endpoint that serves an embedding model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingConfig {
    /// The endpoint; `/embeddings` is appended to its address, and its `window` is the longest text in
    /// tokens. `structured_output` says nothing here.
    pub endpoint: EndpointConfig,
    /// What tells these vectors from those of other weights under the same name; change it when the
    /// server's model changes. Vectors of different revisions are never compared.
    pub revision: String,
    /// Dimension of the vectors, 1 to 65,536.
    pub dimension: u32,
    /// Texts that are sent at once, 1 to 2,048. More takes fewer requests; some servers take few.
    #[serde(default = "default_batch")]
    pub batch: u32,
    /// What the model wants before a text to be found, such as `passage: `.
    #[serde(default)]
    pub passage_prefix: String,
    /// What the model wants before a text to find with, such as `query: `.
    #[serde(default)]
    pub query_prefix: String,
}

fn default_batch() -> u32 {
    32
}

impl EmbeddingConfig {
    /// Refuses what is missing or out of range. `section` is where the configuration holds this.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] naming every key at fault.
    pub fn validate(&self, section: &str) -> Result<(), Error> {
        let mut violations = Violations::default();
        violations.take(self.endpoint.validate(&format!("{section}.endpoint")));
        let ranges = [("dimension", self.dimension, 1, 65_536), ("batch", self.batch, 1, 2048)];
        for (key, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("{section}.{key}"), problem);
            }
        }
        violations.into_result()
    }
}

/// Tells the byte range of each token of a text, in order.
pub type Tokenizer = Arc<dyn Fn(&str) -> Vec<Span> + Send + Sync>;

/// An embedding model behind an OpenAI-compatible endpoint.
///
/// Without the model's tokenizer, tokens are words cut into pieces of four characters, more than most
/// vocabularies have; a text with more of them than the window is cut, and said to be, before it is sent.
/// Vectors are checked and made unit vectors. All priorities wait in the order in which they come, since
/// the queue that matters is the server's.
pub struct EmbeddingEndpoint {
    identity: EncoderIdentity,
    config: EmbeddingConfig,
    tokenizer: Tokenizer,
    connection: Connection,
}

impl EmbeddingEndpoint {
    /// A model behind the endpoint of a valid configuration. Connects to nothing yet.
    ///
    /// # Errors
    /// As [`crate::Endpoint::try_new`].
    pub fn try_new(
        config: EmbeddingConfig,
        key: Option<&ApiKey>,
        tokenizer: Option<Tokenizer>,
    ) -> Result<Self, Error> {
        let connection = Connection::try_new(&config.endpoint, key, "embeddings")?;
        let identity = EncoderIdentity {
            model: config.endpoint.model.clone(),
            revision: config.revision.clone(),
            dimension: config.dimension,
            max_tokens: config.endpoint.window,
        };
        let tokenizer = tokenizer.unwrap_or_else(|| Arc::new(pieces));
        Ok(Self { identity, config, tokenizer, connection })
    }

    /// The text as it is sent, its tokens, and whether its end is left out.
    fn prepare(&self, text: &str, kind: TextKind) -> (String, u32, bool) {
        let prefix = match kind {
            TextKind::Passage => &self.config.passage_prefix,
            TextKind::Query => &self.config.query_prefix,
        };
        let text = format!("{prefix}{text}");
        let spans = (self.tokenizer)(&text);
        let window = self.identity.max_tokens;
        match (spans.get(window as usize), u32::try_from(spans.len())) {
            (None, Ok(tokens)) => (text, tokens, false),
            (beyond, _) => {
                let end = beyond.map_or(text.len(), |span| span.start);
                (text[..text.floor_char_boundary(end)].to_owned(), window, true)
            }
        }
    }
}

impl fmt::Debug for EmbeddingEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingEndpoint").field("config", &self.config).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: Vec<&'a str>,
    encoding_format: &'static str,
}

#[async_trait]
impl Encoder for EmbeddingEndpoint {
    fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        (self.tokenizer)(text)
    }

    /// # Errors
    /// Those of the seam; `DIMENSION_MISMATCH` and `ENDPOINT_REFUSED` are [`ErrorKind::WrongState`].
    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        _priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let _place = self.connection.admit()?;
        let mut embeddings = Vec::with_capacity(texts.len());
        for batch in texts.chunks(self.config.batch as usize) {
            let prepared: Vec<_> = batch.iter().map(|text| self.prepare(text, kind)).collect();
            let input = prepared.iter().map(|(text, _, _)| text.as_str()).collect();
            let body = Body { model: &self.identity.model, input, encoding_format: "float" };
            let body = serde_json::to_vec(&body)
                .map_err(|_| Error::internal("cannot write a request as JSON"))?;
            let mut reader = VectorReader::new(batch.len(), self.identity.dimension as usize);
            let called =
                self.connection.call(Bytes::from(body), None, deadline, &mut reader).await?;
            let of_texts = called.reply.into_iter().zip(prepared);
            embeddings.extend(of_texts.map(|(vector, (_, tokens, truncated))| Embedding {
                vector,
                tokens,
                truncated,
            }));
        }
        Ok(embeddings)
    }
}

/// Words, cut into pieces of a few characters.
fn pieces(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    for (begin, word) in text.split_word_bound_indices() {
        if word.trim().is_empty() {
            continue;
        }
        let starts = word.char_indices().step_by(CHARACTERS_PER_TOKEN).map(|(at, _)| at);
        let ends = starts.clone().skip(1).chain([word.len()]);
        spans.extend(starts.zip(ends).map(|(start, end)| Span::new(begin + start, begin + end)));
    }
    spans
}

/// Reads the vectors of so many texts.
struct VectorReader {
    texts: usize,
    dimension: usize,
    body: Vec<u8>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Indexed>,
}

#[derive(Deserialize)]
struct Indexed {
    index: usize,
    embedding: Vec<f32>,
}

impl VectorReader {
    fn new(texts: usize, dimension: usize) -> Self {
        Self { texts, dimension, body: Vec::new() }
    }
}

impl Reader for VectorReader {
    type Reply = Vec<Vec<f32>>;

    fn begin(&mut self) {
        self.body.clear();
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        let most = self.texts * self.dimension * BYTES_PER_NUMBER + SLACK_BYTES;
        if self.body.len() + bytes.len() > most {
            return Err(Failure::broken("sent far more than it was asked for"));
        }
        self.body.extend_from_slice(bytes);
        Ok(Progress::More)
    }

    fn end(&mut self) -> Result<Vec<Vec<f32>>, Failure> {
        let unusable = || Failure::broken("sent what is not a list of embeddings");
        let mut answer: Answer = serde_json::from_slice(&self.body).map_err(|_| unusable())?;
        answer.data.sort_by_key(|indexed| indexed.index);
        if !answer.data.iter().map(|indexed| indexed.index).eq(0..self.texts) {
            return Err(unusable());
        }
        answer.data.into_iter().map(|indexed| self.unit(indexed.embedding)).collect()
    }
}

impl VectorReader {
    fn unit(&self, mut vector: Vec<f32>) -> Result<Vec<f32>, Failure> {
        let (expected, got) = (self.dimension, vector.len());
        if got != expected {
            let message = format!(
                "the embedding endpoint sent vectors of dimension {got}; `dimension` says {expected}"
            );
            let error = Error::new(ErrorKind::WrongState, "DIMENSION_MISMATCH", message);
            return Err(Failure::lasting(error));
        }
        let square: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
        // Not a number, without end, or of no direction.
        if !square.is_normal() {
            return Err(Failure::broken("sent a vector without a direction"));
        }
        let length = square.sqrt();
        for number in &mut vector {
            *number = (f64::from(*number) / length) as f32;
        }
        Ok(vector)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str) -> Result<Vec<Vec<f32>>, &'static str> {
        let mut reader = VectorReader::new(2, 2);
        reader.begin();
        reader.feed(body.as_bytes()).unwrap();
        reader.end().map_err(|failure| failure.error.reason())
    }

    #[test]
    fn vectors_are_ordered_checked_and_of_unit_length() {
        let body = |first: &str, second: &str| {
            format!(
                r#"{{"data": [{{"index": 1, "embedding": {first}}}, {{"index": 0, "embedding": {second}}}]}}"#
            )
        };
        let read_both = |first, second| read(&body(first, second));
        assert_eq!(read_both("[0, 2]", "[3, 4]"), Ok(vec![vec![0.6, 0.8], vec![0.0, 1.0]]));
        assert_eq!(read_both("[0, 2]", "[3, 4, 5]"), Err("DIMENSION_MISMATCH"));
        assert_eq!(read_both("[0, 0]", "[3, 4]"), Err("ENDPOINT_FAILED"));
        assert_eq!(read_both("[null, 0]", "[3, 4]"), Err("ENDPOINT_FAILED"));
        assert_eq!(
            read(r#"{"data": [{"index": 0, "embedding": [1, 0]}]}"#),
            Err("ENDPOINT_FAILED")
        );
        assert_eq!(read("<html>"), Err("ENDPOINT_FAILED"));
    }

    proptest! {
        #[test]
        fn pieces_cover_all_but_white_space_in_order(text: String) {
            let spans = pieces(&text);
            let mut at = 0;
            for span in spans {
                prop_assert!(text[at..span.start].trim().is_empty());
                prop_assert!(!span.is_empty());
                at = span.end;
            }
            prop_assert!(text[at..].trim().is_empty());
        }
    }
}
