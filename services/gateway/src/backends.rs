//! The components and limits that the services share.

use std::sync::Arc;
use std::time::Instant;

use clew_cluster::Cache;
use clew_core::{
    Account, Chunking, Clock, Corpora, CorpusSettings, Encoders, Error, GraphBuilders, Limits,
    MemoryEncoder, Reasoners, Reranker,
};
use clew_proto::convert::corpus::NewCorpus;
use clew_runtime::admission::Gate;
use clew_runtime::fair_queue::FairQueue;

use crate::cached_questions::CachedQuestions;
use crate::corpora::AllCorpora;
use crate::{GatewayConfig, Moderation};

/// Components that a gateway works with, in this process or on other nodes.
pub struct GatewaySeams {
    /// Encoders for questions and documents.
    pub encoders: Arc<dyn Encoders>,
    /// Reasoners and guides: they judge evidence, write answers, and navigate trees and graphs.
    pub reasoners: Arc<dyn Reasoners>,
    /// Graph builders: they extract summaries, entities and relations from texts.
    pub graph_builders: Arc<dyn GraphBuilders>,
    /// Model that forms compressed memories and drafts clues from them.
    pub memory_encoder: Arc<dyn MemoryEncoder>,
    /// Reranker, which reports no model if none is configured.
    pub reranker: Arc<dyn Reranker>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

/// Components behind the services.
pub struct Backends {
    /// Corpora of all tenants with their shards, on whatever nodes.
    pub corpora: AllCorpora,
    /// Encoders for questions and documents. Handlers use [`Self::encoders_on`] to embed on behalf
    /// of a caller.
    pub encoders: Arc<dyn Encoders>,
    /// Cache of question embeddings, if there is one.
    pub questions: Option<Cache>,
    /// Reasoners and guides: they judge evidence, write answers, and navigate trees and graphs.
    pub reasoners: Arc<dyn Reasoners>,
    /// Graph builders: they extract summaries, entities and relations from texts.
    pub graph_builders: Arc<dyn GraphBuilders>,
    /// Model that forms compressed memories and drafts clues from them.
    pub memory_encoder: Arc<dyn MemoryEncoder>,
    /// Reranker, which reports no model if none is configured.
    pub reranker: Arc<dyn Reranker>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Fair queue of searches, over all corpora.
    pub search_queue: FairQueue,
    /// Limits of requests.
    pub limits: Limits,
    /// Room for documents that arrive in parts.
    pub arriving: Gate,
    /// Policy that decides which documents are accepted.
    pub moderation: Moderation,
    /// Configuration section `gateway`.
    pub config: GatewayConfig,
}

impl Backends {
    /// Puts the components together. Question embeddings are kept in `questions`, if there is such
    /// a cache. `searches_at_once` applies if the configuration leaves that number open.
    pub fn new(
        corpora: Arc<dyn Corpora>,
        seams: GatewaySeams,
        questions: Option<Cache>,
        searches_at_once: usize,
        config: GatewayConfig,
    ) -> Self {
        let GatewaySeams { encoders, reasoners, graph_builders, memory_encoder, reranker, clock } =
            seams;
        Self {
            corpora: AllCorpora::new(corpora),
            encoders,
            questions,
            reasoners,
            graph_builders,
            memory_encoder,
            reranker,
            clock,
            search_queue: config.search_queue(searches_at_once),
            limits: config.limits(),
            arriving: config.arriving(),
            moderation: config.moderation(),
            config,
        }
    }

    /// Returns the settings of a corpus that is created now.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming every field beyond the limits.
    pub(crate) fn settings_of(&self, new: NewCorpus) -> Result<CorpusSettings, Error> {
        let NewCorpus { name, shards, chunking, structure, retention_days, memory, chat } = new;
        let encoder = self.encoders.current().identity().clone();
        let settings = CorpusSettings {
            name,
            shards,
            chunking: chunking.unwrap_or_else(|| Chunking::default_for(&encoder)),
            encoder,
            structure,
            retention_days,
            memory,
            chat,
            reembedding: None,
            created_at: self.clock.now(),
        };
        settings.check(&self.limits)?;
        Ok(settings)
    }

    /// Checks that compressed memories of such a corpus can be formed and kept, if it has them and
    /// an encoder has a memory model.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming the fields and figures at fault, and
    /// [`clew_core::ErrorKind::Unavailable`] while no encoder can tell which model it has.
    pub(crate) async fn check_memories(
        &self,
        settings: &CorpusSettings,
        deadline: Instant,
    ) -> Result<(), Error> {
        let Some(memory) = settings.memory else { return Ok(()) };
        match self.memory_encoder.memory_model(deadline).await? {
            Some(model) => memory.check_for(&model),
            None => Ok(()),
        }
    }

    /// Returns encoders whose tokens are counted on `account` and that cache the questions of its
    /// owner.
    pub(crate) fn encoders_on(&self, account: &Account) -> Arc<dyn Encoders> {
        let encoders = Arc::clone(&self.encoders);
        account.metered(match &self.questions {
            Some(cache) => Arc::new(CachedQuestions::new(encoders, cache.clone(), account.owner())),
            None => encoders,
        })
    }
}
