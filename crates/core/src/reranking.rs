//! Reranking: a model that reads a question and a passage together scores how well the passage
//! answers it.

use std::time::Instant;

use async_trait::async_trait;

use crate::{Error, ErrorKind};

/// Scores of passages by a reranker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// Score of each passage, in order: 0 to 1, higher is better, comparable for one question only.
    pub scores: Vec<f32>,
    /// Number of tokens that were read; an estimate if the model's server does not report it.
    pub tokens: u64,
}

/// Cross-encoder, in this process or elsewhere.
#[async_trait]
pub trait Reranker: Send + Sync {
    /// Returns the name of the model; `None` if there is none.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] or [`ErrorKind::DeadlineExceeded`] while no node can
    /// tell.
    async fn reranker_model(&self, deadline: Instant) -> Result<Option<String>, Error>;

    /// Scores how well each of `passages` answers `query`. Of a passage that is longer than the
    /// model can read, only the beginning counts.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] with the reason `NO_RERANKER` if there is none,
    /// [`ErrorKind::InvalidInput`] if the query leaves no room for a passage,
    /// [`ErrorKind::Exhausted`] if too much work waits, and [`ErrorKind::DeadlineExceeded`] or
    /// [`ErrorKind::Unavailable`] if no reply comes.
    async fn score(
        &self,
        query: &str,
        passages: Vec<String>,
        deadline: Instant,
    ) -> Result<Scored, Error>;
}

/// Stand-in where there is no reranker.
#[derive(Clone, Copy, Debug)]
pub struct NoReranker;

impl NoReranker {
    /// Returns the error for callers who ask for a reranker.
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
