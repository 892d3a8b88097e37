//! Connections to the encoders of the cluster.

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

/// Time that known encoders have to answer before the list of members is read again.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the encoders in the node's tree and the current model are updated.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

impl Node {
    /// Connects to the encoders of the cluster. Waits until one has reported which model is
    /// current, because stored vectors cannot be used without knowing it.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
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

    /// Returns one encoder that stands for the memory models of the cluster's encoders. They are
    /// asked which model they have, if any, only when it is needed.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn memory_encoder(&self) -> Result<Arc<RemoteMemoryEncoder>, Error> {
        let role = Some(Role::Encoder);
        let PeerOptions { service, credits, .. } =
            RemoteMemoryEncoder::peer_options(self.reach(role));
        let encoders = self.pool(role, "memory encoders", &service, credits).await?;
        Ok(Arc::new(RemoteMemoryEncoder::new(encoders)))
    }

    /// Returns one reranker that stands for the rerankers of the cluster's encoders. They are asked
    /// which model they have, if any, only when it is needed.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn reranker(&self) -> Result<Arc<RemoteReranker>, Error> {
        let role = Some(Role::Encoder);
        let PeerOptions { service, credits, .. } = RemoteReranker::peer_options(self.reach(role));
        let encoders = self.pool(role, "rerankers", &service, credits).await?;
        Ok(Arc::new(RemoteReranker::new(encoders)))
    }
}

/// Updates the encoders whenever the list of members changes.
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
