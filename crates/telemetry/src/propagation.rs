//! W3C trace context: how a trace goes from one process to another.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The header that carries it.
const TRACE_PARENT: &str = "traceparent";
/// Most links of one span.
const LINKS: usize = 64;

/// The place in a trace at which something began.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin(SpanContext);

impl Origin {
    /// The current span, if its trace is recorded.
    pub fn current() -> Option<Self> {
        Self::of(&Span::current())
    }

    /// `span`, if its trace is recorded.
    pub fn of(span: &Span) -> Option<Self> {
        let context = span.context().span().span_context().clone();
        (context.is_valid() && context.is_sampled()).then_some(Self(context))
    }

    /// What [`trace_parent`] wrote; `None` if it cannot be read.
    pub fn parse(trace_parent: &str) -> Option<Self> {
        let context = TraceContextPropagator::new().extract(&One(trace_parent));
        let context = context.span().span_context().clone();
        context.is_valid().then_some(Self(context))
    }

    /// The same trace, of which nothing that goes on from here is recorded.
    #[must_use]
    pub fn unrecorded(self) -> Self {
        let Self(context) = self;
        let (trace, span) = (context.trace_id(), context.span_id());
        let (flags, state) = (TraceFlags::default(), context.trace_state().clone());
        Self(SpanContext::new(trace, span, flags, true, state))
    }

    /// Makes `span`, which nothing was done in yet, go on from here.
    pub fn parent_of(self, span: &Span) {
        // Without a layer for traces there is none.
        drop(span.set_parent(Context::new().with_remote_span_context(self.0)));
    }
}

/// Makes `span` tell that it is about `others` as well; beyond 64, of the first of them.
pub fn linked(span: &Span, others: impl IntoIterator<Item = Origin>) {
    for Origin(context) in others.into_iter().take(LINKS) {
        span.add_link(context);
    }
}

/// The span that `make` makes if there is a trace that it belongs to; otherwise none. It is for what a process does of
/// itself as well: that is in a trace only if somebody asked for it.
pub fn child(make: impl FnOnce() -> Span) -> Span {
    if is_in_trace() { make() } else { Span::none() }
}

/// Whether the current span is one of a trace. Actors have spans that are not.
pub(crate) fn is_in_trace() -> bool {
    Span::current().context().span().span_context().is_valid()
}

/// The current span as other processes are told of it; empty if there is none.
pub fn trace_parent() -> String {
    let mut headers = HeaderMap::new();
    inject(&Span::current(), &mut headers);
    let value = headers.get(TRACE_PARENT).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// Tells a server of `span`, or else of the trace that OpenTelemetry is in: a caller may make its spans otherwise.
pub(crate) fn inject(span: &Span, headers: &mut HeaderMap) {
    let context = match span.context() {
        of_span if of_span.span().span_context().is_valid() => of_span,
        _ => Context::current(),
    };
    TraceContextPropagator::new().inject_context(&context, &mut Headers(headers));
}

/// What a client told.
pub(crate) fn extract(headers: &HeaderMap) -> Option<Origin> {
    Origin::parse(headers.get(TRACE_PARENT)?.to_str().ok()?)
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = HeaderName::from_bytes(key.as_bytes());
        // An empty state is no state.
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
