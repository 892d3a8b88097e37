//! The pools of a process: one for each model that it is configured with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Encoder, EncoderIdentity, Encoders, Error};
use clew_runtime::tree::TreeNode;
use clew_telemetry::Trouble;

use crate::pool::load_model;
use crate::{EncoderConfig, EncoderPool};

/// Embeds on this machine's devices with the model of new corpora, and with the one that corpora move to if it is
/// configured. Each has workers and a queue as configured. Cheap to clone.
#[derive(Clone)]
pub struct EncoderPools {
    current: Arc<EncoderPool>,
    next: Option<Arc<EncoderPool>>,
}

impl EncoderPools {
    /// Loads the model in `folder`, and `encoder.next_model` if there is one, and starts their workers.
    ///
    /// # Errors
    /// As [`EncoderPool::load`]; [`clew_core::ErrorKind::InvalidInput`] if both are the same model.
    pub async fn load(folder: PathBuf, config: &EncoderConfig) -> Result<Self, Error> {
        let current = load_model(folder, config).await?;
        let next = match &config.next_model {
            Some(folder) => Some(load_model(folder.clone(), config).await?),
            None => None,
        };
        if let Some(next) = next.as_ref().filter(|next| next.identity() == current.identity()) {
            let model = &next.identity().model;
            let problem =
                format!("expected another model than `encoder.model`, got `{model}` twice");
            return Err(Error::invalid("encoder.next_model", problem));
        }
        let current = Arc::new(EncoderPool::start(current, config).await?);
        let next = match next {
            Some(model) => Some(Arc::new(EncoderPool::start(model, config).await?)),
            None => None,
        };
        Ok(Self { current, next })
    }

    /// All pools, the current first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<EncoderPool>> {
        std::iter::once(&self.current).chain(&self.next)
    }

    /// The pool of new corpora.
    pub fn current_pool(&self) -> &Arc<EncoderPool> {
        &self.current
    }

    /// What is wrong with them.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.all().flat_map(|pool| pool.troubles()).collect()
    }

    /// How they show in the tree.
    pub fn nodes(&self) -> Vec<TreeNode> {
        self.all().map(|pool| pool.node()).collect()
    }

    /// Ends the workers of all.
    pub async fn stop(&self) {
        futures::future::join_all(self.all().map(|pool| pool.stop())).await;
    }
}

#[async_trait]
impl Encoders for EncoderPools {
    fn current(&self) -> Arc<dyn Encoder> {
        Arc::clone(&self.current) as Arc<dyn Encoder>
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        self.all().map(|pool| pool.identity().clone()).collect()
    }

    async fn of(
        &self,
        identity: &EncoderIdentity,
        _deadline: Instant,
    ) -> Result<Arc<dyn Encoder>, Error> {
        match self.all().find(|pool| pool.identity() == identity) {
            Some(pool) => Ok(Arc::clone(pool) as Arc<dyn Encoder>),
            None => Err(identity.missing_among(&self.offered())),
        }
    }
}
