//! Copies of small table files of an object store, and of parts of large ones, kept in memory.
//!
//! A search reads a few bytes of each of many small files. A request to an object store takes tens
//! of milliseconds and costs money. The storage engine never changes a data file, a deletion file
//! or an index file, and never reuses its name. So a copy stays valid until the file is removed. It
//! is then removed too, so that forgotten text does not stay in memory. A small file is kept when
//! it is put, because what was committed is read next. A large index is read and kept in blocks: a
//! search reads the entry of each of its words, and the entries of many words lie in one block.
//! Manifests are always read from the store: they tell who owns a table.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetRange, GetResult, GetResultPayload,
    ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Folders of a table whose files never change, besides those of indexes.
const UNCHANGING: [&str; 2] = ["data", "_deletions"];

/// Suffix of the name of a table's folder.
const TABLE: &str = ".lance";

/// Folder of a table with one folder for each index.
const INDEXES: &str = "_indices";

/// Maximum bytes of a file that is kept as a whole, and of a block of a large index.
const BLOCK: u64 = 256 * 1024;

/// Maximum bytes of all copies of a data directory.
const MAX_BYTES: u64 = 128 * 1024 * 1024;

/// Bytes that an entry costs besides its content, for its name and its place.
const ENTRY: u64 = 256;

/// Number of copies expected to fit; a hint for the cache's own tables.
const EXPECTED: usize = 4_096;

/// Object store whose small, unchanging files are read once.
#[derive(Clone)]
pub(crate) struct Copies {
    store: Arc<dyn ObjectStore>,
    kept: Arc<Cache<Key, Kept, Weigh>>,
}

/// Block of a file: the file, and the number of the block.
type Key = (Path, u64);

#[derive(Clone)]
enum Kept {
    /// The content of the block. The first block of a small file is the file.
    Block(ObjectMeta, Bytes),
    /// The file is not small, and no index.
    Large,
}

#[derive(Clone)]
struct Weigh;

impl Weighter<Key, Kept> for Weigh {
    fn weight(&self, _key: &Key, kept: &Kept) -> u64 {
        match kept {
            Kept::Block(_, bytes) => ENTRY + bytes.len() as u64,
            Kept::Large => ENTRY,
        }
    }
}

impl Copies {
    pub(crate) fn of(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, kept: Arc::new(Cache::with_weighter(EXPECTED, MAX_BYTES, Weigh)) }
    }

    /// Returns the store without copies.
    pub(crate) fn below(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// Keeps a copy of a file that was put.
    fn keep_put(&self, path: &Path, content: &[u8], put: &PutResult) {
        let meta = ObjectMeta {
            location: path.clone(),
            last_modified: SystemTime::now().into(),
            size: content.len() as u64,
            e_tag: put.e_tag.clone(),
            version: put.version.clone(),
        };
        // The writer's buffer may be far larger than what it holds.
        let content = Bytes::copy_from_slice(content);
        self.kept.insert((path.clone(), 0), Kept::Block(meta, content));
    }

    /// Returns a range of an index, at most [`BLOCK`] bytes, from the blocks that it lies in.
    async fn in_blocks(&self, path: &Path, mut range: Range<u64>) -> Result<GetResult> {
        let first = range.start / BLOCK;
        let (meta, mut bytes) = self.block(path, first).await?;
        range.end = range.end.min(meta.size);
        if range.end > (first + 1) * BLOCK {
            let (_, next) = self.block(path, first + 1).await?;
            bytes = [bytes, next].concat().into();
        }
        part(meta, &bytes, first * BLOCK, Some(range))
    }

    /// Returns a block of an index. Of several that ask for it at the same time one reads it.
    async fn block(&self, path: &Path, number: u64) -> Result<(ObjectMeta, Bytes)> {
        let read = async {
            let range = GetRange::Bounded(number * BLOCK..(number + 1) * BLOCK);
            let options = GetOptions::new().with_range(Some(range));
            let found = self.store.get_opts(path, options).await?;
            Ok::<_, Error>(Kept::Block(found.meta.clone(), found.bytes().await?))
        };
        match self.kept.get_or_insert_async(&(path.clone(), number), read).await? {
            Kept::Block(meta, bytes) => Ok((meta, bytes)),
            Kept::Large => {
                let problem = format!("expected a block of the index `{path}`, got none");
                Err(Error::Generic { store: "copies", source: problem.into() })
            }
        }
    }

    /// Reads a file of which no copy is kept. If only a range is wanted, reads the first
    /// [`BLOCK`] bytes.
    async fn fetch(&self, path: &Path, wanted: Option<Range<u64>>) -> Result<GetResult> {
        let beginning = wanted.as_ref().map(|_| GetRange::Bounded(0..BLOCK));
        let found = self.store.get_opts(path, GetOptions::new().with_range(beginning)).await?;
        let meta = found.meta.clone();
        let is_small = meta.size <= BLOCK;
        if !is_small && !is_of_index(path) {
            self.kept.insert((path.clone(), 0), Kept::Large);
        }
        if wanted.is_none() && !is_small {
            return Ok(found);
        }
        let bytes = found.bytes().await?;
        if is_small {
            self.kept.insert((path.clone(), 0), Kept::Block(meta.clone(), bytes.clone()));
        }
        part(meta, &bytes, 0, wanted)
    }
}

