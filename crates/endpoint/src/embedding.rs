//! An embedding model behind an endpoint.

use std::fmt;
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use clew_core::{
    Embedding, Encoder, EncoderIdentity, Error, ErrorKind, Priority, Span, TextKind, Violations,
};
use clew_tokenizer::{TokenCounter, estimated_spans};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{EndpointConfig, EndpointKey, Flavour};
use crate::connection::{Connection, Failure, Progress, Reader};
use crate::payload::{self, WholeBody, in_order};

/// Maximum number of bytes of a vector's number as text, with its separator.
const BYTES_PER_NUMBER: usize = 32;
/// Bytes that a response may have beyond its vectors.
const SLACK_BYTES: usize = 1 << 20;
/// Maximum dimension of a vector that is shortened here. No model has more.
const MOST_DIMENSION: usize = 1 << 16;
/// Maximum size of a tokenizer file in bytes.
const TOKENIZER_BYTES: u64 = 64 << 20;
/// Reason in the error for a text that is too long.
const TOO_LONG: &str = "CONTEXT_TOO_LONG";
/// Maximum length of a prefix in bytes.
const PREFIX_BYTES: usize = 1024;

/// Configuration of an embedding model behind an OpenAI-compatible endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EmbeddingConfig {
    /// Address that `/embeddings` is appended to, such as `http://host:8000/v1`. For Azure, the
    /// address of the resource. Over `http://`, anyone on the network path can read the texts and
    /// the key. Required.
    pub url: String,
    /// Name of the model as the server knows it. For Azure, the name of the deployment. Required.
    pub model: String,
    /// Environment variable that holds the key. Excludes `api_key_file`. With neither, no key is
    /// sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// File that holds the key and nothing else. Excludes `api_key_env`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// Dialect of the server.
    pub flavour: Flavour,
    /// Version of Azure's API. Required for Azure, and allowed only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Dimension of the vectors, 1 to 65,536. With `shorten` it may be smaller than the model's
    /// own. Required.
    pub dimension: u32,
    /// Method that shortens vectors to `dimension`, for a model that was trained for it
    /// (Matryoshka).
    pub shorten: Shortening,
    /// Name that distinguishes these vectors from those of other weights with the same model name.
    /// Change it when the server's model changes. Vectors of different revisions are never
    /// compared.
    pub revision: String,
    /// Text that the model wants before a passage, such as `passage: `. At most 1,024 bytes, and at
    /// most half as many bytes as the window has tokens.
    pub passage_prefix: String,
    /// Text that the model wants before a query, such as `query: `. Same limits as
    /// `passage_prefix`.
    pub query_prefix: String,
    /// Maximum number of tokens of one text, 256 to 1,000,000, as the server takes them. Longer
    /// texts are cut before they are sent.
    pub window: u32,
    /// Path of the model's `tokenizer.json`. Without it, tokens are estimated, and chunks become
    /// somewhat shorter than configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// Number of texts per request, 1 to 2,048. More takes fewer requests; some servers accept only
    /// a few.
    pub batch: u32,
    /// Maximum number of concurrent requests, 1 to 1,000. More raises throughput until the server
    /// is busy.
    pub max_concurrency: u32,
    /// Maximum number of calls that wait for a running one to end, 0 to 100,000. Beyond that,
    /// queries are refused at once, and bulk work waits.
    pub max_waiting: u32,
    /// Maximum number of requests started per minute, 1 to 1,000,000, retries included. Unlimited
    /// if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Maximum number of attempts per request, 1 to 10.
    pub attempts: u32,
    /// Maximum duration of one attempt in seconds, 1 to 3,600.
    pub timeout_secs: u64,
}

/// Method that makes vectors shorter than the model's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shortening {
    /// Vectors are not shortened.
    #[default]
    No,
    /// The server shortens them, on request by `dimensions`.
    Server,
    /// The client keeps their first numbers, for servers that cannot shorten: Kusupati et al.,
    /// "Matryoshka Representation Learning".
    Here,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: String::new(),
            api_key_env: None,
            api_key_file: None,
            flavour: Flavour::default(),
            api_version: None,
            dimension: 0,
            shorten: Shortening::default(),
            revision: "1".to_owned(),
            passage_prefix: String::new(),
            query_prefix: String::new(),
            window: 512,
            tokenizer: None,
            batch: 32,
            max_concurrency: 8,
            max_waiting: 256,
            requests_per_minute: None,
            attempts: 4,
            timeout_secs: 60,
        }
    }
}

