//! Replies that need not be asked for again.
//!
//! A reply tells of the documents that its prompt holds, and is kept where they may be forgotten. So it is
//! kept sealed, by a key that is made of the prompt and stored nowhere: once nobody has the documents any
//! more, nobody can read what was said of them, wherever a copy of the reply may be left.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// What a reply is kept by: a BLAKE3 hash of the account's owner, the model, the prompt's name and version, the
/// rendered prompt, and what the reply may be. One tenant's replies are never another's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyKey([u8; 32]);

impl ReplyKey {
    /// Its bytes, for a store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// In hexadecimal digits, for a store that names things by texts.
impl fmt::Display for ReplyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for ReplyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyKey({self})")
    }
}

/// What a reply is sealed with; known to whoever has what it replies to, and to nobody else.
pub(crate) struct Seal(LessSafeKey);

/// The key and the seal of what `parts` together ask for, each part told from the next.
pub(crate) fn key_and_seal(parts: &[&str]) -> (ReplyKey, Seal) {
    let hash = |purpose| {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        *hasher.finalize().as_bytes()
    };
    let key = ReplyKey(hash("clew reply key v1"));
    let seal = UnboundKey::new(&CHACHA20_POLY1305, &hash("clew reply seal v1"));
    (key, Seal(LessSafeKey::new(seal.expect("the algorithm's keys have 32 bytes"))))
}

impl Seal {
    /// A reply that only this seal opens; `None` if the system has no chance to give.
    pub(crate) fn close(&self, reply: &str) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = reply.as_bytes().to_vec();
        let (cipher, aad) = (Nonce::assume_unique_for_key(nonce), Aad::empty());
        self.0.seal_in_place_append_tag(cipher, aad, &mut sealed).ok()?;
        sealed.splice(..0, nonce);
        Some(sealed)
    }

    /// The reply, if this seal closed it.
    pub(crate) fn open(&self, sealed: &[u8]) -> Option<String> {
        let (nonce, reply) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let (cipher, aad) = (Nonce::assume_unique_for_key(*nonce), Aad::empty());
        let mut reply = reply.to_vec();
        let length = self.0.open_in_place(cipher, aad, &mut reply).ok()?.len();
        reply.truncate(length);
        String::from_utf8(reply).ok()
    }
}

/// Keeps sealed replies. It may forget any of them at any time, and failing is forgetting: a cache that
/// cannot be reached answers `None` and takes nothing.
///
/// Only whole replies that were read, at temperature 0, are put.
#[async_trait]
pub trait ReplyCache: Send + Sync {
    /// The sealed reply of that key.
    async fn get(&self, key: &ReplyKey) -> Option<Vec<u8>>;

    /// Keeps a sealed reply.
    async fn put(&self, key: ReplyKey, sealed: Vec<u8>);
}

/// Keeps the replies that were used last, in memory.
#[derive(Debug)]
pub struct RecentReplies {
    most_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    replies: HashMap<ReplyKey, (Vec<u8>, u64)>,
    /// Keys by when they were used last.
    uses: BTreeMap<u64, ReplyKey>,
    bytes: usize,
    now: u64,
}

/// What an entry takes besides its reply, about.
const ENTRY_BYTES: usize = 160;

impl RecentReplies {
    /// A cache of at most `most_bytes`, keys included.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, kept: Mutex::default() }
    }
}

#[async_trait]
impl ReplyCache for RecentReplies {
    async fn get(&self, key: &ReplyKey) -> Option<Vec<u8>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = kept.remove(key)?;
        kept.insert(*key, reply.clone());
        Some(reply)
    }

    async fn put(&self, key: ReplyKey, sealed: Vec<u8>) {
        if sealed.len() + ENTRY_BYTES > self.most_bytes {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&key);
        kept.insert(key, sealed);
        while kept.bytes > self.most_bytes {
            let Some(oldest) = kept.uses.values().next().copied() else { break };
            kept.remove(&oldest);
        }
    }
}

impl Kept {
    fn insert(&mut self, key: ReplyKey, reply: Vec<u8>) {
        self.now += 1;
        self.bytes += reply.len() + ENTRY_BYTES;
        self.uses.insert(self.now, key);
        self.replies.insert(key, (reply, self.now));
    }

    fn remove(&mut self, key: &ReplyKey) -> Option<Vec<u8>> {
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
        let keys = ["a", "b", "c", "d"].map(|name| key_and_seal(&[name]).0);
        let reply = || b"text".to_vec();
        for key in &keys[..3] {
            cache.put(*key, reply()).await;
        }
        assert!(cache.get(&keys[0]).await.is_some());
        cache.put(keys[3], reply()).await;
        let mut known = Vec::new();
        for key in &keys {
            known.push(cache.get(key).await.is_some());
        }
        assert_eq!(known, [true, false, true, true]);
        cache.put(keys[0], reply().repeat(1000)).await;
        assert_eq!(cache.get(&keys[0]).await, Some(reply()));
    }

    #[test]
    fn keys_tell_their_parts_apart() {
        let key = |parts: &[&str]| key_and_seal(parts).0;
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
    }

    #[test]
    fn a_reply_is_opened_with_its_prompt_and_with_no_other() {
        let (key, seal) = key_and_seal(&["Who killed the Minotaur?"]);
        let sealed = seal.close("Theseus did.").unwrap();
        assert_eq!(seal.open(&sealed).as_deref(), Some("Theseus did."));
        let stands_in = |bytes: &[u8]| sealed.windows(bytes.len()).any(|window| window == bytes);
        assert!(!stands_in(b"Theseus") && !stands_in(key.as_bytes()));
        let (_, other) = key_and_seal(&["Who killed the Sphinx?"]);
        assert_eq!(other.open(&sealed), None);
        for cut in [0, NONCE_LEN, sealed.len() - 1] {
            assert_eq!(seal.open(&sealed[..cut]), None);
        }
        let mut changed = sealed.clone();
        changed[NONCE_LEN] ^= 1;
        assert_eq!(seal.open(&changed), None);
        assert_ne!(seal.close("Theseus did.").unwrap(), sealed, "never the same twice");
    }
}
