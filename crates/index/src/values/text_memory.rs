//! Texts that searches showed lately, in memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clew_core::ChunkText;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Memory for the texts of passages that searches showed lately, for all shards of a process. What
/// was not shown for the longest time makes room. Clones share it.
#[derive(Clone)]
pub struct TextMemory(Arc<Cache<RowOfTable, Arc<ChunkText>, Bytes>>);

/// Row of one of the tables that share the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RowOfTable {
    table: u64,
    row: u64,
}

#[derive(Clone, Debug)]
struct Bytes;

/// Bytes that an entry takes besides its text and title.
const ENTRY: usize = 160;

impl Weighter<RowOfTable, Arc<ChunkText>> for Bytes {
    fn weight(&self, _: &RowOfTable, shown: &Arc<ChunkText>) -> u64 {
        (ENTRY + shown.text.len() + shown.title.len()) as u64
    }
}

impl TextMemory {
    /// Creates memory of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        /// Bytes of a passage of usual length, for the size of the table of entries.
        const USUAL: u64 = 640;
        let items = usize::try_from(limit / USUAL).unwrap_or(usize::MAX).min(1 << 20);
        Self(Arc::new(Cache::with_weighter(items, limit, Bytes)))
    }

    /// Returns how many bytes are taken.
    pub fn taken(&self) -> u64 {
        self.0.weight()
    }
}

/// 64 MiB, enough for 100,000 passages of a hundred words.
impl Default for TextMemory {
    fn default() -> Self {
        Self::new(64 << 20)
    }
}

impl fmt::Debug for TextMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextMemory").field("taken", &self.taken()).finish_non_exhaustive()
    }
}

/// Texts of one open table. They leave the memory when this is dropped.
#[derive(Debug)]
pub(crate) struct TableTexts {
    memory: TextMemory,
    table: u64,
}

impl TableTexts {
    /// Creates the part of a table that was just opened.
    pub(crate) fn new(memory: TextMemory) -> Self {
        static TABLES: AtomicU64 = AtomicU64::new(0);
        Self { memory, table: TABLES.fetch_add(1, Ordering::Relaxed) }
    }

    /// Returns what is shown of a row, if it is in memory.
    pub(crate) fn get(&self, row: u64) -> Option<Arc<ChunkText>> {
        self.memory.0.get(&self.key(row))
    }

    /// Keeps what is shown of a row.
    pub(crate) fn keep(&self, row: u64, shown: Arc<ChunkText>) {
        self.memory.0.insert(self.key(row), shown);
    }

    /// Removes the rows that are not wanted. Takes a time that grows with the whole memory.
    pub(crate) fn retain(&self, is_wanted: impl Fn(u64) -> bool) {
        self.memory.0.retain(|key, _| key.table != self.table || is_wanted(key.row));
    }

    fn key(&self, row: u64) -> RowOfTable {
        RowOfTable { table: self.table, row }
    }
}

impl Drop for TableTexts {
    fn drop(&mut self) {
        self.retain(|_| false);
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Span;

    use super::*;

    fn shown(text: &str) -> Arc<ChunkText> {
        let (text, title) = (text.to_owned(), String::new());
        Arc::new(ChunkText {
            span: Span { start: 0, end: text.len() },
            text,
            title,
            event_time: None,
        })
    }

    #[test]
    fn tables_share_memory_and_not_what_is_in_it() {
        let memory = TextMemory::new(1 << 20);
        let (one, other) = (TableTexts::new(memory.clone()), TableTexts::new(memory.clone()));
        one.keep(1, shown("one"));
        one.keep(2, shown("two"));
        other.keep(1, shown("other"));
        assert_eq!(other.get(1), Some(shown("other")));
        assert_eq!(other.get(2), None);
        one.retain(|row| row == 2);
        assert_eq!((one.get(1), one.get(2)), (None, Some(shown("two"))));
        drop(one);
        assert_eq!(other.get(1), Some(shown("other")));
        drop(other);
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn the_limit_is_never_exceeded() {
        let memory = TextMemory::new(1 << 20);
        let table = TableTexts::new(memory.clone());
        for row in 0..4_000 {
            table.keep(row, shown(&"x".repeat(1_000)));
            assert!(memory.taken() <= 1 << 20);
        }
        assert!(memory.taken() > 1 << 19 && table.get(3_999).is_some());
        let none = TableTexts::new(TextMemory::new(0));
        none.keep(1, shown("one"));
        assert_eq!(none.get(1), None);
    }
}
