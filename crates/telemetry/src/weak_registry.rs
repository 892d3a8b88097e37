//! Weak registry of the objects that metrics observe.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A registry that holds its entries weakly: an entry is in it for as long as somebody else holds
/// it. Suitable for static registries of parts of a process that come and go.
#[derive(Debug)]
pub struct WeakRegistry<T>(Mutex<Vec<Weak<T>>>);

impl<T> WeakRegistry<T> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Adds `part`, which stays in the list until its last owner drops it.
    pub fn add(&self, part: &Arc<T>) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|part| part.strong_count() > 0);
        parts.push(Arc::downgrade(part));
    }

    /// Returns the parts that are alive now.
    pub fn all(&self) -> Vec<Arc<T>> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().filter_map(Weak::upgrade).collect()
    }
}

impl<T> Default for WeakRegistry<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_gone() {
        let registry = WeakRegistry::new();
        let (stays, goes) = (Arc::new(1), Arc::new(2));
        registry.add(&stays);
        registry.add(&goes);
        drop(goes);
        assert_eq!(registry.all(), [stays]);
    }
}
