//! Snapshots of corpora: copies outside the data directory from which a corpus can be restored.

use std::cmp::Reverse;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::is_name;
use crate::{CorpusName, DocumentId, Error, Timestamp};

/// Name of a snapshot of a corpus: 1 to 63 characters of `a-z`, `0-9`, `-`, `_`, beginning with a
/// letter or digit, so that it is valid as a folder name everywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotName(String);

impl FromStr for SnapshotName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        if is_name(name) {
            return Ok(Self(name.to_owned()));
        }
        let problem = "expected 1 to 63 of a-z, 0-9, `-`, `_` beginning with a letter or digit";
        Err(Error::invalid("snapshot", problem))
    }
}

crate::string_id!(SnapshotName);

/// Progress of copying. The amount to copy may change while it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Number of files that are copied.
    pub files: u64,
    /// Number of files to copy in all.
    pub of_files: u64,
    /// Number of bytes that are copied.
    pub bytes: u64,
    /// Number of bytes to copy in all.
    pub of_bytes: u64,
}

impl std::ops::AddAssign for Copied {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.of_files += other.of_files;
        self.bytes += other.bytes;
        self.of_bytes += other.of_bytes;
    }
}

/// Progress of copying a shard to a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardCopy {
    /// Amount that is copied.
    pub copied: Copied,
    /// Fingerprint of the shard's contents in the snapshot, once all of it is copied.
    pub digest: Option<String>,
}

/// Complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Corpus of the snapshot.
    pub corpus: CorpusName,
    /// Name of the snapshot.
    pub name: SnapshotName,
    /// Time when it was completed. It holds everything that was acknowledged before it was begun.
    pub taken_at: Timestamp,
    /// Number of documents in it.
    pub documents: u64,
    /// Number of its files.
    pub files: u64,
    /// Size of its files, in bytes.
    pub bytes: u64,
}

/// Request to restore a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restoration {
    /// Corpus to restore; it keeps its name.
    pub corpus: CorpusName,
    /// Snapshot to restore from.
    pub snapshot: SnapshotName,
    /// Documents that are not restored: they are forgotten before the corpus becomes available.
    pub leave_out: Vec<DocumentId>,
    /// [`RestoreStep::begun`] of the previous step, if this continues a restoration.
    pub begun: Option<Timestamp>,
}

/// Progress of restoring a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreStep {
    /// Amount that is copied.
    pub copied: Copied,
    /// Time when the restoration was begun. It counts as the time when the restored corpus was
    /// created.
    pub begun: Timestamp,
    /// Number of documents that were left out.
    pub left_out: u64,
    /// Whether the corpus is available.
    pub is_done: bool,
}

/// Request to delete a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDeletion {
    /// Corpus of the snapshot; it may no longer exist.
    pub corpus: CorpusName,
    /// Name of the snapshot.
    pub snapshot: SnapshotName,
    /// Whether only to report if the snapshot could be deleted.
    pub is_dry_run: bool,
}

/// Progress of deleting a snapshot. From the first step on, the snapshot cannot be found or
/// restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionStep {
    /// Number of files that this step removed, or would have removed in a dry run.
    pub files: u64,
    /// Whether nothing of the snapshot is left.
    pub is_done: bool,
}

/// Rule for how long snapshots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRetention {
    /// Maximum age of snapshots that are kept.
    pub older_than: Duration,
    /// Number of newest snapshots that are kept whatever their age.
    pub keep: usize,
}

impl SnapshotRetention {
    /// Returns those of all snapshots of a corpus that are not kept at `now`, oldest first.
    pub fn expired(&self, all: &[SnapshotSummary], now: Timestamp) -> Vec<SnapshotName> {
        let mut newest_first: Vec<_> = all.iter().collect();
        newest_first.sort_by_key(|snapshot| Reverse((snapshot.taken_at, &snapshot.name)));
        let is_old = |snapshot: &&&SnapshotSummary| {
            now.saturating_since(snapshot.taken_at) > self.older_than
        };
        let expired = newest_first.iter().skip(self.keep).filter(is_old);
        expired.rev().map(|snapshot| snapshot.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(name: usize, at: i64) -> SnapshotSummary {
        SnapshotSummary {
            corpus: "notes".parse().unwrap(),
            name: format!("s{name}").parse().unwrap(),
            taken_at: Timestamp::from_micros(at * 1_000_000),
            documents: 0,
            files: 0,
            bytes: 0,
        }
    }

    #[test]
    fn what_is_old_and_not_among_the_newest_expires_oldest_first() {
        let all = [taken(0, 50), taken(1, 10), taken(2, 30), taken(3, 40), taken(4, 20)];
        let expired = |older_than, keep| -> Vec<String> {
            let retention = SnapshotRetention { older_than: Duration::from_secs(older_than), keep };
            let expired = retention.expired(&all, Timestamp::from_micros(50_000_000));
            expired.iter().map(ToString::to_string).collect()
        };
        assert_eq!(expired(15, 1), ["s1", "s4", "s2"]);
        assert_eq!(expired(20, 1), ["s1", "s4"], "what is as old as that is kept");
        assert_eq!(expired(0, 4), ["s1"]);
        assert_eq!(expired(0, 5), [""; 0]);
        assert_eq!(expired(0, 1), ["s1", "s4", "s2", "s3"]);
    }

    proptest! {
        #[test]
        fn the_newest_are_kept_and_nothing_young_expires(
            times in prop::collection::vec(0_i64..100, 0..12),
            older_than in 0_u64..100,
            keep in 0_usize..14,
        ) {
            let all: Vec<_> = times.iter().enumerate().map(|(name, at)| taken(name, *at)).collect();
            let retention = SnapshotRetention { older_than: Duration::from_secs(older_than), keep };
            let expired = retention.expired(&all, Timestamp::from_micros(100_000_000));
            let is_expired = |one: &&SnapshotSummary| expired.contains(&one.name);
            let (gone, kept): (Vec<_>, Vec<_>) = all.iter().partition(is_expired);
            prop_assert!(kept.len() >= keep.min(all.len()));
            for one in &gone {
                prop_assert!(Timestamp::from_micros(100_000_000).saturating_since(one.taken_at) > retention.older_than);
                let newer = all.iter().filter(|other| other.taken_at >= one.taken_at).count();
                prop_assert!(newer > keep);
            }
        }
    }

    #[test]
    fn snapshot_names_are_folder_names() {
        for good in ["a", "nightly-2026-01-02", "0_b"] {
            assert!(good.parse::<SnapshotName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a/b", "..", ".a", "a b", &"x".repeat(64)] {
            assert!(bad.parse::<SnapshotName>().is_err(), "{bad}");
        }
    }
}
