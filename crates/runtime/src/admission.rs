//! Admission: a permit is taken before a message is sent, and travels in the message.
//!
//! Mailboxes of actors are unbounded, so the bound is here. A permit is measured in units of what
//! is scarce (tokens, bytes, requests). It is given back when it is dropped, so a caller that goes
//! away frees its place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::Error;
use clew_telemetry::Queue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::tree::RunningPart;

/// Bounded place in which work waits or runs.
#[derive(Clone, Debug)]
pub struct Gate {
    name: &'static str,
    capacity: u32,
    retry_after: Duration,
    permits: Arc<Semaphore>,
    queue: Option<Arc<Queue>>,
}

/// Share of a [`Gate`], given back when dropped.
#[derive(Debug)]
#[must_use = "a dropped permit admits the next caller"]
pub struct Permit {
    _permit: OwnedSemaphorePermit,
}

impl Gate {
    /// Creates a gate of `capacity` units. Errors tell callers that `name` is full. `retry_after`
    /// is about how long it takes to make room.
    pub fn new(name: &'static str, capacity: u32, retry_after: Duration) -> Self {
        let permits = Arc::new(Semaphore::new(capacity as usize));
        Self { name, capacity, retry_after, permits, queue: None }
    }

    /// Shows the gate in metrics as the queue `queue`, in `unit`s (requests, bytes, tokens). Gates
    /// with the same name are added up.
    #[must_use]
    pub fn seen_as(mut self, queue: &'static str, unit: &'static str) -> Self {
        let (permits, capacity) = (Arc::clone(&self.permits), self.capacity as usize);
        let look = move || (capacity.saturating_sub(permits.available_permits()), capacity);
        self.queue = Some(Queue::new(queue, unit, look));
        self
    }

    /// Takes `units` now or refuses. Work that is larger than the whole gate takes all of it.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Exhausted`] if the gate is full, and
    /// [`clew_core::ErrorKind::Unavailable`] if it is closed.
    pub fn try_enter(&self, units: usize) -> Result<Permit, Error> {
        match Arc::clone(&self.permits).try_acquire_many_owned(self.clamp(units)) {
            Ok(permit) => Ok(Permit { _permit: permit }),
            Err(TryAcquireError::NoPermits) => Err(self.refusal()),
            Err(TryAcquireError::Closed) => Err(shutting_down()),
        }
    }

    /// Takes `units`, waiting for room until `deadline`. For streams, whose producer is slowed down
    /// by not being read.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Exhausted`] if there was no room in time, and
    /// [`clew_core::ErrorKind::Unavailable`] if the gate is closed.
    pub async fn enter(&self, units: usize, deadline: Instant) -> Result<Permit, Error> {
        let acquire = Arc::clone(&self.permits).acquire_many_owned(self.clamp(units));
        let began = Instant::now();
        match tokio::time::timeout_at(deadline.into(), acquire).await {
            Ok(Ok(permit)) => {
                if let Some(queue) = &self.queue {
                    queue.waited(began.elapsed());
                }
                Ok(Permit { _permit: permit })
            }
            Ok(Err(_closed)) => Err(shutting_down()),
            Err(_elapsed) => Err(self.refusal()),
        }
    }

    /// Closes the gate: nothing more is admitted, and admitted work goes on.
    pub fn close(&self) {
        self.permits.close();
    }

    /// Waits until all admitted work is done.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::DeadlineExceeded`] if it is not done by the deadline.
    pub async fn drained(&self, deadline: Instant) -> Result<(), Error> {
        let whole = Duration::from_millis(5);
        while self.permits.available_permits() < self.capacity as usize {
            if Instant::now() >= deadline {
                return Err(Error::deadline("draining"));
            }
            tokio::time::sleep(whole).await;
        }
        Ok(())
    }

    /// Adds to the metrics how long admitted work waited before it ran.
    pub fn waited(&self, time: Duration) {
        if let Some(queue) = &self.queue {
            queue.waited(time);
        }
    }

    /// Returns the number of units that are taken.
    pub fn in_use(&self) -> usize {
        (self.capacity as usize).saturating_sub(self.permits.available_permits())
    }

    /// Returns the number of units that the gate admits.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Returns the gate's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        let state = if self.permits.is_closed() { "closed" } else { "open" };
        RunningPart::new(self.name, "gate", state).with_queue(self.in_use(), self.capacity())
    }

    fn refusal(&self) -> Error {
        if let Some(queue) = &self.queue {
            queue.refused();
        }
        Error::exhausted(self.name, self.retry_after)
    }

    fn clamp(&self, units: usize) -> u32 {
        u32::try_from(units).unwrap_or(u32::MAX).clamp(1, self.capacity)
    }
}

fn shutting_down() -> Error {
    Error::new(
        clew_core::ErrorKind::Unavailable,
        "SHUTTING_DOWN",
        "the service is shutting down; ask another or retry later",
    )
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;

    use super::*;

    #[tokio::test]
    async fn full_means_refused_at_once_and_a_dropped_permit_makes_room() {
        let gate = Gate::new("the queue", 10, Duration::from_millis(7));
        let permit = gate.try_enter(8).unwrap();
        let refused = gate.try_enter(3).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        assert_eq!(refused.retry_after(), Some(Duration::from_millis(7)));
        drop(permit);
        assert!(gate.try_enter(3).is_ok());
    }

    #[tokio::test]
    async fn work_larger_than_the_gate_takes_all_of_it() {
        let gate = Gate::new("the queue", 10, Duration::ZERO);
        let permit = gate.try_enter(1000).unwrap();
        assert_eq!(gate.in_use(), 10);
        drop(permit);
        assert_eq!(gate.in_use(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_gate_refuses_and_drains() {
        let gate = Gate::new("the queue", 2, Duration::ZERO);
        let permit = gate.try_enter(1).unwrap();
        assert_eq!(gate.node().to_string(), "the queue (gate) open, 1 of 2\n");
        gate.close();
        assert_eq!(gate.node().state, "closed");
        assert_eq!(gate.try_enter(1).unwrap_err().kind(), ErrorKind::Unavailable);
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(gate.drained(soon).await.is_err());
        drop(permit);
        assert!(gate.drained(Instant::now() + Duration::from_secs(1)).await.is_ok());
    }
}
