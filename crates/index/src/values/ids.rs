//! Ids of documents in a request.

use std::collections::HashSet;

use clew_core::DocumentId;

use crate::error::{Error, Result};

/// Refuses a request that names a document twice.
pub(crate) fn refuse_duplicates<'a>(ids: impl Iterator<Item = &'a DocumentId>) -> Result<()> {
    let mut seen = HashSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(Error::invalid(
                "document.id",
                format!("expected each id once in a request, got `{id}` twice"),
            ));
        }
    }
    Ok(())
}
