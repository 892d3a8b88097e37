//! Trace contexts in which the newest documents were accepted.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clew_core::DocumentId;
use clew_telemetry::Origin;

/// Maximum number of documents of a shard to remember: enough for a person who looks at the traces
/// of a few documents, not for a bulk load.
const KNOWN: usize = 256;

/// Trace contexts of the documents that were accepted last. They are kept in memory only, so work
/// after a restart begins a trace of its own.
#[derive(Debug, Default)]
pub(crate) struct TraceContexts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    origins: HashMap<DocumentId, Origin>,
    /// Ids, oldest first.
    order: VecDeque<DocumentId>,
}

impl TraceContexts {
    /// Records the trace context of a document.
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

    /// Returns the known trace contexts of `ids`, in the order of `ids`.
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
        let origins = TraceContexts::default();
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
