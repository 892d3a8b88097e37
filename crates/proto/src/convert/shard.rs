//! Conversions of the messages of `clew.shard.v1`.
//!
//! Both ends are Clew, but a peer may be of another release, so nothing that arrives is trusted to
//! be well-formed.

mod admin;
mod document;
mod erasure;
mod listing;
mod query;
mod select;
mod status;
mod structure;

use clew_core::{Access, CorpusName, DocumentId, Error, Label, ShardIndex, Timestamp};

pub use self::admin::{
    check_from_wire, checked_from_wire, checked_to_wire, reembedded_from_wire, reembedded_to_wire,
};
pub use self::document::{
    DOCUMENTS_AT_ONCE, documents_from_wire, documents_to_wire, stored_from_wire, stored_to_wire,
};
pub use self::erasure::{
    erasure_from_wire, erasure_to_wire, forget_from_wire, forgotten_from_wire, forgotten_to_wire,
    holding_to_wire, scan_to_wire,
};
pub use self::listing::{
    chunk_list_from_wire, chunk_list_to_wire, conversations_from_wire, conversations_to_wire,
    listed_chunks_from_wire, listed_chunks_to_wire, stored_turns_from_wire, stored_turns_to_wire,
};
pub use self::query::{
    WantedChunks, candidates_batch_from_wire, candidates_batch_to_wire, candidates_from_wire,
    candidates_to_wire, chunk_refs_from_wire, chunk_refs_to_wire, chunks_from_wire, chunks_to_wire,
    clue_query_from_wire, clue_query_to_wire, drafted_from_wire, drafted_to_wire, found_by_search,
    found_for_all_to_wire, found_from_wire, found_to_wire,
};
pub use self::select::{
    SelectAsked, describe_from_wire, describe_to_wire, described_from_wire, described_to_wire,
    select_from_wire, select_to_wire,
};
pub use self::status::{
    counts_from_wire, counts_to_wire, list_from_wire, list_to_wire, status_from_wire,
    status_to_wire,
};
pub use self::structure::{
    graph_query_from_wire, graph_query_to_wire, segments_from_wire, segments_to_wire,
    tree_from_wire, tree_query_from_wire, tree_query_to_wire, tree_to_wire,
};
use crate::convert::{corpus_name, document_id, timestamp_from_wire, timestamp_to_wire};
use crate::shard::v1 as wire;

/// Shard, with the time at which its corpus was created.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardRef {
    /// Name of its corpus.
    pub corpus: CorpusName,
    /// Time at which that corpus was created, which distinguishes it from an earlier one of the
    /// same name.
    pub corpus_created_at: Timestamp,
    /// Index of the shard in the corpus.
    pub shard: ShardIndex,
}

/// Shard, as far as a caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRefWithAccess {
    /// The shard.
    pub shard: ShardRef,
    /// Access of the caller.
    pub access: Access,
}

impl From<&ShardRefWithAccess> for wire::ShardRef {
    fn from(ShardRefWithAccess { shard, access }: &ShardRefWithAccess) -> Self {
        Self {
            corpus: shard.corpus.to_string(),
            corpus_created_at: Some(timestamp_to_wire(shard.corpus_created_at)),
            shard: shard.shard.0,
            held_labels: access.labels().map(ToString::to_string).collect(),
            holds_all_labels: access.is_all(),
        }
    }
}

/// Converts a shard from the wire. If nothing is set about labels, the caller holds none.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn shard_from_wire(shard: Option<wire::ShardRef>) -> Result<ShardRefWithAccess, Error> {
    let shard = shard.ok_or_else(|| missing("shard"))?;
    let access = match shard.holds_all_labels {
        true => Access::all(),
        false => {
            let held = shard.held_labels.iter().map(|label| label.parse());
            Access::holding(held.collect::<Result<Vec<Label>, Error>>()?)
        }
    };
    let shard = ShardRef {
        corpus: corpus_name(&shard.corpus)?,
        corpus_created_at: required_time("shard.corpus_created_at", shard.corpus_created_at)?,
        shard: ShardIndex(shard.shard),
    };
    Ok(ShardRefWithAccess { shard, access })
}

fn optional_document_id(field: &str, id: &str) -> Result<Option<DocumentId>, Error> {
    if id.is_empty() { Ok(None) } else { document_id(field, id).map(Some) }
}

fn required_time(field: &str, time: Option<prost_types::Timestamp>) -> Result<Timestamp, Error> {
    timestamp_from_wire(field, &time.ok_or_else(|| missing(field))?)
}

fn optional_time(
    field: &str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, Error> {
    time.map(|time| timestamp_from_wire(field, &time)).transpose()
}

fn missing(field: &str) -> Error {
    Error::invalid(field, "expected a value")
}

fn malformed(what: &str) -> Error {
    Error::internal(format!("a shard's response is malformed: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn shard() -> ShardRefWithAccess {
        let shard = ShardRef {
            corpus: "notes".parse().unwrap(),
            corpus_created_at: Timestamp::from_micros(7),
            shard: ShardIndex(3),
        };
        ShardRefWithAccess { shard, access: Access::holding(["a".parse().unwrap()]) }
    }

    #[test]
    fn a_caller_of_whom_nothing_is_said_holds_no_labels() {
        for access in [Access::all(), Access::holding([]), shard().access] {
            let seen = ShardRefWithAccess { access, ..shard() };
            assert_eq!(shard_from_wire(Some((&seen).into())).unwrap(), seen);
        }
        let silent = wire::ShardRef {
            held_labels: Vec::new(),
            holds_all_labels: false,
            ..(&ShardRefWithAccess { access: Access::all(), ..shard() }).into()
        };
        assert_eq!(shard_from_wire(Some(silent)).unwrap().access, Access::holding([]));
    }
}
