//! Who needs a line of actors that rests while nobody does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Everybody who needs a line. Clones share the state.
#[derive(Clone, Debug)]
pub struct Needs(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Number of those who need it now.
    needed: usize,
    /// When the last caller stopped needing it; `None` if there was none yet.
    since: Option<Instant>,
    is_resting: bool,
}

/// A need for a line. The line does not rest while it exists.
#[derive(Debug)]
#[must_use = "the line may rest as soon as this is dropped"]
pub struct Needed {
    needs: Needs,
    is_look: bool,
}

impl Needs {
    pub fn new(is_resting: bool) -> Self {
        Self(Arc::new(Mutex::new(State { needed: 0, since: None, is_resting })))
    }

    /// Returns a need, and whether the line rested until now. A look does not count as use: it
    /// leaves the time of the last use as it is.
    pub fn need(&self, is_look: bool) -> (Needed, bool) {
        let mut state = self.lock();
        state.needed += 1;
        let rested = std::mem::take(&mut state.is_resting);
        (Needed { needs: self.clone(), is_look }, rested)
    }

    /// Returns for how long nobody has needed the line, or `None` while somebody does or it rests.
    pub fn unneeded_for(&self) -> Option<Duration> {
        let state = self.lock();
        let is_unneeded = state.needed == 0 && !state.is_resting;
        is_unneeded.then(|| state.since.map_or(Duration::MAX, |since| since.elapsed()))
    }

    /// Begins to rest if nobody needs the line and `agrees`, which runs before anybody can need it
    /// again. Returns whether it does.
    pub fn rest(&self, agrees: impl FnOnce() -> bool) -> bool {
        let mut state = self.lock();
        state.is_resting = state.is_resting || (state.needed == 0 && agrees());
        state.is_resting
    }

    // No code that can panic leaves the numbers half changed, so a poisoned lock holds a valid
    // state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Needed {
    fn drop(&mut self) {
        let mut state = self.needs.lock();
        state.needed = state.needed.saturating_sub(1);
        if !self.is_look {
            state.since = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_rests_while_somebody_needs_it() {
        let needs = Needs::new(true);
        assert_eq!(needs.unneeded_for(), None, "it rests");
        let (look, rested) = needs.need(true);
        assert!(rested);
        assert!(!needs.rest(|| true));
        drop(look);
        assert_eq!(needs.unneeded_for(), Some(Duration::MAX), "a look is no use");
        let (first, rested) = needs.need(false);
        assert!(!rested);
        let (second, _) = needs.need(false);
        drop(first);
        assert!(!needs.rest(|| true));
        drop(second);
        assert!(needs.unneeded_for().is_some_and(|idle| idle < Duration::MAX));
        assert!(!needs.rest(|| false), "there is work left");
        assert!(needs.rest(|| true));
        assert!(needs.rest(|| false), "it rests already");
    }
}
