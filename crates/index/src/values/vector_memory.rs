//! Room for the directions of vectors that searches keep in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Room for the directions of the vectors of all shards of a process. Clones share it.
#[derive(Clone, Debug)]
pub struct VectorMemory(Arc<Room>);

#[derive(Debug)]
struct Room {
    limit: u64,
    taken: AtomicU64,
}

impl VectorMemory {
    /// Creates room of `limit` bytes. A shard whose directions find no room reads vectors from its
    /// files for each search.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Room { limit, taken: AtomicU64::new(0) }))
    }

    /// Returns how many bytes are taken.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Takes room, or returns `None` if there is not enough.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reserved> {
        let taken = &self.0.taken;
        let more = |taken: u64| taken.checked_add(bytes).filter(|total| *total <= self.0.limit);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Reserved { room: Arc::clone(&self.0), bytes })
    }
}

/// One gibibyte, which holds the directions of 1.4 million vectors of 384 dimensions.
impl Default for VectorMemory {
    fn default() -> Self {
        Self::new(1 << 30)
    }
}

/// Room that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    room: Arc<Room>,
    bytes: u64,
}

impl Reserved {
    /// Takes up to `bytes` out of this room, as room of its own.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { room: Arc::clone(&self.room), bytes }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_and_never_exceeded() {
        let memory = VectorMemory::new(10);
        let mut all = memory.clone().reserve(7).unwrap();
        let first = all.split(4);
        drop(all.split(9));
        assert_eq!(memory.taken(), 4);
        let all = memory.reserve(3).unwrap();
        assert!(memory.reserve(4).is_none() && memory.reserve(u64::MAX).is_none());
        let second = memory.reserve(3).unwrap();
        assert_eq!(memory.taken(), 10);
        drop((first, all));
        assert_eq!(memory.taken(), 3);
        drop(second);
        assert_eq!(memory.taken(), 0);
    }
}
