//! Commit handler that lets only the newest owner of a table commit to it.
//!
//! A lease cannot stop an owner that was suspended while it held the lease and resumes after
//! another took over. So the tables themselves do. Every commit of a table creates the manifest of
//! the next version with a put that fails if that manifest exists. The [`Fence`] is the commit
//! handler of an owner's table and knows the newest version that is this owner's, the tip. It
//! refuses each commit that would not create exactly the version after the tip. The storage engine
//! by itself would rebase the commit on what others wrote meanwhile. A new owner makes a commit on
//! each table before anything else. From then on the tips of all earlier owners are stale, and no
//! commit of theirs succeeds. So a successful commit builds on nothing but what its owner knows,
//! and the owner's memory equals the tables.
//!
//! An owner that left the tables with no commit on its way, and finds their newest manifests as it
//! left them, need not do that again: what it committed then still fences all earlier owners, and
//! there is no later one.
//!
//! # If the next version existed and was removed
//!
//! Old versions are removed. So an owner that was suspended for long may find that the version
//! after its tip does not exist because it was removed: its put would succeed, and yet no reader
//! would see it. Manifests are removed oldest first ([`crate::table::Stored::remove`]), so if the
//! version after the tip was removed, the tip was removed before it. A commit counts only if the
//! manifest of the tip is still there *after* the put, and is the same object as before.
//!
//! # If the outcome of a put is unknown
//!
//! A put that timed out, or whose caller was dropped, may have happened, or may still happen. The
//! fence remembers what it tried to put and compares it with the stored manifest before the next
//! commit. If the stored manifest is its own, the tip moves to it. Any other manifest means that
//! another owner took over.
//!
//! A put that happens late, after the owner looked whether it had happened, adds rows of which the
//! owner knows nothing. It would write them once more, and the engine would let it: it moves a
//! commit behind versions that it finds. So commits fail until the owner has looked again.
//!
//! # Requirements on the storage
//!
//! All users of the storage must see at once what one of them put or removed. This holds for a
//! local disk, for a network file system whose clients do not cache attributes (`noac` for NFS),
//! and for S3-compatible storage that supports conditional puts (`If-None-Match`) and lists what
//! was put.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use lance_io::object_store::ObjectStore;
use lance_table::format::{IndexMetadata, Manifest, Transaction};
use lance_table::io::commit::{
    CommitError, CommitHandler, ConditionalPutCommitHandler, ManifestLocation,
    ManifestNamingScheme, ManifestWriter, write_version_hint,
};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions};
use tokio::sync::Mutex;

use crate::storage::durable::MANIFESTS;

/// Result in the terms of the storage engine, which calls the fence and passes its errors on.
type Result<T> = std::result::Result<T, lance_core::Error>;

/// ETag that tells an object from a later one of the same name. Not every storage has one, and some
/// leave out its quotation marks in listings; see [`is_same`].
type Tag = Option<String>;

/// Newest version of a table, and what tells its manifest from another of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tip {
    version: u64,
    tag: Tag,
}

/// Maximum number of puts whose outcome is unknown. Beyond it, commits fail until the outcome is
/// known or the table is opened again: each put is kept in memory.
const MAX_UNDECIDED: usize = 16;

/// Commit handler of one table of one owner.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    state: Arc<Mutex<State>>,
    /// Oldest stored version, or 0 while it is not known.
    oldest: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Newest version that is known to be this owner's, or that existed when it opened the table.
    tip: u64,
    /// Version that the owner's memory equals: the tip, or one before it if a put of its own was
    /// found to have happened after all.
    known: u64,
    /// Tag of the tip's manifest.
    tip_tag: Tag,
    /// Puts of the version after the tip whose outcome is unknown.
    undecided: Option<Undecided>,
    is_breached: bool,
}

#[derive(Clone, Debug)]
struct Undecided {
    store: ObjectStore,
    base: Path,
    naming: ManifestNamingScheme,
    manifests: Vec<Bytes>,
}

impl Fence {
    /// Adopts the stored state as this owner's. `manifest` is the newest one.
    pub(crate) async fn adopt(
        &self,
        manifest: &ManifestLocation,
        store: &ObjectStore,
    ) -> Result<()> {
        let mut state = self.state.lock().await;
        let tip_tag = match &manifest.e_tag {
            // Manifests are never replaced, so the tag of the listing is still that of the object.
            Some(listed) if !store.is_local() => Some(listed.clone()),
            _ => store.inner.head(&manifest.path).await?.e_tag,
        };
        let version = manifest.version;
        *state = State { tip: version, known: version, tip_tag, ..State::default() };
        Ok(())
    }

    /// Returns the oldest stored version, or 0 while it is not known. Only removals change it.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Notes the oldest stored version, or 0 if it is not known.
    pub(crate) fn note_oldest(&self, version: u64) {
        self.oldest.store(version, Ordering::Relaxed);
    }

    /// Returns the tip, if the owner's memory equals it and no put is on its way.
    pub(crate) async fn settled(&self) -> Option<Tip> {
        let state = self.state.lock().await;
        let is_settled =
            state.undecided.is_none() && !state.is_breached && state.known == state.tip;
        is_settled.then(|| Tip { version: state.tip, tag: state.tip_tag.clone() })
    }

