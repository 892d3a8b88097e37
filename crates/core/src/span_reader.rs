//! Reading for answers: a model that reads a question and a passage together finds the words that
//! answer it, or tells that none do.

use std::time::Instant;

use async_trait::async_trait;

use crate::{Error, ErrorKind, Span};

/// Passage to read for an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPassage {
    /// What is known of the passage beside its text, such as the title of its document; may be
    /// empty. It is read, and no answer is found in it.
    pub heading: String,
    /// Text of the passage.
    pub text: String,
}

/// Words of a passage that may be the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundSpan {
    /// Byte range of the passage's text, at character boundaries, not empty.
    pub span: Span,
    /// Probability that these words are the answer, if the passage answers at all, 0 to 1.
    pub share: f32,
}

/// Result of reading one passage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassageRead {
    /// Calibrated probability that the passage answers the question, 0 to 1.
    pub answers: f32,
    /// Probability that the passage is about what is asked, 0 to 1. Comparable for one question.
    pub relevance: f32,
    /// Spans that answer best, best first, at most [`Self::MOST_SPANS`]; none if the passage
    /// has no words.
    pub spans: Vec<FoundSpan>,
}

impl PassageRead {
    /// Maximum number of spans of a passage in a result.
    pub const MOST_SPANS: usize = 5;
}

/// Results of reading passages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassagesRead {
    /// Result for each passage, in order.
    pub passages: Vec<PassageRead>,
    /// Number of tokens that were read.
    pub tokens: u64,
}

/// Reader of this process or of another node.
#[async_trait]
pub trait SpanReader: Send + Sync {
    /// Returns the name of the model; `None` if there is none.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] or [`ErrorKind::DeadlineExceeded`] while no node can
    /// tell.
    async fn reader_model(&self, deadline: Instant) -> Result<Option<String>, Error>;

    /// Reads each of `passages` for an answer to `question`, independently of the others. Passages
    /// that are longer than the model's window are read in windows that overlap. Of a question that
    /// leaves too little room for a passage, only the beginning counts.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] with the reason `NO_READER` if there is none,
    /// [`ErrorKind::Exhausted`] if too much work waits, and [`ErrorKind::DeadlineExceeded`] or
    /// [`ErrorKind::Unavailable`] if no reply comes.
    async fn read_spans(
        &self,
        question: &str,
        passages: Vec<ReadPassage>,
        deadline: Instant,
    ) -> Result<PassagesRead, Error>;
}

/// Stand-in where there is no reader.
#[derive(Clone, Copy, Debug)]
pub struct NoReader;

impl NoReader {
    /// Reason of the error for callers who ask for a reader.
    pub const REASON: &'static str = "NO_READER";

    /// Returns the error for callers who ask for a reader.
    pub fn refusal() -> Error {
        let message = "no reader is loaded; it needs the embedding model that it was trained on, \
                       and `reader.enabled`";
        Error::new(ErrorKind::WrongState, Self::REASON, message)
    }
}

#[async_trait]
impl SpanReader for NoReader {
    async fn reader_model(&self, _deadline: Instant) -> Result<Option<String>, Error> {
        Ok(None)
    }

    async fn read_spans(
        &self,
        _question: &str,
        _passages: Vec<ReadPassage>,
        _deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        Err(Self::refusal())
    }
}
