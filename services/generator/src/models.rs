//! The language model that the configuration names, and the reasoner over it.

use std::sync::Arc;

use clew_core::{Encoder, Error, Generator, Reasoner};
use clew_endpoint::{Endpoint, EndpointConfig, Fallback};
use clew_reason::Extractive;
use clew_reason::prompted::{Prompted, RecentReplies};

use crate::{GeneratorConfig, LocalGenerator};

/// Replies that are remembered, in bytes.
const REMEMBERED: usize = 64 << 20;

/// The configured language model: the endpoint, then those to fall back on, last the one of this
/// process; `None` if there is none.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] for settings that cannot be used, and
/// [`clew_core::ErrorKind::WrongState`] for a key that is not where they say. That an endpoint does not
/// answer is no error here.
pub async fn model(config: &GeneratorConfig) -> Result<Option<Arc<dyn Generator>>, Error> {
    let remote = |endpoint: &EndpointConfig| -> Result<Arc<dyn Generator>, Error> {
        Ok(Arc::new(Endpoint::try_new(endpoint, endpoint.load_key()?.as_ref())?))
    };
    let remotes = config.endpoint.iter().chain(&config.fallback);
    let mut models = remotes.map(remote).collect::<Result<Vec<_>, Error>>()?;
    if let Some(local) = &config.local {
        models.push(Arc::new(LocalGenerator::load(local).await?));
    }
    let mut models = models.into_iter();
    let Some(first) = models.next() else { return Ok(None) };
    let others: Vec<_> = models.collect();
    Ok(Some(if others.is_empty() { first } else { Arc::new(Fallback::new(first, others)) }))
}

/// What reads evidence: the configured language model, or without one the evidence's own sentences,
/// compared by `encoder`.
///
/// # Errors
/// As [`model`].
pub async fn reasoner(
    config: &GeneratorConfig,
    encoder: Arc<dyn Encoder>,
) -> Result<Arc<dyn Reasoner>, Error> {
    let Some(model) = model(config).await? else {
        return Ok(Arc::new(Extractive::new(encoder)));
    };
    tracing::info!(model = model.identity().model, "a language model reads the evidence");
    let cache = Arc::new(RecentReplies::new(REMEMBERED));
    Ok(Arc::new(Prompted::new(model).with_cache(cache, "")))
}
