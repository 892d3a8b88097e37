//! Structured logs on standard error.

use std::fmt;

use opentelemetry::trace::TraceContextExt;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber, dispatcher};
use tracing_opentelemetry::get_otel_context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line, with `trace_id` and `span_id` if the line belongs to a trace.
    Json,
}

/// Returns the filter of log lines. `filter` is a level or directives such as
/// `info,clew_retriever=debug`. If it does not parse, `info` is used.
pub(crate) fn filter(filter: &str) -> EnvFilter {
    EnvFilter::try_new(directives(filter)).unwrap_or_else(|_| EnvFilter::new(directives("info")))
}

/// Expands `filter` into directives. A bare level applies to Clew's own lines. Libraries may quote
/// the data they work on, such as the plan of a query with its filters, so they log below `warn`
/// only if a directive names them.
fn directives(filter: &str) -> String {
    let directive = |directive: &str| match directive.trim().parse::<LevelFilter>() {
        Ok(level) => format!("{},clew={level}", level.min(LevelFilter::WARN)),
        Err(_of_a_target) => directive.trim().to_owned(),
    };
    let mut directives: Vec<String> = filter.split(',').map(directive).collect();
    // The storage engine warns about every store it is given. The exporter of traces logs every
    // failed export, which is counted anyway. The library of the protocol of agents quotes requests
    // that it refuses, of whatever length, also of senders without a key.
    if !filter.contains("lance") {
        directives.push("lance_io::object_store=error".to_owned());
    }
    if !filter.contains("opentelemetry") {
        directives.push("opentelemetry=error".to_owned());
    }
    if !filter.contains("rmcp") {
        directives.push("rmcp=error".to_owned());
    }
    directives.join(",")
}

/// JSON lines with the ids of their trace.
pub(crate) struct TracedJson(Format<Json>);

impl Default for TracedJson {
    fn default() -> Self {
        // The trace already has the fields of the spans.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_of_our_own_lines_and_libraries_are_shown_below_warnings_only_by_name() {
        let quiet = "lance_io::object_store=error,opentelemetry=error,rmcp=error";
        for (filter, expected) in [
            ("debug", format!("warn,clew=debug,{quiet}")),
            ("off", format!("off,clew=off,{quiet}")),
            ("info,clew_retriever=trace", format!("warn,clew=info,clew_retriever=trace,{quiet}")),
            ("info, h2=debug", format!("warn,clew=info,h2=debug,{quiet}")),
            (
                "warn,lance=debug,opentelemetry=info,rmcp=warn",
                "warn,clew=warn,lance=debug,opentelemetry=info,rmcp=warn".to_owned(),
            ),
        ] {
            assert_eq!(directives(filter), expected);
            assert!(EnvFilter::try_new(directives(filter)).is_ok(), "{filter}");
        }
    }
}
