//! Names that no other process uses.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process;
use std::time::SystemTime;

/// Returns a text that no other call returns.
pub(crate) fn unique() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.as_nanos());
    // Processes in containers have the same id everywhere, so the text also has a random part: a
    // new hasher state has random keys.
    let random = RandomState::new().build_hasher().finish();
    format!("{}-{nanos}-{random:x}", process::id())
}