impl EmbeddingConfig {
    /// Checks that the settings are present and in range. `section` is the section of the
    /// configuration, for the names of the keys in errors.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] with every invalid key if there is one.
    pub fn validate(&self, section: &str) -> Result<(), Error> {
        let mut violations = Violations::default();
        violations.take(self.endpoint().validate(section));
        let mut refuse = |key: &str, problem: String| {
            violations.push(format!("{section}.{key}"), problem);
        };
        if self.window > 1_000_000 {
            refuse("window", format!("expected 256 to 1000000, got {}", self.window));
        }
        let ranges = [("dimension", self.dimension, 65_536), ("batch", self.batch, 2048)];
        for (key, value, high) in ranges {
            if !(1..=high).contains(&value) {
                refuse(key, format!("expected 1 to {high}, got {value}"));
            }
        }
        if self.revision.trim().is_empty() {
            refuse("revision", "expected a word, got none".to_owned());
        }
        let prefixes =
            [("passage_prefix", &self.passage_prefix), ("query_prefix", &self.query_prefix)];
        for (key, prefix) in prefixes {
            // No token is shorter than a byte, so at least half of the window is left to the text.
            let most = PREFIX_BYTES.min(self.window as usize / 2);
            if prefix.len() > most {
                refuse(key, format!("expected at most {most} bytes, got {}", prefix.len()));
            }
        }
        violations.into_result()
    }

    /// Returns the configuration for reaching the server.
    fn endpoint(&self) -> EndpointConfig {
        EndpointConfig {
            url: self.url.clone(),
            model: self.model.clone(),
            api_key_env: self.api_key_env.clone(),
            api_key_file: self.api_key_file.clone(),
            flavour: self.flavour,
            api_version: self.api_version.clone(),
            window: self.window,
            max_concurrency: self.max_concurrency,
            max_waiting: self.max_waiting,
            requests_per_minute: self.requests_per_minute,
            attempts: self.attempts,
            timeout_secs: self.timeout_secs,
            // The server sends nothing until the whole response is ready.
            idle_timeout_secs: self.timeout_secs.clamp(1, 3600),
            ..EndpointConfig::default()
        }
    }

    /// Reads the key from the configured place.
    ///
    /// # Errors
    /// Returns the errors of [`EndpointConfig::load_key`].
    pub fn load_key(&self) -> Result<Option<EndpointKey>, Error> {
        self.endpoint().load_key()
    }

    /// Reads the tokenizer file. Returns no bytes if none is configured. Blocks the thread.
    /// `section` is the section of the configuration, for the name of the key in errors.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] with the name of the key if the file cannot be read or
    /// has an invalid size.
    pub fn load_tokenizer(&self, section: &str) -> Result<Vec<u8>, Error> {
        let Some(file) = &self.tokenizer else { return Ok(Vec::new()) };
        let unusable = |problem: String| {
            let problem = format!("`{}` {problem}", file.display());
            Error::invalid(format!("{section}.tokenizer"), problem)
        };
        let unreadable =
            |error: std::io::Error| unusable("cannot be read".to_owned()).with_source(error);
        let length = std::fs::metadata(file).map_err(unreadable)?.len();
        if !(1..=TOKENIZER_BYTES).contains(&length) {
            return Err(unusable(format!("has {length} bytes; expected 1 to {TOKENIZER_BYTES}")));
        }
        std::fs::read(file).map_err(unreadable)
    }

    /// Returns the identity of the vectors. Vectors with other prefixes or another dimension are
    /// different vectors.
    fn identity(&self, window: u32) -> EncoderIdentity {
        let told = [&self.passage_prefix, &self.query_prefix];
        let is_plain = told.iter().all(|prefix| prefix.is_empty());
        let mut revision = self.revision.clone();
        if !is_plain {
            let told = serde_json::json!(told).to_string();
            let hash =
                blake3::derive_key("clew prefixes of an embedding model v1", told.as_bytes());
            revision.push('+');
            revision.extend(hash[..4].iter().map(|byte| format!("{byte:02x}")));
        }
        let (model, dimension) = (self.model.clone(), self.dimension);
        EncoderIdentity { model, revision, dimension, max_tokens: window }
    }
}

/// Embedding model behind an OpenAI-compatible endpoint.
///
/// Without the model's tokenizer, tokens are estimated. A text that is longer than the window is
/// cut before it is sent, and the result says so. If the server still finds a text too long, the
/// text is cut to as many bytes as the window has tokens and sent again; no tokenizer makes more
/// tokens than bytes of it. Vectors are checked and normalised to unit length. Bulk work leaves
/// room for interactive work. Apart from that, the server's queue decides the order.
pub struct EmbeddingEndpoint {
    identity: EncoderIdentity,
    config: EmbeddingConfig,
    cutter: Arc<Cutter>,
    tokenizer_json: Bytes,
    connection: Connection,
    embedded_tokens: AtomicU64,
}

