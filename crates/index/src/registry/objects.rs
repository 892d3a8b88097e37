//! Registry of corpora in an object store.
//!
//! Each name has one object, its register. A register is replaced only in the version that was read
//! before. So if several processes create, retire or delete a corpus at the same time, one
//! succeeds. A register is never removed, because a put can depend on the stored version and a
//! removal cannot.
//!
//! The shards of a corpus lie below a prefix of its name and its creation time, which is later for
//! each new corpus of that name. So a process that still removes the objects of a deleted corpus,
//! however late, does not touch those of a later one. Each process that serves removes, in the
//! background, what such a process left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use clew_core::{CorpusName, CorpusSettings};
use futures::StreamExt;
use object_store::{ObjectMeta, UpdateVersion};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::registry::format::{CORPORA, Listed, damaged, from_json, to_json};
use crate::storage::Storage;
use crate::storage::objects::{Objects, PARALLEL};
use crate::storage::unique::unique;

/// Suffix of the name of a register.
const REGISTER: &str = ".json";

const READING: &str = "read the corpus' settings";
const LISTING: &str = "list the corpora";
const REMOVING: &str = "remove what deleted corpora left";

/// Registry in an object store; see [`super::Registry`] for its functions.
#[derive(Clone, Debug)]
pub(super) struct ObjectRegistry {
    corpora: Objects,
    /// Registers that were read, by name, with the ETag of the object.
    known: Arc<Mutex<HashMap<CorpusName, (String, Register)>>>,
}

/// Content of a register.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Register {
    state: State,
    settings: CorpusSettings,
    /// Digest of the snapshot that the corpus is or was restored from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restored_from: Option<String>,
    /// Unique text, by which a writer can tell that its own write succeeded.
    written_by: String,
}

/// Register in a listing.
struct ListedRegister {
    name: CorpusName,
    register: Result<Register>,
    /// Time since it was written.
    age: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The corpus is being copied and does not exist yet.
    Restoring,
    /// The corpus exists.
    Live,
    /// The corpus is to be deleted; its owners close its shards.
    Retired,
    /// Its objects are being removed or are gone.
    Deleted,
}

impl Register {
    fn new(state: State, settings: &CorpusSettings) -> Self {
        let settings = settings.clone();
        Self { state, settings, restored_from: None, written_by: unique() }
    }

    fn restored_from(self, digest: &str) -> Self {
        Self { restored_from: Some(digest.to_owned()), ..self }
    }

    fn is_restored_from(&self, digest: &str) -> bool {
        let is_it = self.restored_from.as_deref() == Some(digest);
        is_it && matches!(self.state, State::Restoring | State::Live)
    }
}

impl ObjectRegistry {
    pub fn new(place: &Objects) -> Self {
        Self { corpora: place.join(CORPORA), known: Arc::default() }
    }

    /// Removes what deleted corpora left, with two requests for each name that has objects.
    pub async fn remove_leftovers(&self) -> Result<()> {
        let names = self.corpora.list(REMOVING).await?.prefixes;
        // Prefixes that are no corpus name are not ours.
        for name in names.iter().filter_map(|name| name.parse().ok()) {
            self.remove_leftovers_of(&name).await?;
        }
        Ok(())
    }

