//! Single flight: callers bring the snapshot of a key one after the other, so that it is brought
//! once for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// The right to bring the snapshot of a key. Dropping it passes it on to the next caller.
pub(crate) type Flight = OwnedMutexGuard<()>;

/// The flights of all keys.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    by_key: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl SingleFlight {
    /// Waits for the end of the flight that is under way now. Begins none itself.
    pub(super) async fn over(&self, key: &str) {
        let known = {
            let by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            by_key.get(key).and_then(Weak::upgrade)
        };
        if let Some(flight) = known {
            drop(flight.lock_owned().await);
        }
    }

    /// Waits until the caller may bring the snapshot.
    pub(super) async fn take(&self, key: &str) -> Flight {
        let flight = {
            let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            // Removes keys that nobody waits for any more.
            by_key.retain(|_, flight| flight.strong_count() > 0);
            let known = by_key.get(key).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let flight = Arc::default();
                by_key.insert(key.to_owned(), Arc::downgrade(&flight));
                flight
            })
        };
        flight.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_flight_is_one_callers_and_of_one_key() {
        let flights = SingleFlight::default();
        let first = flights.take("a").await;
        assert!(flights.take("a").now_or_never().is_none());
        assert!(flights.over("a").now_or_never().is_none());
        assert!(flights.take("b").now_or_never().is_some());
        assert!(flights.over("b").now_or_never().is_some());
        drop(first);
        assert!(flights.take("a").now_or_never().is_some());
        drop(flights.take("c").await);
        assert_eq!(flights.by_key.lock().unwrap().len(), 1, "keys do not pile up");
    }
}
