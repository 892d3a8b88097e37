//! Cache of replies.
//!
//! A reply contains information from the documents in its prompt, and those documents may be
//! forgotten. Replies are therefore stored encrypted, with a key that is derived from the prompt
//! and stored nowhere. Once nobody has the documents any more, nobody can read what was said of
//! them, wherever a copy of the reply remains.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// Key of a cached reply: a BLAKE3 hash of the account's owner, the model, the prompt's name and
/// version, the rendered prompt, and the format and maximum length of the reply. Tenants never
/// share a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyKey([u8; 32]);

impl ReplyKey {
    /// Returns the bytes of the key, for a store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Writes the key in hexadecimal digits, for a store whose keys are texts.
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

/// Encryption key of a reply, known to whoever has the prompt and to nobody else.
pub(crate) struct Seal(LessSafeKey);

/// Derives the cache key and the encryption key from `parts`, which together describe the request.
/// The lengths of the parts are hashed as well.
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
    /// Encrypts a reply. Returns `None` if the system has no source of random numbers.
    pub(crate) fn close(&self, reply: &str) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = reply.as_bytes().to_vec();
        let (cipher, aad) = (Nonce::assume_unique_for_key(nonce), Aad::empty());
        self.0.seal_in_place_append_tag(cipher, aad, &mut sealed).ok()?;
        sealed.splice(..0, nonce);
        Some(sealed)
    }

    /// Decrypts a reply. Returns `None` if another key encrypted it.
    pub(crate) fn open(&self, sealed: &[u8]) -> Option<String> {
        let (nonce, reply) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let (cipher, aad) = (Nonce::assume_unique_for_key(*nonce), Aad::empty());
        let mut reply = reply.to_vec();
        let length = self.0.open_in_place(cipher, aad, &mut reply).ok()?.len();
        reply.truncate(length);
        String::from_utf8(reply).ok()
    }
}

/// A store of encrypted replies. It may drop any of them at any time. A store that cannot be
/// reached returns `None` and keeps nothing.
///
/// Only complete replies that could be parsed, at temperature 0, are stored.
#[async_trait]
pub trait ReplyCache: Send + Sync {
    /// Returns the encrypted reply with that key.
    async fn get(&self, key: &ReplyKey) -> Option<Vec<u8>>;

    /// Stores an encrypted reply.
    async fn put(&self, key: ReplyKey, sealed: Vec<u8>);
}

/// A cache that keeps the most recently used replies in memory.
#[derive(Debug)]
pub struct RecentReplies {
    most_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    replies: HashMap<ReplyKey, (Vec<u8>, u64)>,
    /// Keys by the time of their last use.
    uses: BTreeMap<u64, ReplyKey>,
    bytes: usize,
    now: u64,
}

/// Approximate size of an entry in bytes, besides its reply.
const ENTRY_BYTES: usize = 160;

impl RecentReplies {
    /// Creates a cache of at most `most_bytes` bytes, keys included.
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
