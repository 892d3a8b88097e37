//! The services in this process, with a connection for each caller.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clew_client::Client;
use clew_core::{Access, Clock, Corpora, Encoder, Limits, SystemClock};
use clew_gateway::caller::Caller;
use clew_gateway::{Backends, GatewayConfig};
use clew_generator::{GeneratorConfig, Judgement};
use clew_graph_builder::GraphBuilderConfig;
use clew_memory_encoder::{EncoderConfig, EncoderPool, MemoryModelConfig, MemoryPool};
use clew_retriever::{Retriever, RetrieverConfig};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::transport::server::Connected;

use crate::harness::{Home, PATIENCE};

const PIPE_BYTES: usize = 1 << 20;

/// A connection of one caller: what it says of itself comes with each of its requests.
struct Pipe {
    stream: DuplexStream,
    caller: Caller,
}

impl Connected for Pipe {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// All roles, with tiny models.
pub struct Services {
    connect: mpsc::Sender<io::Result<Pipe>>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), clew_core::Error>>,
    retriever: Arc<Retriever>,
    encoder: Arc<EncoderPool>,
    memory: Arc<MemoryPool>,
    _home: Home,
}

impl Services {
    pub async fn start() -> Self {
        let home = Home::new();
        let folder = home.path("memory-model");
        std::fs::create_dir(&folder).unwrap();
        clew_testkit::write_tiny_memory_model(&folder, 5).unwrap();
        let config =
            MemoryModelConfig { folder: Some(folder), draft_tokens: 16, ..Default::default() };
        let memory = MemoryPool::load(&config).await.unwrap().unwrap();
        let encoder = EncoderPool::load(home.model(), &EncoderConfig::default()).await.unwrap();
        let encoder = Arc::new(encoder);
        let seam: Arc<dyn Encoder> = Arc::clone(&encoder) as _;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let judgement =
            Judgement::load(&GeneratorConfig::default(), Arc::clone(&seam), None).await.unwrap();
        let graph_builder =
            clew_graph_builder::builder(&GraphBuilderConfig::default(), None, None).unwrap();
        let memory_encoder = clew_memory_encoder::memory_encoder(Some(&memory));
        let place = home.data_dir();
        let location =
            clew_index::Location::try_new(&place.to_string_lossy(), &Default::default()).unwrap();
        let seams = clew_retriever::Seams {
            encoder: Arc::clone(&seam),
            graph_builder: Arc::clone(&graph_builder),
            memory_encoder: Arc::clone(&memory_encoder),
            clock: Arc::clone(&clock),
        };
        let config = RetrieverConfig { memory_interval_ms: 50, ..RetrieverConfig::default() };
        let retriever = Arc::new(Retriever::start(&location, seams, config).await.unwrap());
        let config = GatewayConfig::default();
        let backends = Backends {
            corpora: Arc::clone(&retriever) as Arc<dyn Corpora>,
            encoder: seam,
            reasoner: judgement.reasoner,
            guide: judgement.guide,
            graph_builder,
            memory_encoder,
            clock,
            limits: Limits::default(),
            moderation: config.moderation(),
            config,
        };
        let server = clew_gateway::router(Arc::new(backends)).await.unwrap();
        let (connect, incoming) = mpsc::channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(server.serve(ReceiverStream::new(incoming), async {
            drop(stopped.await);
        }));
        Self { connect, stop, server, retriever, encoder, memory, _home: home }
    }

    /// A client of one who holds these labels; `None`: all of them.
    pub async fn client_of(&self, held: Option<&[&str]>) -> Client {
        let access = match held {
            None => Access::all(),
            Some(held) => Access::holding(held.iter().map(|label| label.parse().unwrap())),
        };
        let (caller, connect) = (Caller { access }, self.connect.clone());
        let connector = tower::service_fn(move |_address| {
            let (caller, connect) = (caller.clone(), connect.clone());
            async move {
                let (ours, stream) = tokio::io::duplex(PIPE_BYTES);
                let theirs = Pipe { stream, caller };
                connect.send(Ok(theirs)).await.map_err(io::Error::other)?;
                Ok::<_, io::Error>(TokioIo::new(ours))
            }
        });
        let endpoint = Endpoint::from_static("http://in-process");
        let channel = endpoint.connect_with_connector(connector).await.unwrap();
        Client::over(channel, PATIENCE)
    }

    /// Ends all of it; clients are gone by then or lose their connections.
    pub async fn stop(self) {
        self.stop.send(()).ok();
        self.retriever.stop(Duration::from_secs(60)).await.unwrap();
        self.memory.stop().await;
        self.encoder.stop().await;
        self.server.abort();
    }
}
