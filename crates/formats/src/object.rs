//! Objects in buckets, read in ranges.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use object_store::{Error, GetOptions, ObjectMeta, ObjectStore};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use tokio::runtime::Handle;

use crate::Problem;

/// Number of bytes that one request reads. A larger object is read by several, so that no request
/// outlasts its deadline.
const RANGE_BYTES: u64 = 4 << 20;

/// An object as it was listed. Reading it fails if it has changed since then.
///
/// Its methods that read block, so they are called outside of the asynchronous threads.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    store: Arc<dyn ObjectStore>,
    listed: ObjectMeta,
    runtime: Handle,
}

impl StoredObject {
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, listed: ObjectMeta) -> Self {
        Self { store, listed, runtime: Handle::current() }
    }

    /// Returns its size in bytes, as listed.
    pub(crate) fn size(&self) -> u64 {
        self.listed.size
    }

    /// Returns a text that differs if the content does.
    pub(crate) fn fingerprint(&self) -> String {
        let ObjectMeta { size, e_tag, last_modified, .. } = &self.listed;
        match e_tag {
            Some(tag) => format!("{size}-{}", tag.trim_matches('"')),
            None => format!("{size}-{}", last_modified.timestamp_micros()),
        }
    }

    /// Reads the whole object.
    pub(crate) async fn read_all(&self) -> Result<Bytes, Problem> {
        self.read_range(0..self.size()).await
    }

    /// Reads a range of any length, by as many requests as it takes.
    async fn read_range(&self, range: Range<u64>) -> Result<Bytes, Problem> {
        let mut parts = Vec::new();
        for from in range.clone().step_by(RANGE_BYTES as usize) {
            parts.push(self.read(from..range.end.min(from + RANGE_BYTES)).await?);
        }
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => Ok(parts.concat().into()),
        }
    }

    /// Reads a range that is not empty and that one request may read.
    async fn read(&self, range: Range<u64>) -> Result<Bytes, Problem> {
        let expected = range.end - range.start;
        let options = GetOptions {
            if_match: self.listed.e_tag.clone(),
            range: Some(range.into()),
            ..GetOptions::default()
        };
        let found = self.store.get_opts(&self.listed.location, options).await.map_err(problem)?;
        if found.meta.size != self.listed.size {
            return Err(Problem::Changed);
        }
        let bytes = found.bytes().await.map_err(problem)?;
        match bytes.len() as u64 == expected {
            true => Ok(bytes),
            false => Err(cut_short().into()),
        }
    }

    /// Reads a range from a thread that may block.
    fn read_blocking(&self, range: Range<u64>) -> Result<Bytes, Problem> {
        self.runtime.block_on(self.read_range(range))
    }
}

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the storage sent fewer bytes than it listed")
}

fn problem(error: Error) -> Problem {
    match error {
        Error::Precondition { .. } | Error::NotFound { .. } => Problem::Changed,
        error => Problem::Io(io::Error::other(error)),
    }
}

/// Reader of an object from its beginning, with one range in memory.
pub(crate) struct ObjectReader {
    object: StoredObject,
    /// Byte of the object that is read next.
    at: u64,
    /// What was read of the object from `at` on.
    ahead: Bytes,
}

impl From<StoredObject> for ObjectReader {
    fn from(object: StoredObject) -> Self {
        Self { object, at: 0, ahead: Bytes::new() }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let range = self.at..self.object.size().min(self.at.saturating_add(RANGE_BYTES));
        if self.ahead.is_empty() && !range.is_empty() {
            self.ahead = self.object.read_blocking(range).map_err(|problem| match problem {
                Problem::Io(error) => error,
                problem => io::Error::other(problem),
            })?;
        }
        let count = self.ahead.len().min(buffer.len());
        self.ahead.copy_to_slice(&mut buffer[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(from) => self.object.size().checked_add_signed(from),
            SeekFrom::Current(from) => self.at.checked_add_signed(from),
        };
        let place = place.ok_or(io::ErrorKind::InvalidInput)?;
        match place.checked_sub(self.at) {
            Some(skipped) if skipped <= self.ahead.len() as u64 => {
                self.ahead.advance(skipped as usize);
            }
            _ => self.ahead = Bytes::new(),
        }
        self.at = place;
        Ok(place)
    }
}

impl Length for StoredObject {
    fn len(&self) -> u64 {
        self.size()
    }
}

/// Reads the column chunks of Parquet, of which only those that are wanted are fetched.
impl ChunkReader for StoredObject {
    type T = ObjectReader;

