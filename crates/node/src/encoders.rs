//! The encoders of the cluster, as one encoder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_cluster::{Members, Role};
use clew_core::Error;
use clew_remote_encoder::{
    RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions, RemoteMemoryEncoder,
};
use clew_runtime::peer::PeerOptions;
use clew_runtime::tree::TreeNode;
use tokio::sync::watch;

use crate::Node;
use crate::peers::addresses;

/// How long encoders that are there may take to answer before the list of members is read again.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How often the tree's picture of the encoders is renewed.
const DRAWN_EVERY: Duration = Duration::from_secs(1);

impl Node {
    /// The encoders of the cluster. Waits until one has told which model it runs: without that,
    /// nothing that is stored can be understood.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
    pub async fn encoders(&self, config: RemoteEncoderConfig) -> Result<Arc<RemoteEncoder>, Error> {
        config.validate()?;
        let mut members = self.members();
        let encoder = loop {
            let now = Arc::clone(&members.borrow_and_update());
            let options = RemoteEncoderOptions {
                members: addresses(Some(Role::Encoder), &now),
                expected: None,
                config: config.clone(),
                peers: self.reach(),
            };
            match RemoteEncoder::connect(options, Instant::now() + ANSWER_PATIENCE).await {
                Ok(encoder) => break Arc::new(encoder),
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::warn!(error = error.chain(), "waiting for an encoder");
                }
            }
        };
        self.keep(follow(Arc::clone(&encoder), members));
        let (drawn, picture) = watch::channel(encoder.node().await);
        self.keep(draw(Arc::clone(&encoder), drawn));
        self.parts().add(move || picture.borrow().clone());
        Ok(encoder)
    }

    /// The memory models of the cluster's encoders, as one. Which model it is, and whether there is any, they are
    /// asked when somebody wants to know.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
    pub async fn memory_encoder(&self) -> Result<Arc<RemoteMemoryEncoder>, Error> {
        let PeerOptions { service, credits, .. } = RemoteMemoryEncoder::peer_options(self.reach());
        let encoders = self.pool(Some(Role::Encoder), "memory encoders", &service, credits).await?;
        Ok(Arc::new(RemoteMemoryEncoder::new(encoders)))
    }
}

/// Keeps the encoder in step with the list of members.
async fn follow(encoder: Arc<RemoteEncoder>, mut members: watch::Receiver<Arc<Members>>) {
    loop {
        let now = Arc::clone(&members.borrow_and_update());
        if let Err(error) = encoder.update(addresses(Some(Role::Encoder), &now)).await {
            tracing::warn!(error = error.chain(), "the list of encoders was not taken over");
        }
        if members.changed().await.is_err() {
            return;
        }
    }
}

async fn draw(encoder: Arc<RemoteEncoder>, drawn: watch::Sender<TreeNode>) {
    loop {
        tokio::time::sleep(DRAWN_EVERY).await;
        drawn.send_replace(encoder.node().await);
    }
}
