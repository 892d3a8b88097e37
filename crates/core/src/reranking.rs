//! Reranking: a model that reads a question and a passage together says how well the passage answers it.

use std::time::Instant;

use async_trait::async_trait;

use crate::{Error, ErrorKind};

/// What a reranker says of passages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// A score for each passage, in order: 0 to 1, higher is better, comparable for one question only.
    pub scores: Vec<f32>,
    /// Tokens that were read; of a model whose server does not tell, about as many.
    pub tokens: u64,
}

/// A cross-encoder, in this process or elsewhere.
#[async_trait]
pub trait Reranker: Send + Sync {
    /// The name of the model; `None` if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] and [`ErrorKind::DeadlineExceeded`] while nobody can tell.
    async fn reranker_model(&self, deadline: Instant) -> Result<Option<String>, Error>;

    /// Scores how well each of `passages` answers `query`. Of a passage that is longer than the model reads, its
    /// beginning counts.
    ///
    /// # Errors
    /// [`ErrorKind::WrongState`] with the reason `NO_RERANKER`; [`ErrorKind::InvalidInput`] for a query that leaves no
    /// room for a passage; [`ErrorKind::Exhausted`] when too much waits; [`ErrorKind::DeadlineExceeded`];
    /// [`ErrorKind::Unavailable`].
    async fn score(
        &self,
        query: &str,
        passages: Vec<String>,
        deadline: Instant,
    ) -> Result<Scored, Error>;
}

/// Where there is no reranker.
#[derive(Clone, Copy, Debug)]
pub struct NoReranker;

impl NoReranker {
    /// What whoever asks for one is told.
    pub fn refusal() -> Error {
        let message = "no reranker is configured; name one in `reranker.model` or `reranker.endpoint` of the encoders";
        Error::new(ErrorKind::WrongState, "NO_RERANKER", message)
    }
}

#[async_trait]
impl Reranker for NoReranker {
    async fn reranker_model(&self, _deadline: Instant) -> Result<Option<String>, Error> {
        Ok(None)
    }

    async fn score(
        &self,
        _query: &str,
        _passages: Vec<String>,
        _deadline: Instant,
    ) -> Result<Scored, Error> {
        Err(Self::refusal())
    }
}
