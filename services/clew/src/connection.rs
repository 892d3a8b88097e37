//! Connection of a command to the services: over the network, or in its own process.
//!
//! Both ways go through the same client and the same services, so a command behaves the same. In
//! its own process, the connection is a pipe in memory and no port is opened.

use std::time::Duration;

use anyhow::Context;
use clew_auth::Guard;
use clew_client::Client;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::node::RunningNode;

/// Maximum time of one call. Forgetting in a large shard rewrites its tables.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// Capacity of the pipe in each direction, in bytes.
const PIPE_BYTES: usize = 1 << 20;

/// Client, with the node behind it if that runs in this process.
pub struct Connection {
    /// Client of the services.
    pub client: Client,
    embedded: Option<Embedded>,
}

struct Embedded {
    node: RunningNode,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), clew_core::Error>>,
}

impl Connection {
    /// Connects as the command line says.
    pub async fn open(global: &GlobalArgs) -> anyhow::Result<Self> {
        match &global.endpoint {
            Some(endpoint) => {
                let client = global.connect(endpoint, PATIENCE).await?;
                Ok(Self { client, embedded: None })
            }
            None => Self::embed(&ClewConfig::load(global, None)?).await,
        }
    }

    /// Starts a node in this process and connects to it.
    pub async fn embed(config: &ClewConfig) -> anyhow::Result<Self> {
        let node = Box::pin(RunningNode::start(config)).await?;
        let server = clew_gateway::router(node.backends.clone(), Guard::open()).await?;
        let (connect, incoming) = mpsc::channel::<std::io::Result<DuplexStream>>(1);
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(server.serve(ReceiverStream::new(incoming), async {
            // A dropped sender stops the server just the same.
            drop(stopped.await);
        }));
        let connector = tower::service_fn(move |_address| {
            let connect = connect.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
                connect.send(Ok(theirs)).await.map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(ours))
            }
        });
        let channel = Endpoint::from_static("http://in-process")
            .connect_with_connector(connector)
            .await
            .context("the node in this process does not answer")?;
        let client = Client::over(channel, PATIENCE);
        Ok(Self { client, embedded: Some(Embedded { node, stop, server }) })
    }

    /// Returns the node, if it runs in this process.
    pub fn node(&self) -> Option<&RunningNode> {
        self.embedded.as_ref().map(|embedded| &embedded.node)
    }

    /// Ends the connection and the node behind it.
    pub async fn close(self) -> anyhow::Result<()> {
        let Self { client, embedded } = self;
        drop(client);
        if let Some(Embedded { node, stop, server }) = embedded {
            // Sending fails if the server has ended already.
            stop.send(()).ok();
            node.stop().await?;
            // The client is gone, so nothing holds up the server.
            if let Ok(ended) = tokio::time::timeout(Duration::from_secs(5), server).await {
                ended??;
            }
        }
        Ok(())
    }
}
