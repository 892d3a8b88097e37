//! Where documents came from that are still to be derived.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clew_core::DocumentId;
use clew_telemetry::Origin;

/// Most documents of a shard that are known: those of a person who looks at the traces of a few, not those of a bulk
/// load.
const KNOWN: usize = 256;

/// The places in traces at which documents were accepted last. It is in memory only: what is derived after a restart
/// begins a trace of its own.
#[derive(Debug, Default)]
pub(crate) struct Origins(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    origins: HashMap<DocumentId, Origin>,
    /// The oldest first.
    order: VecDeque<DocumentId>,
}

impl Origins {
    /// Notes where a document came from.
    pub fn note(&self, id: DocumentId, origin: Origin) {
        let mut state = self.lock();
        if state.origins.insert(id.clone(), origin).is_none() {
            state.order.push_back(id);
        }
        if state.order.len() > KNOWN
            && let Some(oldest) = state.order.pop_front()
        {
            state.origins.remove(&oldest);
        }
    }

    /// Where those of `ids` came from of which it is known, in their order.
    pub fn of<'a>(&self, ids: impl Iterator<Item = &'a DocumentId>) -> Vec<Origin> {
        let state = self.lock();
        ids.filter_map(|id| state.origins.get(id).cloned()).collect()
    }

    // No code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first() {
        let origins = Origins::default();
        let origin =
            Origin::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        let id = |i: usize| -> DocumentId { format!("d{i}").parse().unwrap() };
        for i in 0..=KNOWN {
            origins.note(id(i), origin.clone());
        }
        assert!(origins.of([id(0)].iter()).is_empty());
        assert_eq!(origins.of([id(1), id(KNOWN), id(0)].iter()).len(), 2);
    }
}
