//! Counters of the spans that end and of those that reach the collector.

use std::sync::LazyLock;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::metrics::Counter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};

use crate::metrics::{counter, label};

struct Instruments {
    ended: Counter<u64>,
    exported: Counter<u64>,
    batches: Counter<u64>,
}

static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(|| Instruments {
    ended: counter("clew_telemetry_spans", "Spans that were to be sent to the collector."),
    exported: counter("clew_telemetry_spans_exported", "Spans that the collector took."),
    batches: counter("clew_telemetry_exports", "Batches of spans that were sent, by outcome."),
});

/// A span processor that counts spans that end. The difference to the exported ones was dropped or
/// is still queued.
#[derive(Debug)]
pub(crate) struct Ended;

impl SpanProcessor for Ended {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            INSTRUMENTS.ended.add(1, &[]);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _patience: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// An exporter that counts its batches and the spans that were exported.
#[derive(Debug)]
pub(crate) struct Counted<E>(pub E);

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let exported = self.0.export(batch).await;
        let outcome = if exported.is_ok() { "ok" } else { "error" };
        INSTRUMENTS.batches.add(1, &[label("outcome", outcome)]);
        INSTRUMENTS.exported.add(if exported.is_ok() { spans } else { 0 }, &[]);
        exported
    }

    fn shutdown_with_timeout(&self, patience: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(patience)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}
