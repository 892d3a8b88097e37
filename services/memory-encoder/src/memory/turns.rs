//! Turns by key: callers bring a snapshot one after the other, so that it is brought once for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// A caller's turn. Dropping it lets the next caller take its turn.
pub(crate) type Turn = OwnedMutexGuard<()>;

/// Turns of all keys.
#[derive(Debug, Default)]
pub(super) struct Turns {
    by_key: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl Turns {
    /// Waits for the end of the turns that are taken now. Takes none itself.
    pub(super) async fn over(&self, key: &str) {
        let known = {
            let by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            by_key.get(key).and_then(Weak::upgrade)
        };
        if let Some(turn) = known {
            drop(turn.lock_owned().await);
        }
    }

    /// Waits for the caller's turn.
    pub(super) async fn take(&self, key: &str) -> Turn {
        let turn = {
            let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            // Removes keys that nobody waits for any more.
            by_key.retain(|_, turn| turn.strong_count() > 0);
            let known = by_key.get(key).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::default();
                by_key.insert(key.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_turn_is_one_callers_and_of_one_name() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        assert!(turns.take("a").now_or_never().is_none());
        assert!(turns.over("a").now_or_never().is_none());
        assert!(turns.take("b").now_or_never().is_some());
        assert!(turns.over("b").now_or_never().is_some());
        drop(first);
        assert!(turns.take("a").now_or_never().is_some());
        drop(turns.take("c").await);
        assert_eq!(turns.by_key.lock().unwrap().len(), 1, "names do not pile up");
    }
}
