//! Encoders of a process: one for each configured model.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use clew_core::{Encoder, EncoderIdentity, Encoders, Error};
use clew_endpoint::{EmbeddingConfig, EmbeddingEndpoint};
use clew_runtime::tree::RunningPart;
use clew_telemetry::Trouble;

use crate::pool::load_model;
use crate::{EncoderConfig, EncoderPool};

/// Encoder of a process for one model. Cheap to clone.
#[derive(Clone)]
pub enum OwnEncoder {
    /// On its own devices.
    Pool(Arc<EncoderPool>),
    /// Behind an endpoint.
    Endpoint(Arc<EmbeddingEndpoint>),
}

impl OwnEncoder {
    /// Loads the model and starts its workers, or prepares its endpoint.
    async fn load(source: Source<'_>, config: &EncoderConfig) -> Result<Self, Error> {
        match source {
            Source::Folder(_, folder) => {
                let model = load_model(folder.to_owned(), config).await?;
                Ok(Self::Pool(Arc::new(EncoderPool::start(model, config).await?)))
            }
            Source::Endpoint(key, endpoint) => {
                let endpoint = endpoint.clone();
                let load = move || {
                    let secret = endpoint.load_key()?;
                    let tokenizer = endpoint.load_tokenizer(key)?;
                    EmbeddingEndpoint::try_new(endpoint, secret.as_ref(), tokenizer)
                };
                let loaded = tokio::task::spawn_blocking(load).await.map_err(|panic| {
                    Error::internal("reading a tokenizer panicked").with_source(panic)
                })?;
                Ok(Self::Endpoint(Arc::new(loaded?)))
            }
        }
    }

    /// Returns the encoder.
    pub fn encoder(&self) -> Arc<dyn Encoder> {
        match self {
            Self::Pool(pool) => Arc::clone(pool) as Arc<dyn Encoder>,
            Self::Endpoint(endpoint) => Arc::clone(endpoint) as Arc<dyn Encoder>,
        }
    }

    /// Returns the identity of the model.
    pub fn identity(&self) -> &EncoderIdentity {
        match self {
            Self::Pool(pool) => pool.identity(),
            Self::Endpoint(endpoint) => endpoint.identity(),
        }
    }

    /// Returns a readable description of what computes: which code on which device, or which
    /// endpoint.
    pub fn description(&self) -> String {
        match self {
            Self::Pool(pool) => pool.description(),
            Self::Endpoint(endpoint) => endpoint.description(),
        }
    }

    /// Returns the model's `tokenizer.json`. It is empty if tokens are estimated.
    pub fn tokenizer_json(&self) -> Bytes {
        match self {
            Self::Pool(pool) => Bytes::copy_from_slice(pool.model().tokenizer_json()),
            Self::Endpoint(endpoint) => endpoint.tokenizer_json().clone(),
        }
    }

    /// Returns the number of tokens embedded since the start.
    pub fn embedded_tokens(&self) -> u64 {
        match self {
            Self::Pool(pool) => pool.embedded_tokens(),
            Self::Endpoint(endpoint) => endpoint.embedded_tokens(),
        }
    }

    /// Returns how long this machine's devices have computed since the start, summed over the
    /// workers.
    pub fn busy(&self) -> Duration {
        self.pool().map_or(Duration::ZERO, EncoderPool::busy)
    }

    /// Returns the pool, or `None` if the model is behind an endpoint.
    pub fn pool(&self) -> Option<&EncoderPool> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::Endpoint(_) => None,
        }
    }
}

/// Location of a model, with the configuration key that names it.
#[derive(Clone, Copy)]
enum Source<'a> {
    Folder(&'static str, &'a Path),
    Endpoint(&'static str, &'a EmbeddingConfig),
}

impl Source<'_> {
    fn key(&self) -> &'static str {
        match self {
            Self::Folder(key, _) | Self::Endpoint(key, _) => key,
        }
    }
}

