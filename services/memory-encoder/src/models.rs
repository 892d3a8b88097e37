//! Models that an encoder runs.

use std::path::PathBuf;
use std::sync::Arc;

use clew_core::{Error, MemoryEncoder};
use clew_runtime::tree::RunningPart;
use clew_telemetry::Health;

use crate::{
    EncoderConfig, EncoderPools, MemoryModelConfig, MemoryPool, OwnReader, OwnReranker,
    ReaderConfig, RerankerConfig, memory_encoder,
};

/// Models that an encoder runs, or reaches behind endpoints. Cheap to clone.
#[derive(Clone)]
pub struct Models {
    /// Embedding models.
    pub encoders: EncoderPools,
    /// The memory model, if there is one.
    pub memory: Option<Arc<MemoryPool>>,
    /// The reranker, if there is one.
    pub reranker: OwnReranker,
    /// The reader, if there is one.
    pub reader: OwnReader,
}

impl Models {
    /// Loads the configured models and starts their workers; a reader that is there by default is
    /// loaded later. The first embedding model is in `folder`, unless it is behind an endpoint.
    ///
    /// # Errors
    /// Returns the errors of [`EncoderPools::load`], [`MemoryPool::load`], [`OwnReranker::load`]
    /// and [`OwnReader::load`].
    pub async fn load(
        folder: Option<PathBuf>,
        encoder: &EncoderConfig,
        memory_model: &MemoryModelConfig,
        reranker: &RerankerConfig,
        reader: &ReaderConfig,
    ) -> Result<Self, Error> {
        // Before the first model is loaded, which takes a while.
        encoder.validate()?;
        memory_model.validate()?;
        reranker.validate()?;
        let encoders = EncoderPools::load(folder.clone(), encoder).await?;
        let memory = MemoryPool::load(memory_model).await?;
        let reader = OwnReader::load(reader, folder.as_deref(), encoder).await?;
        let reranker = OwnReranker::load(reranker, encoder, &reader).await?;
        Ok(Self { encoders, memory, reranker, reader })
    }

    /// Returns the memory model, or one that refuses everything.
    pub fn memory_encoder(&self) -> Arc<dyn MemoryEncoder> {
        memory_encoder(self.memory.as_ref())
    }

    /// Makes `health` report the state of the devices.
    pub fn watch(&self, health: &Health) {
        let Self { encoders, memory, reranker, reader } = self.clone();
        health.watch(move || encoders.troubles());
        health.watch(move || memory.iter().flat_map(|memory| memory.troubles()).collect());
        health.watch(move || reranker.troubles());
        health.watch(move || reader.troubles());
    }

    /// Returns the models' nodes for the tree of running parts.
    pub fn nodes(&self) -> Vec<RunningPart> {
        let memory = self.memory.iter().map(|memory| memory.node());
        let nodes = self.encoders.nodes().into_iter().chain(self.reranker.nodes());
        nodes.chain(self.reader.nodes()).chain(memory).collect()
    }

    /// Stops all workers. Drops waiting work; its callers get an error.
    pub async fn stop(&self) {
        if let Some(memory) = &self.memory {
            memory.stop().await;
        }
        self.reader.stop().await;
        self.reranker.stop().await;
        self.encoders.stop().await;
    }
}
