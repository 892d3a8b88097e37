//! The language model that the configuration names, and the reasoner over it.

use std::sync::Arc;

use clew_cluster::Cache;
use clew_core::{Encoders, Error, Generator, Guide, Reasoner};
use clew_endpoint::{Endpoint, EndpointConfig, Fallback};
use clew_reason::Extractive;
use clew_reason::prompted::Prompted;

use crate::config::BudgetConfig;
use crate::counted::Counted;
use crate::replies::KeptReplies;
use crate::{GeneratorConfig, LocalGenerator};

/// The configured language model: the endpoint, then those to fall back on, last the one of this
/// process; `None` if there is none.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] for settings that cannot be used, and
/// [`clew_core::ErrorKind::WrongState`] for a key that is not where they say. That an endpoint does not
/// answer is no error here.
pub async fn model(config: &GeneratorConfig) -> Result<Option<Arc<dyn Generator>>, Error> {
    let remote = |endpoint: &EndpointConfig| -> Result<Arc<dyn Generator>, Error> {
        let endpoint = Endpoint::try_new(endpoint, endpoint.load_key()?.as_ref())?;
        Ok(Arc::new(Counted::new(Arc::new(endpoint))))
    };
    let remotes = config.endpoint.iter().chain(&config.fallback);
    let mut models = remotes.map(remote).collect::<Result<Vec<_>, Error>>()?;
    if let Some(local) = &config.local {
        let local = LocalGenerator::load(local).await?;
        models.push(Arc::new(Counted::new(Arc::new(local))));
    }
    let mut models = models.into_iter();
    let Some(first) = models.next() else { return Ok(None) };
    let others: Vec<_> = models.collect();
    Ok(Some(if others.is_empty() { first } else { Arc::new(Fallback::new(first, others)) }))
}

/// What judges on a node: a reasoner, and the language model behind it, if there is one.
#[derive(Clone)]
pub struct Judgement {
    /// Reads evidence: with the model, or without one by the evidence's own sentences.
    pub reasoner: Arc<dyn Reasoner>,
    /// Walks trees and graphs, as the reasoner reads.
    pub guide: Arc<dyn Guide>,
    /// Replies to whatever is asked.
    pub model: Option<Arc<dyn Generator>>,
}

impl Judgement {
    /// The judgement of the configured language model, or without one that of the evidence's own
    /// sentences, compared by the current one of `encoders`. Replies are kept here, and with the nodes that share `cache`.
    ///
    /// # Errors
    /// As [`model`].
    pub async fn load(
        config: &GeneratorConfig,
        encoders: Arc<dyn Encoders>,
        cache: Option<Cache>,
    ) -> Result<Self, Error> {
        let model = model(config).await?;
        let (reasoner, guide): (Arc<dyn Reasoner>, Arc<dyn Guide>) = match &model {
            None => {
                let extractive = Arc::new(Extractive::new(encoders));
                (Arc::clone(&extractive) as Arc<dyn Reasoner>, extractive)
            }
            Some(model) => {
                tracing::info!(model = model.identity().model, "a language model reads evidence");
                let prompted = Arc::new(prompted(Arc::clone(model), &config.budget, cache));
                (Arc::clone(&prompted) as Arc<dyn Reasoner>, prompted)
            }
        };
        Ok(Self { reasoner, guide, model })
    }
}

/// Asks `model` within `budget`. Replies are kept here, and with the nodes that share `cache`.
pub fn prompted(
    model: Arc<dyn Generator>,
    budget: &BudgetConfig,
    cache: Option<Cache>,
) -> Prompted {
    let replies = Arc::new(KeptReplies::new(cache));
    Prompted::new(model).with_cache(replies, "").with_budget(budget.budget())
}
