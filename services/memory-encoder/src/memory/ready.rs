//! Cache with a budget; the least recently used entry is removed first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values by key, whose total size stays within a budget.
#[derive(Debug)]
pub(super) struct Ready<T> {
    budget: u64,
    kept: Mutex<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    by_key: HashMap<String, Entry<T>>,
    bytes: u64,
    /// Number of uses so far. The entry with the smallest number was used least recently.
    uses: u64,
}

#[derive(Debug)]
struct Entry<T> {
    value: Arc<T>,
    bytes: u64,
    used: u64,
}

impl<T> Ready<T> {
    pub(super) fn new(budget: u64) -> Self {
        let kept = Kept { by_key: HashMap::new(), bytes: 0, uses: 0 };
        Self { budget, kept: Mutex::new(kept) }
    }

    /// Returns whether a value is kept now. Does not count as a use.
    pub(super) fn holds(&self, key: &str) -> bool {
        self.lock().by_key.contains_key(key)
    }

    /// Returns the value of a key, and counts a use.
    pub(super) fn get(&self, key: &str) -> Option<Arc<T>> {
        let mut kept = self.lock();
        kept.uses += 1;
        let used = kept.uses;
        let entry = kept.by_key.get_mut(key)?;
        entry.used = used;
        Some(Arc::clone(&entry.value))
    }

    /// Removes values until `bytes` more have room. Returns false if `bytes` exceeds the budget.
    /// Call it before allocating the new value, so that the budget is never exceeded.
    pub(super) fn make_room(&self, bytes: u64) -> bool {
        if bytes > self.budget {
            return false;
        }
        let mut kept = self.lock();
        while kept.bytes > self.budget - bytes {
            let oldest = kept.by_key.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            kept.remove(&oldest);
        }
        true
    }

    /// Keeps a value if it fits, as used now.
    pub(super) fn keep(&self, key: &str, value: Arc<T>, bytes: u64) {
        self.remove(key);
        if self.make_room(bytes) {
            let mut kept = self.lock();
            kept.uses += 1;
            let used = kept.uses;
            kept.bytes += bytes;
            kept.by_key.insert(key.to_owned(), Entry { value, bytes, used });
        }
    }

    pub(super) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    pub(super) fn clear(&self) {
        let mut kept = self.lock();
        kept.by_key.clear();
        kept.bytes = 0;
    }

    /// Returns the number of values and their bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        let kept = self.lock();
        (kept.by_key.len(), kept.bytes)
    }

    // No code that can panic runs under the lock, so a poisoned one holds valid entries.
    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Kept<T> {
    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.by_key.remove(key) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(ready: &Ready<()>, key: &str, bytes: u64) {
        ready.keep(key, Arc::new(()), bytes);
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let ready = Ready::new(100);
        keep(&ready, "a", 40);
        keep(&ready, "b", 40);
        assert!(ready.get("a").is_some());
        keep(&ready, "c", 40);
        assert_eq!(["a", "b", "c"].map(|key| ready.holds(key)), [true, false, true]);
        assert_eq!(ready.size(), (2, 80));
    }

    #[test]
    fn the_budget_is_never_exceeded() {
        let ready = Ready::new(100);
        keep(&ready, "a", 60);
        keep(&ready, "huge", 101);
        assert!(ready.holds("a") && !ready.holds("huge"), "what never fits pushes nobody out");
        keep(&ready, "a", 90);
        assert_eq!(ready.size(), (1, 90), "what is kept anew counts once");
        assert!(ready.make_room(100));
        assert_eq!(ready.size(), (0, 0));
        keep(&ready, "b", 100);
        ready.clear();
        assert!(ready.get("b").is_none());
        assert_eq!(ready.size(), (0, 0));
    }
}
