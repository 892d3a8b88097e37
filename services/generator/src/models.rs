//! The configured language model, and the reasoners that use it.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Account, Budget, Encoders, Error, Generator, Guide, Reasoner, Reasoners, SpanReader,
};
use clew_endpoint::{Endpoint, EndpointConfig, Fallback};
use clew_reason::ModelOrRules;
use clew_reason::prompted::{Prompted, ReplyCache};

use crate::counted::Counted;
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

/// Reasoners and guides of a node, one for each account, and the language model behind them, if
/// there is one.
#[derive(Clone)]
pub struct Judgement {
    judge: ModelOrRules,
    budget: Budget,
    /// Language model that replies to arbitrary prompts.
    pub model: Option<Arc<dyn Generator>>,
}

impl Judgement {
    /// Loads the configured language model. Without one, extractive rules choose words of the
    /// evidence, which `reader` finds, and sentences, which the current encoder of `encoders`
    /// compares. Replies are cached in this process and, through `shared`, on the nodes that share
    /// that cache.
    ///
    /// # Errors
    /// Returns the errors of [`model`].
    pub async fn load(
        config: &GeneratorConfig,
        encoders: Arc<dyn Encoders>,
        reader: Arc<dyn SpanReader>,
        shared: Option<Arc<dyn ReplyCache>>,
    ) -> Result<Self, Error> {
        let (model, budget) = (model(config).await?, config.budget.budget());
        let judge = match &model {
            None => ModelOrRules::Rules { encoders, reader },
            Some(model) => {
                tracing::info!(model = model.identity().model, "a language model reads evidence");
                let prompted = Prompted::new(Arc::clone(model)).with_kept_replies(shared);
                ModelOrRules::Model(prompted.with_budget(budget))
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
