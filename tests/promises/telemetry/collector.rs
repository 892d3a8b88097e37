//! Collector that receives OTLP over gRPC and keeps what it is sent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Span as its process reported it.
#[derive(Clone, Debug)]
pub struct Span {
    pub service: String,
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Id of the parent. Empty for the root of a trace.
    pub parent: String,
    /// Ids of the spans to which it links.
    pub links: Vec<String>,
    pub is_server: bool,
    pub is_client: bool,
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    spans: Vec<Span>,
    /// Names of metrics.
    metrics: Vec<String>,
    /// Debug output of every message.
    all: String,
}

/// Running collector. Dropping it ends it.
pub struct Collector {
    pub address: SocketAddr,
    kept: Kept,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Kept::default();
        let serving = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(kept.clone()))
            .add_service(MetricsServiceServer::new(kept.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        Self { address, kept, serving: tokio::spawn(serving) }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every span that has arrived.
    pub fn spans(&self) -> Vec<Span> {
        self.kept.0.lock().unwrap().spans.clone()
    }

    /// Returns the names of all metrics that have arrived.
    pub fn metrics(&self) -> Vec<String> {
        self.kept.0.lock().unwrap().metrics.clone()
    }

    /// Returns the debug output of everything that has arrived.
    pub fn all(&self) -> String {
        self.kept.0.lock().unwrap().all.clone()
    }
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().all += &format!("{request:?}");
        for of_process in request.resource_spans {
            let service = service(of_process.resource);
            let spans = of_process.scope_spans.into_iter().flat_map(|scope| scope.spans);
            let spans = spans.map(|span| Span {
                service: service.clone(),
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
                is_server: span.kind == span::SpanKind::Server as i32,
                is_client: span.kind == span::SpanKind::Client as i32,
                attributes: span.attributes.into_iter().map(attribute).collect(),
                name: span.name,
            });
            self.0.lock().unwrap().spans.extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Kept {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let request = request.into_inner();
        self.0.lock().unwrap().all += &format!("{request:?}");
        for of_process in request.resource_metrics {
            let metrics = of_process.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
            self.0.lock().unwrap().metrics.extend(metrics.map(|metric| metric.name));
        }
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn service(resource: Option<Resource>) -> String {
    let attributes = resource.into_iter().flat_map(|resource| resource.attributes);
    let attributes: BTreeMap<String, String> = attributes.map(attribute).collect();
    attributes["service.name"].clone()
}

fn attribute(KeyValue { key, value, .. }: KeyValue) -> (String, String) {
    let value = match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        other => format!("{other:?}"),
    };
    (key, value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
