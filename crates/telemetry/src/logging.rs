//! Structured logs on standard error.

use std::fmt;

use opentelemetry::trace::TraceContextExt;
use tracing::{Event, Subscriber, dispatcher};
use tracing_opentelemetry::get_otel_context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, with `trace_id` and `span_id` where the line belongs to a trace.
    Json,
}

/// Which lines are shown. `filter` is a level or directives such as `info,clew_retriever=debug`; one that does not parse
/// falls back to `info`.
pub(crate) fn filter(filter: &str) -> EnvFilter {
    // The storage engine logs every file, and warns of each store it is given; whoever wants that names it. The
    // exporter of traces tells of each collector that is away, which is counted.
    let mut directives = filter.to_owned();
    if !filter.contains("lance") {
        directives += ",lance=warn,lance_index=warn,lance_io::object_store=error";
    }
    if !filter.contains("opentelemetry") {
        directives += ",opentelemetry=error,opentelemetry_sdk=error,opentelemetry_otlp=error";
    }
    EnvFilter::try_new(&directives).unwrap_or_else(|_| EnvFilter::new("info"))
}

/// JSON lines that tell of their trace.
pub(crate) struct TracedJson(Format<Json>);

impl Default for TracedJson {
    fn default() -> Self {
        // Fields of spans are in the trace.
        let format = Format::default().json();
        Self(format.with_current_span(false).with_span_list(false))
    }
}

impl<S> FormatEvent<S, JsonFields> for TracedJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result
    where
        JsonFields: for<'a> FormatFields<'a>,
    {
        let Some(span) = context.lookup_current() else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let trace = dispatcher::get_default(|dispatch| get_otel_context(&span.id(), dispatch));
        match (trace, line.trim_end().strip_suffix('}')) {
            (Some(trace), Some(open)) if trace.span().span_context().is_valid() => {
                let (trace, span) = {
                    let span = trace.span();
                    let context = span.span_context();
                    (context.trace_id(), context.span_id())
                };
                writeln!(writer, "{open},\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"}}")
            }
            _ => writer.write_str(&line),
        }
    }
}
