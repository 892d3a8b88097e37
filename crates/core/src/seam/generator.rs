//! Traits of language models, and of whoever reads trees and graphs out of texts.

use std::time::Instant;

use async_trait::async_trait;

use crate::{
    Error, Extraction, ExtractionTask, Generated, GenerationRequest, GeneratorIdentity, Heard,
    Summary, SummaryTask,
};

/// Language model, in this process or elsewhere.
#[async_trait]
pub trait Generator: Send + Sync {
    /// Returns the identity of the model.
    fn identity(&self) -> &GeneratorIdentity;

    /// Returns the number of tokens of a text; an estimate if the model's tokenizer is not
    /// available.
    fn count_tokens(&self, text: &str) -> u32;

    /// Has the model reply, and passes the text to `heard` as it comes. Dropping the returned
    /// future ends the work.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if no model can answer the request, or if it is
    /// longer than the model's window, [`crate::ErrorKind::Exhausted`] at once if the queue is
    /// full, [`crate::ErrorKind::DeadlineExceeded`], and [`crate::ErrorKind::Unavailable`] if the
    /// model cannot be reached or fails.
    async fn generate(
        &self,
        request: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error>;
}

/// Builder of summaries and extractions for trees and graphs, by prompts to a language model or
/// extractively. It computes and returns; the caller decides what to store.
///
/// Calls may be repeated. A call returns all of its results or none, so a caller chooses how much
/// it may have to ask again.
#[async_trait]
pub trait GraphBuilder: Send + Sync {
    /// Returns a summary for each task, in order.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::InvalidInput`] if a task is beyond the limits,
    /// [`crate::ErrorKind::Exhausted`] at once if the queue is full,
    /// [`crate::ErrorKind::DeadlineExceeded`], and the errors of the model behind it.
    async fn summarise(
        &self,
        tasks: Vec<SummaryTask>,
        deadline: Instant,
    ) -> Result<Vec<Summary>, Error>;

    /// Returns the entities, relations and key phrases of each task's passage, in order.
    ///
    /// # Errors
    /// Returns the errors of [`Self::summarise`].
    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        deadline: Instant,
    ) -> Result<Vec<Extraction>, Error>;
}
