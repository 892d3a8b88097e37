//! Ownership of a table: takes it over, and tells whether this owner is still the newest.

use crate::error::{Error, Operation, Result};
use crate::table::Stored;
use crate::table::fence::Tip;
use crate::table::kind::TableKind;

/// Table config key that names the owner. Its value is a number that grows with each owner, a
/// space, and a text for people.
const OWNER: &str = "clew.owner";

/// Maximum attempts of a takeover: the earlier owner's next commit may come before each of them.
const TAKEOVER_TRIES: usize = 50;

/// Maximum reads of the newest version at an adoption: the earlier owner may remove it during each
/// of them, once it made another.
const ADOPTION_TRIES: usize = 10;

/// Maximum reads of the newest version: a commit of this owner that was believed lost may arrive
/// after each of them.
const REFRESH_TRIES: usize = 3;

/// How an owner left a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    owner: String,
    number: u64,
    tips: Vec<(TableKind, Tip)>,
}

impl Left {
    /// Returns how the owner of that name and number leaves the tables. `None` if a commit to one
    /// of them may still happen, or another owner made one.
    pub(crate) async fn of(owner: String, number: u64, tables: [&Stored; 4]) -> Option<Self> {
        let mut tips = Vec::new();
        for table in tables {
            tips.push((table.kind, table.fence.settled().await?));
        }
        Some(Self { owner, number, tips })
    }

    /// Returns the text that names the owner.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether nobody has written to the table since. `number` is that with which this
    /// owner opened the tables before it: it keeps the one that it had, or takes all of them over.
    pub(crate) async fn is_unchanged(&self, table: &Stored, number: Option<u64>) -> bool {
        let tip = self.tips.iter().find(|(kind, _)| *kind == table.kind).map(|(_, tip)| tip);
        match tip {
            Some(tip) if number.is_none_or(|number| number == self.number) => {
                table.fence.is_at(tip).await
            }
            _ => false,
        }
    }
}

impl Stored {
    /// Takes the table over. When this returns, no commit of an earlier owner can succeed any more.
    ///
    /// Owners are numbered, and a table never passes to a lower number. The shard's first table
    /// determines the number (`number` is `None`): it is the version that the takeover commits, so
    /// two owners that race for the table get different numbers. The other tables use that number
    /// (`Some`). So if several owners take over a shard at the same time, all tables end up with
    /// the one that took the first table last, in whatever order they reach the others. Returns the
    /// number.
    pub(crate) async fn take_over(&self, owner: &str, number: Option<u64>) -> Result<u64> {
        let mut lost = None;
        for _ in 0..TAKEOVER_TRIES {
            if lost.is_some() {
                self.adopt_newest().await?;
            }
            let dataset = self.dataset(Operation::Open).await?;
            let holder = dataset.config().get(OWNER).and_then(|text| number_of(text)).unwrap_or(0);
            let number = number.unwrap_or(dataset.version_id() + 1);
            if holder > number {
                let reason = format!("owner {holder} took over after this one, number {number}");
                return Err(Error::LostRace { table: self.kind, source: reason.into() });
            }
            match self.commit_config(OWNER, format!("{number} {owner}")).await {
                Err(error @ Error::LostRace { .. }) => lost = Some(error),
                done => return done.map(|()| number),
            }
        }
        Err(lost.unwrap_or_else(|| self.error(Operation::Open, "no try was made".into())))
    }

    /// Adopts the stored state as this owner's, on which its commits build.
    pub(super) async fn adopt(&self) -> Result<()> {
        match self.adopt_what_is_open().await {
            Err(Error::Corrupt { .. }) => self.adopt_newest().await,
            adopted => adopted,
        }
    }

    async fn adopt_newest(&self) -> Result<()> {
        let mut tried = Ok(());
        for _ in 0..ADOPTION_TRIES {
            tried = match self.run(Operation::Open, self.table.checkout_latest()).await {
                Ok(()) => self.adopt_what_is_open().await,
                failed => failed,
            };
            // A version that the earlier owner replaced and removed meanwhile looks lost.
            let Err(Error::Corrupt { .. }) = tried else { break };
        }
        tried
    }

    async fn adopt_what_is_open(&self) -> Result<()> {
        let dataset = self.dataset(Operation::Open).await?;
        let adopt = async {
            let store = dataset.object_store(None).await?;
            Ok(self.fence.adopt(dataset.manifest_location(), &store).await?)
        };
        self.run(Operation::Open, adopt).await
    }

    /// Asks the storage whether this owner is still the newest. Costs one listing.
    ///
    /// # Errors
    /// Returns [`Error::LostRace`] if another owner committed, or a storage error.
    pub(crate) async fn confirm_owned(&self) -> Result<()> {
        let dataset = self.dataset(Operation::Refresh).await?;
        let newest = async { Ok(self.fence.tip(dataset.latest_version_id().await?).await?) };
        self.run(Operation::Refresh, newest).await.map(drop)
    }