    /// Returns whether this is the tip.
    pub(crate) async fn is_at(&self, tip: &Tip) -> bool {
        let state = self.state.lock().await;
        state.tip == tip.version && is_same(&state.tip_tag, &tip.tag)
    }

    /// Returns the newest version that is this owner's. `seen` is a version that the storage was
    /// seen to have.
    ///
    /// # Errors
    /// Returns `Fenced` if another owner made `seen`, or a storage error.
    pub(crate) async fn tip(&self, seen: u64) -> Result<u64> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        state.is_breached |= seen > state.tip;
        if state.is_breached { Err(refused(seen, state.tip)) } else { Ok(state.tip) }
    }

    /// Notes that the owner's memory is being made from `version`, so that commits may follow it.
    pub(crate) async fn follows(&self, version: u64) {
        self.state.lock().await.known = version;
    }

    /// Returns whether no other owner had committed when the storage was seen to have the version
    /// `seen`. Waits for a commit that is under way, which may be what was seen, and finds out the
    /// outcome of one that is unknown.
    ///
    /// # Errors
    /// Returns a storage error.
    pub(crate) async fn owns(&self, seen: u64) -> Result<bool> {
        let mut state = self.state.lock().await;
        if seen > state.tip {
            state.settle().await?;
        }
        Ok(seen <= state.tip)
    }

    /// Returns whether a commit of another owner was found. This stays so until the table is opened
    /// again.
    pub(crate) async fn is_breached(&self) -> bool {
        self.state.lock().await.is_breached
    }
}

impl State {
    /// Finds out the outcome of puts for which it is unknown. Returns the manifest that became the
    /// tip by it.
    async fn settle(&mut self) -> Result<Option<Bytes>> {
        let Some(Undecided { store, base, naming, manifests }) = self.undecided.clone() else {
            return Ok(None);
        };
        let found = match store.inner.get(&naming.manifest_path(&base, self.tip + 1)).await {
            // It may appear yet, so the puts stay remembered.
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found?.bytes().await?,
        };
        if manifests.contains(&found) && self.advance(&store, &base, naming, None).await? {
            return Ok(Some(found));
        }
        self.is_breached = true;
        Ok(None)
    }

    /// Moves the tip to the version after it, whose manifest was found to be ours. `put` is the tag
    /// that the storage gave it, if it told. Returns whether readers see that version; see the
    /// module documentation.
    async fn advance(
        &mut self,
        store: &ObjectStore,
        base: &Path,
        naming: ManifestNamingScheme,
        put: Tag,
    ) -> Result<bool> {
        let path = naming.manifest_path(base, self.tip + 1);
        let tag = match put {
            // Nobody removes it before the tip, which is asked for now.
            Some(_) => futures::future::ready(Ok(Some(put))).left_future(),
            None => tag(store, &path).right_future(),
        };
        let (tip_is_there, tag) = futures::try_join!(self.tip_is_there(store, base, naming), tag)?;
        let Some(tip_tag) = tag.filter(|_| tip_is_there) else {
            self.is_breached = true;
            return Ok(false);
        };
        self.tip += 1;
        self.tip_tag = tip_tag;
        self.undecided = None;
        Ok(true)
    }

    /// Returns whether the manifest of the tip was not removed, so that no version after it was.
    async fn tip_is_there(
        &self,
        store: &ObjectStore,
        base: &Path,
        naming: ManifestNamingScheme,
    ) -> Result<bool> {
        if self.tip == 0 {
            // Nothing precedes the first version, so it must be the newest.
            let newest = ConditionalPutCommitHandler.resolve_latest_location(base, store).await?;
            return Ok(newest.version == 1);
        }
        let found = tag(store, &naming.manifest_path(base, self.tip)).await?;
        Ok(found.is_some_and(|tag| is_same(&tag, &self.tip_tag)))
    }

