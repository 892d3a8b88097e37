//! Tests of checks on real tables.

use clew_core::{Access, Breach, CheckQuery, Checked, Invariant, Timestamp};
use clew_index::ShardReader;
use lancedb::query::{ExecutableQuery, QueryBase};

use crate::fixture::{Fixture, document, id};

/// Checks all documents in pages of `limit`.
pub async fn check_all(reader: &ShardReader, limit: usize) -> Checked {
    let mut all = Checked::default();
    let mut after = None;
    loop {
        let page =
            reader.with_access(&Access::all()).check(&CheckQuery { after, limit }).await.unwrap();
        all.documents += page.documents;
        all.chunks += page.chunks;
        all.breaches.extend(page.breaches);
        after = page.last;
        if after.is_none() {
            return all;
        }
    }
}

async fn filled() -> Fixture {
    let mut fixture = Fixture::new().await;
    let documents = vec![
        document("a", "apricot\nbasalt"),
        document("b", "cobalt"),
        document("c", "dolomite\nember\nfeldspar"),
    ];
    fixture.ingest(documents, 1).await;
    fixture
}

#[tokio::test]
async fn what_the_writer_wrote_holds_in_pages_of_any_size() {
    let mut fixture = filled().await;
    for limit in [1, 2, 100] {
        let checked = check_all(&fixture.reader(), limit).await;
        assert_eq!((checked.documents, checked.chunks), (3, 6), "in pages of {limit}");
        assert_eq!(checked.breaches, []);
    }
    // A replaced document that is due, a forgotten one, and a new one without chunks: none is a
    // breach.
    let now = Timestamp::from_micros(2);
    let documents = vec![document("a", "garnet"), document("d", "hematite")];
    fixture.shard.accept(documents, now).await.unwrap();
    fixture.shard.forget(&[id("b")]).await.unwrap();
    assert_eq!(check_all(&fixture.reader(), 2).await.breaches, []);
    fixture.index_due(3).await;
    fixture.reopen().await;
    let checked = check_all(&fixture.reader(), 2).await;
    assert_eq!((checked.documents, checked.breaches), (3, vec![]));
}

#[tokio::test]
async fn rows_that_another_program_changed_are_found() {
    let mut fixture = filled().await;
    let connection = lancedb::connect(fixture.folder.to_str().unwrap()).execute().await.unwrap();
    let sources = connection.open_table("sources").execute().await.unwrap();
    let chunks = connection.open_table("chunks").execute().await.unwrap();
    // A changed text, a changed passage, and a row that exists twice.
    let other =
        sources.update().only_if("document_id = 'a'").column("content", "'apricot\nbasilt'");
    other.execute().await.unwrap();
    let other = chunks.update().only_if("text LIKE 'ember%'").column("text", "'timber'");
    other.execute().await.unwrap();
    let twice = sources.query().only_if("document_id = 'b'").execute().await.unwrap();
    let twice: Vec<_> = futures::TryStreamExt::try_collect(twice).await.unwrap();
    sources.add(twice).execute().await.unwrap();

    fixture.reopen().await;
    let breaches = check_all(&fixture.reader(), 2).await.breaches;
    let found: Vec<_> = breaches
        .iter()
        .map(|Breach { invariant, document_id, .. }| (document_id.as_str(), *invariant))
        .collect();
    let expected = [
        ("a", Invariant::TextWhole),
        // Its second chunk does not match the text any more.
        ("a", Invariant::ChunkTrue),
        ("b", Invariant::StoredOnce),
        ("c", Invariant::ChunkTrue),
    ];
    assert_eq!(found, expected, "{breaches:?}");
}