    fn get_read(&self, start: u64) -> parquet::errors::Result<ObjectReader> {
        Ok(ObjectReader { object: self.clone(), at: start, ahead: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let end = start.saturating_add(length as u64);
        if end > self.size() {
            return Err(ParquetError::EOF(format!("expected bytes up to {end}")));
        }
        let read = self.read_blocking(start..end);
        read.map_err(|problem| ParquetError::External(problem.into()))
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStoreExt, PutPayload};
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = RANGE_BYTES as usize * 2 + 1000;

    fn content() -> Vec<u8> {
        (0..SIZE as u32)
            .flat_map(|i| (i.wrapping_mul(2_654_435_761)).to_le_bytes())
            .take(SIZE)
            .collect()
    }

    fn put(store: &InMemory, bytes: Vec<u8>) {
        futures::executor::block_on(store.put(&Path::from("a"), PutPayload::from(bytes))).unwrap();
    }

    /// An object of the runtime's bucket.
    fn stored(runtime: &tokio::runtime::Runtime, bytes: Vec<u8>) -> (Arc<InMemory>, StoredObject) {
        let store = Arc::new(InMemory::new());
        put(&store, bytes);
        let _inside = runtime.enter();
        let listed = runtime.block_on(store.head(&Path::from("a"))).unwrap();
        (Arc::clone(&store), StoredObject::new(store, listed))
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn an_object_is_read_whole_and_from_any_place() {
        let (runtime, bytes) = (runtime(), content());
        let (_, object) = stored(&runtime, bytes.clone());
        assert_eq!(runtime.block_on(object.read_all()).unwrap(), bytes);
        let (_, empty) = stored(&runtime, Vec::new());
        assert!(runtime.block_on(empty.read_all()).unwrap().is_empty());
        proptest!(ProptestConfig::with_cases(16), |(from in 0..SIZE, length in 0..SIZE)| {
            let end = SIZE.min(from + length);
            let mut reader = ObjectReader::from(object.clone());
            let mut read = vec![0; end - from];
            reader.seek(SeekFrom::Current(from as i64)).unwrap();
            reader.read_exact(&mut read).unwrap();
            prop_assert!(read == bytes[from..end]);
            let back = -((end - from) as i64);
            prop_assert_eq!(reader.seek(SeekFrom::Current(back)).unwrap(), from as u64);
            reader.read_exact(&mut read).unwrap();
            prop_assert!(read == bytes[from..end]);
            if from < end {
                prop_assert!(object.get_bytes(from as u64, end - from).unwrap() == bytes[from..end]);
            }
        });
        assert!(object.get_bytes(1, SIZE).is_err());
    }

    #[test]
    fn an_object_that_changed_after_it_was_listed_is_not_read() {
        let runtime = runtime();
        let (store, object) = stored(&runtime, b"one".to_vec());
        let before = object.fingerprint();
        put(&store, b"two".to_vec());
        let problem = runtime.block_on(object.read_all()).unwrap_err();
        assert!(matches!(problem, Problem::Changed), "{problem}");
        runtime.block_on(store.delete(&Path::from("a"))).unwrap();
        let problem = runtime.block_on(object.read_all()).unwrap_err();
        assert!(matches!(problem, Problem::Changed), "{problem}");
        let (_, longer) = stored(&runtime, b"longer".to_vec());
        assert_ne!(before, longer.fingerprint());
    }
}
