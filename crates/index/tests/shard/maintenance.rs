//! Tests that maintenance keeps a shard small and changes nothing that readers see.

use std::time::Duration;

use clew_core::Access;
use clew_index::{MaintenancePlan, MaintenanceStep, TableKind, Tuning};

use crate::fixture::{Fixture, Search, document};

const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn many_small_commits_leave_few_fragments_and_versions() {
    let tuning = Tuning { index_rows: 50, unindexed_chunks: 100, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    for i in 0..100 {
        fixture.ingest(vec![document(&format!("d{i}"), &format!("apricot n{i}"))], i + 1).await;
        let plan = fixture.shard.maintenance_plan().await.unwrap();
        fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
        for (_, table) in fixture.shard.statistics().await.unwrap().tables() {
            assert!(table.fragments <= tuning.small_fragments, "{table:?}");
            assert!(table.versions <= tuning.versions + 8, "{table:?}");
            assert!(table.unindexed_rows <= tuning.unindexed_chunks, "{table:?}");
        }
    }
    for _ in 0..2 {
        let search = Search { limit: 200, ..Search::new("apricot") };
        let found = search.run(&fixture.reader()).await;
        assert_eq!((found.dense.len(), found.sparse.len()), (100, 100));
        assert_eq!(fixture.reader().counts().documents, 100);
        fixture.reopen().await;
    }
}

#[tokio::test]
async fn a_shard_at_rest_needs_nothing() {
    let tuning = Tuning { unindexed_chunks: 1, unindexed_document_bytes: 1, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    fixture.ingest(vec![document("a", "apricot")], 1).await;
    let plan = fixture.shard.maintenance_plan().await.unwrap();
    let indexing = [TableKind::Sources, TableKind::Chunks]
        .map(|kind| [MaintenanceStep::Compact(kind), MaintenanceStep::Prune(kind)]);
    assert_eq!(plan.steps, indexing.concat());
    fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
    assert_eq!(fixture.shard.maintenance_plan().await.unwrap(), MaintenancePlan::default());
    fixture.reopen().await;
    assert_eq!(fixture.shard.maintenance_plan().await.unwrap(), MaintenancePlan::default());
}

#[tokio::test]
async fn removing_old_versions_is_postponed_while_they_are_read() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("a", "apricot")], 1).await;
    let view = fixture.reader().with_access(&Access::all());
    let query = Search::new("apricot").query();
    let mut running = Box::pin(view.candidates(&query));
    assert!(futures::poll!(running.as_mut()).is_pending());
    fixture.ingest(vec![document("a", "basalt")], 2).await;
    let plan = MaintenancePlan { steps: vec![MaintenanceStep::Prune(TableKind::Chunks)] };
    let report = fixture.shard.maintain(&plan, Duration::from_millis(20)).await.unwrap();
    assert_eq!((report.done, report.postponed), (vec![], plan.steps.clone()));
    assert_eq!(running.await.unwrap().sparse[0].shown.as_ref().unwrap().text, "apricot");
    let report = fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
    assert_eq!(report.done, plan.steps);
    assert_eq!(fixture.shard.statistics().await.unwrap().chunks.versions, 1);
}
