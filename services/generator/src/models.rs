//! The configured language model, and the reasoners that use it.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_cluster::Cache;
use clew_core::{Account, Budget, Encoders, Error, Generator, Guide, Reasoner, Reasoners};
use clew_endpoint::{Endpoint, EndpointConfig, Fallback};
use clew_reason::Extractive;
use clew_reason::prompted::{Prompted, ReplyCache};

use crate::counted::Counted;
use crate::replies::KeptReplies;
use crate::{GeneratorConfig, LocalGenerator};

/// Returns the configured language model: the endpoint, then the fallback endpoints, and last the
/// local model. Returns `None` if none is configured.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if settings cannot be used, and
/// [`clew_core::ErrorKind::WrongState`] if an API key is not where the settings say. An endpoint
/// that does not answer is not an error.
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

/// Implementation of reasoners and guides on a node.
#[derive(Clone)]
pub(crate) enum Judge {
    /// A language model.
    Model(Prompted),
    /// Extractive rules: they choose sentences of the evidence, which the current encoder compares.
    Rules(Arc<dyn Encoders>),
}

impl Judge {
    pub fn reasoner(&self, account: &Account) -> Arc<dyn Reasoner> {
        match self {
            Self::Model(prompted) => Arc::new(prompted.on_account(account)),
            Self::Rules(encoders) => Arc::new(extractive(encoders, account)),
        }
    }

    pub fn guide(&self, account: &Account) -> Arc<dyn Guide> {
        match self {
            Self::Model(prompted) => Arc::new(prompted.on_account(account)),
            Self::Rules(encoders) => Arc::new(extractive(encoders, account)),
        }
    }
}

fn extractive(encoders: &Arc<dyn Encoders>, account: &Account) -> Extractive {
    Extractive::new(account.metered(Arc::clone(encoders)))
}

/// Reasoners and guides of a node, one for each account, and the language model behind them, if
/// there is one.
#[derive(Clone)]
pub struct Judgement {
    judge: Judge,
    budget: Budget,
    /// Language model that replies to arbitrary prompts.
    pub model: Option<Arc<dyn Generator>>,
}

impl Judgement {
    /// Loads the configured language model. Without one, extractive rules choose sentences of the
    /// evidence, and the current encoder of `encoders` compares them. Replies are cached in this
    /// process and, through `cache`, on the nodes that share it.
    ///
    /// # Errors
    /// Returns the errors of [`model`].
    pub async fn load(
        config: &GeneratorConfig,
        encoders: Arc<dyn Encoders>,
        cache: Option<Cache>,
    ) -> Result<Self, Error> {
        let (model, budget) = (model(config).await?, config.budget.budget());
        let judge = match &model {
            None => Judge::Rules(encoders),
            Some(model) => {
                tracing::info!(model = model.identity().model, "a language model reads evidence");
                Judge::Model(prompted(Arc::clone(model), budget, cache))
            }
        };
        Ok(Self { judge, budget, model })
    }
}

#[async_trait]
impl Reasoners for Judgement {
    async fn budget(&self, _deadline: Instant) -> Result<Budget, Error> {
        Ok(self.budget)
    }

    fn reasoner(&self, account: &Account) -> Arc<dyn Reasoner> {
        self.judge.reasoner(account)
    }

    fn guide(&self, account: &Account) -> Arc<dyn Guide> {
        self.judge.guide(account)
    }
}

/// Wraps `model` for prompts, each within `budget`. Replies are cached in this process and, through
/// `cache`, on the nodes that share it; account owners never share a reply.
pub fn prompted(model: Arc<dyn Generator>, budget: Budget, cache: Option<Cache>) -> Prompted {
    let replies: Arc<dyn ReplyCache> = Arc::new(KeptReplies::new(cache));
    Prompted::new(model).with_cache(replies).with_budget(budget)
}
