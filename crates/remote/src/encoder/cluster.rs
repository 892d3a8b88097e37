//! The encoders of a node's cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_cluster::{Members, Role};
use clew_core::{Encoders, Error};
use clew_node::{Node, addresses};
use clew_runtime::tree::RunningPart;
use tokio::sync::watch;

use super::{RemoteEncoderConfig, RemoteEncoderOptions, RemoteEncoders};

/// Time that known encoders have to answer before the list of members is read again.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the encoders in the node's tree and the current model are updated.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

impl RemoteEncoders {
    /// Connects to the encoders of the node's cluster. Waits until one has reported which model is
    /// current, because stored vectors cannot be used without knowing it.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn of(node: &Node, config: RemoteEncoderConfig) -> Result<Arc<Self>, Error> {
        config.validate()?;
        let mut members = node.members();
        let encoders = loop {
            let now = Arc::clone(&members.borrow_and_update());
            let options = RemoteEncoderOptions {
                members: addresses(Some(Role::Encoder), &now),
                expected: None,
                config: config.clone(),
                peers: node.reach(Some(Role::Encoder)),
            };
            match Self::connect(options, Instant::now() + ANSWER_PATIENCE).await {
                Ok(encoders) => break Arc::new(encoders),
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => {
                    tracing::warn!(error = error.chain(), "waiting for an encoder");
                }
            }
        };
        node.keep(follow(Arc::clone(&encoders), members));
        let (drawn, picture) = watch::channel(encoders.nodes().await);
        node.keep(look(Arc::clone(&encoders), drawn));
        node.parts().add_all(move || picture.borrow().clone());
        Ok(encoders)
    }

    /// Returns the encoders that the roles of `node` share ([`clew_node::SharedSeams`]): those of
    /// this process, or else those of the cluster.
    ///
    /// # Errors
    /// Returns the errors of [`RemoteEncoders::of`].
    pub async fn shared(
        node: &Node,
        config: RemoteEncoderConfig,
    ) -> Result<Arc<dyn Encoders>, Error> {
        let connect = async { Ok(Self::of(node, config).await? as Arc<dyn Encoders>) };
        node.seams().encoders.or_connect(connect).await
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

/// Updates the encoders in the node's tree and the current model, regularly.
async fn look(encoders: Arc<RemoteEncoders>, drawn: watch::Sender<Vec<RunningPart>>) {
    loop {
        tokio::time::sleep(LOOKED_EVERY).await;
        encoders.follow_current().await;
        drawn.send_replace(encoders.nodes().await);
    }
}
