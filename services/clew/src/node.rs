//! Starts and stops all roles in this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Clock, Encoders, Error, SystemClock};
use clew_gateway::{Backends, GatewaySeams};
use clew_generator::Judgement;
use clew_memory_encoder::{EncoderConfig, EncoderPools, Models};
use clew_retriever::{LocalRetriever, ShardSeams};
use clew_runtime::fair_queue::two_per_core;
use clew_telemetry::Health;

use crate::config::{ClewConfig, RolesConfig};
use crate::default_model;

/// Running node with all roles.
pub struct RunningNode {
    /// State that the services share.
    pub backends: Arc<Backends>,
    /// Models, for their counters.
    pub models: Models,
    retriever: Arc<LocalRetriever>,
    shutdown: Duration,
}

impl RunningNode {
    /// Loads the models, takes the data directory and starts the actors.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] if another process has the directory, and the
    /// errors of loading models and of the storage.
    pub async fn start(config: &ClewConfig) -> Result<Self, Error> {
        let ClewConfig { node, roles } = config;
        let models = load_models(roles).await?;
        // After the models, so that no data directory is created for a node that cannot start.
        let tried = roles.storage.try_out(&roles.data_dir.to_string_lossy()).await?;
        let encoders: Arc<dyn Encoders> = Arc::new(models.encoders.clone());
        let memory_encoder = models.memory_encoder();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (judged, reader) = (Arc::clone(&encoders), models.reader.seam());
        let judgement = Judgement::load(&roles.generator, judged, reader, None).await?;
        let model = judgement.model.clone();
        let graph_builders = clew_graph_builder::builder(&roles.graph_builder, model, None)?;
        let seams = ShardSeams {
            encoders: Arc::clone(&encoders),
            graph_builders: Arc::clone(&graph_builders),
            memory_encoder: Arc::clone(&memory_encoder),
            clock: Arc::clone(&clock),
            snapshots: tried.snapshots(),
        };
        let retriever = LocalRetriever::start(&tried, seams, roles.retriever.clone()).await?;
        let seams = GatewaySeams {
            encoders,
            reasoners: Arc::new(judgement),
            graph_builders,
            memory_encoder,
            reranker: models.reranker.seam(),
            clock,
        };
        let (corpora, gateway) = (Arc::clone(&retriever), roles.gateway.clone());
        let backends = Backends::new(corpora, seams, None, two_per_core(), gateway);
        let shutdown = node.shutdown();
        Ok(Self { backends: Arc::new(backends), models, retriever, shutdown })
    }

    /// Makes `health` report the state of the node's parts.
    pub fn watch(&self, health: &Health) {
        health.watch(clew_retriever::troubles);
        health.watch(clew_generator::troubles);
        self.models.watch(health);
    }

    /// Finishes what was accepted and ends the actors.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::DeadlineExceeded`] if it was cut short. Nothing accepted is
    /// lost.
    pub async fn stop(self) -> Result<(), Error> {
        let stopped = self.retriever.stop(self.shutdown).await;
        self.models.stop().await;
        stopped
    }
}

/// Loads all models of an encoder and starts their workers.
///
/// # Errors
/// Returns the errors of [`model_folder`] and of [`Models::load`].
pub async fn load_models(config: &RolesConfig) -> Result<Models, Error> {
    let RolesConfig { encoder, memory_model, reranker, reader, .. } = config;
    Models::load(model_folder(encoder).await?, encoder, memory_model, reranker, reader).await
}

/// Loads only the embedding models and starts their workers.
///
/// # Errors
/// Returns the errors of [`model_folder`] and of [`EncoderPools::load`].
pub async fn load_encoders(config: &EncoderConfig) -> Result<EncoderPools, Error> {
    EncoderPools::load(model_folder(config).await?, config).await
}

/// Returns the folder of the embedding model, which is fetched if it has to be. Returns `None` if
/// the model runs elsewhere.
///
/// # Errors
/// Returns the errors of [`default_model::folder`].
pub async fn model_folder(config: &EncoderConfig) -> Result<Option<PathBuf>, Error> {
    if !config.needs_folder() {
        return Ok(None);
    }
    match &config.model {
        Some(folder) => Ok(Some(folder.clone())),
        None => default_model::folder(config.fetch_model).await.map(Some),
    }
}