    async fn remove_leftovers_of(&self, name: &CorpusName) -> Result<()> {
        let corpora = self.corpora.join(name.as_str());
        let found = corpora.list(REMOVING).await?.prefixes;
        // Read after the listing, so that a corpus which is created meanwhile is not in `found`.
        let register = match self.read(name).await {
            Ok(Some((register, _))) => register,
            // Without a register, nothing tells which objects are in use. They stay for a person to
            // look at.
            Ok(None) | Err(Error::Corrupt { .. } | Error::NewerFormat { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let kept = (register.state != State::Deleted).then(|| incarnation(&register.settings));
        for left in found.into_iter().filter(|found| Some(found) != kept.as_ref()) {
            corpora.join(&left).remove_all(REMOVING).await?;
        }
        Ok(())
    }

    /// Returns whether this call created it.
    pub async fn create(&self, settings: &CorpusSettings) -> Result<bool> {
        const DOING: &str = "make the corpus";
        let of = match self.read(&settings.name).await? {
            None => None,
            // An unfinished restore gives way: its completion is refused later.
            Some((found, version)) if matches!(found.state, State::Deleted | State::Restoring) => {
                check_later(settings, &found.settings, DOING)?;
                Some(version)
            }
            Some(_) => return Ok(false),
        };
        self.write(Register::new(State::Live, settings), of, DOING).await
    }

    pub async fn begin_restore(
        &self,
        settings: &CorpusSettings,
        digest: &str,
    ) -> Result<Option<(CorpusSettings, Storage)>> {
        const DOING: &str = "begin to restore the corpus";
        let of = match self.read(&settings.name).await? {
            None => None,
            Some((found, _)) if found.is_restored_from(digest) => {
                let place = self.corpus_place(&found.settings);
                return Ok((found.state == State::Restoring).then_some((found.settings, place)));
            }
            Some((found, version)) if matches!(found.state, State::Deleted | State::Restoring) => {
                check_later(settings, &found.settings, DOING)?;
                Some(version)
            }
            Some(_) => return Ok(None),
        };
        let register = Register::new(State::Restoring, settings).restored_from(digest);
        if !self.write(register, of, DOING).await? {
            let source = "another process makes or restores it at the same time".into();
            return Err(Error::Unavailable { doing: DOING.to_owned(), source });
        }
        Ok(Some((settings.clone(), self.corpus_place(settings))))
    }

    /// Returns whether the corpus exists now.
    pub async fn finish_restore(&self, settings: &CorpusSettings, digest: &str) -> Result<bool> {
        const DOING: &str = "end the restoring of the corpus";
        let Some((found, version)) = self.read(&settings.name).await? else { return Ok(false) };
        if found.settings.created_at != settings.created_at || !found.is_restored_from(digest) {
            return Ok(false);
        }
        match found.state {
            State::Live => Ok(true),
            State::Restoring => {
                let register = Register::new(State::Live, &found.settings).restored_from(digest);
                self.write(register, Some(version), DOING).await
            }
            State::Retired | State::Deleted => Ok(false),
        }
    }

    pub async fn get(&self, name: &CorpusName) -> Result<Option<CorpusSettings>> {
        let found = self.read(name).await?.filter(|(found, _)| found.state == State::Live);
        Ok(found.map(|(found, _)| found.settings))
    }

    /// Returns the settings after this call: `to`, if they were `from`.
    pub async fn change(
        &self,
        from: &CorpusSettings,
        to: &CorpusSettings,
    ) -> Result<Option<CorpusSettings>> {
        let read = self.read(&from.name).await?;
        let Some((found, version)) = read.filter(|(found, _)| found.state == State::Live) else {
            return Ok(None);
        };
        if found.settings != *from {
            return Ok(Some(found.settings));
        }
        let register = Register { settings: to.clone(), written_by: unique(), ..found };
        match self.write(register, Some(version), "change the corpus' settings").await? {
            true => Ok(Some(to.clone())),
            false => self.get(&from.name).await,
        }
    }

    pub async fn list_all(&self) -> Result<Listed> {
        let mut listed = Listed { corpora: Vec::new(), retired: Vec::new() };
        for ListedRegister { name, register, age } in self.registers().await? {
            match register {
                Ok(Register { state: State::Live, settings, .. }) => {
                    listed.corpora.push((name, Ok(settings)));
                }
                Ok(Register { state: State::Retired, settings, .. }) => {
                    listed.retired.push((settings, age));
                }
                Ok(Register { state: State::Restoring | State::Deleted, .. }) => {}
                // Unreadable settings do not tell which shards exist. Such a corpus stays for a
                // person to look at.
                Err(error) => listed.corpora.push((name, Err(error))),
            }
        }
        Ok(listed)
    }

    /// Returns whether the corpus existed.
    pub async fn retire(&self, name: &CorpusName) -> Result<bool> {
        match self.read(name).await? {
            Some((found, version)) if found.state == State::Live => {
                let register = Register::new(State::Retired, &found.settings);
                self.write(register, Some(version), "retire the corpus").await
            }
            _ => Ok(false),
        }
    }

    pub async fn is_retired(&self, name: &CorpusName) -> Result<bool> {
        Ok(self.read(name).await?.is_some_and(|(found, _)| found.state == State::Retired))
    }

    /// Returns whether the corpus existed.
    pub async fn delete(&self, name: &CorpusName) -> Result<bool> {
        const DOING: &str = "delete the corpus";
        let Some((found, version)) = self.read(name).await? else { return Ok(false) };
        let register = Register::new(State::Deleted, &found.settings);
        if found.state == State::Deleted || !self.write(register, Some(version), DOING).await? {
            return Ok(false);
        }
        self.corpora
            .join(name.as_str())
            .join(&incarnation(&found.settings))
            .remove_all(DOING)
            .await?;
        Ok(true)
    }

    pub fn corpus_place(&self, corpus: &CorpusSettings) -> Storage {
        Storage::from(self.corpora.join(corpus.name.as_str()).join(&incarnation(corpus)))
    }

    async fn read(&self, name: &CorpusName) -> Result<Option<(Register, UpdateVersion)>> {
        let Some(found) = self.corpora.get(&object_of(name), READING).await? else {
            return Ok(None);
        };
        let register = from_json(&found.bytes).map_err(|error| damaged(name, error))?;
        Ok(Some((register, found.version)))
    }

    /// Writes a register in place of the version `of`, or of nothing. Returns `false` if something
    /// else was stored.
    async fn write(
        &self,
        register: Register,
        of: Option<UpdateVersion>,
        doing: &'static str,
    ) -> Result<bool> {
        let bytes = to_json(&register, &register.settings)
            .map_err(|error| Error::of_file(doing, error.into()))?;
        let name = object_of(&register.settings.name);
        self.corpora.swap(&name, of, &Bytes::from(bytes), doing).await
    }

    /// Returns all registers, by name. One listing tells which of them have to be read.
    async fn registers(&self) -> Result<Vec<ListedRegister>> {
        let listed = self.corpora.list(LISTING).await?.objects;
        let named = listed.into_iter().filter_map(|object| Some((name_of(&object)?, object)));
        let read = |(name, object): (CorpusName, ObjectMeta)| async move {
            let written = SystemTime::from(object.last_modified);
            // If the clock was set back, the register counts as new.
            let age = written.elapsed().unwrap_or_default();
            if let (Some(tag), Some((known_tag, register))) =
                (&object.e_tag, self.known().get(&name))
                && tag == known_tag
            {
                return ListedRegister { name, register: Ok(register.clone()), age };
            }
            let register = match self.read(&name).await {
                Ok(Some((register, version))) => {
                    if let Some(tag) = version.e_tag {
                        self.known().insert(name.clone(), (tag, register.clone()));
                    }
                    Ok(register)
                }
                Ok(None) => Err(damaged(&name, "it was removed".into())),
                Err(error) => Err(error),
            };
            ListedRegister { name, register, age }
        };
        let mut registers: Vec<ListedRegister> =
            futures::stream::iter(named).map(read).buffer_unordered(PARALLEL).collect().await;
        registers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(registers)
    }

    // No code that can panic runs under the lock, so a poisoned lock holds a valid map.
    fn known(&self) -> MutexGuard<'_, HashMap<CorpusName, (String, Register)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that the prefix of a corpus differs from that of every earlier corpus of its name.
fn check_later(
    settings: &CorpusSettings,
    earlier: &CorpusSettings,
    doing: &'static str,
) -> Result<()> {
    if settings.created_at > earlier.created_at {
        return Ok(());
    }
    let reason = "the clock says that it is before an earlier corpus of that name was made; set the \
                  clock, or take another name";
    Err(Error::Unavailable { doing: doing.to_owned(), source: reason.into() })
}

fn object_of(name: &CorpusName) -> String {
    format!("{name}{REGISTER}")
}

fn name_of(object: &ObjectMeta) -> Option<CorpusName> {
    object.location.filename()?.strip_suffix(REGISTER)?.parse().ok()
}

/// Returns what distinguishes a corpus from others of its name.
fn incarnation(corpus: &CorpusSettings) -> String {
    corpus.created_at.as_micros().to_string()
}

#[cfg(test)]
mod tests {
    use clew_core::{ChatSettings, ShardIndex};
    use futures::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;
    use crate::registry::Registry;
    use crate::registry::fixture::{listed, next, refuses_what_is_not_there, settings};

    async fn registry(store: &Arc<InMemory>) -> Registry {
        let store = Arc::clone(store) as Arc<dyn ObjectStore>;
        Registry::open_place(&Storage::in_store(store, "data")).await.unwrap()
    }

    async fn objects(store: &InMemory) -> Vec<String> {
        store.list(None).map_ok(|o| o.location.to_string()).try_collect().await.unwrap()
    }

    #[tokio::test]
    async fn a_corpus_is_made_retired_deleted_and_made_anew_once_each() {
        let store = Arc::new(InMemory::new());
        let (a, b) = (registry(&store).await, registry(&store).await);
        let name: CorpusName = "notes".parse().unwrap();
        assert!(matches!(a.get(&name).await, Err(Error::CorpusNotFound(_))));
        a.create(&settings("notes", 1)).await.unwrap();
        b.create(&settings("a", 1)).await.unwrap();
        assert!(matches!(b.create(&settings("notes", 2)).await, Err(Error::CorpusExists(_))));
        assert_eq!(listed(&b).await, [settings("a", 1), settings("notes", 1)]);
        b.retire(&name).await.unwrap();
        assert!(matches!(a.retire(&name).await, Err(Error::CorpusNotFound(_))));
        assert!(matches!(a.get(&name).await, Err(Error::CorpusNotFound(_))));
        assert!(matches!(a.create(&settings("notes", 2)).await, Err(Error::CorpusExists(_))));
        assert_eq!(listed(&a).await, [settings("a", 1)]);
        assert_eq!(a.list_all().await.unwrap().retired[0].0, settings("notes", 1));
        a.delete(&name).await.unwrap();
        assert!(matches!(b.delete(&name).await, Err(Error::CorpusNotFound(_))));
        assert!(b.list_all().await.unwrap().retired.is_empty());
        // The objects of the old corpus may still be under removal and must not be mixed up with
        // new ones.
        let error = b.create(&settings("notes", 1)).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        b.create(&settings("notes", 2)).await.unwrap();
        assert_eq!(a.get(&name).await.unwrap(), settings("notes", 2));
        assert_eq!(listed(&a).await.len(), 2);
    }

    #[tokio::test]
    async fn what_an_interrupted_deletion_left_is_removed_and_nothing_else() {
        let store = Arc::new(InMemory::new());
        let corpora = registry(&store).await;
        let put = async |corpus: &CorpusSettings| {
            let place = corpora.shard_place(corpus, ShardIndex(0));
            place.put_mark("something", "test").await.unwrap();
        };
        for name in ["gone", "retired", "kept"] {
            corpora.create(&settings(name, 1)).await.unwrap();
            put(&settings(name, 1)).await;
        }
        corpora.retire(&"retired".parse().unwrap()).await.unwrap();
        corpora.delete(&"gone".parse().unwrap()).await.unwrap();
        assert_eq!(objects(&store).await.iter().filter(|o| o.contains("something")).count(), 2);
        // An owner that had not closed its shard wrote this.
        put(&settings("gone", 1)).await;
        corpora.delete(&"kept".parse().unwrap()).await.unwrap();
        corpora.create(&settings("kept", 2)).await.unwrap();
        put(&settings("kept", 1)).await;
        put(&settings("kept", 2)).await;
        store.put(&"data/corpora/stray/1/x".into(), Bytes::new().into()).await.unwrap();
        registry(&store).await.remove_leftovers().await.unwrap();
        let left = objects(&store).await.into_iter().filter(|name| !name.ends_with(".json"));
        let expected = [
            "data/corpora/kept/2/shard-0/something",
            "data/corpora/retired/1/shard-0/something",
            "data/corpora/stray/1/x",
        ];
        assert_eq!(left.collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn of_those_who_restore_or_make_a_corpus_one_succeeds() {
        let store = Arc::new(InMemory::new());
        let corpora = registry(&store).await;
        let begin = async |created_at, digest| {
            corpora.begin_restore(&settings("a", created_at), digest).await.unwrap()
        };
        let finish = async |created_at, digest| {
            corpora.finish_restore(&settings("a", created_at), digest).await.unwrap()
        };
        // A restore continues as it was begun, until another snapshot takes its place.
        assert_eq!(begin(1, "x").await.unwrap().0, settings("a", 1));
        assert_eq!(begin(2, "x").await.unwrap().0, settings("a", 1));
        assert_eq!(begin(3, "y").await.unwrap().0, settings("a", 3));
        assert!(!finish(1, "x").await);
        assert!(corpora.list_all().await.unwrap().corpora.is_empty());
        // Opening the registry does not touch a corpus that is being restored.
        let place = corpora.shard_place(&settings("a", 3), ShardIndex(0));
        place.put_mark("something", "test").await.unwrap();
        registry(&store).await;
        assert!(objects(&store).await.contains(&"data/corpora/a/3/shard-0/something".to_owned()));
        corpora.create(&settings("a", 4)).await.unwrap();
        assert!(!finish(3, "y").await);
        assert!(begin(5, "y").await.is_none());
        corpora.delete(&"a".parse().unwrap()).await.unwrap();
        begin(6, "x").await.unwrap();
        assert!(finish(6, "x").await && finish(6, "x").await);
        assert_eq!(listed(&corpora).await, [settings("a", 6)]);
    }

    #[tokio::test]
    async fn of_several_who_change_a_corpus_one_succeeds_and_it_stays_what_it_was_restored_from() {
        let store = Arc::new(InMemory::new());
        let corpora = registry(&store).await;
        let mut before = settings("a", 1);
        corpora.begin_restore(&before, "x").await.unwrap();
        assert!(matches!(
            corpora.change(&before, &next(&before, "b")).await,
            Err(Error::CorpusNotFound(_))
        ));
        assert!(corpora.finish_restore(&before, "x").await.unwrap());
        for _ in 0..10 {
            let registries = [registry(&store).await, registry(&store).await];
            let change = async |corpora: &Registry, model| {
                let to = next(&before, model);
                corpora.change(&before, &to).await.ok().map(|()| to)
            };
            let changed = futures::join!(change(&registries[0], "b"), change(&registries[1], "c"));
            let changed: Vec<_> = [changed.0, changed.1].into_iter().flatten().collect();
            let [after] = changed.try_into().unwrap();
            assert_eq!(corpora.get(&"a".parse().unwrap()).await.unwrap(), after);
            before = after;
        }
        // The answer that reported the end of the restore was lost, so the caller asks again.
        assert!(corpora.finish_restore(&settings("a", 1), "x").await.unwrap());
        assert_eq!(listed(&corpora).await, [before]);
        refuses_what_is_not_there(&registry(&Arc::new(InMemory::new())).await).await;
    }

    #[tokio::test]
    async fn what_older_releases_would_misread_has_another_format_than_what_they_wrote() {
        let store = Arc::new(InMemory::new());
        let corpora = registry(&store).await;
        let before = settings("a", 1);
        corpora.create(&before).await.unwrap();
        let written = async || {
            let path = object_store::path::Path::from("data/corpora/a.json");
            let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["format"].clone()
        };
        assert_eq!(written().await, 1);
        corpora.change(&before, &next(&before, "b")).await.unwrap();
        assert_eq!(written().await, 2);
        let chats = CorpusSettings { chat: Some(ChatSettings::default()), ..settings("a", 2) };
        corpora.delete(&before.name).await.unwrap();
        corpora.create(&chats).await.unwrap();
        assert_eq!(written().await, 3);
        assert_eq!(listed(&corpora).await, [chats]);
    }

    #[tokio::test]
    async fn what_a_newer_release_wrote_is_refused_and_what_the_first_wrote_is_read() {
        let store = Arc::new(InMemory::new());
        let corpora = registry(&store).await;
        corpora.create(&settings("a", 1)).await.unwrap();
        let path = object_store::path::Path::from("data/corpora/a.json");
        let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
        let written = String::from_utf8(bytes.to_vec()).unwrap();
        let newer = written.replace("\"format\": 1", "\"format\": 4").replace("live", "new state");
        store.put(&path, newer.into()).await.unwrap();
        let error = corpora.get(&"a".parse().unwrap()).await;
        assert!(matches!(error, Err(Error::NewerFormat { found: 4, .. })), "{error:?}");
        let first = written.replace("\"format\": 1", "\"other\": 1");
        assert_ne!(first, written);
        store.put(&path, first.into()).await.unwrap();
        assert_eq!(listed(&corpora).await, [settings("a", 1)]);
    }

    #[tokio::test]
    async fn a_register_that_cannot_be_read_stops_its_corpus_alone_until_it_can_be() {
        let store = Arc::new(InMemory::new());
        let corpora = registry(&store).await;
        for name in ["a", "b", "c"] {
            corpora.create(&settings(name, 1)).await.unwrap();
        }
        corpora.retire(&"c".parse().unwrap()).await.unwrap();
        let place = corpora.shard_place(&settings("b", 1), ShardIndex(0));
        place.put_mark("something", "test").await.unwrap();
        let path = object_store::path::Path::from("data/corpora/b.json");
        let written = store.get(&path).await.unwrap().bytes().await.unwrap();
        let newer = String::from_utf8(written.to_vec()).unwrap();
        let newer = newer.replace("\"format\": 1", "\"format\": 99");
        for (bad, reason) in [("{", "DATA_LOSS"), (newer.as_str(), "NEWER_FORMAT")] {
            store.put(&path, Bytes::copy_from_slice(bad.as_bytes()).into()).await.unwrap();
            // A registry that is opened now also serves the other corpora.
            for corpora in [&corpora, &registry(&store).await] {
                let mut found = corpora.list_all().await.unwrap().corpora;
                let (name, unreadable) = found.remove(1);
                assert_eq!(name.as_str(), "b");
                let error: clew_core::Error = unreadable.unwrap_err().into();
                assert_eq!(error.reason(), reason);
                assert_eq!(found[0].1.as_ref().unwrap(), &settings("a", 1));
                let error: clew_core::Error = corpora.get(&name).await.unwrap_err().into();
                assert_eq!(error.reason(), reason);
                assert_eq!(corpora.list_all().await.unwrap().retired.len(), 1);
            }
        }
        store.put(&path, written.into()).await.unwrap();
        assert_eq!(listed(&corpora).await, [settings("a", 1), settings("b", 1)]);
        assert!(objects(&store).await.contains(&"data/corpora/b/1/shard-0/something".to_owned()));
    }
}
