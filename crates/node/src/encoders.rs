//! The encoders of the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_cluster::{Members, Role};
use clew_core::Error;
use clew_remote_encoder::{
    RemoteEncoderConfig, RemoteEncoderOptions, RemoteEncoders, RemoteMemoryEncoder, RemoteReranker,
};
use clew_runtime::peer::PeerOptions;
use clew_runtime::tree::TreeNode;
use tokio::sync::watch;

use crate::Node;
use crate::peers::addresses;

/// How long encoders that are there may take to answer before the list of members is read again.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How often the tree's picture of the encoders is renewed, and which model is current.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

impl Node {
    /// The encoders of the cluster. Waits until one has told which model is current: without that,
    /// nothing that is stored can be understood.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
    pub async fn encoders(
        &self,
        config: RemoteEncoderConfig,
    ) -> Result<Arc<RemoteEncoders>, Error> {
        config.validate()?;
        let mut members = self.members();
        let encoders = loop {
            let now = Arc::clone(&members.borrow_and_update());
            let options = RemoteEncoderOptions {
                members: addresses(Some(Role::Encoder), &now),
                expected: None,
                config: config.clone(),
                peers: self.reach(Some(Role::Encoder)),
            };
            match RemoteEncoders::connect(options, Instant::now() + ANSWER_PATIENCE).await {
                Ok(encoders) => break Arc::new(encoders),
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::warn!(error = error.chain(), "waiting for an encoder");
                }
            }
        };
        self.keep(follow(Arc::clone(&encoders), members));
        let (drawn, picture) = watch::channel(encoders.nodes().await);
        self.keep(look(Arc::clone(&encoders), drawn));
        self.parts().add_all(move || picture.borrow().clone());
        Ok(encoders)
    }

    /// The memory models of the cluster's encoders, as one. Which model it is, and whether there is any, they are
    /// asked when somebody wants to know.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
    pub async fn memory_encoder(&self) -> Result<Arc<RemoteMemoryEncoder>, Error> {
        let role = Some(Role::Encoder);
        let PeerOptions { service, credits, .. } =
            RemoteMemoryEncoder::peer_options(self.reach(role));
        let encoders = self.pool(role, "memory encoders", &service, credits).await?;
        Ok(Arc::new(RemoteMemoryEncoder::new(encoders)))
    }

    /// The rerankers of the cluster's encoders, as one. Which model it is, and whether there is any, they are asked
    /// when somebody wants to know.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] from the configuration.
    pub async fn reranker(&self) -> Result<Arc<RemoteReranker>, Error> {
        let role = Some(Role::Encoder);
        let PeerOptions { service, credits, .. } = RemoteReranker::peer_options(self.reach(role));
        let encoders = self.pool(role, "rerankers", &service, credits).await?;
        Ok(Arc::new(RemoteReranker::new(encoders)))
    }
}

/// Keeps the encoders in step with the list of members.
async fn follow(encoders: Arc<RemoteEncoders>, mut members: watch::Receiver<Arc<Members>>) {
    loop {
        let now = Arc::clone(&members.borrow_and_update());
        if let Err(error) = encoders.update(addresses(Some(Role::Encoder), &now)).await {
            tracing::warn!(error = error.chain(), "the list of encoders was not taken over");
        }
        if members.changed().await.is_err() {
            return;
        }
    }
}

async fn look(encoders: Arc<RemoteEncoders>, drawn: watch::Sender<Vec<TreeNode>>) {
    loop {
        tokio::time::sleep(LOOKED_EVERY).await;
        encoders.follow_current().await;
        drawn.send_replace(encoders.nodes().await);
    }
}
