//! W3C trace context: carries a trace from one process to another.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Header that carries the trace context.
const TRACE_PARENT: &str = "traceparent";
/// Maximum number of links of one span.
const LINKS: usize = 64;

/// A span that other work continues from, possibly in another process.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin(SpanContext);

impl Origin {
    /// Returns the current span, if its trace is recorded.
    pub fn current() -> Option<Self> {
        Self::of(&Span::current())
    }

    /// Returns `span`, if its trace is recorded.
    pub fn of(span: &Span) -> Option<Self> {
        let context = span.context().span().span_context().clone();
        (context.is_valid() && context.is_sampled()).then_some(Self(context))
    }

    /// Parses the output of [`trace_parent`]. Returns `None` if it is not valid.
    pub fn parse(trace_parent: &str) -> Option<Self> {
        let context = TraceContextPropagator::new().extract(&One(trace_parent));
        let context = context.span().span_context().clone();
        context.is_valid().then_some(Self(context))
    }

    /// Returns the same place in the trace, marked so that spans that continue from it are not
    /// recorded.
    #[must_use]
    pub fn unrecorded(self) -> Self {
        let Self(context) = self;
        let (trace, span) = (context.trace_id(), context.span_id());
        let (flags, state) = (TraceFlags::default(), context.trace_state().clone());
        Self(SpanContext::new(trace, span, flags, true, state))
    }

    /// Makes this the parent of `span`, in which nothing may have happened yet.
    pub fn parent_of(self, span: &Span) {
        // Fails only if there is no layer for traces.
        drop(span.set_parent(Context::new().with_remote_span_context(self.0)));
    }
}

/// Links `span` to `others`, at most to the first 64.
pub fn linked(span: &Span, others: impl IntoIterator<Item = Origin>) {
    for Origin(context) in others.into_iter().take(LINKS) {
        span.add_link(context);
    }
}

/// Returns the span that `make` creates, or no span outside a trace. It also suits background work,
/// which is traced only if a request caused it.
pub fn child(make: impl FnOnce() -> Span) -> Span {
    if is_in_trace() { make() } else { Span::none() }
}

/// Returns whether the current span belongs to a trace. The span of an actor may not.
pub(crate) fn is_in_trace() -> bool {
    Span::current().context().span().span_context().is_valid()
}

/// Returns the current span in the form sent to other processes, or an empty string if there is
/// none.
pub fn trace_parent() -> String {
    let mut headers = HeaderMap::new();
    inject(&Span::current(), &mut headers);
    let value = headers.get(TRACE_PARENT).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// Writes the context of `span` into the headers, or, if it has none, the current context of
/// OpenTelemetry, for callers that create their spans without `tracing`.
pub(crate) fn inject(span: &Span, headers: &mut HeaderMap) {
    let context = match span.context() {
        of_span if of_span.span().span_context().is_valid() => of_span,
        _ => Context::current(),
    };
    TraceContextPropagator::new().inject_context(&context, &mut Headers(headers));
}

/// Returns the span that a client sent along.
pub(crate) fn extract(headers: &HeaderMap) -> Option<Origin> {
    Origin::parse(headers.get(TRACE_PARENT)?.to_str().ok()?)
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = HeaderName::from_bytes(key.as_bytes());
        // An empty state means no state.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value))
            && !value.is_empty()
        {
            self.0.insert(name, value);
        }
    }
}

struct One<'a>(&'a str);

impl Extractor for One<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == TRACE_PARENT).then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACE_PARENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_no_context_is_none() {
        assert!(Origin::parse(GIVEN).is_some());
        for bad in
            ["", "00", "00-0-0-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
        {
            assert_eq!(Origin::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_not_recorded_stays_in_its_trace() {
        let origin = Origin::parse(GIVEN).unwrap();
        let unrecorded = origin.clone().unrecorded();
        assert_eq!(unrecorded.0.trace_id(), origin.0.trace_id());
        assert!(origin.0.is_sampled() && !unrecorded.0.is_sampled());
    }
}
