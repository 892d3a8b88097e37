//! Compares the owner's memory with the tables.

use std::collections::BTreeMap;

use clew_core::{Breach, DocumentId, Invariant};
use lancedb::query::{QueryBase, Select};

use crate::catalogue::reading::Reading;
use crate::error::Result;
use crate::read::view::Snapshot;
use crate::table::engine::scan;
use crate::table::kind::TableKind;
use crate::values::facts::Facts;

/// Returns the differences between the owner's memory and the tables.
pub(super) async fn state_breaches(snapshot: &Snapshot) -> Result<Vec<Breach>> {
    let mut reading = Reading::default();
    for (kind, table) in [
        (TableKind::Sources, &snapshot.sources),
        (TableKind::Chunks, &snapshot.chunks),
        (TableKind::Nodes, &snapshot.nodes),
    ] {
        let query = table.query().select(Select::columns(Reading::columns(kind)));
        scan(kind, query, |batch| reading.add(kind, batch)).await?;
    }
    // Corpus tree nodes are not of any one document, so they are not checked here.
    let (documents, _upper) = reading.finish();
    let mut stored: BTreeMap<DocumentId, Facts> = documents.into_iter().collect();
    let breach = |document_id: &DocumentId, known: &Facts, found: &Facts| Breach {
        invariant: Invariant::StateTrue,
        document_id: document_id.clone(),
        detail: format!("known are {}; stored are {}", outline(known), outline(found)),
    };
    let mut breaches = Vec::new();
    for record in snapshot.catalogue.after(None) {
        let found = stored.remove(&record.id).unwrap_or_default();
        if sorted(&record.facts) != sorted(&found) {
            breaches.push(breach(&record.id, &record.facts, &found));
        }
    }
    let unknown = stored.iter().map(|(id, found)| breach(id, &Facts::default(), found));
    breaches.extend(unknown);
    Ok(breaches)
}

/// Returns facts in an order that does not depend on their history, without failures, which have a
/// table of their own, and without what only the writer knows.
fn sorted(facts: &Facts) -> Facts {
    let mut facts = Facts { failure: None, growing: None, ..facts.clone() };
    facts.sources.sort_by_key(|source| source.version);
    facts.chunks.sort_by_key(|chunks| (chunks.version, chunks.recipe.0));
    facts.nodes.sort_by_key(|nodes| (nodes.version, nodes.recipe.0));
    facts
}

fn outline(facts: &Facts) -> String {
    let sources: Vec<u64> = facts.sources.iter().map(|source| source.version.0).collect();
    let chunks = facts.chunks.iter().map(|of| (of.version.0, of.chunks)).collect::<Vec<_>>();
    format!("versions {sources:?} and (version, chunks) {chunks:?}")
}
