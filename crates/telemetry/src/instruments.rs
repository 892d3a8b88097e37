//! Constructors of the instruments that record metrics.

use std::sync::LazyLock;

pub use opentelemetry::KeyValue;
use opentelemetry::global;
use opentelemetry::metrics::Meter;
pub use opentelemetry::metrics::{Counter, Histogram, UpDownCounter};

/// Bucket boundaries, in seconds, of durations: from a lookup in memory to a question with many
/// model calls.
const SECONDS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

static METER: LazyLock<Meter> = LazyLock::new(|| global::meter("clew"));

/// Creates a label.
pub fn label(name: &'static str, value: impl Into<opentelemetry::Value>) -> KeyValue {
    KeyValue::new(name, value)
}

/// Creates a counter. Prometheus appends `_total` to its name.
pub fn counter(name: &'static str, description: &'static str) -> Counter<u64> {
    METER.u64_counter(name).with_description(description).build()
}

/// Creates a number that goes up and down.
pub fn level(name: &'static str, description: &'static str) -> UpDownCounter<i64> {
    METER.i64_up_down_counter(name).with_description(description).build()
}

/// Creates a histogram of durations in seconds. Prometheus appends `_seconds` to its name.
pub fn durations(name: &'static str, description: &'static str) -> Histogram<f64> {
    let histogram = METER.f64_histogram(name).with_unit("s").with_description(description);
    histogram.with_boundaries(SECONDS.to_vec()).build()
}

/// Callback that reports a value with its labels.
pub type Tell<'a> = &'a dyn Fn(f64, &[KeyValue]);

/// Creates a gauge. `read` reports its values each time metrics are read. Must be called once in
/// the life of a process. `unit` is `s`, `By` or empty.
pub fn gauge(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    read: impl Fn(Tell<'_>) + Send + Sync + 'static,
) {
    let gauge = METER.f64_observable_gauge(name).with_unit(unit).with_description(description);
    // The meter keeps the gauge and its callback.
    let _kept = gauge
        .with_callback(move |observer| read(&|value, labels| observer.observe(value, labels)))
        .build();
}

/// Creates a counter whose value is kept elsewhere; `read` reports it as for a [`gauge`].
pub fn observed_counter(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    read: impl Fn(Tell<'_>) + Send + Sync + 'static,
) {
    let counter = METER.f64_observable_counter(name).with_unit(unit);
    let _kept = counter
        .with_description(description)
        .with_callback(move |observer| read(&|value, labels| observer.observe(value, labels)))
        .build();
}
