//! Probes whether a place has the properties that stored data depends on.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use clew_core::ClockOffset;
use futures::future::try_join_all;
use object_store::ObjectStoreExt as _;

use crate::error::{Error, Result};
use crate::storage::objects::Objects;
use crate::storage::unique::unique;
use crate::storage::url::StorageUrl;
use crate::storage::{Kind, Storage, on_files};

const DOING: &str = "try the storage";
/// Prefix of the names of everything that a probe writes.
const PREFIX: &str = ".probe-";
/// Maximum duration of a probe: many times what slow storage takes, retries included.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum duration of the removal of what it wrote.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);
/// Age after which files of another probe count as left behind by a process that was killed.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// Clock resolution of a storage: many of them report times in whole seconds.
const CLOCK_STEP: Duration = Duration::from_secs(1);
/// Number of concurrent writers of one new object.
const RACERS: usize = 4;

/// Result of probing a place.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Properties that the place lacks.
    pub broken: Vec<Broken>,
    /// Offset of its clock from this machine's, if it reports one.
    pub clock: Option<ClockOffset>,
    /// Time until a small file was durable.
    pub write: Duration,
    /// Free bytes and total bytes, if they are known.
    pub free_of: Option<(u64, u64)>,
}

/// Property that a place lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Expected property.
    pub expected: &'static str,
    /// Actual behaviour of the place.
    pub came: &'static str,
}

impl StorageUrl {
    /// Writes, lists, replaces and removes small files in the place, under names of their own.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] and [`Error::DiskFull`] if the place cannot be used at all or
    /// does not answer in time.
    pub async fn probe(&self) -> Result<Probed> {
        Storage::of(self).await?.probe().await
    }
}

impl Storage {
    /// Probes the place; see [`StorageUrl::probe`].
    #[doc(hidden)]
    pub async fn probe(&self) -> Result<Probed> {
        self.make(DOING).await?;
        let place = self.join(&format!("{PREFIX}{}", unique()));
        let probed = tokio::time::timeout(PATIENCE, async {
            remove_what_was_left(self).await?;
            place.make(DOING).await?;
            probe(self, &place).await
        });
        let probed = probed.await.unwrap_or_else(|elapsed| Err(too_late(elapsed)));
        // If the removal fails, empty or tiny files are left, which a later probe removes.
        let removed = tokio::time::timeout(REMOVAL_PATIENCE, remove_all(&place)).await;
        let probed = probed?;
        removed.map_err(too_late)??;
        Ok(probed)
    }
}

fn too_late(elapsed: tokio::time::error::Elapsed) -> Error {
    Error::Unavailable { doing: DOING.to_owned(), source: elapsed.into() }
}

async fn remove_all(place: &Storage) -> Result<()> {
    match place.kind() {
        Kind::Folder(folder) => {
            let folder = folder.clone();
            on_files(DOING, move || match std::fs::remove_dir_all(folder) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            })
            .await
        }
        Kind::Objects(objects) => objects.remove_all(DOING).await,
    }
}

/// Removes the files of probes whose processes were killed.
async fn remove_what_was_left(root: &Storage) -> Result<()> {
    let now = SystemTime::now();
    for name in root.names(DOING).await?.iter().filter(|name| was_left(name, now)) {
        remove_all(&root.join(name)).await?;
    }
    Ok(())
}

/// Returns whether a name is of a probe that began long ago.
fn was_left(name: &str, now: SystemTime) -> bool {
    let nanos = name.strip_prefix(PREFIX).and_then(|id| id.split('-').nth(1)?.parse().ok());
    let began = nanos.map(|nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos));
    began.is_some_and(|began| now.duration_since(began).is_ok_and(|age| age > LEFT_BEHIND))
}

async fn probe(root: &Storage, place: &Storage) -> Result<Probed> {
    let mut broken = Vec::new();
    let mut holds = |is_so: bool, expected: &'static str, came: &'static str| {
        if !is_so {
            broken.push(Broken { expected, came });
        }
    };
    let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"second"));
    let (asked, began) = (SystemTime::now(), Instant::now());
    let is_new = place.put_new_file("a", first.clone(), DOING).await?;
    let (answered, write) = (SystemTime::now(), began.elapsed());
    holds(is_new, "a new file can be written if there is none of its name", "it was refused");
    let written_at = written_at(place).await?;
    let is_new = place.put_new_file("a", second.clone(), DOING).await?;
    let expected =
        "of two who write a new file of one name the second is refused (`If-None-Match`)";
    holds(!is_new, expected, "it replaced the file");
    let read = place.get_file("a", None, DOING).await?;
    let expected = "a file that was written is read back at once";
    // If the file was wrongly replaced, this check says nothing more.
    holds(read.as_ref() == Some(&first) || is_new, expected, "something else was read");
    let listed = place.names(DOING).await?;
    let is_listed = listed.iter().any(|name| name == "a");
    holds(is_listed, "a file that was written is listed at once", "it was not listed");
    if let Kind::Objects(objects) = place.kind() {
        let expected =
            "of several who write a new object of one name at the same time one succeeds at most";
        holds(winners(objects).await? <= 1, expected, "several of them did");
        let expected = "a put tells the tag that the object has (`ETag`)";
        holds(tells_tags(objects).await?, expected, "another tag");
        if let Some(found) = objects.get("a", DOING).await? {
            let old = Some(found.version);
            let swapped = objects.swap("a", old.clone(), &second, DOING).await?;
            holds(swapped, "an object is replaced in the version that was read", "it was refused");
            let third = Bytes::from_static(b"third");
            let swapped = objects.swap("a", old, &third, DOING).await?;
            let expected = "an object is not replaced in a version that is gone (`If-Match`)";
            holds(!swapped, expected, "it was replaced");
            if swapped {
                objects.put("a", second.clone(), DOING).await?;
            }
        }
    } else {
        place.put_file("a", second.clone(), DOING).await?;
    }
    let read = place.get_file("a", None, DOING).await?;
    let expected = "a file that was replaced is read anew at once";
    holds(read == Some(second), expected, "something else was read");
    place.remove_file("a", DOING).await?;
    let listed = place.names(DOING).await?;
    let is_listed = listed.iter().any(|name| name == "a");
    holds(!is_listed, "a file that was removed is not listed any more", "it was listed");
    let clock = written_at.map(|at| ClockOffset::seen(at, CLOCK_STEP, asked, answered));
    Ok(Probed { broken, clock, write, free_of: free_of(root).await? })
}

