//! A corpus, as JSON and as a line of text.

use clew_proto::chat::v1 as chat;
use clew_proto::corpus::v1 as wire;
use serde_json::{Value, json};

use super::reembed;
use crate::output::{self, timestamp};

/// Returns a corpus as JSON. Counts are null if they are not known.
pub fn document(corpus: &wire::Corpus) -> Value {
    let count = |of: fn(&wire::CorpusCounts) -> u64| corpus.counts.as_ref().map(of);
    let encoder = corpus.encoder.clone().unwrap_or_default();
    json!({
        "corpus": corpus.name,
        "documents": count(|counts| counts.documents),
        "indexed_documents": count(|counts| counts.indexed_documents),
        "pending_documents": count(|counts| counts.pending_documents),
        "failed_documents": count(|counts| counts.failed_documents),
        "chunks": count(|counts| counts.chunks),
        "tokens": count(|counts| counts.tokens),
        "text_bytes": count(|counts| counts.text_bytes),
        "structured_documents": count(|counts| counts.structured_documents),
        "unstructured_documents": count(|counts| counts.unstructured_documents),
        "nodes": count(|counts| counts.nodes),
        "shards_missing": corpus.shards_missing,
        "shards": corpus.shards,
        "memory": corpus.memory.map(|memory| {
            json!({ "ratio": memory.ratio, "segment_tokens": memory.segment_tokens })
        }),
        "chat": corpus.chat.as_ref().map(chat_document),
        "retention_days": (corpus.retention_days > 0).then_some(corpus.retention_days),
        "encoder": { "model": encoder.model, "revision": encoder.revision, "dimension": encoder.dimension },
        "reembedding": corpus.reembedding.as_ref().map(reembed::document),
        "created_at": corpus.created_at.as_ref().map(timestamp),
        "fault": corpus.fault.as_ref().map(|fault| {
            json!({ "reason": fault.reason, "message": fault.message })
        }),
    })
}

/// Returns chat settings as JSON.
fn chat_document(settings: &chat::ChatSettings) -> Value {
    let word = |name: &str, of: &str| name.trim_start_matches(of).to_lowercase();
    json!({
        "keys": settings.keys,
        "merging": word(settings.merging().as_str_name(), "MERGING_"),
        "value": word(settings.value().as_str_name(), "VALUE_"),
        "time": word(settings.time().as_str_name(), "TIME_USE_"),
        "history": word(settings.history().as_str_name(), "HISTORY_"),
        "notes": word(settings.notes().as_str_name(), "NOTES_"),
        "layout": word(settings.layout().as_str_name(), "LAYOUT_"),
    })
}

/// Returns a corpus as one line of text.
pub fn line(corpus: &wire::Corpus) -> String {
    if let Some(fault) = &corpus.fault {
        return format!("{}: cannot be used: {}", corpus.name, fault.message);
    }
    let mut line = match &corpus.counts {
        None if corpus.shards_missing.len() < corpus.shards as usize => {
            let missing = output::missing(&corpus.shards_missing);
            format!("{}: {}", corpus.name, missing.trim_end())
        }
        None => format!("{}: does not run; ask for its status", corpus.name),
        Some(counts) => format!(
            "{}: {} documents ({} indexed, {} with tree and graph, {} pending, {} failed), {} chunks, \
             {} tokens",
            corpus.name,
            counts.documents,
            counts.indexed_documents,
            counts.structured_documents,
            counts.pending_documents,
            counts.failed_documents,
            counts.chunks,
            counts.tokens
        ),
    };
    if let Some(under_way) = reembed::under_way(corpus) {
        line.push_str(&format!("; {under_way}"));
    }
    line
}
