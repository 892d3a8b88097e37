//! Replies that need not be asked for again.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

/// What a reply is known by: a BLAKE3 hash of the tenant, the model, the prompt's name and version, the
/// rendered prompt, and what the reply may be. One tenant's replies are never another's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyKey([u8; 32]);

impl ReplyKey {
    /// The key of all `parts` together, each told from the next.
    pub(crate) fn of(parts: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Its bytes, for a store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ReplyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyKey({})", blake3::Hash::from_bytes(self.0).to_hex())
    }
}

/// Keeps replies. It may forget any of them at any time, and failing is forgetting: a cache that cannot be
/// reached answers `None` and takes nothing.
///
/// Only whole replies that were read, at temperature 0, are put.
#[async_trait]
pub trait ReplyCache: Send + Sync {
    /// The reply of that key.
    async fn get(&self, key: &ReplyKey) -> Option<String>;

    /// Keeps a reply.
    async fn put(&self, key: ReplyKey, reply: &str);
}

/// Keeps the replies that were used last, in memory.
#[derive(Debug)]
pub struct RecentReplies {
    most_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    replies: HashMap<ReplyKey, (String, u64)>,
    /// Keys by when they were used last.
    uses: BTreeMap<u64, ReplyKey>,
    bytes: usize,
    now: u64,
}

/// What an entry takes besides its text, about.
const ENTRY_BYTES: usize = 160;

impl RecentReplies {
    /// A cache of at most `most_bytes`, keys included.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, kept: Mutex::default() }
    }
}

#[async_trait]
impl ReplyCache for RecentReplies {
    async fn get(&self, key: &ReplyKey) -> Option<String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = kept.remove(key)?;
        kept.insert(*key, reply.clone());
        Some(reply)
    }

    async fn put(&self, key: ReplyKey, reply: &str) {
        if reply.len() + ENTRY_BYTES > self.most_bytes {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&key);
        kept.insert(key, reply.to_owned());
        while kept.bytes > self.most_bytes {
            let Some(oldest) = kept.uses.values().next().copied() else { break };
            kept.remove(&oldest);
        }
    }
}

impl Kept {
    fn insert(&mut self, key: ReplyKey, reply: String) {
        self.now += 1;
        self.bytes += reply.len() + ENTRY_BYTES;
        self.uses.insert(self.now, key);
        self.replies.insert(key, (reply, self.now));
    }

    fn remove(&mut self, key: &ReplyKey) -> Option<String> {
        let (reply, used) = self.replies.remove(key)?;
        self.uses.remove(&used);
        self.bytes -= reply.len() + ENTRY_BYTES;
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_not_used_longest_goes_first() {
        let cache = RecentReplies::new(3 * (ENTRY_BYTES + 4));
        let keys = ["a", "b", "c", "d"].map(|name| ReplyKey::of(&[name]));
        for key in &keys[..3] {
            cache.put(*key, "text").await;
        }
        assert!(cache.get(&keys[0]).await.is_some());
        cache.put(keys[3], "text").await;
        let mut known = Vec::new();
        for key in &keys {
            known.push(cache.get(key).await.is_some());
        }
        assert_eq!(known, [true, false, true, true]);
        cache.put(keys[0], &"long".repeat(1000)).await;
        assert_eq!(cache.get(&keys[0]).await.as_deref(), Some("text"));
    }

    #[test]
    fn keys_tell_their_parts_apart() {
        assert_ne!(ReplyKey::of(&["ab", "c"]), ReplyKey::of(&["a", "bc"]));
        assert_eq!(ReplyKey::of(&["ab", "c"]), ReplyKey::of(&["ab", "c"]));
    }
}