/// Returns how many of several writers of one new object are told that it is theirs.
async fn winners(objects: &Objects) -> Result<usize> {
    let racers = (0..RACERS).map(|racer| async move {
        objects.swap("b", None, &Bytes::from(racer.to_string()), DOING).await
    });
    Ok(try_join_all(racers).await?.into_iter().filter(|is_mine| *is_mine).count())
}

/// Returns whether the tag that a put tells, if it does, is that of the object.
async fn tells_tags(objects: &Objects) -> Result<bool> {
    let (store, path) = (objects.store(), objects.path("c"));
    let tags = async {
        let put = store.put(&path, "tagged".into()).await?;
        Ok((put.e_tag, store.head(&path).await?.e_tag))
    };
    let (told, found) = tags.await.map_err(|error| Error::of_object(DOING, error))?;
    Ok(told.is_none() || told == found)
}

/// Returns when the storage says that the file was written.
async fn written_at(place: &Storage) -> Result<Option<SystemTime>> {
    match place.kind() {
        Kind::Folder(folder) => {
            let path = folder.join("a");
            on_files(DOING, move || Ok(Some(std::fs::metadata(path)?.modified()?))).await
        }
        Kind::Objects(objects) => {
            let listed = objects.list(DOING).await?.objects;
            Ok(listed.first().map(|object| object.last_modified.into()))
        }
    }
}

async fn free_of(root: &Storage) -> Result<Option<(u64, u64)>> {
    let Some(folder) = root.folder().map(ToOwned::to_owned) else { return Ok(None) };
    on_files(DOING, move || {
        let found = rustix::fs::statvfs(&folder)?;
        Ok(Some((found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clew_testkit::FaultyStore;
    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;

    fn began(ago: Duration) -> String {
        let began = (SystemTime::now() - ago).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        format!("{PREFIX}7-{}-ab", began.as_nanos())
    }

    #[tokio::test]
    async fn a_place_that_keeps_its_promises_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(InMemory::new());
        let objects = Storage::in_store(Arc::clone(&store) as Arc<dyn ObjectStore>, "data");
        for place in [Storage::from(folder.path()), objects] {
            let probed = place.probe().await.unwrap();
            assert_eq!(probed.broken, []);
            assert_eq!(probed.clock.unwrap().seconds(), 0.0);
            assert!(place.names(DOING).await.unwrap().is_empty());
        }
    }

    #[tokio::test]
    async fn a_store_that_ignores_conditions_is_told_from_one_that_does_not_answer() {
        let store = FaultyStore::new(Arc::new(InMemory::new()));
        let place = Storage::in_store(Arc::new(store.clone()), "data");
        store.ignore_conditions();
        let broken = place.probe().await.unwrap().broken;
        let expected: Vec<_> = broken.iter().map(|broken| broken.expected).collect();
        assert_eq!(expected.len(), 3, "{expected:?}");
        assert!(expected[0].contains("If-None-Match") && expected[2].contains("If-Match"));
        assert!(place.names(DOING).await.unwrap().is_empty());

        let store = FaultyStore::new(Arc::new(InMemory::new()));
        store.plan(0, clew_testkit::Fault::Crash);
        let error = Storage::in_store(Arc::new(store), "data").probe().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    }

    #[tokio::test]
    async fn what_a_killed_probe_left_is_removed_later() {
        let store = Arc::new(InMemory::new());
        let old = began(LEFT_BEHIND + Duration::from_secs(60));
        let names = [format!("data/{old}/a"), format!("data/{}/a", began(Duration::ZERO))];
        for name in names.iter().chain([&"data/corpora/notes.json".to_owned()]) {
            store.put(&name.as_str().into(), "x".into()).await.unwrap();
        }
        Storage::in_store(Arc::clone(&store) as _, "data").probe().await.unwrap();
        assert!(store.get(&names[0].as_str().into()).await.is_err());
        assert!(store.get(&names[1].as_str().into()).await.is_ok());
        assert!(!was_left(PREFIX, SystemTime::now()));
    }
}