/// Preparation of texts for sending.
struct Cutter {
    tokens: TokenCounter,
    /// Maximum number of tokens that are sent for a text, with its prefix and the special tokens
    /// around both.
    window: usize,
    passage_prefix: String,
    query_prefix: String,
}

impl EmbeddingEndpoint {
    /// Creates a model behind the endpoint of a valid configuration. `tokenizer_json` is empty if
    /// there is no tokenizer. Does not connect yet.
    ///
    /// # Errors
    /// Returns the errors of [`crate::Endpoint::try_new`], and [`ErrorKind::InvalidInput`] for a
    /// tokenizer that cannot be used.
    pub fn try_new(
        config: EmbeddingConfig,
        key: Option<&EndpointKey>,
        tokenizer_json: Vec<u8>,
    ) -> Result<Self, Error> {
        let connection = Connection::try_new(&config.endpoint(), key, "embeddings")?;
        let tokens = TokenCounter::try_new("tokenizer.json", &tokenizer_json)?;
        // Estimated even where there is a tokenizer. The window is part of the identity by which a
        // corpus knows its model, and configuring a tokenizer later changes no vector.
        let length = |prefix: &str| estimated_spans(prefix).len();
        let taken = length(&config.passage_prefix).max(length(&config.query_prefix));
        let window = config.window.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
        Ok(Self {
            identity: config.identity(window),
            cutter: Arc::new(Cutter {
                tokens,
                window: config.window as usize,
                passage_prefix: config.passage_prefix.clone(),
                query_prefix: config.query_prefix.clone(),
            }),
            config,
            tokenizer_json: tokenizer_json.into(),
            connection,
            embedded_tokens: AtomicU64::new(0),
        })
    }

    /// Returns the model's `tokenizer.json`, empty if tokens are estimated.
    pub fn tokenizer_json(&self) -> &Bytes {
        &self.tokenizer_json
    }

    /// Returns the number of tokens embedded since the start.
    pub fn embedded_tokens(&self) -> u64 {
        self.embedded_tokens.load(Ordering::Relaxed)
    }

    /// Returns a description of the model and its endpoint for people.
    pub fn description(&self) -> String {
        let Self { identity, config, .. } = self;
        format!("`{}` of dimension {}, behind {}", identity.model, identity.dimension, config.url)
    }

    /// Requests the vectors of a batch of texts.
    async fn ask(&self, prepared: &[Prepared], deadline: Instant) -> Result<Vec<Vec<f32>>, Error> {
        let shorten = self.config.shorten;
        let body = Body {
            model: &self.identity.model,
            input: prepared.iter().map(|text| text.text.as_str()).collect(),
            encoding_format: "float",
            dimensions: (shorten == Shortening::Server).then_some(self.identity.dimension),
        };
        let body = payload::json(&body)?;
        let dimension = self.identity.dimension as usize;
        let mut reader = VectorReader::new(prepared.len(), dimension, shorten);
        let called = self.connection.call(body, None, deadline, &mut reader);
        Ok(called.await?.reply)
    }

    /// Requests the vectors of a batch of texts. Cuts a text that is too long for the server so far
    /// that it certainly fits.
    async fn vectors(
        &self,
        prepared: &mut [Prepared],
        deadline: Instant,
    ) -> Result<Vec<Vec<f32>>, Error> {
        match self.ask(prepared, deadline).await {
            Err(error) if error.reason() == TOO_LONG => {}
            asked => return asked,
        }
        // Only asking for each text alone tells which one is too long.
        let mut vectors = Vec::with_capacity(prepared.len());
        for text in prepared {
            let asked = match self.ask(slice::from_ref(text), deadline).await {
                Err(error) if error.reason() == TOO_LONG => {
                    text.cut_to(self.config.window as usize);
                    self.ask(slice::from_ref(text), deadline).await
                }
                asked => asked,
            };
            vectors.extend(asked?);
        }
        Ok(vectors)
    }
}