/// Returns whether a file is in the folder of an index of a table.
fn is_of_index(path: &Path) -> bool {
    let parts: Vec<_> = path.parts().collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    matches!(parts.as_slice(), [.., table, INDEXES, _index, _file] if table.ends_with(TABLE))
}

/// Returns whether this is a table file that never changes: in one of the folders [`UNCHANGING`] or
/// in the folder of an index. The name of the table's folder is checked too, because a data
/// directory or a corpus may be named like one of these folders.
fn is_unchanging(path: &Path) -> bool {
    let parts: Vec<_> = path.parts().collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    match parts.as_slice() {
        [.., table, folder, _file] if UNCHANGING.contains(folder) => table.ends_with(TABLE),
        _ => is_of_index(path),
    }
}

/// Returns an answer from a part of a file, which begins at `at`. The wanted range may end after
/// the file does.
fn part(meta: ObjectMeta, bytes: &Bytes, at: u64, wanted: Option<Range<u64>>) -> Result<GetResult> {
    let range = match wanted {
        Some(range) => GetRange::Bounded(range).as_range(meta.size),
        None => Ok(0..meta.size),
    };
    let range = range.map_err(|error| Error::Generic { store: "copies", source: error.into() })?;
    let place = |of: u64| usize::try_from(of.checked_sub(at)?).ok();
    let bounds = place(range.start).zip(place(range.end));
    let Some((start, end)) = bounds.filter(|(_, end)| *end <= bytes.len()) else {
        let problem = format!("expected {range:?} of `{}`, got less", meta.location);
        return Err(Error::Generic { store: "copies", source: problem.into() });
    };
    let bytes = bytes.slice(start..end);
    Ok(GetResult {
        payload: GetResultPayload::Stream(futures::stream::iter([Ok(bytes)]).boxed()),
        meta,
        range,
        attributes: Attributes::default(),
        extensions: Extensions::default(),
    })
}

fn is_short(range: &Range<u64>) -> bool {
    range.start < range.end && range.end - range.start <= BLOCK
}

/// Returns the range that is asked for, or an inner `None` for the whole file. Returns `None` if
/// anything else is asked.
fn plain(options: &GetOptions) -> Option<Option<Range<u64>>> {
    let GetOptions {
        range,
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
        version: None,
        head: false,
        ..
    } = options
    else {
        return None;
    };
    match range {
        None => Some(None),
        Some(GetRange::Bounded(range)) => Some(Some(range.clone())),
        Some(GetRange::Offset(_) | GetRange::Suffix(_)) => None,
    }
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("store", &self.store).finish_non_exhaustive()
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with copies of small files", self.store)
    }
}

