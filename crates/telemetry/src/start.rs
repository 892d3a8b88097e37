//! Start and shutdown of telemetry.

use std::sync::OnceLock;
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use opentelemetry::trace::TracerProvider;
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider,
};
use prometheus::{Encoder, Registry, TextEncoder};
use tracing::Level;
use tracing::subscriber::Interest;
use tracing_subscriber::filter::{FilterExt, dynamic_filter_fn, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::export::{Counted, Ended};
use crate::logging::{self, LogFormat, TracedJson};
use crate::{TelemetryConfig, metrics};

/// Maximum number of spans that wait for the collector. Further ones are dropped.
const WAITING_SPANS: usize = 8192;
/// Maximum duration of the export of one batch.
const EXPORT_PATIENCE: Duration = Duration::from_secs(5);
/// Time for which spans are collected into a batch.
const GATHERING: Duration = Duration::from_secs(1);

/// Maximum duration of the last export at shutdown.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// Level of all spans. The filters state it, or else nothing is skipped before they are asked: a
/// tokenizer makes several records of a lower level for each character.
const SPANS: Level = Level::INFO;

/// Registry from which the admin port reads metrics.
static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// Selection and format of a process's log lines.
#[derive(Clone, Copy, Debug)]
pub struct Logging<'a> {
    /// A level, or directives such as `info,clew_retriever=debug`.
    pub filter: &'a str,
    /// Format of the lines.
    pub format: LogFormat,
}

/// The telemetry of a process. Created by [`Telemetry::start`].
#[derive(Debug)]
pub struct Telemetry {
    tracer: SdkTracerProvider,
    meter: SdkMeterProvider,
}

impl Telemetry {
    /// Starts logs, metrics and traces of this process. Its service name is `program`, unless the
    /// configuration sets one. Must be called once, within an asynchronous runtime, before anything
    /// is recorded.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the configuration is not valid. A collector that
    /// cannot be reached is not an error.
    pub fn start(
        config: &TelemetryConfig,
        program: &str,
        logging: Logging<'_>,
    ) -> Result<Self, Error> {
        config.validate()?;
        let name = match config.service_name.as_str() {
            "" => program,
            name => name,
        };
        let resource = Resource::builder_empty()
            .with_service_name(name.to_owned())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let meter = meter(config, &resource)?;
        global::set_meter_provider(meter.clone());
        metrics::name_corpora(config.corpus_names);
        metrics::observe_process();
        let tracer = tracer(config, resource)?;
        write_logs(logging, &tracer);
        Ok(Self { tracer, meter })
    }

    /// Exports what is still queued, for at most five seconds, and shuts down.
    pub async fn stop(self) {
        let patience = FLUSH_PATIENCE;
        let Self { tracer, meter } = self;
        let flushed = tokio::task::spawn_blocking(move || {
            // Failed exports are already counted.
            drop(tracer.shutdown_with_timeout(patience));
            drop(meter.shutdown_with_timeout(patience));
        });
        if tokio::time::timeout(patience, flushed).await.is_err() {
            tracing::debug!("the collector did not take the last traces and metrics in time");
        }
    }
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let problem = "expected an address like http://collector:4317";
    Error::new(ErrorKind::InvalidInput, "INVALID_INPUT", problem).with_source(error)
}

fn meter(config: &TelemetryConfig, resource: &Resource) -> Result<SdkMeterProvider, Error> {
    let registry = Registry::new();
    let prometheus = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .without_target_info()
        .scope_info_enabled(false)
        .build()
        .map_err(|error| Error::internal("metrics could not be started").with_source(error))?;
    let mut builder =
        SdkMeterProvider::builder().with_resource(resource.clone()).with_reader(prometheus);
    if !config.otlp_endpoint.is_empty() {
        let exporter = MetricExporter::builder()
            .with_tonic()
            .with_endpoint(&config.otlp_endpoint)
            .with_timeout(EXPORT_PATIENCE)
            .build()
            .map_err(unusable)?;
        let reader = PeriodicReader::builder(exporter).with_interval(config.metrics_interval());
        builder = builder.with_reader(reader.build());
    }
    // Only the first registry is used, like the first provider.
    drop(REGISTRY.set(registry));
    Ok(builder.build())
}

fn tracer(config: &TelemetryConfig, resource: Resource) -> Result<SdkTracerProvider, Error> {
    let builder = SdkTracerProvider::builder().with_resource(resource);
    if config.otlp_endpoint.is_empty() {
        // Trace ids still appear in logs and are sent to other processes.
        let sampler = Sampler::ParentBased(Box::new(Sampler::AlwaysOff));
        return Ok(builder.with_sampler(sampler).build());
    }
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.trace_ratio)));
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(&config.otlp_endpoint)
        .with_timeout(EXPORT_PATIENCE)
        .build()
        .map_err(unusable)?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(WAITING_SPANS)
        .with_scheduled_delay(GATHERING)
        .build();
    let batches = BatchSpanProcessor::builder(Counted(exporter)).with_batch_config(batches).build();
    Ok(builder
        .with_sampler(sampler)
        .with_span_processor(Ended)
        .with_span_processor(batches)
        .build())
}

/// Installs the log and trace layers. A second call does nothing.
fn write_logs(Logging { filter, format }: Logging<'_>, tracer: &SdkTracerProvider) {
    // The storage engine has too many spans of its own. Events may quote a model or a file.
    let is_ours = |metadata: &tracing::Metadata<'_>| {
        metadata.is_span() && *metadata.level() <= SPANS && metadata.target().starts_with("clew")
    };
    // A disabled record of the `log` crate leaves its decision in a thread-local variable. The next
    // span inherits it, unless the filters are asked about that span itself, which does not happen
    // if a filter has answered "always" for its call site.
    let asked_each_time = dynamic_filter_fn(move |metadata, _| is_ours(metadata))
        .with_callsite_filter(move |metadata| {
            if is_ours(metadata) { Interest::sometimes() } else { Interest::never() }
        })
        .with_max_level_hint(SPANS);
    let traces = tracing_opentelemetry::layer()
        .with_tracer(tracer.tracer("clew"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_filter(asked_each_time);
    // Spans are always enabled, so that every line knows its span.
    let shown = filter_fn(is_ours).with_max_level_hint(SPANS).or(logging::filter(filter));
    let registry = tracing_subscriber::registry().with(traces);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => registry.with(lines.with_filter(shown)).try_init(),
        LogFormat::Json => {
            let lines = lines.json().event_format(TracedJson::default());
            registry.with(lines.with_filter(shown)).try_init()
        }
    };
    drop(started);
}

/// Returns all metrics in the text format of Prometheus. Returns `None` if there are none.
pub(crate) fn prometheus_text() -> Option<String> {
    let families = REGISTRY.get()?.gather();
    let mut text = Vec::new();
    TextEncoder::new().encode(&families, &mut text).ok()?;
    String::from_utf8(text).ok()
}
