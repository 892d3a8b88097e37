//! A corpus as its clients see it.

use clew_auth::Caller;
use clew_core::{Corpus, Counts};
use clew_proto::convert::corpus::corpus_to_wire;
use clew_proto::corpus::v1 as wire;

/// Converts counts for the wire.
pub(crate) fn counts_to_wire(counts: &Counts) -> wire::CorpusCounts {
    let pending = counts.pending.saturating_add(counts.retrying);
    wire::CorpusCounts {
        documents: counts.accepted,
        // Counts come from other nodes, so nothing about them is certain.
        indexed_documents: counts.accepted.saturating_sub(pending).saturating_sub(counts.set_aside),
        pending_documents: pending,
        failed_documents: counts.set_aside,
        chunks: counts.chunks,
        tokens: counts.tokens,
        text_bytes: counts.bytes,
        structured_documents: counts.structured,
        unstructured_documents: counts.unstructured,
        nodes: counts.nodes,
    }
}

/// Converts a corpus for the wire, under its caller's name.
pub(crate) fn described(
    caller: &Caller,
    corpus: &Corpus,
    counts: Option<wire::CorpusCounts>,
) -> wire::Corpus {
    let settings = corpus.settings();
    let name = caller.name_of(&settings.name).to_owned();
    wire::Corpus { name, ..corpus_to_wire(settings.clone(), counts) }
}
