//! Tests of which chunks are visible: after replacement, forgetting, and late writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::record_batch::RecordBatch;
use clew_core::SearchMode;
use clew_index::MaintenanceStep;
use futures::TryStreamExt;
use lancedb::query::ExecutableQuery;

use crate::fixture::{Fixture, Search, document, id, shown};

/// Returns the text of version `n`: three lines that all name it.
fn version_text(n: usize) -> String {
    format!("anchor edition{n} first\nanchor edition{n} second\nanchor edition{n} third\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_document_is_always_seen_whole_in_one_version() {
    let mut fixture = Fixture::new().await;
    fixture
        .ingest(vec![document("other", "something else"), document("a", &version_text(0))], 1)
        .await;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = [SearchMode::Dense, SearchMode::Sparse]
        .into_iter()
        .map(|mode| {
            let (reader, done) = (fixture.reader(), done.clone());
            tokio::spawn(async move {
                let mut newest = 0;
                loop {
                    let is_last = done.load(Ordering::Acquire);
                    let search = Search { mode, limit: 50, ..Search::new("anchor") };
                    let found = search.run(&reader).await;
                    let hits: Vec<_> = [found.dense, found.sparse]
                        .concat()
                        .into_iter()
                        .filter(|hit| hit.document_id == id("a"))
                        .collect();
                    assert_eq!(hits.len(), 3, "{hits:?}");
                    assert!(hits.iter().all(|hit| hit.version == hits[0].version), "{hits:?}");
                    let edition = shown(&hits[0]).text.split_whitespace().nth(1).unwrap();
                    assert!(hits.iter().all(|hit| shown(hit).text.contains(edition)), "{hits:?}");
                    let n: usize = edition.trim_start_matches("edition").parse().unwrap();
                    assert!(n >= newest, "went back from {newest} to {n}");
                    newest = n;
                    if is_last {
                        return newest;
                    }
                }
            })
        })
        .collect();
    for n in 1..=30 {
        fixture.ingest(vec![document("a", &version_text(n))], n as i64 + 1).await;
    }
    done.store(true, Ordering::Release);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), 30);
    }
    let statistics = fixture.shard.statistics().await.unwrap();
    assert_eq!((statistics.sources.rows, statistics.chunks.rows), (2, 4));
}

#[tokio::test]
async fn a_forgotten_document_is_gone_at_once_and_after_a_restart() {
    let mut fixture = Fixture::new().await;
    fixture
        .ingest(vec![document("a", "secret words\nmore"), document("b", "other words")], 1)
        .await;
    fixture.shard.accept(vec![document("a", "secret words\nnewer")], at(2)).await.unwrap();
    let receipts = fixture.shard.forget(&[id("a"), id("never")]).await.unwrap();
    assert_eq!((receipts[0].versions, receipts[0].chunks, receipts[0].bytes), (2, 2, 17 + 18));
    assert_eq!((receipts[1].versions, receipts[1].chunks), (0, 0));
    for _ in 0..2 {
        let found = Search::new("secret words").run(&fixture.reader()).await;
        assert!(found.dense.iter().chain(&found.sparse).all(|hit| hit.document_id == id("b")));
        assert_eq!(found.dense.len(), 1);
        assert!(fixture.reader().status(&id("a")).is_none());
        assert_eq!(fixture.reader().counts().documents, 1);
        fixture.reopen().await;
    }
}

fn at(micros: i64) -> clew_core::Timestamp {
    clew_core::Timestamp::from_micros(micros)
}

/// Returns the rows of `chunks` as the storage engine holds them.
async fn raw_chunks(fixture: &Fixture) -> (lancedb::Table, Vec<RecordBatch>) {
    let connection = lancedb::connect(fixture.folder.to_str().unwrap()).execute().await.unwrap();
    let table = connection.open_table("chunks").execute().await.unwrap();
    let rows = table.query().execute().await.unwrap().try_collect().await.unwrap();
    (table, rows)
}

#[tokio::test]
async fn a_late_writer_neither_brings_back_what_is_gone_nor_shadows_what_is_newer() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("gone", "ghost one"), document("kept", "ghost two")], 1).await;
    let (_, late) = raw_chunks(&fixture).await;
    fixture.shard.forget(&[id("gone")]).await.unwrap();
    fixture.ingest(vec![document("kept", "fresh two")], 2).await;
    let (table, _) = raw_chunks(&fixture).await;
    table.add(late).execute().await.unwrap();

    fixture.reopen().await;
    let found = Search::new("ghost").run(&fixture.reader()).await;
    assert!(found.sparse.is_empty());
    assert!(found.dense.iter().all(|hit| shown(hit).text == "fresh two"), "{found:?}");
    assert_eq!(fixture.shard.statistics().await.unwrap().chunks.rows, 3);

    let plan = fixture.shard.maintenance_plan().await.unwrap();
    assert_eq!(plan.steps[0], MaintenanceStep::Sweep);
    fixture.shard.maintain(&plan, std::time::Duration::from_secs(5)).await.unwrap();
    assert_eq!(fixture.shard.statistics().await.unwrap().chunks.rows, 1);
}

#[tokio::test]
async fn chunks_that_two_writers_wrote_are_made_again() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("a", "twice written\nand more")], 1).await;
    let (table, rows) = raw_chunks(&fixture).await;
    table.add(rows).execute().await.unwrap();

    fixture.reopen().await;
    let plan = fixture.shard.maintenance_plan().await.unwrap();
    fixture.shard.maintain(&plan, std::time::Duration::from_secs(5)).await.unwrap();
    fixture.index_due(2).await;
    let found = Search::new("twice written").run(&fixture.reader()).await;
    assert_eq!((found.sparse.len(), found.dense.len()), (1, 2));
    assert_eq!(fixture.shard.statistics().await.unwrap().chunks.rows, 2);
}
