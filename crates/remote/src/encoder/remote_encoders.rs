//! Implementation of the trait `Encoders` over all models that the members offer, with one remote
//! encoder for each model that is asked for.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Encoder, EncoderIdentity, Encoders, Error};
use clew_runtime::deadline::within;
use clew_runtime::tree::RunningPart;
use tokio::sync::Mutex;

use super::model_pool::ModelPool;
use super::{RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions};

/// Maximum time for members to answer for a model that was not asked for before.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Number of models from which on an unused one is dropped when another is asked for.
const MANY_MODELS: usize = 6;

/// Encoders of other nodes by their models. Dropping it ends its streams and connections.
pub struct RemoteEncoders {
    current: RwLock<Arc<RemoteEncoder>>,
    known: Mutex<Known>,
}

/// Models that were asked for, with the options for further ones.
struct Known {
    options: RemoteEncoderOptions,
    models: Vec<Arc<Asked>>,
}

/// Model that was asked for.
struct Asked {
    identity: EncoderIdentity,
    model_pool: Arc<ModelPool>,
    /// Set once a member has said that it offers the model.
    encoder: OnceLock<Arc<RemoteEncoder>>,
}

impl Asked {
    /// Returns whether somebody waits for the model or works with it.
    fn is_used(self: &Arc<Self>) -> bool {
        let is_held = |encoder: &Arc<RemoteEncoder>| Arc::strong_count(encoder) > 1;
        Arc::strong_count(self) > 1 || self.encoder.get().is_some_and(is_held)
    }

    async fn node(&self) -> RunningPart {
        match self.encoder.get() {
            Some(encoder) => encoder.node().await,
            None => self.model_pool.node().await,
        }
    }
}

impl RemoteEncoders {
    /// Connects to the members and waits until the first has described its current model, which
    /// becomes the current one here.
    ///
    /// # Errors
    /// Returns the same errors as [`RemoteEncoder::connect`].
    pub async fn connect(options: RemoteEncoderOptions, deadline: Instant) -> Result<Self, Error> {
        let encoder = Arc::new(RemoteEncoder::connect(options.clone(), deadline).await?);
        let asked = Asked {
            identity: encoder.identity().clone(),
            model_pool: Arc::clone(encoder.model_pool()),
            encoder: OnceLock::from(Arc::clone(&encoder)),
        };
        let known = Mutex::new(Known { options, models: vec![Arc::new(asked)] });
        Ok(Self { current: RwLock::new(encoder), known })
    }

    /// Replaces the members of all models by `members`, given as names and addresses.
    ///
    /// # Errors
    /// Returns the same errors as [`RemoteEncoder::update`].
    pub async fn update(&self, members: Vec<(String, String)>) -> Result<(), Error> {
        let mut known = self.known.lock().await;
        for asked in &known.models {
            asked.model_pool.update(members.clone()).await?;
        }
        known.options.members = members;
        Ok(())
    }

    /// Makes another model the current one if it is the current one of every member that has
    /// answered: all were configured anew.
    pub async fn follow_current(&self) {
        let now = self.current_encoder();
        let offers = now.model_pool().offers();
        let mut named = offers.iter().filter_map(|offered| offered.first());
        let Some(first) = named.next().filter(|first| *first != now.identity()) else { return };
        if named.any(|other| other != first) {
            return;
        }
        match self.connected(first, Instant::now() + ANSWER_PATIENCE).await {
            Ok(encoder) => {
                tracing::info!(encoder = %first, "new corpora are made with this encoder from now on");
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = encoder;
            }
            Err(error) => {
                tracing::warn!(error = error.chain(), "the encoders' new model cannot be used yet");
            }
        }
    }

    /// Returns the nodes of all models for the tree of running parts, each as
    /// [`RemoteEncoder::node`].
    pub async fn nodes(&self) -> Vec<RunningPart> {
        let models = self.known.lock().await.models.clone();
        let mut nodes = Vec::with_capacity(models.len());
        for asked in models {
            nodes.push(asked.node().await);
        }
        nodes
    }

    fn current_encoder(&self) -> Arc<RemoteEncoder> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn connected(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Result<Arc<RemoteEncoder>, Error> {
        let asking = self.asked(identity);
        let (asked, config) = within(deadline, "asking encoders for a model", asking).await?;
        let model = asked.model_pool.model(deadline).await?;
        let model_pool = Arc::clone(&asked.model_pool);
        let connect = || Arc::new(RemoteEncoder::new(model_pool, model, config));
        Ok(Arc::clone(asked.encoder.get_or_init(connect)))
    }

    /// Returns the pool of a model, gathering it if there is none, with the configuration.
    async fn asked(
        &self,
        identity: &EncoderIdentity,
    ) -> Result<(Arc<Asked>, RemoteEncoderConfig), Error> {
        let mut known = self.known.lock().await;
        let Known { options, models } = &mut *known;
        if let Some(asked) = models.iter().find(|asked| asked.identity == *identity) {
            return Ok((Arc::clone(asked), options.config.clone()));
        }
        if models.len() >= MANY_MODELS
            && let Some(unused) = models.iter().position(|asked| !asked.is_used())
        {
            models.remove(unused);
        }
        let expected = Some(identity.clone());
        let model_pool =
            ModelPool::gather(RemoteEncoderOptions { expected, ..options.clone() }).await?;
        let (identity, model_pool) = (identity.clone(), Arc::new(model_pool));
        let asked = Arc::new(Asked { identity, model_pool, encoder: OnceLock::new() });
        models.push(Arc::clone(&asked));
        Ok((asked, options.config.clone()))
    }
}

#[async_trait]
impl Encoders for RemoteEncoders {
    fn current(&self) -> Arc<dyn Encoder> {
        self.current_encoder()
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        let current = self.current_encoder();
        let others =
            current.model_pool().offered().into_iter().filter(|it| it != current.identity());
        std::iter::once(current.identity().clone()).chain(others).collect()
    }

    async fn of(
        &self,
        identity: &EncoderIdentity,
        deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error> {
        let current = self.current_encoder();
        if current.identity() == identity {
            return Ok(current);
        }
        let patience = deadline.min(Instant::now() + ANSWER_PATIENCE);
        Ok(self.connected(identity, patience).await?)
    }
}
