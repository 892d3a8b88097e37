//! What the services share: the shards, the encoders, the reasoners, the graph builders and the bounds.

use std::sync::Arc;

use clew_cluster::Cache;
use clew_core::{
    Account, Clock, Encoders, GraphBuilders, Limits, MemoryEncoder, Reasoners, Reranker,
};
use clew_runtime::turns::Turnstile;

use crate::cached_questions::CachedQuestions;
use crate::corpora::AllCorpora;
use crate::{GatewayConfig, Moderation};

/// What stands behind the services.
pub struct Backends {
    /// The corpora and their shards, wherever they are and whosever.
    pub corpora: AllCorpora,
    /// Embed questions and documents. What is embedded for a caller goes through [`Self::encoders_on`].
    pub encoders: Arc<dyn Encoders>,
    /// Keeps the embeddings of questions, if there is one.
    pub questions: Option<Cache>,
    /// Judge and compose answers, and walk trees and graphs.
    pub reasoners: Arc<dyn Reasoners>,
    /// Read summaries, entities and relations out of texts.
    pub graph_builders: Arc<dyn GraphBuilders>,
    /// Forms compressed memories, and drafts from them.
    pub memory_encoder: Arc<dyn MemoryEncoder>,
    /// Reads candidates with the question, if there is one.
    pub reranker: Arc<dyn Reranker>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Who searches when, over all corpora.
    pub search_turns: Turnstile,
    /// Bounds of requests.
    pub limits: Limits,
    /// Decides what may be kept.
    pub moderation: Moderation,
    /// Section `gateway`.
    pub config: GatewayConfig,
}

impl Backends {
    /// Encoders whose tokens are counted on `account`, and which remember its owner's questions.
    pub(crate) fn encoders_on(&self, account: &Account) -> Arc<dyn Encoders> {
        let encoders = Arc::clone(&self.encoders);
        account.metered(match &self.questions {
            Some(cache) => Arc::new(CachedQuestions::new(encoders, cache.clone(), account.owner())),
            None => encoders,
        })
    }
}
