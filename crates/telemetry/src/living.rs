//! What metrics look at for as long as it lives.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A list of things that are there as long as somebody else holds them. It is what a static list of the parts of a
/// process has to be, whose parts come and go.
#[derive(Debug)]
pub struct Living<T>(Mutex<Vec<Weak<T>>>);

impl<T> Living<T> {
    /// Nothing.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Looks at `part` from now on, until the last one who holds it drops it.
    pub fn add(&self, part: &Arc<T>) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|part| part.strong_count() > 0);
        parts.push(Arc::downgrade(part));
    }

    /// What is there now.
    pub fn all(&self) -> Vec<Arc<T>> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().filter_map(Weak::upgrade).collect()
    }
}

impl<T> Default for Living<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_gone() {
        let living = Living::new();
        let (stays, goes) = (Arc::new(1), Arc::new(2));
        living.add(&stays);
        living.add(&goes);
        drop(goes);
        assert_eq!(living.all(), [stays]);
    }
}