#[async_trait]
impl ObjectStore for Copies {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let is_kept = payload.content_length() as u64 <= BLOCK && is_unchanging(path);
        let content = is_kept.then(|| payload.clone());
        let put = self.store.put_opts(path, payload, options).await?;
        if let Some(content) = content {
            self.keep_put(path, &Bytes::from(content), &put);
        }
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let Some(wanted) = plain(&options).filter(|_| is_unchanging(path)) else {
            return self.store.get_opts(path, options).await;
        };
        if let Some(range) = wanted.clone().filter(|of| is_of_index(path) && is_short(of)) {
            return self.in_blocks(path, range).await;
        }
        let may_be_small = wanted.as_ref().is_none_or(|range| range.end <= BLOCK);
        match self.kept.get(&(path.clone(), 0)) {
            Some(Kept::Block(meta, bytes)) if meta.size == bytes.len() as u64 => {
                part(meta, &bytes, 0, wanted)
            }
            None if may_be_small => self.fetch(path, wanted).await,
            Some(_) | None => self.store.get_opts(path, options).await,
        }
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let kept = Arc::clone(&self.kept);
        // Removed before and not after: a failed deletion may have happened.
        let let_go = move |path: &Path| match is_of_index(path) {
            true => kept.retain(|(of, _), _| of != path),
            false => drop(kept.remove(&(path.clone(), 0))),
        };
        self.store.delete_stream(paths.inspect_ok(let_go).boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use clew_testkit::{Fault, FaultyStore};
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutPayload};

    use super::*;

    const ROWS: &str = "corpora/a/shard-0/chunks.lance/data/1.lance";

    struct Fixture {
        below: FaultyStore,
        copies: Copies,
    }

    impl Fixture {
        async fn with(path: &str, bytes: Vec<u8>) -> Self {
            let below = FaultyStore::new(Arc::new(InMemory::new()));
            let copies = Copies::of(Arc::new(below.clone()));
            below.put(&path.into(), PutPayload::from(bytes)).await.unwrap();
            Self { below, copies }
        }

        /// Returns the bytes read, and the number of requests to the store.
        async fn read(&self, path: &str, range: Range<u64>) -> (Bytes, usize) {
            let before = self.below.reads();
            let bytes = self.copies.get_range(&path.into(), range).await.unwrap();
            (bytes, self.below.reads() - before)
        }
    }

    /// Returns bytes whose values depend on their positions.
    fn bytes(range: Range<u64>) -> Vec<u8> {
        range.map(|at| u8::try_from(at % 251).unwrap()).collect()
    }

    #[tokio::test]
    async fn a_small_file_of_rows_is_read_once() {
        let fixture = Fixture::with(ROWS, bytes(0..1_000)).await;
        for (range, requests) in [(3..10, 1), (900..1_000, 0), (0..1_000, 0)] {
            assert_eq!(fixture.read(ROWS, range.clone()).await, (bytes(range).into(), requests));
        }
    }

    #[tokio::test]
    async fn a_file_that_is_read_whole_is_kept_if_it_is_small() {
        for (size, again) in [(0, 0), (1_000, 0), (BLOCK, 0), (BLOCK + 1, 1)] {
            let fixture = Fixture::with(ROWS, bytes(0..size)).await;
            for requests in [1, again] {
                let before = fixture.below.reads();
                let read = fixture.copies.get(&ROWS.into()).await.unwrap().bytes().await.unwrap();
                assert_eq!(read, bytes(0..size));
                assert_eq!(fixture.below.reads() - before, requests);
            }
        }
    }

    #[tokio::test]
    async fn a_large_file_is_read_part_by_part() {
        let fixture = Fixture::with(ROWS, bytes(0..BLOCK + 10)).await;
        for range in [0..10, 0..10, BLOCK..BLOCK + 10, 5..9] {
            assert_eq!(fixture.read(ROWS, range.clone()).await, (bytes(range).into(), 1));
        }
    }

    #[tokio::test]
    async fn a_manifest_is_read_from_the_store_always() {
        // For any name of the data directory and the corpus.
        for above in ["corpora/a", "data/corpora/data", "_indices/x/_deletions", "b.lance/data"] {
            let manifest = format!("{above}/shard-0/chunks.lance/_versions/1.manifest");
            let fixture = Fixture::with(&manifest, bytes(0..100)).await;
            for _ in 0..2 {
                assert_eq!(fixture.read(&manifest, 0..10).await.1, 1);
            }
        }
    }

