//! Finds the snapshots of a corpus that hold given documents, by the ids in each snapshot's own
//! tables.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use clew_core::{
    Access, CorpusName, DocumentId, HoldingSnapshot, ShardIndex, SnapshotName, Timestamp, placement,
};
use futures::StreamExt;
use lancedb::query::{QueryBase, Select};
use tokio::time::Instant;

use crate::backup::snapshots::{Snapshots, WholeSnapshot};
use crate::boxed;
use crate::error::{Error, Operation, Result};
use crate::storage::session::IndexMemory;
use crate::table::column;
use crate::table::engine::{run, scan};
use crate::table::filter;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;

/// Number of snapshots that are searched at the same time.
const AT_ONCE: usize = 4;

impl Snapshots {
    /// Returns the snapshots of a corpus, by name, that hold any of these documents that the caller
    /// sees. Includes snapshots for which this is not known: they cannot be read, are not complete,
    /// or `budget` did not suffice.
    ///
    /// # Errors
    /// Returns a storage error if the snapshots cannot be listed.
    #[boxed]
    pub async fn holding(
        &self,
        corpus: &CorpusName,
        ids: &[DocumentId],
        access: &Access,
        budget: Duration,
    ) -> Result<Vec<HoldingSnapshot>> {
        let until = Instant::now() + budget;
        let look = |name: SnapshotName| async move {
            let looking = self.documents_in(corpus, &name, ids, access);
            // Boxed: the storage engine's futures are large.
            let looked = tokio::time::timeout_at(until, Box::pin(looking)).await;
            let (taken_at, documents, problem) = match looked {
                Ok(Ok((taken_at, documents))) => (Some(taken_at), documents, String::new()),
                Ok(Err(Error::SnapshotNotFound { .. })) => (None, 0, String::new()),
                Ok(Err(Error::SnapshotUnfinished(_))) => {
                    (None, 0, "it is not whole: what was copied to it may hold them".to_owned())
                }
                Ok(Err(error)) => (None, 0, error.to_string()),
                Err(_) => (None, 0, "there was no time to look into it; ask again".to_owned()),
            };
            HoldingSnapshot { name: name.into(), taken_at, documents, problem }
        };
        let mut found: Vec<HoldingSnapshot> = futures::stream::iter(self.names(corpus).await?)
            .map(look)
            .buffered(AT_ONCE)
            .filter(|one| std::future::ready(one.documents > 0 || !one.problem.is_empty()))
            .collect()
            .await;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Returns when a snapshot was taken, and how many of the documents it holds that a caller
    /// sees.
    async fn documents_in(
        &self,
        corpus: &CorpusName,
        name: &SnapshotName,
        ids: &[DocumentId],
        access: &Access,
    ) -> Result<(Timestamp, u64)> {
        let snapshot = self.read(corpus, name).await?;
        // The snapshot may be of an earlier corpus of that name, which had another number of
        // shards.
        let shards = snapshot.settings().shards;
        let mut by_shard: BTreeMap<ShardIndex, Vec<&DocumentId>> = BTreeMap::new();
        for id in ids {
            by_shard.entry(placement::shard_of(id, shards)).or_default().push(id);
        }
        let mut documents = 0;
        for (shard, ids) in by_shard {
            documents += documents_of(&snapshot, shard, &ids, access).await?;
        }
        Ok((snapshot.taken_at(), documents))
    }
}

/// Returns how many of these documents a shard of a snapshot holds that a caller sees.
async fn documents_of(
    snapshot: &WholeSnapshot,
    shard: ShardIndex,
    ids: &[&DocumentId],
    access: &Access,
) -> Result<u64> {
    const KIND: TableKind = TableKind::Sources;
    // No index is read.
    let memory = IndexMemory::new(0);
    let connection = snapshot.place.join(&shard.to_string()).connect(&memory).await?;
    let table = run(KIND, Operation::Open, connection.open_table(KIND.name()).execute()).await?;
    let stored = run(KIND, Operation::Read, table.schema()).await?;
    // Rows that were written before there were labels require none.
    let labelled = stored.field_with_name(column::LABELS).is_ok();
    let mut columns = vec![column::DOCUMENT_ID, column::VERSION];
    columns.extend(labelled.then_some(column::LABELS));
    let query = table.query().only_if_expr(filter::documents(ids.iter().copied()));
    let mut found = HashSet::new();
    scan(KIND, query.select(Select::columns(&columns)), |batch| {
        let rows = Rows::new(KIND, batch);
        let needs = if labelled { rows.label_sets()? } else { Vec::new() };
        for (row, (id, _)) in rows.versions()?.into_iter().enumerate() {
            if needs.get(row).is_none_or(|needs| access.admits(needs)) {
                found.insert(id);
            }
        }
        Ok(())
    })
    .await?;
    Ok(found.len() as u64)
}