    /// Returns [`Error::LostRace`] if another owner is known to have written.
    pub(crate) async fn check_owned(&self) -> Result<()> {
        if !self.fence.is_breached().await {
            return Ok(());
        }
        let reason = "a commit of another owner was found before";
        Err(Error::LostRace { table: self.kind, source: reason.into() })
    }

    /// Moves to the version that this owner committed last, even if it did not know that this
    /// commit had happened.
    ///
    /// # Errors
    /// Returns [`Error::LostRace`] if another owner committed, or a storage error.
    pub(crate) async fn refresh(&self) -> Result<()> {
        for _ in 0..REFRESH_TRIES {
            self.run(Operation::Read, self.table.checkout_latest()).await?;
            let seen = self.run(Operation::Read, self.table.version()).await?;
            let tip = async { Ok(self.fence.tip(seen).await?) };
            if self.run(Operation::Refresh, tip).await? == seen {
                self.fence.follows(seen).await;
                return Ok(());
            }
        }
        Err(self.error(Operation::Refresh, "its newest version keeps changing".into()))
    }
}

fn number_of(owner: &str) -> Option<u64> {
    owner.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicU64, Ordering};

    use arrow::record_batch::RecordBatch;
    use lance_io::object_store::ObjectStore;
    use lance_table::io::commit::{
        CommitHandler, ManifestNamingScheme, write_manifest_file_to_path,
    };

    use super::*;
    use crate::storage::Storage;
    use crate::storage::session::IndexMemory;
    use crate::table::column;
    use crate::table::faulty::{Fault, Faulty};

    async fn owned(folder: &std::path::Path) -> Stored {
        let place = Storage::from(folder);
        let connection = place.connect(&IndexMemory::default()).await.unwrap();
        let table = Stored::open(&connection, &place, TableKind::Failures, &[]).await.unwrap();
        table.take_over("test", None).await.unwrap();
        table
    }

    async fn commit(table: &Stored) -> Result<()> {
        table.commit_config("test", "value".to_owned()).await
    }

    async fn prune(table: &mut Stored) {
        let present = table.removal().await.unwrap().list().await.unwrap();
        table.commit_removal().await.unwrap().remove(present).await.unwrap();
    }

    async fn newest(table: &Stored) -> u64 {
        table.dataset(Operation::Read).await.unwrap().latest_version_id().await.unwrap()
    }

    /// Commits `version` as the engine does, but without its look at what was committed meanwhile,
    /// like a process that was suspended between the two.
    async fn commit_blindly(
        table: &Stored,
        store: &ObjectStore,
        version: u64,
    ) -> lance_core::Result<()> {
        static DIFFERENT: AtomicU64 = AtomicU64::new(0);
        let dataset = table.dataset(Operation::Read).await.unwrap();
        let mut manifest = dataset.manifest().clone();
        manifest.version = version;
        let different = DIFFERENT.fetch_add(1, Ordering::Relaxed);
        manifest.config.insert("different".to_owned(), different.to_string());
        let base = dataset.branch_location().path;
        let naming = ManifestNamingScheme::V2;
        let write = write_manifest_file_to_path;
        let done = table.fence.commit(&mut manifest, None, &base, store, write, naming, None).await;
        Ok(done.map(drop)?)
    }

    async fn store_of(table: &Stored) -> ObjectStore {
        let dataset = table.dataset(Operation::Read).await.unwrap();
        ObjectStore::clone(&*dataset.object_store(None).await.unwrap())
    }

    #[tokio::test]
    async fn a_commit_of_a_version_that_was_there_and_is_gone_does_not_count() {
        let temporary = tempfile::tempdir().unwrap();
        let a = owned(temporary.path()).await;
        let (store, next) = (store_of(&a).await, newest(&a).await + 1);
        let mut b = owned(temporary.path()).await;
        commit(&b).await.unwrap();
        prune(&mut b).await;
        let tip = newest(&b).await;
        assert!(tip > next);
        let error = commit_blindly(&a, &store, next).await.unwrap_err();
        assert!(matches!(error, lance_core::Error::Fenced { .. }), "{error:?}");
        assert!(a.check_owned().await.is_err());
        assert_eq!(newest(&b).await, tip);
        b.confirm_owned().await.unwrap();
        commit(&b).await.unwrap();
        prune(&mut b).await;
        assert_eq!(b.statistics().await.unwrap().versions, 1);
    }

    #[tokio::test]
    async fn a_version_that_is_removed_while_it_is_adopted_is_not_missed() {
        let temporary = tempfile::tempdir().unwrap();
        let mut earlier = owned(temporary.path()).await;
        let place = Storage::from(temporary.path());
        let connection = place.connect(&IndexMemory::default()).await.unwrap();
        let later = Stored::open(&connection, &place, TableKind::Failures, &[]).await.unwrap();
        commit(&earlier).await.unwrap();
        prune(&mut earlier).await;
        later.adopt().await.unwrap();
        later.take_over("later", None).await.unwrap();
        assert!(matches!(commit(&earlier).await, Err(Error::LostRace { .. })));

        // Where all versions are gone, that is told.
        fs::remove_dir_all(temporary.path().join("failures.lance/_versions")).unwrap();
        assert!(matches!(later.adopt().await, Err(Error::Corrupt { .. })));
    }

    #[tokio::test]
    async fn an_earlier_owner_removes_nothing_of_a_later_one() {
        let temporary = tempfile::tempdir().unwrap();
        let mut a = owned(temporary.path()).await;
        let data = temporary.path().join("failures.lance/data");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("garbage.lance"), "of an interrupted write").unwrap();
        let present = a.removal().await.unwrap().list().await.unwrap();
        let removal = a.commit_removal().await.unwrap();
        // Here `a` is suspended for as long as it takes.
        let mut b = owned(temporary.path()).await;
        let schema = TableKind::Failures.schema(&[]);
        b.append(vec![RecordBatch::new_empty(schema)]).await.unwrap();
        commit(&b).await.unwrap();
        fs::write(data.join("written.lance"), "before its commit").unwrap();
        let before = newest(&b).await;
        removal.remove(present).await.unwrap();
        assert!(!data.join("garbage.lance").exists());
        assert!(data.join("written.lance").exists());
        assert!(matches!(a.commit_removal().await, Err(Error::LostRace { .. })));
        assert_eq!(newest(&b).await, before);
        let again = owned(temporary.path()).await;
        again.scan(&[column::DOCUMENT_ID], |_| Ok(())).await.unwrap();
        assert!(matches!(b.commit_removal().await, Err(Error::LostRace { .. })));
    }

    #[tokio::test]
    async fn a_put_whose_answer_was_lost_counts_if_it_happened() {
        let temporary = tempfile::tempdir().unwrap();
        let table = owned(temporary.path()).await;
        let (faulty, store) = Faulty::before(store_of(&table).await);
        let tip = newest(&table).await;
        faulty.next(Fault::AnswerLost);
        commit_blindly(&table, &store, tip + 1).await.unwrap();
        assert_eq!(newest(&table).await, tip + 1);
        // The same, but the outcome cannot be read at once either.
        faulty.next(Fault::AnswerLostAndDeaf);
        assert!(table.fence.settled().await.is_some());
        commit_blindly(&table, &store, tip + 2).await.unwrap_err();
        assert!(table.fence.settled().await.is_none());
        faulty.hears_again();
        table.check_owned().await.unwrap();
        table.refresh().await.unwrap();
        commit(&table).await.unwrap();
        assert_eq!(newest(&table).await, tip + 3);
    }

    #[tokio::test]
    async fn a_put_that_did_not_happen_may_happen_later() {
        let temporary = tempfile::tempdir().unwrap();
        let table = owned(temporary.path()).await;
        let (faulty, store) = Faulty::before(store_of(&table).await);
        let tip = newest(&table).await;
        faulty.next(Fault::Late);
        commit_blindly(&table, &store, tip + 1).await.unwrap_err();
        // The put did not happen, and another takes its place.
        commit_blindly(&table, &store, tip + 1).await.unwrap();
        faulty.arrives().await.unwrap_err();

        faulty.next(Fault::Late);
        commit_blindly(&table, &store, tip + 2).await.unwrap_err();
        faulty.arrives().await.unwrap();
        // The put happened after all, so this owner has to look again before it goes on.
        let error = commit_blindly(&table, &store, tip + 2).await.unwrap_err();
        assert!(!matches!(error, lance_core::Error::Fenced { .. }), "{error:?}");
        table.refresh().await.unwrap();
        commit(&table).await.unwrap();
        assert_eq!(newest(&table).await, tip + 3);

        // It happens after this owner looked, and the engine moves the next commit behind it.
        faulty.next(Fault::Late);
        commit_blindly(&table, &store, tip + 4).await.unwrap_err();
        table.refresh().await.unwrap();
        faulty.arrives().await.unwrap();
        for _ in 0..2 {
            let error = commit_blindly(&table, &store, tip + 5).await.unwrap_err();
            assert!(!matches!(error, lance_core::Error::Fenced { .. }), "{error:?}");
            commit(&table).await.unwrap_err();
        }
        assert_eq!(newest(&table).await, tip + 4);
        table.confirm_owned().await.unwrap();
        commit_blindly(&table, &store, tip + 5).await.unwrap_err();
        table.refresh().await.unwrap();
        commit(&table).await.unwrap();
        assert_eq!(newest(&table).await, tip + 5);
    }
}
