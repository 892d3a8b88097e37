//! Compressed memories of a shard, each in a file beside the tables.
//!
//! A file begins with the record of its memory, so record and content exist together or not at all:
//!
//! ```text
//! length of the record, 8 bytes, little-endian │ record, JSON │ snapshot
//! ```
//!
//! A file takes its name when its memory is committed. A large one is written before.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use clew_core::{DocumentId, MemoryRecord};
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::storage::staged::StagedFile;

/// Folder of the memories in the shard's place.
pub(crate) const FOLDER: &str = "memories";
/// Suffix of the name of a complete file.
const WHOLE: &str = ".memory";
/// Suffix that replaces [`WHOLE`] in the name of a file that is being written.
const UNFINISHED: &str = ".new";
/// Number of bytes before the record.
const PREFIX: usize = 8;
/// Number of bytes that are read at first: enough for a record of some thousand parts.
const BEGINNING: usize = 256 << 10;
/// What a failed write of a memory could not do.
const WRITING: &str = "write a memory";
/// Maximum bytes of a record. A file with a longer one is broken.
const LONGEST_RECORD: u64 = 256 << 20;

/// Files of the memories, with their records.
#[derive(Debug)]
pub(crate) struct MemoryFiles {
    place: Storage,
    /// Records in the order in which the memories were begun, which is that of their first parts.
    records: watch::Sender<Arc<Vec<MemoryRecord>>>,
    /// Numbers of memories of documents, for the records that were there when one was asked for.
    covering: Mutex<Covering>,
}

/// Number of memories that cover each document.
#[derive(Debug, Default)]
struct Covering {
    records: Arc<Vec<MemoryRecord>>,
    memories: HashMap<DocumentId, u64>,
}

/// Memory whose file is written and has not taken its name yet. Readers do not see it until it is
/// committed. If that never happens, what was written is removed.
#[derive(Debug)]
pub struct StagedMemory {
    pub(crate) record: MemoryRecord,
    pub(crate) file: StagedFile,
}

/// Reader of memories. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct MemoryReader {
    place: Storage,
    records: watch::Receiver<Arc<Vec<MemoryRecord>>>,
}

impl MemoryFiles {
    /// Reads the records of the files. A file without a valid record is no memory and is swept.
    pub(crate) async fn open(shard: &Storage) -> Result<Self> {
        let place = shard.join(FOLDER);
        let mut records = Vec::new();
        for name in place.names("list memories").await? {
            match record(&place, &name).await? {
                Some(record) if name == file(&record.key) => records.push(record),
                _ => {
                    tracing::warn!(name, "a file is no memory, and is removed with the next sweep")
                }
            }
        }
        sort(&mut records);
        let records = watch::Sender::new(Arc::new(records));
        Ok(Self { place, records, covering: Mutex::default() })
    }

    pub(crate) fn reader(&self) -> MemoryReader {
        MemoryReader { place: self.place.clone(), records: self.records.subscribe() }
    }

    pub(crate) fn records(&self) -> Arc<Vec<MemoryRecord>> {
        self.records.borrow().clone()
    }

    /// Returns how many memories cover a document. Looks at all records only after they changed.
    pub(crate) fn covering(&self, id: &DocumentId) -> u64 {
        let records = self.records();
        let mut covering = self.covering.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&covering.records, &records) {
            *covering = Covering::of(records);
        }
        covering.memories.get(id).copied().unwrap_or(0)
    }

    /// Gives the file of a memory its name. Readers do not see the memory yet.
    pub(crate) async fn publish(&self, file: StagedFile) -> Result<()> {
        self.place.make("make the folder of memories").await?;
        self.place.publish_file(file, WRITING).await
    }

    /// Removes the file of a memory that readers never saw.
    pub(crate) async fn take_back(&self, record: &MemoryRecord) -> Result<()> {
        self.place.remove_file(&file(&record.key), "take back a memory").await
    }

    /// Shows readers a memory whose file has its name.
    pub(crate) fn show(&self, record: MemoryRecord) {
        let mut records: Vec<MemoryRecord> = self.records().to_vec();
        records.retain(|known| known.key != record.key);
        records.push(record);
        sort(&mut records);
        self.records.send_replace(Arc::new(records));
    }

    /// Removes memories. Forgets their records first, so that readers see none that is gone.
    pub(crate) async fn remove(&self, is_removed: impl Fn(&MemoryRecord) -> bool) -> Result<usize> {
        let (removed, kept): (Vec<_>, Vec<_>) =
            self.records().iter().cloned().partition(|record| is_removed(record));
        if removed.is_empty() {
            return Ok(0);
        }
        self.records.send_replace(Arc::new(kept));
        let files = removed.iter().map(|record| file(&record.key));
        self.place.remove_files(files, "remove memories").await?;
        Ok(removed.len())
    }

    /// Returns files that belong to none of these records: left by an interrupted write or removal,
    /// or by an owner that another has replaced meanwhile.
    pub(crate) async fn others(&self) -> Result<Vec<String>> {
        let records = self.records();
        let known: HashSet<String> = records.iter().map(|record| file(&record.key)).collect();
        let mut others = self.place.names("list memories").await?;
        others.retain(|name| !known.contains(name));
        Ok(others)
    }

    /// Removes files that are no memories.
    pub(crate) async fn remove_others(&self, names: Vec<String>) -> Result<()> {
        self.place.remove_files(names, "remove what is no memory").await
    }
}

