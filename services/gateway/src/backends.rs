//! What the services share: the shards, the encoders, the reasoner, the graph builder and the bounds.

use std::sync::Arc;

use clew_core::{Clock, Encoders, GraphBuilder, Guide, Limits, MemoryEncoder, Reasoner};
use clew_runtime::turns::Turnstile;

use crate::corpora::AllCorpora;
use crate::{GatewayConfig, Moderation};

/// What stands behind the services.
pub struct Backends {
    /// The corpora and their shards, wherever they are and whosever.
    pub corpora: AllCorpora,
    /// Embed questions and documents.
    pub encoders: Arc<dyn Encoders>,
    /// Judges and composes answers.
    pub reasoner: Arc<dyn Reasoner>,
    /// Walks trees and graphs.
    pub guide: Arc<dyn Guide>,
    /// Reads summaries, entities and relations out of texts.
    pub graph_builder: Arc<dyn GraphBuilder>,
    /// Forms compressed memories, and drafts from them.
    pub memory_encoder: Arc<dyn MemoryEncoder>,
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
