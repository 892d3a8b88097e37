//! Mark of a shard from which forgotten text is still to be erased.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::storage::Storage;

/// Durable mark that text is to be erased: an empty file in the shard's folder.
///
/// Each owner of a contested shard has a mark of its own name. An owner that was suspended while it
/// erased removes, when it resumes, only marks that existed when it began, and not the mark of a
/// later owner that has forgotten something meanwhile.
#[derive(Debug)]
pub(crate) struct ErasureMark {
    shard: Storage,
    own: String,
    set: BTreeSet<String>,
    /// The same for readers.
    seen: SeenErasure,
}

/// Whether forgotten text is still to be erased, and since when this process knows of it. Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenErasure(Arc<Mutex<Option<Instant>>>);

impl SeenErasure {
    /// Returns for how long text has waited to be erased. `None` if there is none.
    pub(crate) fn waits_for(&self) -> Option<Duration> {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.map(|since| since.elapsed())
    }

    fn note(&self, is_wanted: bool) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *since = is_wanted.then(|| since.unwrap_or_else(Instant::now));
    }
}

/// Prefix of the names of marks.
pub(crate) const MARK: &str = "erasure-wanted";

impl ErasureMark {
    /// Reads the existing marks, for the owner of that number. Call it after the takeover: an
    /// earlier owner whose deletion succeeded had set its mark before.
    pub(crate) async fn read(shard: &Storage, owner: Option<u64>) -> Result<Self> {
        let names = shard.names("look for an interrupted erasure").await?;
        let set: BTreeSet<String> =
            names.into_iter().filter(|name| name.starts_with(MARK)).collect();
        let seen = SeenErasure::default();
        seen.note(!set.is_empty());
        let own = owner.map_or(MARK.to_owned(), |number| format!("{MARK}-{number}"));
        Ok(Self { shard: shard.clone(), own, seen, set })
    }

    /// Returns what tells readers whether erasure is wanted.
    pub(crate) fn seen(&self) -> SeenErasure {
        self.seen.clone()
    }

    /// Returns whether any mark is set.
    pub(crate) fn is_set(&self) -> bool {
        !self.set.is_empty()
    }

    /// Sets this owner's mark.
    pub(crate) async fn set(&mut self) -> Result<()> {
        if !self.set.contains(&self.own) {
            self.shard.put_mark(&self.own, "remember the erasure").await?;
            self.set.insert(self.own.clone());
        }
        self.seen.note(true);
        Ok(())
    }

    /// Removes the marks that are known.
    pub(crate) async fn clear(&mut self) -> Result<()> {
        if !self.set.is_empty() {
            self.shard.remove_files(self.set.iter().cloned(), "end the erasure").await?;
            self.set.clear();
        }
        self.seen.note(false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_earlier_owner_takes_away_only_the_marks_it_knows() {
        let folder = tempfile::tempdir().unwrap();
        let place = Storage::from(folder.path());
        let mut a = ErasureMark::read(&place, Some(5)).await.unwrap();
        a.set().await.unwrap();
        let mut b = ErasureMark::read(&place, Some(9)).await.unwrap();
        assert!(b.is_set() && b.seen().waits_for().is_some());
        b.set().await.unwrap();
        a.clear().await.unwrap();
        assert!(!a.is_set());
        assert!(ErasureMark::read(&place, None).await.unwrap().is_set());
        b.clear().await.unwrap();
        assert_eq!(b.seen().waits_for(), None);
        assert!(!ErasureMark::read(&place, None).await.unwrap().is_set());
    }
}
