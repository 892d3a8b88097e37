//! Compares the owner's memory with the tables, document by document.

use std::collections::BTreeSet;

use clew_core::{Breach, DocumentId, Invariant};
use lancedb::query::{QueryBase, Select};

use crate::error::Result;
use crate::read::check::stored::read;
use crate::read::view::Snapshot;
use crate::table::column;
use crate::table::engine::scan;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::values::facts::Facts;

/// Maximum number of unknown documents that are reported.
const UNKNOWN: usize = 100;

/// Returns the difference between what the owner knows of a document and what its rows say.
pub(super) fn state_breach(
    document_id: &DocumentId,
    known: &Facts,
    found: &Facts,
) -> Option<Breach> {
    (sorted(known) != sorted(found)).then(|| Breach {
        invariant: Invariant::StateTrue,
        document_id: document_id.clone(),
        detail: format!("known are {}; stored are {}", outline(known), outline(found)),
    })
}

/// Returns documents that have rows and that the owner does not know. Reads one column of every
/// row, and keeps nothing of the known ones.
pub(super) async fn unknown_breaches(snapshot: &Snapshot) -> Result<Vec<Breach>> {
    let mut unknown: BTreeSet<DocumentId> = BTreeSet::new();
    for (kind, table) in [
        (TableKind::Sources, &snapshot.sources),
        (TableKind::Chunks, &snapshot.chunks),
        (TableKind::Nodes, &snapshot.nodes),
    ] {
        let query = table.query().select(Select::columns(&[column::DOCUMENT_ID]));
        scan(kind, query, |batch| {
            let owners = Rows::new(kind, batch).owners()?.into_iter().flatten();
            let is_unknown = |id: &DocumentId| snapshot.catalogue.get(id).is_none();
            let room = UNKNOWN - unknown.len();
            unknown.extend(owners.filter(is_unknown).take(room));
            Ok(())
        })
        .await?;
    }
    let rows = read(snapshot, unknown.iter()).await?;
    let nothing = Facts::default();
    let breach = |id| state_breach(id, &nothing, &rows.get(id)?.facts);
    Ok(unknown.iter().filter_map(breach).collect())
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

#[cfg(test)]
mod tests {
    use clew_core::{Access, CheckQuery, Label, Timestamp};

    use super::*;
    use crate::fixture::{document, open};
    use crate::settings::Tuning;

    #[tokio::test]
    async fn what_the_owner_does_not_know_as_it_is_stored_is_found_on_any_page() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path(), Tuning::default()).await;
        let now = Timestamp::from_micros(1);
        let ids = ["a", "b", "c", "d"];
        shard.accept(ids.map(|id| document(id, id)).to_vec(), now).await.unwrap();
        let change = |shard: &mut crate::ShardWriter, id: &str, change: fn(&mut Facts)| {
            shard.catalogue.change(&id.parse().unwrap(), change);
        };
        change(&mut shard, "b", |facts| *facts = Facts::default());
        change(&mut shard, "c", |facts| facts.sources[0].accepted_at = Timestamp::from_micros(2));
        shard.publish().await.unwrap();
        let stranger = Access::holding(["none".parse::<Label>().unwrap()]);
        for (access, expected) in [(Access::all(), &["b", "c"][..]), (stranger, &["c"])] {
            let view = shard.reader().with_access(&access);
            let (mut found, mut query) = (Vec::new(), CheckQuery { after: None, limit: 1 });
            loop {
                let page = view.check(&query).await.unwrap();
                found.extend(page.breaches);
                query.after = page.last;
                if query.after.is_none() {
                    break;
                }
            }
            let state = found.iter().filter(|breach| breach.invariant == Invariant::StateTrue);
            let state: Vec<&str> = state.map(|breach| breach.document_id.as_str()).collect();
            assert_eq!(state, expected, "{found:?}");
        }
    }
}
