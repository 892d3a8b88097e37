//! Starts and stops all roles in this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clew_core::{Clock, Corpora, Encoders, Error, ErrorKind, Limits, SystemClock};
use clew_gateway::{AllCorpora, Backends};
use clew_generator::Judgement;
use clew_memory_encoder::{EncoderPools, MemoryPool, OwnReranker};
use clew_retriever::LocalRetriever;
use clew_runtime::fair_queue::two_for_each_core;
use clew_telemetry::Health;

use crate::config::NodeConfig;

/// Place of the default model after `make setup`, below the folder of the workspace.
const MODEL_OF_SETUP: &str = ".cache/models/all-MiniLM-L6-v2";
/// Place of the default model after `make install`, below the folder whose `bin` holds the program.
const MODEL_OF_INSTALL: &str = "share/clew/model";

/// Running node with all roles.
pub struct RunningNode {
    /// State that the services share.
    pub backends: Arc<Backends>,
    retriever: Arc<LocalRetriever>,
    /// Encoders, for their counters.
    pub encoders: EncoderPools,
    /// Memory model, if there is one.
    pub memory: Option<Arc<MemoryPool>>,
    reranker: OwnReranker,
    shutdown: Duration,
}

impl RunningNode {
    /// Loads the models, takes the data directory and starts the actors.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] if the model is missing or another process has the
    /// directory, and the errors of loading models and of the storage.
    pub async fn start(config: &NodeConfig) -> Result<Self, Error> {
        let data_dir = config.data_dir.to_string_lossy();
        let encoders = start_encoders(config).await?;
        let memory = MemoryPool::load(&config.memory_model).await?;
        let reranker = OwnReranker::load(&config.reranker, &config.encoder).await?;
        // After the models, so that no data directory is created for a node that cannot start.
        let tried = config.storage.try_out(&data_dir).await?;
        let memory_encoder = clew_memory_encoder::memory_encoder(memory.as_ref());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let seam: Arc<dyn Encoders> = Arc::new(encoders.clone());
        let judgement = Judgement::load(&config.generator, Arc::clone(&seam), None).await?;
        let model = judgement.model.clone();
        let graph_builders = clew_graph_builder::builder(&config.graph_builder, model, None)?;
        let retriever = LocalRetriever::start(
            &tried,
            clew_retriever::ShardSeams {
                encoders: Arc::clone(&seam),
                graph_builders: Arc::clone(&graph_builders),
                memory_encoder: Arc::clone(&memory_encoder),
                clock: Arc::clone(&clock),
                snapshots: config.storage.snapshots(&data_dir).await?,
            },
            config.retriever.clone(),
        )
        .await?;
        let backends = Backends {
            corpora: AllCorpora::new(Arc::clone(&retriever) as Arc<dyn Corpora>),
            encoders: seam,
            questions: None,
            reasoners: Arc::new(judgement),
            graph_builders,
            memory_encoder,
            reranker: reranker.seam(),
            clock,
            search_turns: config.gateway.search_turns(two_for_each_core()),
            limits: Limits::default(),
            moderation: config.gateway.moderation(),
            config: config.gateway.clone(),
        };
        let shutdown = Duration::from_secs(config.shutdown_secs);
        let backends = Arc::new(backends);
        Ok(Self { backends, retriever, encoders, memory, reranker, shutdown })
    }

    /// Makes `health` report the state of the node's parts.
    pub fn watch(&self, health: &Health) {
        health.watch(clew_retriever::troubles);
        health.watch(clew_generator::troubles);
        let encoders = self.encoders.clone();
        health.watch(move || encoders.troubles());
        let reranker = self.reranker.clone();
        health.watch(move || reranker.troubles());
    }

    /// Finishes what was accepted and ends the actors.
    ///
    /// # Errors
    /// Returns [`ErrorKind::DeadlineExceeded`] if it was cut short. Nothing accepted is lost.
    pub async fn stop(self) -> Result<(), Error> {
        let stopped = self.retriever.stop(self.shutdown).await;
        if let Some(memory) = &self.memory {
            memory.stop().await;
        }
        self.reranker.stop().await;
        self.encoders.stop().await;
        stopped
    }
}

/// Loads the embedding models and starts only the encoders.
///
/// # Errors
/// Returns the same errors as [`RunningNode::start`].
pub async fn start_encoders(config: &NodeConfig) -> Result<EncoderPools, Error> {
    let folder = match (&config.encoder.endpoint, &config.encoder.model) {
        (Some(_), _) => None,
        (None, Some(folder)) => Some(folder.clone()),
        (None, None) => Some(default_model()?),
    };
    let encoders = EncoderPools::load(folder, &config.encoder).await?;
    for encoder in encoders.all() {
        tracing::info!(model = %encoder.description(), "embedding model");
    }
    Ok(encoders)
}

/// Returns the folder of the model that `make setup` installed in the workspace of the current
/// folder or of this program, or that `make install` installed with this program.
fn default_model() -> Result<PathBuf, Error> {
    let here = std::env::current_dir().ok();
    let program = std::env::current_exe().ok();
    let workspaces = here.iter().chain(program.iter()).flat_map(|path| path.ancestors());
    let of_setup = workspaces.map(|folder| folder.join(MODEL_OF_SETUP));
    let prefix = program.as_deref().and_then(|program| program.parent()?.parent());
    let mut candidates = of_setup.chain(prefix.map(|prefix| prefix.join(MODEL_OF_INSTALL)));
    candidates.find(|folder| folder.join("config.json").is_file()).ok_or_else(|| {
        Error::new(
            ErrorKind::WrongState,
            "BROKEN_MODEL",
            "no embedding model was found; run `make setup` or `make install`, or name a folder with --model or \
             CLEW_MODEL_DIR",
        )
    })
}