    #[tokio::test]
    async fn files_of_indexes_and_deletions_are_read_once() {
        for file in ["_indices/0a1b/metadata.lance", "_deletions/0-1-2.arrow"] {
            let file = format!("data/corpora/a/shard-0/chunks.lance/{file}");
            let fixture = Fixture::with(&file, bytes(0..100)).await;
            assert_eq!(fixture.read(&file, 0..10).await.1, 1);
            assert_eq!(fixture.read(&file, 0..10).await.1, 0);
        }
    }

    #[tokio::test]
    async fn a_large_index_is_read_in_blocks_and_each_once() {
        let file = "a.lance/_indices/0a1b/part_0_invert.lance";
        let size = 2 * BLOCK + 100;
        let fixture = Fixture::with(file, bytes(0..size)).await;
        for (range, requests) in [
            (BLOCK + 5..BLOCK + 10, 1),
            (BLOCK..2 * BLOCK, 0),
            (BLOCK - 5..BLOCK + 5, 1),
            (0..10, 0),
            (2 * BLOCK - 1..size + 50, 1),
            (size - 1..size, 0),
            // More than a block is not kept.
            (0..BLOCK + 1, 1),
            (0..BLOCK + 1, 1),
        ] {
            let read = fixture.read(file, range.clone()).await;
            assert_eq!(
                read,
                (bytes(range.start..range.end.min(size)).into(), requests),
                "{range:?}"
            );
        }
        let path = Path::from(file);
        let at_once = (0..8).map(|_| fixture.copies.get_range(&path, 1..2));
        fixture.copies.kept.clear();
        let before = fixture.below.reads();
        futures::future::try_join_all(at_once).await.unwrap();
        assert_eq!(fixture.below.reads() - before, 1);

        fixture.read(file, BLOCK..BLOCK + 1).await;
        fixture.copies.delete(&file.into()).await.unwrap();
        assert_eq!(fixture.copies.kept.len(), 0);
        assert!(fixture.copies.get_range(&file.into(), BLOCK..BLOCK + 1).await.is_err());
    }

    #[tokio::test]
    async fn a_small_file_that_was_put_is_not_read() {
        let put = "a.lance/data/1.lance";
        for (name, size, requests) in
            [(put, 1_000, 0), (put, BLOCK + 1, 1), ("a.lance/_versions/1.manifest", 1_000, 1)]
        {
            let fixture = Fixture::with(ROWS, bytes(0..10)).await;
            let payload = PutPayload::from(bytes(0..size));
            fixture.copies.put(&name.into(), payload).await.unwrap();
            let read = fixture.read(name, 5..100).await;
            assert_eq!(read, (bytes(5..100).into(), requests), "{name} {size}");
        }
        // One that failed may not be there.
        let fixture = Fixture::with(ROWS, bytes(0..10)).await;
        fixture.below.plan(0, Fault::NotDone);
        assert!(fixture.copies.put(&put.into(), PutPayload::from(bytes(0..20))).await.is_err());
        assert!(fixture.copies.get(&put.into()).await.is_err());
    }

    #[tokio::test]
    async fn a_removed_file_is_gone_from_memory_too() {
        let fixture = Fixture::with(ROWS, bytes(0..100)).await;
        fixture.read(ROWS, 0..10).await;
        fixture.copies.delete(&ROWS.into()).await.unwrap();
        assert!(fixture.copies.get_range(&ROWS.into(), 0..10).await.is_err());
    }

    #[tokio::test]
    async fn what_lies_beyond_the_end_is_refused() {
        let fixture = Fixture::with(ROWS, bytes(0..100)).await;
        for _ in 0..2 {
            assert!(fixture.copies.get_range(&ROWS.into(), 100..110).await.is_err());
            assert_eq!(fixture.read(ROWS, 90..110).await.0, bytes(90..100));
        }
    }
}