impl Cutter {
    /// Returns the text to send, its number of tokens, and whether its end was cut off.
    fn prepare(&self, text: &str, kind: TextKind) -> Prepared {
        let prefix = match kind {
            TextKind::Passage => &self.passage_prefix,
            TextKind::Query => &self.query_prefix,
        };
        let mut text = format!("{prefix}{text}");
        let special = self.tokens.special_tokens();
        let room = self.window.saturating_sub(special);
        // Tokenises only as much of a long text as matters.
        let looked_at = text.floor_char_boundary(self.tokens.read_bytes(&text, self.window));
        let spans = self.tokens.spans(&text[..looked_at]);
        let beyond = spans.get(room).map(|span| text.floor_char_boundary(span.start));
        if let Some(end) = beyond {
            text.truncate(end);
        }
        let tokens = u32::try_from(spans.len().min(room) + special).unwrap_or(u32::MAX);
        Prepared { text, tokens, is_cut: beyond.is_some() }
    }
}

/// Text to send.
struct Prepared {
    text: String,
    tokens: u32,
    is_cut: bool,
}

impl Prepared {
    /// Cuts the text so that it has at most `tokens` tokens by any tokenizer: no token is shorter
    /// than a byte, and there are at most two special tokens.
    fn cut_to(&mut self, tokens: usize) {
        let end = self.text.floor_char_boundary(tokens.saturating_sub(2));
        self.is_cut |= end < self.text.len();
        self.text.truncate(end);
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
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[async_trait]
impl Encoder for EmbeddingEndpoint {
    fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        self.cutter.tokens.spans(text)
    }

    /// # Errors
    /// Returns the errors that the trait names. `DIMENSION_MISMATCH` and `ENDPOINT_REFUSED` are
    /// [`ErrorKind::WrongState`].
    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let (_turn, _place) = match priority {
            Priority::Interactive => (None, self.connection.admit()?),
            Priority::Bulk => {
                let (turn, place) = self.connection.admitted(deadline).await?;
                (Some(turn), place)
            }
        };
        let cutter = Arc::clone(&self.cutter);
        let prepare = move || -> Vec<Prepared> {
            texts.iter().map(|text| cutter.prepare(text, kind)).collect()
        };
        let mut prepared = tokio::task::spawn_blocking(prepare)
            .await
            .map_err(|panic| Error::internal("the tokenizer panicked").with_source(panic))?;
        let mut embeddings = Vec::with_capacity(prepared.len());
        for batch in prepared.chunks_mut(self.config.batch as usize) {
            let vectors = self.vectors(batch, deadline).await?;
            let tokens = batch.iter().map(|text| u64::from(text.tokens)).sum();
            self.embedded_tokens.fetch_add(tokens, Ordering::Relaxed);
            embeddings.extend(vectors.into_iter().zip(batch).map(|(vector, text)| Embedding {
                vector,
                tokens: text.tokens,
                truncated: text.is_cut,
            }));
        }
        Ok(embeddings)
    }
}

/// Reader of the vectors of `texts` texts.
struct VectorReader {
    texts: usize,
    dimension: usize,
    shorten: Shortening,
    body: WholeBody,
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
    fn new(texts: usize, dimension: usize, shorten: Shortening) -> Self {
        let most_dimension = match shorten {
            Shortening::No | Shortening::Server => dimension,
            Shortening::Here => MOST_DIMENSION,
        };
        let body = WholeBody::new(texts * most_dimension * BYTES_PER_NUMBER + SLACK_BYTES);
        Self { texts, dimension, shorten, body }
    }
}

impl Reader for VectorReader {
    type Reply = Vec<Vec<f32>>;

    fn begin(&mut self) {
        self.body.clear();
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        self.body.add(bytes)
    }

    fn end(&mut self) -> Result<Vec<Vec<f32>>, Failure> {
        let unusable = || Failure::broken("sent what is not a list of embeddings");
        let answer: Answer = self.body.parse().ok_or_else(unusable)?;
        let data = in_order(answer.data, self.texts, |indexed| indexed.index);
        let data = data.ok_or_else(unusable)?.into_iter();
        data.map(|indexed| self.unit(indexed.embedding)).collect()
    }
}