/// Encoders for the model of new corpora and, if configured, for the model that corpora move to.
/// Models run on this machine's devices, each with workers and a queue of its own, or behind
/// endpoints. Cheap to clone.
#[derive(Clone)]
pub struct EncoderPools {
    current: OwnEncoder,
    next: Option<OwnEncoder>,
}

impl EncoderPools {
    /// Loads the model in `folder`, unless `encoder.endpoint` is configured, and the second model
    /// of `encoder` if there is one. Starts their workers. An endpoint that does not answer is not
    /// an error here.
    ///
    /// # Errors
    /// Returns the errors of [`EncoderPool::load`]. Returns [`clew_core::ErrorKind::InvalidInput`]
    /// if both models are the same, or if a tokenizer cannot be read, and
    /// [`clew_core::ErrorKind::WrongState`] if an API key is not where the configuration says.
    pub async fn load(folder: Option<PathBuf>, config: &EncoderConfig) -> Result<Self, Error> {
        config.validate()?;
        let current = match (&config.endpoint, &folder) {
            (Some(endpoint), _) => Source::Endpoint("encoder.endpoint", endpoint),
            (None, Some(folder)) => Source::Folder("encoder.model", folder),
            (None, None) => {
                let problem = "expected the folder of a model, or `encoder.endpoint`";
                return Err(Error::invalid("encoder.model", problem));
            }
        };
        let next = match (&config.next_endpoint, &config.next_model) {
            (Some(endpoint), _) => Some(Source::Endpoint("encoder.next_endpoint", endpoint)),
            (None, Some(folder)) => Some(Source::Folder("encoder.next_model", folder)),
            (None, None) => None,
        };
        let mut pools = Self { current: OwnEncoder::load(current, config).await?, next: None };
        if let Some(next) = next
            && let Err(error) = pools.add_next(next, config).await
        {
            pools.stop().await;
            return Err(error);
        }
        for own in pools.all() {
            tracing::info!(model = %own.description(), "embedding model");
        }
        Ok(pools)
    }

    async fn add_next(&mut self, source: Source<'_>, config: &EncoderConfig) -> Result<(), Error> {
        let next = self.next.insert(OwnEncoder::load(source, config).await?);
        if next.identity() != self.current.identity() {
            return Ok(());
        }
        let model = &next.identity().model;
        let problem = format!("expected another model than the first, got `{model}` twice");
        Err(Error::invalid(source.key(), problem))
    }

    /// Returns all encoders, the current first.
    pub fn all(&self) -> impl Iterator<Item = &OwnEncoder> {
        std::iter::once(&self.current).chain(&self.next)
    }

    /// Returns the encoder for new corpora.
    pub fn first(&self) -> &OwnEncoder {
        &self.current
    }

    /// Returns the troubles of the devices.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.pools().flat_map(EncoderPool::troubles).collect()
    }

    /// Returns whether the devices of all models take work.
    pub fn take_work(&self) -> bool {
        self.troubles().is_empty()
    }

    /// Returns the devices' nodes for the tree of running parts.
    pub fn nodes(&self) -> Vec<RunningPart> {
        self.pools().map(EncoderPool::node).collect()
    }

    /// Stops the workers of all pools.
    pub async fn stop(&self) {
        futures::future::join_all(self.pools().map(EncoderPool::stop)).await;
    }

    fn pools(&self) -> impl Iterator<Item = &EncoderPool> {
        self.all().filter_map(OwnEncoder::pool)
    }
}

#[async_trait]
impl Encoders for EncoderPools {
    fn current(&self) -> Arc<dyn Encoder> {
        self.current.encoder()
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        self.all().map(|own| own.identity().clone()).collect()
    }

    async fn of(
        &self,
        identity: &EncoderIdentity,
        _deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error> {
        match self.all().find(|own| own.identity() == identity) {
            Some(own) => Ok(own.encoder()),
            None => Err(identity.missing_among(&self.offered())),
        }
    }
}
