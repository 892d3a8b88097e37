//! Tests that forgotten text leaves the disk and the memory, whatever is interrupted.

use std::time::Duration;

use clew_core::{Access, SearchMode, Timestamp};
use clew_index::{Error, MaintenanceStep, Tuning};

use crate::fixture::{Fixture, Search, document, files_containing, id};

const MARKER: &str = "zanzibarite";
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns a shard with indexes, in which one document holds the marker.
async fn marked() -> Fixture {
    let tuning = Tuning { index_rows: 10, vector_index_rows: 10, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    let mut documents: Vec<_> =
        (0..40).map(|i| document(&format!("d{i}"), &format!("plain text number {i}"))).collect();
    let mut secret = document("secret", &format!("the {MARKER} lies here\nand {MARKER} there"));
    secret.title = format!("About {MARKER}");
    secret.attributes.insert("topic".to_owned().try_into().unwrap(), MARKER.into());
    documents.push(secret);
    fixture.ingest(documents, 1).await;
    maintain(&mut fixture).await;
    assert_eq!(fixture.shard.statistics().await.unwrap().vector_indexes_missing, 0);
    // Another version, and one that is due.
    fixture.ingest(vec![document("secret", &format!("another {MARKER} here"))], 2).await;
    let pending = document("secret", &format!("a pending {MARKER}"));
    fixture.shard.accept(vec![pending], Timestamp::from_micros(3)).await.unwrap();
    assert!(!files_containing(&fixture.folder, MARKER).is_empty());
    fixture
}

async fn maintain(fixture: &mut Fixture) {
    let plan = fixture.shard.maintenance_plan().await.unwrap();
    let report = fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
    assert_eq!(report.done, plan.steps);
}

async fn assert_others_untouched(fixture: &Fixture) {
    assert_eq!(fixture.reader().counts().documents, 40);
    let found = Search { limit: 50, ..Search::new("plain text") }.run(&fixture.reader()).await;
    assert_eq!((found.dense.len(), found.sparse.len()), (40, 40));
}

#[tokio::test]
async fn after_erasing_memory_does_not_hold_the_text_either() {
    let mut fixture = marked().await;
    let texts = fixture.shard.settings().memory.texts.clone();
    let of_all = Search { limit: 50, mode: SearchMode::Sparse, ..Search::new("plain text") };
    of_all.run(&fixture.reader()).await;
    let of_others = texts.taken();
    let found = Search::new(MARKER).run(&fixture.reader()).await;
    assert_eq!(found.sparse.len(), 1);
    assert!(0 < of_others && of_others < texts.taken());
    fixture.shard.forget(&[id("secret")]).await.unwrap();
    fixture.shard.erase(PATIENCE).await.unwrap();
    assert_eq!(texts.taken(), 0);
    of_all.run(&fixture.reader()).await;
    assert_eq!(texts.taken(), of_others);
    of_all.run(&fixture.reader()).await;
    assert_eq!(texts.taken(), of_others);
    drop(fixture.shard);
    assert_eq!(texts.taken(), 0);
}

#[tokio::test]
async fn after_erasing_no_file_holds_the_text() {
    let mut fixture = marked().await;
    let receipt = fixture.shard.forget(&[id("secret")]).await.unwrap().remove(0);
    assert_eq!((receipt.versions, receipt.chunks), (2, 1));
    assert!(fixture.shard.is_erasure_wanted());
    fixture.shard.erase(PATIENCE).await.unwrap();
    assert!(!fixture.shard.is_erasure_wanted());
    assert_eq!(files_containing(&fixture.folder, MARKER), Vec::<std::path::PathBuf>::new());
    assert_others_untouched(&fixture).await;
    fixture.reopen().await;
    assert_others_untouched(&fixture).await;
}

#[tokio::test]
async fn searches_find_and_score_what_is_left_as_if_the_forgotten_had_never_been() {
    let tuning = Tuning { index_rows: 10, vector_index_rows: 10, ..Tuning::default() };
    let plain = || (0..40).map(|i| document(&format!("d{i}"), &format!("plain text number {i}")));
    let mut without = Fixture::with_tuning(tuning).await;
    without.ingest(plain().collect(), 1).await;
    maintain(&mut without).await;
    let mut fixture = Fixture::with_tuning(tuning).await;
    let secret = document("secret", &format!("plain text about {MARKER}\nand {MARKER} there"));
    let mut documents: Vec<_> = plain().collect();
    documents.insert(20, secret);
    fixture.ingest(documents, 1).await;
    maintain(&mut fixture).await;
    fixture.shard.forget(&[id("secret")]).await.unwrap();
    fixture.shard.erase(PATIENCE).await.unwrap();
    assert_eq!(files_containing(&fixture.folder, MARKER), Vec::<std::path::PathBuf>::new());
    for text in ["plain text", "number 7", MARKER] {
        let search = Search { limit: 50, mode: SearchMode::Sparse, ..Search::new(text) };
        let found = search.run(&fixture.reader()).await.sparse.into_iter();
        let scores = |found: Vec<clew_core::Hit>| -> Vec<(String, f32)> {
            found.into_iter().map(|hit| (hit.document_id.to_string(), hit.score)).collect()
        };
        let expected = scores(search.run(&without.reader()).await.sparse);
        assert_eq!(scores(found.collect()), expected, "{text}");
    }
}

#[tokio::test]
async fn an_erasure_that_a_crash_interrupted_is_wanted_after_the_restart() {
    let mut fixture = marked().await;
    fixture.shard.forget(&[id("secret")]).await.unwrap();
    fixture.reopen().await;
    let plan = fixture.shard.maintenance_plan().await.unwrap();
    assert!(plan.steps.contains(&MaintenanceStep::Erase), "{plan:?}");
    maintain(&mut fixture).await;
    assert!(files_containing(&fixture.folder, MARKER).is_empty());
    assert_others_untouched(&fixture).await;
}

#[tokio::test]
async fn a_crash_between_the_steps_of_forgetting_is_healed() {
    let mut fixture = marked().await;
    // The first two steps are the mark and the rows of `sources`.
    std::fs::write(fixture.folder.join("erasure-wanted"), "").unwrap();
    let connection = lancedb::connect(fixture.folder.to_str().unwrap()).execute().await.unwrap();
    let sources = connection.open_table("sources").execute().await.unwrap();
    sources.delete("document_id = 'secret'").await.unwrap();
    fixture.reopen().await;
    assert!(Search::new(MARKER).run(&fixture.reader()).await.sparse.is_empty());
    maintain(&mut fixture).await;
    assert!(files_containing(&fixture.folder, MARKER).is_empty());
    assert_others_untouched(&fixture).await;
}

#[tokio::test]
async fn erasing_waits_for_searches_and_says_so_when_they_go_on() {
    let mut fixture = marked().await;
    let view = fixture.reader().with_access(&Access::all());
    let query = Search::new("plain text").query();
    // A search that began and makes no progress, as in a stalled task.
    let mut running = Box::pin(view.candidates(&query));
    assert!(futures::poll!(running.as_mut()).is_pending());
    fixture.shard.forget(&[id("secret")]).await.unwrap();
    let error = fixture.shard.erase(Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(error, Error::ReadersActive));
    assert!(fixture.shard.is_erasure_wanted());
    // The search reads files that are no longer current, and they still exist.
    let found = running.await.unwrap();
    assert_eq!(found.sparse.len(), 10);
    fixture.shard.erase(PATIENCE).await.unwrap();
    assert!(files_containing(&fixture.folder, MARKER).is_empty());
}

#[tokio::test]
async fn asking_again_after_a_crash_between_any_two_steps_finishes_and_scans() {
    for steps in 0..3 {
        let mut fixture = marked().await;
        match steps {
            // The mark and the rows of `sources`.
            0 => {
                std::fs::write(fixture.folder.join("erasure-wanted"), "").unwrap();
                let folder = fixture.folder.to_str().unwrap();
                let connection = lancedb::connect(folder).execute().await.unwrap();
                let sources = connection.open_table("sources").execute().await.unwrap();
                sources.delete("document_id = 'secret'").await.unwrap();
            }
            // All rows.
            1 => drop(fixture.shard.forget(&[id("secret")]).await.unwrap()),
            // All but the receipt.
            _ => {
                fixture.shard.forget(&[id("secret")]).await.unwrap();
                fixture.shard.erase(PATIENCE).await.unwrap();
            }
        }
        fixture.reopen().await;
        let (asked, access) = ([id("secret"), id("unknown")], Access::all());
        let forgetting = fixture.shard.forget_for_good(&asked, &access, PATIENCE);
        let (documents, scan) = Box::pin(forgetting).await.unwrap();
        assert!(documents.iter().all(|document| document.versions == 0));
        assert!(scan.is_clean(), "after {steps}: {scan:?}");
        assert!(scan.files > 0 && scan.tables == 4);
        assert_eq!(files_containing(&fixture.folder, MARKER), Vec::<std::path::PathBuf>::new());
        assert_others_untouched(&fixture).await;
    }
}
