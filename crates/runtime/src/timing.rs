//! Timing of requests: code that spends time records it, and code that answers the request reads
//! it.
//!
//! A [`Stopwatch`] belongs to the task that works on a request. Code below it calls [`measured`] or
//! [`spent`] without knowing of it. Without a stopwatch, these functions record nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clew_core::Timing;

/// Part of a request's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Waiting for a slot or a device.
    Queue,
    /// Embedding.
    Compute,
    /// Asking shards, their queues included.
    Store,
}

/// Stopwatch of one request. Cheap to clone; clones share the time.
#[derive(Clone, Debug)]
pub struct Stopwatch(Arc<Spent>);

#[derive(Debug)]
struct Spent {
    began: Instant,
    queue_nanos: AtomicU64,
    compute_nanos: AtomicU64,
    store_nanos: AtomicU64,
}

tokio::task_local! {
    static CURRENT: Stopwatch;
}

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn begin() -> Self {
        let [queue_nanos, compute_nanos, store_nanos] = [(); 3].map(|()| AtomicU64::new(0));
        let began = Instant::now();
        Self(Arc::new(Spent { began, queue_nanos, compute_nanos, store_nanos }))
    }

    /// Runs `future` and counts the time that it records. Tasks that it starts are not included.
    pub async fn over<T>(&self, future: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), future).await
    }

    /// Returns the times until now.
    pub fn read(&self) -> Timing {
        let spent = &self.0;
        let read = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        Timing {
            total: spent.began.elapsed(),
            queue: read(&spent.queue_nanos),
            compute: read(&spent.compute_nanos),
            store: read(&spent.store_nanos),
        }
    }
}

/// Adds time to the request on which this task works, if it works on one.
pub fn spent(part: Part, time: Duration) {
    // Outside of a request nobody reads the time.
    let Ok(Stopwatch(spent)) = CURRENT.try_with(Stopwatch::clone) else { return };
    let nanos = match part {
        Part::Queue => &spent.queue_nanos,
        Part::Compute => &spent.compute_nanos,
        Part::Store => &spent.store_nanos,
    };
    nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Runs `future` and records the time that it takes.
pub async fn measured<T>(part: Part, future: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let result = future.await;
    spent(part, began.elapsed());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_spent_is_counted_for_the_request_it_was_spent_on() {
        let (one, other) = (Stopwatch::begin(), Stopwatch::begin());
        let second = Duration::from_secs(1);
        one.over(async {
            spent(Part::Queue, second);
            other.over(async { spent(Part::Store, second) }).await;
            measured(Part::Compute, async { spent(Part::Queue, second) }).await;
        })
        .await;
        spent(Part::Queue, second);
        let (one, other) = (one.read(), other.read());
        assert_eq!((one.queue, one.store), (second * 2, Duration::ZERO));
        assert_eq!((other.queue, other.store), (Duration::ZERO, second));
        assert!(one.total >= one.compute);
    }
}
