//! Traits of embedding models.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::{EncoderIdentity, Error, Span};

/// Role of a text for its encoder. Some models embed questions and passages differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// A text to be found.
    Passage,
    /// A text to find with.
    Query,
}

/// Priority of embedding work: interactive work goes before bulk work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Priority {
    /// A person waits for the result.
    Interactive,
    /// Ingestion.
    Bulk,
}

/// Embedding of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Unit vector, `[dimension]`.
    pub vector: Vec<f32>,
    /// Number of tokens that were read, special tokens included.
    pub tokens: u32,
    /// Whether the text was longer than the encoder's window, so that its end was not read.
    pub truncated: bool,
}

/// Model that turns texts into vectors.
#[async_trait]
pub trait Encoder: Send + Sync {
    /// Returns the identity of the model. Vectors of different identities are never compared.
    fn identity(&self) -> &EncoderIdentity;

    /// Returns the byte range of each token of `text`, in order, special tokens left out. It takes
    /// about a microsecond per token and blocks, so call it where CPU work belongs.
    fn token_spans(&self, text: &str) -> Vec<Span>;

    /// Embeds `texts`, in order.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::Exhausted`] at once if the queue is full,
    /// [`crate::ErrorKind::DeadlineExceeded`], and [`crate::ErrorKind::Unavailable`] if the device
    /// is gone.
    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Vec<Embedding>, Error>;
}

/// Encoders that can be reached. A corpus uses only the models that its settings name; others may
/// be there.
#[async_trait]
pub trait Encoders: Send + Sync {
    /// Returns the encoder for new corpora.
    fn current(&self) -> Arc<dyn Encoder>;

    /// Returns the models that are known to be there, first the one for new corpora.
    fn offered(&self) -> Vec<EncoderIdentity>;

    /// Returns the encoder of exactly this model.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if there is no
    /// such encoder, and [`crate::ErrorKind::Unavailable`] or
    /// [`crate::ErrorKind::DeadlineExceeded`] if none answers.
    async fn of(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error>;

    /// Returns the encoder of this model, or the current one if it is not there. For work that any
    /// encoder does about as well.
    async fn of_or_current(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Arc<dyn Encoder> {
        self.of(identity, deadline).await.unwrap_or_else(|_missing| self.current())
    }
}

/// The encoders of a process that has only one.
#[derive(Clone)]
pub struct OneEncoder(pub Arc<dyn Encoder>);

#[async_trait]
impl Encoders for OneEncoder {
    fn current(&self) -> Arc<dyn Encoder> {
        Arc::clone(&self.0)
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        vec![self.0.identity().clone()]
    }

    async fn of(
        &self,
        identity: &EncoderIdentity,
        _deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error> {
        match self.0.identity() == identity {
            true => Ok(self.current()),
            false => Err(identity.missing_among(&self.offered())),
        }
    }
}
