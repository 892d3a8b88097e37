//! Tests of chunks that are committed in parts: searches find none of them or all, and what nobody
//! finishes is deleted.

use clew_core::{Access, Filter, Timestamp};
use clew_index::{DerivedPart, MaintenancePlan, MaintenanceStep};

use crate::check::check_all;
use crate::fixture::{Fixture, Search, document, files_containing, id, in_parts};

/// Six lines, each of which is a chunk.
const TEXT: &str = "apricot one\nbasalt two\ncobalt three\ndolomite four\nember five\nfeldspar six";
/// Lines of a part.
const LINES: usize = 2;

/// Returns the parts of the one document that is due.
async fn due(fixture: &Fixture) -> Vec<DerivedPart> {
    let mut derived = fixture.derive_due(100).await;
    assert_eq!(derived.len(), 1);
    in_parts(derived.remove(0), LINES)
}

/// Returns the texts that are found, in order.
async fn found(fixture: &Fixture) -> Vec<String> {
    let search = Search { limit: 50, filter: Filter::default(), ..Search::new("apricot six") };
    let found = search.run(&fixture.reader()).await;
    let mut hits = found.dense;
    hits.sort_by_key(|hit| hit.ordinal);
    hits.iter().map(|hit| hit.shown.as_ref().unwrap().text.trim().to_owned()).collect()
}

async fn rows(fixture: &Fixture) -> u64 {
    fixture.shard.statistics().await.unwrap().chunks.rows
}

async fn sweep(fixture: &mut Fixture) {
    let plan = MaintenancePlan { steps: vec![MaintenanceStep::Sweep] };
    fixture.shard.maintain(&plan, std::time::Duration::from_secs(5)).await.unwrap();
}

async fn accept(fixture: &mut Fixture, text: &str, now: i64) {
    let now = Timestamp::from_micros(now);
    fixture.shard.accept(vec![document("a", text)], now).await.unwrap();
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn a_document_is_found_once_its_last_part_is_committed_and_then_in_place_of_the_version_before()
 {
    let mut fixture = Fixture::new().await;
    let before = "granite\nhematite";
    fixture.ingest(vec![document("a", before)], 1).await;
    accept(&mut fixture, TEXT, 2).await;
    let parts = due(&fixture).await;
    for (committed, part) in parts.iter().enumerate() {
        assert_eq!(found(&fixture).await, lines(before), "after {committed} parts");
        assert_eq!(fixture.reader().counts().pending, 1);
        // Nothing takes the parts for leftovers.
        sweep(&mut fixture).await;
        assert_eq!(rows(&fixture).await, 2 + (committed * LINES) as u64);
        assert_eq!(check_all(&fixture.reader(), 10).await.breaches, []);
        assert!(fixture.shard.commit_part(part).await.unwrap());
    }
    for _ in 0..2 {
        assert_eq!(found(&fixture).await, lines(TEXT));
        assert_eq!((rows(&fixture).await, fixture.reader().counts().pending), (6, 0));
        let checked = check_all(&fixture.reader(), 10).await;
        assert_eq!((checked.chunks, checked.breaches), (6, vec![]));
        fixture.reopen().await;
    }
    // Another attempt comes too late.
    assert!(!fixture.shard.commit_part(&parts[0]).await.unwrap());
    assert_eq!(rows(&fixture).await, 6);
}

#[tokio::test]
async fn after_a_crash_between_parts_nothing_of_them_is_found_and_they_are_made_again() {
    for committed in 1..=2 {
        let mut fixture = Fixture::new().await;
        accept(&mut fixture, TEXT, 1).await;
        let parts = due(&fixture).await;
        for part in &parts[..committed] {
            assert!(fixture.shard.commit_part(part).await.unwrap());
        }
        fixture.reopen().await;
        assert_eq!((found(&fixture).await, rows(&fixture).await), (vec![], 2 * committed as u64));
        // Nobody goes on with them, not even who began.
        assert!(!fixture.shard.commit_part(&parts[2]).await.unwrap());
        if committed == 1 {
            sweep(&mut fixture).await;
            assert_eq!(rows(&fixture).await, 0);
        }
        for part in due(&fixture).await {
            assert!(fixture.shard.commit_part(&part).await.unwrap());
        }
        assert_eq!((found(&fixture).await, rows(&fixture).await), (lines(TEXT), 6));
        assert_eq!(check_all(&fixture.reader(), 10).await.breaches, []);
    }
}

#[tokio::test]
async fn parts_of_a_version_that_is_replaced_or_forgotten_meanwhile_are_deleted() {
    let mut fixture = Fixture::new().await;
    accept(&mut fixture, TEXT, 1).await;
    let replaced = due(&fixture).await;
    assert!(fixture.shard.commit_part(&replaced[0]).await.unwrap());
    accept(&mut fixture, "jasper one\nkyanite two\nlazurite three", 2).await;
    assert!(!fixture.shard.commit_part(&replaced[1]).await.unwrap());
    assert!(!fixture.shard.commit_part(&replaced[2]).await.unwrap());
    sweep(&mut fixture).await;
    assert_eq!(rows(&fixture).await, 0);
    let newer = due(&fixture).await;
    assert!(fixture.shard.commit_part(&newer[0]).await.unwrap());
    let patience = std::time::Duration::from_secs(5);
    let (ids, access) = ([id("a")], Access::all());
    let forgetting = fixture.shard.forget_for_good(&ids, &access, patience);
    let (receipts, scan) = forgetting.await.unwrap();
    assert_eq!((receipts[0].versions, receipts[0].chunks), (1, 1));
    assert!(scan.is_clean(), "{:?}", scan.left);
    assert!(!fixture.shard.commit_part(&newer[1]).await.unwrap());
    assert_eq!((found(&fixture).await, rows(&fixture).await), (vec![], 0));
    assert!(files_containing(&fixture.folder, "lazurite").is_empty());
    assert_eq!(check_all(&fixture.reader(), 10).await.breaches, []);
}

#[tokio::test]
async fn parts_out_of_order_are_refused_and_abandoned_ones_deleted() {
    let mut fixture = Fixture::new().await;
    accept(&mut fixture, TEXT, 1).await;
    let parts = due(&fixture).await;
    // The first part alone would be the beginning of a document and look like a whole one.
    assert!(!fixture.shard.commit_part(&parts[2]).await.unwrap());
    assert!(fixture.shard.commit_part(&parts[0]).await.unwrap());
    for repeated in
        [&parts[0], &DerivedPart { chunks: parts[2].chunks[..1].to_vec(), ..parts[2].clone() }]
    {
        assert!(!fixture.shard.commit_part(repeated).await.unwrap());
    }
    assert!(fixture.shard.commit_part(&parts[1]).await.unwrap());
    assert_eq!((found(&fixture).await, rows(&fixture).await), (vec![], 4));
    let version = parts[0].version;
    fixture.shard.abandon_parts(&id("a"), version).await.unwrap();
    assert_eq!(rows(&fixture).await, 0);
    assert!(!fixture.shard.commit_part(&parts[2]).await.unwrap());
    for part in &parts {
        assert!(fixture.shard.commit_part(part).await.unwrap());
    }
    // A whole document has nothing to abandon.
    fixture.shard.abandon_parts(&id("a"), version).await.unwrap();
    assert_eq!((found(&fixture).await, rows(&fixture).await), (lines(TEXT), 6));
}
