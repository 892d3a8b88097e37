//! What the services share: the shards, the encoder, the reasoner and the bounds.

use std::sync::Arc;

use clew_core::{Clock, CorpusName, Encoder, Error, Limits, Reasoner};
use clew_retriever::{Corpus, Retriever};

use crate::GatewayConfig;

/// One node with its roles wired in process.
pub struct Node {
    /// The corpora and their shards.
    pub retriever: Arc<Retriever>,
    /// Embeds questions and documents.
    pub encoder: Arc<dyn Encoder>,
    /// Judges and composes answers.
    pub reasoner: Arc<dyn Reasoner>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Bounds of requests.
    pub limits: Limits,
    /// Section `gateway`.
    pub config: GatewayConfig,
}

impl Node {
    /// The corpus of that name.
    pub(crate) fn corpus(&self, name: &CorpusName) -> Result<Arc<Corpus>, Error> {
        self.retriever.corpus(name)
    }
}
