//! Assignment of documents to shards by rendezvous hashing of their ids.
//!
//! Each shard draws a number for the document and the highest number wins. With another number of
//! shards, only the documents of the added or removed shards would therefore move.

use crate::{DocumentId, ShardIndex};

/// Returns the shard of `document` among `shards`.
///
/// # Panics
/// Panics if `shards` is 0. Settings without a shard are refused when a corpus is created.
pub fn shard_of(document: &DocumentId, shards: u32) -> ShardIndex {
    assert!(shards > 0, "a corpus has at least one shard");
    let draw = |shard: &u32| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&shard.to_le_bytes());
        hasher.update(document.as_str().as_bytes());
        let mut number = [0; 8];
        hasher.finalize_xof().fill(&mut number);
        u64::from_le_bytes(number)
    };
    ShardIndex((0..shards).max_by_key(draw).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn adding_a_shard_moves_documents_only_to_it(id in "[a-z]{1,20}", shards in 1u32..40) {
            let document: DocumentId = id.parse().unwrap();
            let before = shard_of(&document, shards);
            let after = shard_of(&document, shards + 1);
            prop_assert!(after == before || after == ShardIndex(shards));
        }
    }

    #[test]
    fn documents_spread_evenly() {
        let mut counts = [0usize; 8];
        for i in 0..8000 {
            let document: DocumentId = format!("document {i}").parse().unwrap();
            counts[shard_of(&document, 8).0 as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
    }
}