    fn check(&mut self, version: u64) -> Result<()> {
        self.is_breached |= version > self.tip + 1;
        if self.is_breached {
            return Err(refused(version, self.tip));
        }
        if version <= self.tip || self.known < self.tip {
            return Err(late(self.tip));
        }
        let is_full = |undecided: &Undecided| undecided.manifests.len() >= MAX_UNDECIDED;
        if self.undecided.as_ref().is_some_and(is_full) {
            return Err(lance_core::Error::io(format!(
                "it is not known whether any of {MAX_UNDECIDED} commits of version {version} \
                 happened; waiting for the storage to answer",
            )));
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl CommitHandler for Fence {
    // Both are the defaults, and the fence rests on them. A put that was not seen may be seen
    // later, so the files that its manifest names must stay. And an error of the fence stands even
    // if the manifest is found in place, because it may be a manifest that nobody will ever read.
    fn is_version_not_found_definitive(&self) -> bool {
        false
    }

    fn propagate_commit_error_after_success(&self) -> bool {
        true
    }

    // The engine's own stops at the newest version. All are needed to know how many there are, and
    // a request lists a thousand.
    async fn resolve_latest_location(
        &self,
        base: &Path,
        store: &ObjectStore,
    ) -> Result<ManifestLocation> {
        if store.is_local() {
            return ConditionalPutCommitHandler.resolve_latest_location(base, store).await;
        }
        let (mut oldest, mut newest) = (u64::MAX, None::<ManifestLocation>);
        let mut listed = store.inner.list(Some(&base.clone().join(MANIFESTS)));
        while let Some(file) = listed.try_next().await? {
            let Some(found) = location_of(file) else { continue };
            oldest = oldest.min(found.version);
            if newest.as_ref().is_none_or(|newest| newest.version < found.version) {
                newest = Some(found);
            }
        }
        let not_found = || lance_core::Error::not_found(base.to_string());
        let newest = newest.ok_or_else(not_found)?;
        self.note_oldest(oldest);
        Ok(newest)
    }

    // Asked before each commit. If the tip is the version that the commit builds on, only another
    // owner can have made later ones, and then the put of the next version is refused.
    fn list_manifest_locations_since<'a>(
        &self,
        base: &Path,
        store: &'a ObjectStore,
        since: u64,
    ) -> BoxStream<'a, Result<ManifestLocation>> {
        let (state, base) = (Arc::clone(&self.state), base.clone());
        let listed = async move {
            let state = state.lock().await;
            if state.tip == since && state.undecided.is_none() {
                return futures::stream::empty().boxed();
            }
            ConditionalPutCommitHandler.list_manifest_locations_since(&base, store, since)
        };
        listed.flatten_stream().boxed()
    }

    async fn commit(
        &self,
        manifest: &mut Manifest,
        indices: Option<Vec<IndexMetadata>>,
        base: &Path,
        store: &ObjectStore,
        write: ManifestWriter,
        naming: ManifestNamingScheme,
        transaction: Option<Transaction>,
    ) -> std::result::Result<ManifestLocation, CommitError> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        let version = manifest.version;
        state.check(version)?;
        let bytes = in_memory(manifest, indices, write, transaction).await?;
        let path = naming.manifest_path(base, version);
        // From here on the future may be dropped at any await, and the put may go on without it.
        let undecided = state.undecided.get_or_insert_with(|| Undecided {
            store: store.clone(),
            base: base.clone(),
            naming,
            manifests: Vec::new(),
        });
        undecided.manifests.push(bytes.clone());
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let ours = match store.inner.put_opts(&path, bytes.clone().into(), options).await {
            Ok(put) => state.advance(store, base, naming, put.e_tag).await?.then(|| bytes.clone()),
            // Even "already exists" may be about our own put, if it was repeated after its first
            // answer was lost.
            Err(error) => match state.settle().await? {
                None if !state.is_breached => return Err(CommitError::OtherError(error.into())),
                settled => settled,
            },
        };
        match ours {
            Some(found) if found == bytes => state.known = version,
            Some(_) => return Err(late(version).into()),
            None => return Err(refused(version, state.tip).into()),
        }
        write_version_hint(store, base, version).await;
        Ok(ManifestLocation {
            version,
            path,
            size: Some(bytes.len() as u64),
            naming_scheme: naming,
            e_tag: state.tip_tag.clone(),
            identity: None,
        })
    }
}

/// Returns which version an object of the folder of manifests is, if it is one.
fn location_of(file: ObjectMeta) -> Option<ManifestLocation> {
    let name = file.location.filename()?;
    let naming_scheme = ManifestNamingScheme::detect_scheme(name)?;
    Some(ManifestLocation {
        version: naming_scheme.parse_version(name)?,
        path: file.location,
        size: Some(file.size),
        naming_scheme,
        e_tag: file.e_tag,
        identity: None,
    })
}

/// Returns whether two tags are of the same object.
fn is_same(one: &Tag, other: &Tag) -> bool {
    let bare = |tag: &Tag| tag.as_deref().map(|tag| tag.trim_matches('"').to_owned());
    bare(one) == bare(other)
}

/// Returns the tag of an object, or `None` if the object does not exist.
async fn tag(store: &ObjectStore, path: &Path) -> Result<Option<Tag>> {
    match store.inner.head(path).await {
        Ok(found) => Ok(Some(found.e_tag)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the bytes of a manifest.
async fn in_memory(
    manifest: &mut Manifest,
    indices: Option<Vec<IndexMetadata>>,
    write: ManifestWriter,
    transaction: Option<Transaction>,
) -> Result<Bytes> {
    let memory = ObjectStore::memory();
    let path = Path::from("manifest");
    write(&memory, manifest, indices, &path, transaction).await?;
    memory.read_one_all(&path).await
}

fn refused(version: u64, tip: u64) -> lance_core::Error {
    lance_core::Error::fenced_by_peer(format!(
        "version {version}: another owner wrote after version {tip}, the newest of this owner",
    ))
}

fn late(version: u64) -> lance_core::Error {
    lance_core::Error::io(format!(
        "an earlier commit of version {version}, of which it was not known whether it happened, did",
    ))
}