impl VectorReader {
    fn unit(&self, mut vector: Vec<f32>) -> Result<Vec<f32>, Failure> {
        if self.shorten == Shortening::Here {
            vector.truncate(self.dimension);
        }
        let (expected, got) = (self.dimension, vector.len());
        if got != expected {
            let message = format!(
                "the embedding endpoint sent vectors of dimension {got}; `dimension` says {expected}"
            );
            let error = Error::new(ErrorKind::WrongState, "DIMENSION_MISMATCH", message);
            return Err(Failure::lasting(error));
        }
        let square: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
        // The sum is NaN, infinite, or too small for a direction.
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
    use super::*;

    fn read(body: &str) -> Result<Vec<Vec<f32>>, String> {
        let mut reader = VectorReader::new(2, 2, Shortening::No);
        reader.begin();
        reader.feed(body.as_bytes()).unwrap();
        reader.end().map_err(|failure| failure.error.reason().to_owned())
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
        assert_eq!(read_both("[0, 2]", "[3, 4, 5]"), Err("DIMENSION_MISMATCH".to_owned()));
        assert_eq!(read_both("[0, 0]", "[3, 4]"), Err("ENDPOINT_FAILED".to_owned()));
        assert_eq!(read_both("[null, 0]", "[3, 4]"), Err("ENDPOINT_FAILED".to_owned()));
        assert_eq!(
            read(r#"{"data": [{"index": 0, "embedding": [1, 0]}]}"#),
            Err("ENDPOINT_FAILED".to_owned())
        );
        assert_eq!(read("<html>"), Err("ENDPOINT_FAILED".to_owned()));
    }

    #[test]
    fn vectors_are_cut_here_only_where_that_is_asked_for() {
        let body = r#"{"data": [{"index": 0, "embedding": [3, 4, 12]}]}"#;
        let read = |shorten| {
            let mut reader = VectorReader::new(1, 2, shorten);
            reader.feed(body.as_bytes()).unwrap();
            reader.end().map_err(|failure| failure.error.reason().to_owned())
        };
        assert_eq!(read(Shortening::Here), Ok(vec![vec![0.6, 0.8]]));
        assert_eq!(read(Shortening::No), Err("DIMENSION_MISMATCH".to_owned()));
        assert_eq!(read(Shortening::Server), Err("DIMENSION_MISMATCH".to_owned()));
    }

    fn config() -> EmbeddingConfig {
        EmbeddingConfig {
            url: "http://localhost:8000/v1".to_owned(),
            model: "model".to_owned(),
            dimension: 256,
            ..EmbeddingConfig::default()
        }
    }

    #[test]
    fn every_key_at_fault_is_named() {
        assert!(config().validate("encoder.endpoint").is_ok());
        let unsound = EmbeddingConfig {
            window: 2_000_000,
            dimension: 0,
            batch: 0,
            revision: " ".to_owned(),
            query_prefix: "q".repeat(2000),
            attempts: 0,
            ..EmbeddingConfig::default()
        };
        let error = unsound.validate("e").unwrap_err();
        let fields = error.fields_at_fault();
        let keys = [
            "url",
            "model",
            "attempts",
            "window",
            "dimension",
            "batch",
            "revision",
            "query_prefix",
        ];
        assert_eq!(fields, keys.map(|key| format!("e.{key}")));
    }

    #[test]
    fn vectors_of_other_prefixes_dimensions_and_revisions_are_others() {
        let plain = config().identity(512);
        assert_eq!((plain.model.as_str(), plain.revision.as_str()), ("model", "1"));
        let others = [
            EmbeddingConfig { passage_prefix: "p: ".to_owned(), ..config() },
            EmbeddingConfig { query_prefix: "p: ".to_owned(), ..config() },
            EmbeddingConfig { revision: "2".to_owned(), ..config() },
            EmbeddingConfig { dimension: 128, ..config() },
        ];
        let mut identities: Vec<_> = others.iter().map(|config| config.identity(512)).collect();
        identities.push(plain);
        for (at, identity) in identities.iter().enumerate() {
            assert!(!identities[..at].contains(identity), "{identity}");
        }
    }

    #[test]
    fn prefixes_take_room_and_no_text_is_longer_than_the_window() {
        let passage_prefix = "passage: ".to_owned();
        let config = EmbeddingConfig { window: 256, passage_prefix, ..config() };
        let endpoint = EmbeddingEndpoint::try_new(config.clone(), None, Vec::new()).unwrap();
        // The prefix has the tokens `pass`, `age` and `:`.
        assert_eq!(endpoint.identity().max_tokens, 253);
        let whole = endpoint.cutter.prepare("a dog", TextKind::Passage);
        assert_eq!((whole.text.as_str(), whole.tokens, whole.is_cut), ("passage: a dog", 7, false));
        let cut = endpoint.cutter.prepare(&"dog ".repeat(10_000), TextKind::Passage);
        assert_eq!((cut.tokens, cut.is_cut), (256, true));
        assert_eq!(endpoint.token_spans(&cut.text).len(), 254);
        let config = EmbeddingConfig { passage_prefix: "p".repeat(129), ..config };
        let error = config.validate("e").unwrap_err();
        assert_eq!(error.violations()[0].field, "e.passage_prefix");
    }
}
