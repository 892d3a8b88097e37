//! The language model that the configuration names, and the reasoners over it.

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

/// Who judges.
#[derive(Clone)]
pub(crate) enum Judge {
    /// A language model.
    Model(Prompted),
    /// Rules over the evidence's own sentences, which the current one of these encoders compares.
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

/// What judges on a node: a reasoner and a guide for each account, and the language model behind them, if there is one.
#[derive(Clone)]
pub struct Judgement {
    judge: Judge,
    budget: Budget,
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

/// Asks `model`, each time within `budget`. Replies are kept here, and with the nodes that share `cache`, for each owner
/// of an account apart.
pub fn prompted(model: Arc<dyn Generator>, budget: Budget, cache: Option<Cache>) -> Prompted {
    let replies: Arc<dyn ReplyCache> = Arc::new(KeptReplies::new(cache));
    Prompted::new(model).with_cache(replies).with_budget(budget)
}
