//! Part of an object store: all objects whose names begin with a prefix.
//!
//! Objects are put as a whole and never changed in place, and all clients see at once what was put,
//! replaced or removed. A shard needs no more than that: nothing has to be synced, and no commit
//! can be torn.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use lance_io::object_store::{
    DEFAULT_CLOUD_IO_PARALLELISM, DEFAULT_DOWNLOAD_RETRY_COUNT, ObjectStoreParams,
    ObjectStoreProvider, ObjectStoreRegistry,
};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    UpdateVersion,
};

use crate::error::{Error, Result};
use crate::storage::copies::Copies;
use crate::storage::session::{IndexMemory, session};

/// Scheme of the addresses by which the storage engine finds the store. Never shown.
const SCHEME: &str = "s3";

/// Number of objects that are read at once.
pub(crate) const PARALLEL: usize = 16;

/// All objects whose names begin with a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    /// All requests go through the copies, so that removed objects leave memory too.
    store: Copies,
    bucket: Arc<str>,
    prefix: Path,
}

/// Object as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub bytes: Bytes,
    pub version: UpdateVersion,
}

/// Direct entries below a prefix.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub objects: Vec<ObjectMeta>,
    /// Last parts of the common prefixes of other objects.
    pub prefixes: BTreeSet<String>,
}

impl Objects {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, bucket: &str, prefix: Path) -> Self {
        Self { store: Copies::of(store), bucket: bucket.into(), prefix }
    }

    pub(crate) fn join(&self, name: &str) -> Self {
        Self { prefix: self.path(name), ..self.clone() }
    }

    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        self.store.below()
    }

    /// Returns the prefix of the names of all its objects.
    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the path of an object at any depth. `/` separates the parts of its name.
    pub(crate) fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Opens it with the storage engine, which caches indexes in `memory`.
    pub(crate) async fn connect(
        &self,
        memory: &IndexMemory,
        doing: &'static str,
    ) -> Result<lancedb::Connection> {
        let stores = ObjectStoreRegistry::default();
        stores.insert(SCHEME, Arc::new(Given(self.store.clone())));
        let address = format!("{SCHEME}://{}/{}", self.bucket, self.prefix);
        lancedb::connect(&address)
            .session(session(stores, memory))
            .execute()
            .await
            .map_err(|error| Error::Unavailable { doing: doing.to_owned(), source: error.into() })
    }

    /// Lists the direct entries below the prefix.
    pub(crate) async fn list(&self, doing: &'static str) -> Result<Listing> {
        let found = self.store.list_with_delimiter(Some(&self.prefix)).await;
        let found = found.map_err(|error| Error::of_object(doing, error))?;
        let last = |path: Path| path.filename().map(ToOwned::to_owned);
        Ok(Listing {
            objects: found.objects,
            prefixes: found.common_prefixes.into_iter().filter_map(last).collect(),
        })
    }

    /// Returns the last parts of the names right below the prefix.
    pub(crate) async fn names(&self, doing: &'static str) -> Result<Vec<String>> {
        let Listing { objects, prefixes } = self.list(doing).await?;
        let objects = objects.into_iter().filter_map(|o| Some(o.location.filename()?.to_owned()));
        Ok(objects.chain(prefixes).collect())
    }

    /// Returns the object of this name, or `None` if it does not exist.
    pub(crate) async fn get(&self, name: &str, doing: &'static str) -> Result<Option<Object>> {
        let read = async {
            let found = self.store.get(&self.path(name)).await?;
            let version = UpdateVersion {
                e_tag: found.meta.e_tag.clone(),
                version: found.meta.version.clone(),
            };
            Ok(Object { bytes: found.bytes().await?, version })
        };
        match read.await {
            Ok(object) => Ok(Some(object)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Error::of_object(doing, error)),
        }
    }

    /// Returns the bytes of an object, or only those before `end`. Returns `None` if it does not
    /// exist.
    pub(crate) async fn get_until(
        &self,
        name: &str,
        end: Option<u64>,
        doing: &'static str,
    ) -> Result<Option<Bytes>> {
        let range = end.map(|end| GetRange::Bounded(0..end));
        let options = GetOptions { range, ..GetOptions::default() };
        let read = async { self.store.get_opts(&self.path(name), options).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Error::of_object(doing, error)),
        }
    }

    /// Puts an object. Replaces an existing one.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes, doing: &'static str) -> Result<()> {
        let put = self.store.put(&self.path(name), bytes.into()).await;
        put.map(drop).map_err(|error| Error::of_object(doing, error))
    }

    /// Puts `bytes`, which nobody else ever puts there, in place of the version `of`, or of
    /// nothing. Returns whether it did, and `false` if another object is stored there.
    pub(crate) async fn swap(
        &self,
        name: &str,
        of: Option<UpdateVersion>,
        bytes: &Bytes,
        doing: &'static str,
    ) -> Result<bool> {
        let mode = of.map_or(PutMode::Create, PutMode::Update);
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.store.put_opts(&self.path(name), bytes.clone().into(), options).await;
        let Err(error) = put else { return Ok(true) };
        let is_refusal = matches!(
            error,
            object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. }
                | object_store::Error::NotFound { .. }
        );
        // A put whose answer was lost is repeated, and then refused because of itself.
        match self.get(name, doing).await? {
            Some(found) if found.bytes == *bytes => Ok(true),
            Some(_) | None if is_refusal => Ok(false),
            Some(_) | None => Err(Error::of_object(doing, error)),
        }
    }

    /// Removes objects, some of which may be gone already.
    pub(crate) async fn remove_paths(&self, paths: Vec<Path>, doing: &'static str) -> Result<()> {
        let paths = futures::stream::iter(paths).map(Ok).boxed();
        removed(self.store.delete_stream(paths)).await.map_err(|it| Error::of_object(doing, it))
    }

    /// Removes all objects.
    pub(crate) async fn remove_all(&self, doing: &'static str) -> Result<()> {
        let paths = self.store.list(Some(&self.prefix)).map_ok(|object| object.location).boxed();
        removed(self.store.delete_stream(paths)).await.map_err(|it| Error::of_object(doing, it))
    }
}

/// Waits until objects are removed. Those that do not exist count as removed.
async fn removed(
    mut removing: BoxStream<'static, object_store::Result<Path>>,
) -> object_store::Result<()> {
    while let Some(removed) = removing.next().await {
        match removed {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives the storage engine an existing store.
#[derive(Debug)]
struct Given(Copies);

#[async_trait::async_trait]
impl ObjectStoreProvider for Given {
    async fn new_store(
        &self,
        address: url::Url,
        params: &ObjectStoreParams,
    ) -> lance_core::Result<lance_io::object_store::ObjectStore> {
        let (uploads_equal_parts, lists_in_order) = (false, true);
        Ok(lance_io::object_store::ObjectStore::new(
            Arc::new(self.0.clone()),
            address,
            params.resolved_block_size()?,
            None,
            uploads_equal_parts,
            lists_in_order,
            DEFAULT_CLOUD_IO_PARALLELISM,
            DEFAULT_DOWNLOAD_RETRY_COUNT,
            params.storage_options(),
        ))
    }
}
