//! A reranker behind an endpoint.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use clew_core::{Error, ErrorKind, Reranker, Scored, Violations};
use clew_tokenizer::{estimate_tokens, estimated_beginning};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::EndpointConfig;
use crate::connection::{Connection, Failure, Progress, Reader};
use crate::payload::{self, WholeBody, in_order};

/// Maximum number of bytes of a response for one passage, whose text some servers send back.
const BYTES_PER_PASSAGE: usize = 64 << 10;
/// Bytes that a response may have beyond that.
const SLACK_BYTES: usize = 1 << 20;
/// Tokens of a window that are reserved for the text around query and passage.
const FRAME_TOKENS: u32 = 8;

/// Configuration of an endpoint that serves a reranker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RerankConfig {
    /// Address that `/rerank` is appended to, such as `https://api.jina.ai/v1`. Over `http://`,
    /// anyone on the network path can read the passages and the key. Required.
    pub url: String,
    /// Name of the model as the server knows it. Required.
    pub model: String,
    /// Environment variable that holds the key. Excludes `api_key_file`. With neither, no key is
    /// sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// File that holds the key and nothing else. Excludes `api_key_env`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// Dialect of the server.
    pub dialect: RerankDialect,
    /// Maximum number of tokens of a query and a passage together, 256 to 1,000,000. Tokens are
    /// estimated. Only the beginning of a longer passage is sent.
    pub window: u32,
    /// Number of passages per request, 1 to 200. More takes fewer requests; some servers accept
    /// only a few.
    pub batch: u32,
    /// Maximum number of concurrent requests, 1 to 1,000.
    pub max_concurrency: u32,
    /// Maximum number of queries that wait for a running one to end, 0 to 100,000. Any further
    /// query is refused at once.
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

/// Dialect of a reranker's server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RerankDialect {
    /// Cohere's dialect, which Jina, vLLM and others use too: `documents`, and `results` with a
    /// `relevance_score`.
    #[default]
    Cohere,
    /// Dialect of Hugging Face's Text Embeddings Inference: `texts`, and a list with a `score`.
    Tei,
}

impl Default for RerankConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: String::new(),
            api_key_env: None,
            api_key_file: None,
            dialect: RerankDialect::default(),
            window: 512,
            batch: 32,
            max_concurrency: 8,
            max_waiting: 256,
            requests_per_minute: None,
            attempts: 3,
            timeout_secs: 30,
        }
    }
}

impl RerankConfig {
    /// Checks that the settings are present and in range. `section` is the section of the
    /// configuration, for the names of the keys in errors.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] with every invalid key if there is one.
    pub fn validate(&self, section: &str) -> Result<(), Error> {
        let mut violations = Violations::default();
        violations.take(self.endpoint().validate(section));
        if self.window > 1_000_000 {
            let problem = format!("expected 256 to 1000000, got {}", self.window);
            violations.push(format!("{section}.window"), problem);
        }
        if !(1..=200).contains(&self.batch) {
            let problem = format!("expected 1 to 200, got {}", self.batch);
            violations.push(format!("{section}.batch"), problem);
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
}

/// Reranker behind an endpoint with `/rerank`.
///
/// A passage whose estimated tokens exceed the window is cut before it is sent. Transient failures
/// are retried as in [`crate::Endpoint`]. The requests for one query run one after the other.
pub struct RerankEndpoint {
    config: RerankConfig,
    connection: Connection,
}

impl RerankEndpoint {
    /// Creates a reranker behind the endpoint of a valid configuration, and reads the key from the
    /// configured place. Does not connect yet.
    ///
    /// # Errors
    /// Returns the errors of [`crate::Endpoint::try_new`] and [`EndpointConfig::load_key`].
    pub fn try_new(config: &RerankConfig) -> Result<Self, Error> {
        let endpoint = config.endpoint();
        let connection = Connection::try_new(&endpoint, endpoint.load_key()?.as_ref(), "rerank")?;
        Ok(Self { config: config.clone(), connection })
    }

    /// Returns the model's name.
    pub fn model(&self) -> &str {
        &self.config.model
    }

    /// Returns the body of a request for the scores of `passages`.
    fn body(&self, query: &str, passages: &[&str]) -> Result<Bytes, Error> {
        let model = &self.config.model;
        match self.config.dialect {
            RerankDialect::Cohere => payload::json(&CohereBody {
                model,
                query,
                documents: passages,
                top_n: passages.len(),
            }),
            RerankDialect::Tei => payload::json(&TeiBody {
                model,
                query,
                texts: passages,
                raw_scores: false,
                truncate: true,
            }),
        }
    }
}

impl fmt::Debug for RerankEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RerankEndpoint").field("config", &self.config).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct CohereBody<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [&'a str],
    top_n: usize,
}

#[derive(Serialize)]
struct TeiBody<'a> {
    model: &'a str,
    query: &'a str,
    texts: &'a [&'a str],
    raw_scores: bool,
    truncate: bool,
}

#[async_trait]
impl Reranker for RerankEndpoint {
    async fn reranker_model(&self, _deadline: Instant) -> Result<Option<String>, Error> {
        Ok(Some(self.config.model.clone()))
    }

