//! What deleted corpora have left in a bucket.

use clew_index::Registry;

/// Removes what deletions that were interrupted and late writers left of deleted corpora. Requests
/// do not wait for it, because it takes as long as there are corpora.
pub(crate) async fn remove_leftovers(registry: Registry) {
    if let Err(error) = registry.remove_leftovers().await {
        let error = clew_core::Error::from(error);
        tracing::warn!(
            error = error.chain(),
            "what deleted corpora left is not removed; the next start tries it again"
        );
    }
}
