//! `EncoderService`: offers encoders to other nodes.

mod memories;
mod together;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clew_core::{
    Embedding, Encoder, Error, ErrorKind, Limits, MemoryEncoder, NoMemoryModel, NoReader,
    NoReranker, PassagesRead, Reranker, Scored, SpanReader,
};
use clew_proto::FILE_DESCRIPTOR_SET;
use clew_proto::convert::corpus::encoder_to_wire;
use clew_proto::convert::encoder as convert;
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_server::{EncoderService, EncoderServiceServer};
use clew_proto::to_status;
use clew_runtime::deadline::of_request;
use clew_telemetry::Origin;
use futures::{Stream, StreamExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tracing::{Instrument, Span};

use crate::{EncoderPool, EncoderPools, MemoryPool, OwnEncoder};

/// Maximum size of a received message in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Maximum number of bytes of the tokenizer in one response.
const TOKENIZER_PART_BYTES: usize = 1 << 20;
/// Time limit of a call without a deadline, for counting the tokens of texts.
const COUNT_PATIENCE: Duration = Duration::from_secs(30);
/// Time between the notice that the server leaves and the end of reading batches. Callers that hear
/// the notice in time lose no batch.
const NOTICE: Duration = Duration::from_millis(250);
/// Interval of checks that a connection's client is still there.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Time limit of a call without a deadline, for reranking or reading passages.
const READING_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of open streams on one connection. A caller needs one, besides health and
/// description.
const STREAMS_PER_CONNECTION: u32 = 64;

/// Model that is offered to other nodes.
#[derive(Clone)]
pub struct OfferedModel {
    encoder: Arc<dyn Encoder>,
    /// Fingerprint by which others ask for the model.
    fingerprint: String,
    tokenizer_json: Bytes,
    device: String,
}

impl OfferedModel {
    /// Offers `encoder` with its `tokenizer.json`. `device` is a readable description of what
    /// computes.
    pub fn new(encoder: Arc<dyn Encoder>, tokenizer_json: Bytes, device: String) -> Self {
        let fingerprint = encoder.identity().fingerprint();
        Self { encoder, fingerprint, tokenizer_json, device }
    }

    /// Offers the encoder of `pool`.
    pub fn of_pool(pool: &Arc<EncoderPool>) -> Self {
        Self::of(&OwnEncoder::Pool(Arc::clone(pool)))
    }

    /// Offers the encoder of `own`.
    pub fn of(own: &OwnEncoder) -> Self {
        Self::new(own.encoder(), own.tokenizer_json(), own.description())
    }
}

/// Encoders that are offered to other nodes. Cheap to clone.
#[derive(Clone)]
pub struct EncoderEndpoint {
    /// Offered models, first the current one.
    models: Arc<[OfferedModel]>,
    memory: Option<Arc<MemoryPool>>,
    reranker: Arc<dyn Reranker>,
    reader: Arc<dyn SpanReader>,
    stream_batches: usize,
    leaving: Arc<watch::Sender<bool>>,
}

impl EncoderEndpoint {
    /// Offers the models of `pools`. One stream may have `stream_batches` batches under way.
    pub fn of_pools(pools: &EncoderPools, stream_batches: usize) -> Self {
        Self::new(pools.all().map(OfferedModel::of).collect(), stream_batches)
    }

    /// Offers `models`, first the one for new corpora.
    pub fn new(models: Vec<OfferedModel>, stream_batches: usize) -> Self {
        let leaving = Arc::new(watch::Sender::new(false));
        let stream_batches = stream_batches.max(1);
        let (reranker, reader) = (Arc::new(NoReranker), Arc::new(NoReader));
        Self { models: models.into(), memory: None, reranker, reader, stream_batches, leaving }
    }

    /// Returns the model with that fingerprint, or the current one if the fingerprint is empty.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if the model is not
    /// offered.
    fn model(&self, fingerprint: &str) -> Result<&OfferedModel, Error> {
        let is_meant =
            |model: &&OfferedModel| fingerprint.is_empty() || model.fingerprint == fingerprint;
        self.models.iter().find(is_meant).ok_or_else(|| {
            let name = |model: &OfferedModel| {
                format!("{} with {}", model.encoder.identity(), model.fingerprint)
            };
            let offered: Vec<String> = self.models.iter().map(name).collect();
            let problem = format!(
                "expected the fingerprint of a model that is offered here, {}, got `{fingerprint}`; ask another \
                 encoder, or configure that model here",
                offered.join(" or ")
            );
            Error::new(ErrorKind::WrongState, "ENCODER_MISMATCH", problem)
        })
    }

    /// Offers the memory model `memory` as well, if there is one.
    #[must_use]
    pub fn with_memory(mut self, memory: Option<Arc<MemoryPool>>) -> Self {
        self.memory = memory;
        self
    }

    /// Offers a reranker as well.
    #[must_use]
    pub fn with_reranker(mut self, reranker: Arc<dyn Reranker>) -> Self {
        self.reranker = reranker;
        self
    }

    /// Offers a reader as well.
    #[must_use]
    pub fn with_reader(mut self, reader: Arc<dyn SpanReader>) -> Self {
        self.reader = reader;
        self
    }

    async fn try_rerank(&self, request: Request<wire::RerankRequest>) -> Result<Scored, Error> {
        let deadline = of_request(&request, READING_PATIENCE);
        let request = request.into_inner();
        let (query, passages) = convert::rerank_from_wire(request, &Limits::default())?;
        self.reranker.score(&query, passages, deadline).await
    }

    async fn try_read(
        &self,
        request: Request<wire::ReadSpansRequest>,
    ) -> Result<PassagesRead, Error> {
        let deadline = of_request(&request, READING_PATIENCE);
        let request = request.into_inner();
        let (question, passages) = convert::reading_from_wire(request, &Limits::default())?;
        self.reader.read_spans(&question, passages, deadline).await
    }

    fn memory(&self) -> Result<&Arc<MemoryPool>, Status> {
        // The absence of a memory model is a normal answer, so it is not logged.
        self.memory.as_ref().ok_or_else(|| to_status(&NoMemoryModel::refusal()))
    }

    /// Returns the service to add to a server. The caller sets its health.
    pub fn service(&self) -> EncoderServiceServer<Self> {
        EncoderServiceServer::new(self.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Stops reading batches, for good. Batches that were read are still answered. Then streams
    /// end, so that a server that shuts down gracefully does not wait for its clients to leave.
    pub fn leave(&self) {
        self.leaving.send_replace(true);
    }

    /// Serves on `listener`, with health and reflection, until `shutdown`. Then reports
    /// NOT_SERVING, finishes the current work and returns. The caller bounds that wait.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if the listener fails.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let (mut health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<EncoderServiceServer<Self>>().await;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(|error| Error::internal("reflection cannot be served").with_source(error))?;
        let router = tonic::transport::Server::builder()
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .add_service(health_service)
            .add_service(reflection)
            .add_service(self.service());
        let shutdown = async {
            shutdown.await;
            self.say_goodbye(&mut health).await;
        };
        let incoming = TcpListenerStream::new(listener);
        router.serve_with_incoming_shutdown(incoming, shutdown).await.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "the listener failed")
                .with_source(error)
        })
    }

    async fn say_goodbye(&self, health: &mut HealthReporter) {
        let names = ["", EncoderServiceServer::<Self>::NAME];
        for name in names {
            health.set_service_status(name, ServingStatus::NotServing).await;
        }
        tokio::time::sleep(NOTICE).await;
        self.leave();
        // All watchers have been told. Watches that stay open would delay the end of the server.
        for name in names {
            health.clear_service_status(name).await;
        }
    }

    async fn embed_batch(&self, request: wire::EmbedRequest) -> wire::EmbedResponse {
        let id = request.id;
        let embedded = self.try_embed_batch(request).await;
        if let Err(error) = &embedded
            && !error.is_retryable()
        {
            tracing::warn!(error = error.chain(), "a batch was refused");
        }
        convert::result_to_wire(id, embedded)
    }

    async fn try_embed_batch(&self, request: wire::EmbedRequest) -> Result<Vec<Embedding>, Error> {
        let arrived = Instant::now();
        // The stream has no trace. Each batch on it belongs to the trace of the caller that waits
        // for it.
        let span = match Origin::parse(&request.trace_parent) {
            Some(origin) => {
                let name = "clew.encoder.v1.EncoderService/Embed";
                let span = tracing::info_span!(
                    parent: None, "batch", otel.name = name, otel.kind = "server"
                );
                origin.parent_of(&span);
                span
            }
            None => Span::none(),
        };
        let encoder = &self.model(&request.encoder)?.encoder;
        let batch = convert::batch_from_wire(request, encoder.identity().dimension)?;
        let deadline = arrived + batch.timeout;
        let embedding = encoder.embed(batch.texts, batch.kind, batch.priority, deadline);
        embedding.instrument(span).await
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl EncoderService for EncoderEndpoint {
    type DescribeStream = Responses<wire::DescribeResponse>;
    type EmbedStream = Responses<wire::EmbedResponse>;
    type FormMemoryStream = Responses<wire::FormMemoryResponse>;
    type ReadTogetherStream = Responses<wire::ReadTogetherResponse>;

    async fn describe(
        &self,
        request: Request<wire::DescribeRequest>,
    ) -> Result<Response<Self::DescribeStream>, Status> {
        // A model that is not offered is a normal answer, so it is not logged.
        let model = self.model(&request.get_ref().encoder).map_err(|error| to_status(&error))?;
        let identity = |model: &OfferedModel| encoder_to_wire(model.encoder.identity().clone());
        let mut rest = model.tokenizer_json.clone();
        let mut parts = vec![wire::DescribeResponse {
            identity: Some(identity(model)),
            device: model.device.clone(),
            tokenizer_part: rest.split_to(rest.len().min(TOKENIZER_PART_BYTES)),
            offered: self.models.iter().map(identity).collect(),
        }];
        while !rest.is_empty() {
            let tokenizer_part = rest.split_to(rest.len().min(TOKENIZER_PART_BYTES));
            parts.push(wire::DescribeResponse { tokenizer_part, ..Default::default() });
        }
        Ok(Response::new(futures::stream::iter(parts.into_iter().map(Ok)).boxed()))
    }

    async fn embed(
        &self,
        request: Request<Streaming<wire::EmbedRequest>>,
    ) -> Result<Response<Self::EmbedStream>, Status> {
        let mut leaving = self.leaving.subscribe();
        let left = async move {
            // The sender is in this endpoint, which the stream holds.
            leaving.wait_for(|leaving| *leaving).await.ok();
        };
        let endpoint = self.clone();
        let answers = request.into_inner().take_until(left).map(move |request| {
            let endpoint = endpoint.clone();
            async move { Ok(endpoint.embed_batch(request?).await) }
        });
        Ok(Response::new(answers.buffer_unordered(self.stream_batches).boxed()))
    }

    async fn describe_memory(
        &self,
        request: Request<wire::DescribeMemoryRequest>,
    ) -> Result<Response<wire::DescribeMemoryResponse>, Status> {
        let memory = self.memory()?;
        let deadline = of_request(&request, COUNT_PATIENCE);
        let counting = async {
            let texts = convert::counted_from_wire(request.into_inner())?;
            memory.count_tokens(texts, deadline).await
        };
        let tokens = counting.await.map_err(|error| to_status(&error))?;
        Ok(Response::new(convert::memory_model_to_wire(memory.identity(), tokens)))
    }

    async fn form_memory(
        &self,
        request: Request<Streaming<wire::FormMemoryRequest>>,
    ) -> Result<Response<Self::FormMemoryStream>, Status> {
        Ok(Response::new(memories::form(Arc::clone(self.memory()?), request)))
    }

    async fn read_together(
        &self,
        request: Request<Streaming<wire::ReadTogetherRequest>>,
    ) -> Result<Response<Self::ReadTogetherStream>, Status> {
        let reading = together::read(Arc::clone(self.memory()?), request).await;
        reading.map(Response::new).map_err(|error| memories::refused(&error))
    }

    async fn describe_reranker(
        &self,
        request: Request<wire::DescribeRerankerRequest>,
    ) -> Result<Response<wire::DescribeRerankerResponse>, Status> {
        let deadline = of_request(&request, READING_PATIENCE);
        let described = self.reranker.reranker_model(deadline).await;
        // The absence of a reranker is a normal answer, so it is not logged.
        let model = described.and_then(|model| model.ok_or_else(NoReranker::refusal));
        let model = model.map_err(|error| to_status(&error))?;
        Ok(Response::new(wire::DescribeRerankerResponse { model }))
    }

    async fn rerank(
        &self,
        request: Request<wire::RerankRequest>,
    ) -> Result<Response<wire::RerankResponse>, Status> {
        let scored = self.try_rerank(request).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(convert::scored_to_wire(scored)))
    }

    async fn describe_reader(
        &self,
        request: Request<wire::DescribeReaderRequest>,
    ) -> Result<Response<wire::DescribeReaderResponse>, Status> {
        let deadline = of_request(&request, READING_PATIENCE);
        let described = self.reader.reader_model(deadline).await;
        // The absence of a reader is a normal answer, so it is not logged.
        let model = described.and_then(|model| model.ok_or_else(NoReader::refusal));
        let model = model.map_err(|error| to_status(&error))?;
        Ok(Response::new(wire::DescribeReaderResponse { model }))
    }

    async fn read_spans(
        &self,
        request: Request<wire::ReadSpansRequest>,
    ) -> Result<Response<wire::ReadSpansResponse>, Status> {
        let read = self.try_read(request).await.map_err(|error| to_status(&error))?;
        Ok(Response::new(convert::read_to_wire(read)))
    }

    async fn generate_clues(
        &self,
        request: Request<Streaming<wire::GenerateCluesRequest>>,
    ) -> Result<Response<wire::GenerateCluesResponse>, Status> {
        let drafted = memories::draft(self.memory()?, request).await;
        drafted.map(Response::new).map_err(|error| memories::refused(&error))
    }
}