    /// # Errors
    /// Returns the errors that the trait names. `ENDPOINT_REFUSED` is [`ErrorKind::WrongState`].
    async fn score(
        &self,
        query: &str,
        passages: Vec<String>,
        deadline: Instant,
    ) -> Result<Scored, Error> {
        let _place = self.connection.admit()?;
        let query_tokens = estimate_tokens(query);
        let room = self.config.window.saturating_sub(query_tokens.saturating_add(FRAME_TOKENS));
        if room == 0 {
            let problem = format!(
                "expected one that leaves room for a passage in the reranker's window of {} tokens, got about \
                 {query_tokens}",
                self.config.window
            );
            return Err(Error::invalid("query", problem));
        }
        let mut scored = Scored::default();
        for batch in passages.chunks(self.config.batch as usize) {
            let cut: Vec<&str> =
                batch.iter().map(|passage| estimated_beginning(passage, room as usize)).collect();
            let mut reader = ScoreReader::new(cut.len());
            let body = self.body(query, &cut)?;
            let Ranked { scores, tokens } =
                self.connection.call(body, None, deadline, &mut reader).await?.reply;
            scored.scores.extend(scores);
            let estimated = || {
                let of_one = |passage: &&str| u64::from(query_tokens + estimate_tokens(passage));
                cut.iter().map(of_one).sum()
            };
            scored.tokens += tokens.unwrap_or_else(estimated);
        }
        Ok(scored)
    }
}

/// Reader of the scores of `passages` passages.
struct ScoreReader {
    passages: usize,
    body: WholeBody,
}

impl ScoreReader {
    fn new(passages: usize) -> Self {
        Self { passages, body: WholeBody::new(passages * BYTES_PER_PASSAGE + SLACK_BYTES) }
    }
}

/// Scores in the order of the passages, and the tokens if the server reports them.
#[derive(Debug, PartialEq)]
struct Ranked {
    scores: Vec<f32>,
    tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Cohere {
        results: Vec<Item>,
        #[serde(default)]
        usage: Option<Used>,
    },
    Tei(Vec<Item>),
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    #[serde(alias = "relevance_score")]
    score: f64,
}

#[derive(Deserialize)]
struct Used {
    #[serde(default)]
    total_tokens: Option<u64>,
}

impl Reader for ScoreReader {
    type Reply = Ranked;

    fn begin(&mut self) {
        self.body.clear();
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        self.body.add(bytes)
    }

    fn end(&mut self) -> Result<Ranked, Failure> {
        let unusable = || Failure::broken("sent what is not a score for each passage");
        let (items, tokens) = match self.body.parse().ok_or_else(unusable)? {
            Answer::Cohere { results, usage } => {
                (results, usage.and_then(|usage| usage.total_tokens))
            }
            Answer::Tei(items) => (items, None),
        };
        let items = in_order(items, self.passages, |item| item.index).ok_or_else(unusable)?;
        // A score outside 0 to 1, such as a logit, is not comparable with those of other servers.
        if !items.iter().all(|item| (0.0..=1.0).contains(&item.score)) {
            let message = "the reranker's endpoint sent scores that are not between 0 and 1; have its server tell shares, \
                           not logits";
            let error = Error::new(ErrorKind::WrongState, "ENDPOINT_REFUSED", message);
            return Err(Failure::lasting(error));
        }
        Ok(Ranked { scores: items.into_iter().map(|item| item.score as f32).collect(), tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Option<Ranked> {
        let mut reader = ScoreReader::new(2);
        reader.begin();
        reader.feed(body.as_bytes()).unwrap();
        reader.end().ok()
    }

    #[test]
    fn both_dialects_are_read_in_the_order_of_the_passages() {
        let cohere = r#"{"id": "x", "results": [{"index": 1, "relevance_score": 0.9, "document": {"text": "b"}},
            {"index": 0, "relevance_score": 0.25}], "usage": {"total_tokens": 7}}"#;
        let expected = Ranked { scores: vec![0.25, 0.9], tokens: Some(7) };
        assert_eq!(read(cohere), Some(expected));
        let without_usage = r#"{"results": [{"index": 1, "relevance_score": 1}, {"index": 0, "relevance_score": 0}],
            "meta": {"billed_units": {"search_units": 1}}}"#;
        assert_eq!(read(without_usage), Some(Ranked { scores: vec![0.0, 1.0], tokens: None }));
        let tei = r#"[{"index": 1, "score": 0.5}, {"index": 0, "score": 0.75}]"#;
        assert_eq!(read(tei), Some(Ranked { scores: vec![0.75, 0.5], tokens: None }));
    }

    #[test]
    fn what_is_not_a_share_for_each_passage_is_refused() {
        let bodies = [
            "<html>",
            "[]",
            r#"[{"index": 0, "score": 0.5}]"#,
            r#"[{"index": 0, "score": 0.5}, {"index": 0, "score": 0.5}]"#,
            r#"[{"index": 0, "score": 0.5}, {"index": 1, "score": 7.5}]"#,
            r#"[{"index": 0, "score": 0.5}, {"index": 1, "score": null}]"#,
        ];
        for body in bodies {
            assert_eq!(read(body), None, "{body}");
        }
        let mut reader = ScoreReader::new(1);
        assert!(reader.feed(&vec![b' '; 2 << 20]).is_err());
    }
}
