//! The storage of the shards, which takes a version only if it follows the last one.

use crate::decide::modelled_redis::Token;

/// A shard in the storage.
#[derive(Default)]
pub(super) struct Table {
    /// Number of the last version. A takeover and each write make one.
    pub(super) version: u64,
    /// Number of writes among them.
    pub(super) writes: u64,
    /// The last node that took the shard over.
    pub(super) owner: Option<Token>,
}

/// A version that a node asks the storage to add.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) version: u64,
    pub(super) by: Token,
    pub(super) is_takeover: bool,
}

impl Table {
    /// Adds a version unless another was added since its node looked. Returns whether it was.
    ///
    /// # Panics
    /// Panics if an owner writes after another took the shard over: there were two.
    pub(super) fn commit(&mut self, commit: &Commit, is_fenced: bool) -> bool {
        if is_fenced && commit.version != self.version + 1 {
            return false;
        }
        self.version += 1;
        if commit.is_takeover {
            self.owner = Some(commit.by.clone());
        } else {
            assert_eq!(self.owner.as_ref(), Some(&commit.by), "two owners commit");
            self.writes += 1;
        }
        true
    }
}