impl Covering {
    fn of(records: Arc<Vec<MemoryRecord>>) -> Self {
        let mut memories: HashMap<DocumentId, u64> = HashMap::new();
        for record in records.iter() {
            let documents: HashSet<&DocumentId> =
                record.parts.iter().map(|part| &part.document_id).collect();
            for id in documents {
                match memories.get_mut(id) {
                    Some(number) => *number += 1,
                    None => drop(memories.insert(id.clone(), 1)),
                }
            }
        }
        Self { records, memories }
    }
}

impl MemoryReader {
    pub(crate) fn records(&self) -> Arc<Vec<MemoryRecord>> {
        self.records.borrow().clone()
    }

    /// Returns the files, by name in the shard's place.
    pub(crate) fn files(&self) -> Vec<String> {
        self.records().iter().map(file_of).collect()
    }

    /// Writes the file of a memory, which is seen once it is committed. Returns `None` as soon as
    /// `is_wanted` returns false.
    pub(crate) async fn stage(
        &self,
        record: MemoryRecord,
        snapshot: Bytes,
        is_wanted: impl Fn(&MemoryRecord) -> bool,
    ) -> Result<Option<StagedMemory>> {
        let json = serde_json::to_vec(&record).map_err(|error| Error::Unavailable {
            doing: WRITING.to_owned(),
            source: error.into(),
        })?;
        let mut head = BytesMut::with_capacity(PREFIX + json.len());
        head.put_u64_le(json.len() as u64);
        head.put_slice(&json);
        let (name, content) = (file(&record.key), [head.freeze(), snapshot]);
        let is_wanted = || is_wanted(&record);
        let staged = self.place.stage_file(&name, content, is_wanted, WRITING).await?;
        Ok(staged.map(|file| StagedMemory { record, file }))
    }

    /// Returns the content of a memory, or `None` if it is gone.
    pub(crate) async fn snapshot(&self, key: &str) -> Result<Option<Bytes>> {
        let read = self.place.get_large_file(&file(key), "read a memory").await?;
        let Some(mut bytes) = read else { return Ok(None) };
        let record = record_bytes(&bytes).filter(|record| bytes.len() as u64 >= *record);
        let Some(record) = record else { return Ok(None) };
        // The conversion fits, because the value is at most a length in memory.
        bytes.advance(record as usize);
        Ok(Some(bytes))
    }
}

/// Returns the file of a memory, by name in the shard's place.
pub(crate) fn file_of(record: &MemoryRecord) -> String {
    format!("{FOLDER}/{}", file(&record.key))
}

/// Returns whether a file has the name of a memory's, complete or not.
pub(crate) fn is_of_memory(name: &str) -> bool {
    name.ends_with(WHOLE) || name.ends_with(UNFINISHED)
}

fn file(key: &str) -> String {
    format!("{key}{WHOLE}")
}

fn sort(records: &mut [MemoryRecord]) {
    let first = |record: &MemoryRecord| {
        record.parts.first().map(|part| (part.version, part.document_id.clone(), part.span.start))
    };
    records.sort_by_key(first);
}

/// Returns the bytes of prefix and record together, from the beginning of a file. Returns `None` if
/// it is no such file.
fn record_bytes(beginning: &[u8]) -> Option<u64> {
    let length = u64::from_le_bytes(*beginning.first_chunk::<PREFIX>()?);
    (length <= LONGEST_RECORD).then(|| length + PREFIX as u64)
}

/// Returns the record of a memory's file, or `None` if the file is no memory.
async fn record(place: &Storage, name: &str) -> Result<Option<MemoryRecord>> {
    const DOING: &str = "read what is told of a memory";
    let read = |end: u64| place.get_file(name, Some(end), DOING);
    let Some(mut beginning) = read(BEGINNING as u64).await? else { return Ok(None) };
    let Some(end) = record_bytes(&beginning) else { return Ok(None) };
    if end > beginning.len() as u64 {
        let Some(more) = read(end).await? else { return Ok(None) };
        beginning = more;
    }
    let json = beginning.get(PREFIX..usize::try_from(end).unwrap_or(usize::MAX));
    let record = json.map(serde_json::from_slice::<MemoryRecord>);
    let is_named = |key: &str| key.len() == 32 && key.bytes().all(|b| b.is_ascii_hexdigit());
    Ok(record.and_then(|record| record.ok()).filter(|record| is_named(&record.key)))
}
