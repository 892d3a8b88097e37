//! Metrics of queues: depth, capacity, waiting times and refusals.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram};

use crate::instruments::{counter, durations, gauge, label};
use crate::weak_registry::WeakRegistry;

/// A queue of this process, as metrics show it. Queues of the same name are summed up.
pub struct Queue {
    name: &'static str,
    unit: &'static str,
    look: Box<dyn Fn() -> (usize, usize) + Send + Sync>,
}

static QUEUES: WeakRegistry<Queue> = WeakRegistry::new();

struct Instruments {
    waits: Histogram<f64>,
    refusals: Counter<u64>,
}

static INSTRUMENTS: LazyLock<Instruments> = LazyLock::new(|| Instruments {
    waits: durations("clew_queue_wait", "How long was waited for room in a queue, or in it."),
    refusals: counter("clew_queue_refusals", "What a full queue refused."),
});

impl Queue {
    /// Creates a queue that counts in `unit` (requests, bytes, tokens). `look` returns its current
    /// depth and its capacity. Metrics show the queue until the last clone is dropped.
    pub fn new(
        name: &'static str,
        unit: &'static str,
        look: impl Fn() -> (usize, usize) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let queue = Arc::new(Self { name, unit, look: Box::new(look) });
        QUEUES.add(&queue);
        // Creates the counter at once: an absent counter would raise no alert.
        INSTRUMENTS.refusals.add(0, &[label("queue", name)]);
        queue
    }

    /// Records the time that an entry waited.
    pub fn waited(&self, time: Duration) {
        INSTRUMENTS.waits.record(time.as_secs_f64(), &[label("queue", self.name)]);
    }

    /// Counts a refusal.
    pub fn refused(&self) {
        INSTRUMENTS.refusals.add(1, &[label("queue", self.name)]);
    }

    fn labels(&self) -> (&'static str, &'static str) {
        (self.name, self.unit)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the depth and capacity of all queues, summed up by name and unit.
fn totals() -> BTreeMap<(&'static str, &'static str), (usize, usize)> {
    let mut totals = BTreeMap::new();
    for queue in QUEUES.all() {
        let (depth, capacity) = (queue.look)();
        let total: &mut (usize, usize) = totals.entry(queue.labels()).or_default();
        total.0 += depth;
        total.1 += capacity;
    }
    totals
}

pub(crate) fn observe() {
    let labels = |(name, unit): (&'static str, &'static str)| -> [KeyValue; 2] {
        [label("queue", name), label("unit", unit)]
    };
    gauge(
        "clew_queue_depth",
        "",
        "What waits or is worked on, in the queue's unit.",
        move |tell| {
            for (queue, (depth, _)) in totals() {
                tell(depth as f64, &labels(queue));
            }
        },
    );
    gauge("clew_queue_capacity", "", "What a queue takes, in its unit.", move |tell| {
        for (queue, (_, capacity)) in totals() {
            tell(capacity as f64, &labels(queue));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_one_name_are_added_up() {
        let queues = [(3, 10), (1, 20)]
            .map(|look: (usize, usize)| Queue::new("of the test", "bytes", move || look));
        assert_eq!(totals()[&("of the test", "bytes")], (4, 30));
        drop(queues);
        assert!(!totals().contains_key(&("of the test", "bytes")));
    }
}
