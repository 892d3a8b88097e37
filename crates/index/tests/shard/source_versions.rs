//! Tests that the numbers by which sources order the states of documents are obeyed and kept,
//! whatever the order of deliveries and whatever happens to the tables meanwhile.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use clew_core::{
    Access, Document, DocumentState, Grouping, IfThere, Novelty, Selection, SourceVersion,
    Timestamp,
};
use clew_index::{Maintenance, MaintenancePlan, MaintenanceStep, Next, Offer, TableKind, Tuning};
use proptest::prelude::*;

use crate::check::check_all;
use crate::fixture::{Fixture, Search, document, id, stored};

const PATIENCE: Duration = Duration::from_secs(5);

fn numbered(name: &str, text: &str, number: impl Into<Option<u64>>) -> Document {
    let source_version = number.into().map(SourceVersion);
    Document { source_version, ..document(name, text) }
}

impl Fixture {
    /// Accepts one document, and returns what it was answered.
    async fn deliver(&mut self, document: Document) -> Novelty {
        let now = Timestamp::from_micros(1);
        self.shard.accept(vec![document], now).await.unwrap()[0].novelty
    }

    /// Returns the text and the number of a document as it is stored. Its state tells the same
    /// number.
    async fn kept(&self, name: &str) -> (String, Option<u64>) {
        let reader = self.reader();
        let stored = stored(&reader, &id(name)).await.unwrap();
        let number = stored.document.source_version;
        assert_eq!(reader.status(&id(name)).unwrap().source_version, number, "{name}");
        (stored.document.text, number.map(|number| number.0))
    }

    /// Asserts that the tables hold what the writer believes, and nothing twice.
    async fn assert_sound(&self) {
        let checked = check_all(&self.reader(), 10).await;
        assert!(checked.breaches.is_empty(), "{:?}", checked.breaches);
    }
}

#[tokio::test]
async fn the_highest_number_wins_whether_the_stored_version_is_indexed_or_not() {
    use Novelty::{Replaced, Unchanged};
    let (same, other) = ("stored\nwith five", "delivered");
    // (number, text, answer, text afterwards, number afterwards)
    let cases = [
        (Some(4), same, Unchanged, same, Some(5)),
        (Some(4), other, Unchanged, same, Some(5)),
        (Some(5), same, Unchanged, same, Some(5)),
        (Some(5), other, Replaced, other, Some(5)),
        (Some(6), same, Unchanged, same, Some(6)),
        (Some(u64::MAX), other, Replaced, other, Some(u64::MAX)),
        (None, same, Unchanged, same, Some(5)),
        (None, other, Replaced, other, None),
    ];
    for is_indexed in [false, true] {
        let mut fixture = Fixture::new().await;
        let name = |case: usize| format!("d{case}");
        let all = (0..cases.len()).map(|case| numbered(&name(case), same, 5));
        fixture.shard.accept(all.collect(), Timestamp::from_micros(1)).await.unwrap();
        if is_indexed {
            fixture.index_due(1).await;
        }
        let before: Vec<_> = (0..cases.len())
            .map(|case| fixture.reader().status(&id(&name(case))).unwrap())
            .collect();
        // All in one commit, and then again, which changes nothing more.
        for is_again in [false, true] {
            let sent = cases.iter().enumerate();
            let sent = sent.map(|(case, (number, text, ..))| numbered(&name(case), text, *number));
            let now = Timestamp::from_micros(2);
            let accepted = fixture.shard.accept(sent.collect(), now).await.unwrap();
            for (case, (accepted, (.., answer, _, _))) in accepted.iter().zip(&cases).enumerate() {
                let expected = if is_again { Unchanged } else { *answer };
                assert_eq!(accepted.novelty, expected, "{:?}", cases[case]);
                if *answer == Unchanged {
                    assert_eq!(accepted.version, before[case].version);
                    let now = fixture.reader().status(&id(&name(case))).unwrap();
                    // Nothing is derived anew.
                    assert_eq!(now.accepted_at, before[case].accepted_at);
                    assert_eq!((now.state, now.live_version, now.chunks), {
                        let before = &before[case];
                        (before.state, before.live_version, before.chunks)
                    });
                }
            }
        }
        fixture.reopen().await;
        fixture.index_due(3).await;
        for _ in 0..2 {
            for (case, (.., text, number)) in cases.iter().enumerate() {
                let expected = ((*text).to_owned(), *number);
                assert_eq!(fixture.kept(&name(case)).await, expected, "{:?}", cases[case]);
            }
            fixture.assert_sound().await;
            fixture.reopen().await;
        }
    }
}

#[tokio::test]
async fn a_stored_document_without_a_number_gets_the_first_that_comes() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("a", "one"), document("b", "one")], 1).await;
    assert_eq!(fixture.deliver(numbered("a", "one", 0)).await, Novelty::Unchanged);
    assert_eq!(fixture.deliver(numbered("b", "two", 0)).await, Novelty::Replaced);
    assert_eq!(fixture.kept("a").await, ("one".to_owned(), Some(0)));
    fixture.index_due(2).await;
    assert_eq!(fixture.kept("b").await, ("two".to_owned(), Some(0)));
}

#[tokio::test]
async fn an_older_document_is_unchanged_for_who_replaces_nothing_and_for_who_may() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![numbered("a", "five", 5)], 1).await;
    let mut offered = async |number: u64, text: &str| {
        let document = numbered("a", text, number);
        let offer = Offer { document, access: Access::all(), if_there: IfThere::Refuse };
        let now = Timestamp::from_micros(2);
        let mut offered = fixture.shard.accept_offers(vec![offer], now).await.unwrap();
        offered.remove(0).map(|accepted| accepted.novelty)
    };
    assert_eq!(offered(4, "four").await.unwrap(), Novelty::Unchanged);
    assert_eq!(offered(6, "five").await.unwrap(), Novelty::Unchanged);
    assert_eq!(offered(7, "seven").await.unwrap_err().reason(), "DOCUMENT_EXISTS");
    assert_eq!(fixture.kept("a").await, ("five".to_owned(), Some(6)));
}

#[tokio::test]
async fn a_higher_number_alone_costs_no_chunk_and_is_found_as_before() {
    let tuning = Tuning { index_rows: 4, vector_index_rows: 8, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    let text = |number: usize| format!("apricot n{number}\nbasalt");
    let all = |source: u64| {
        (0..12).map(move |n| numbered(&format!("d{n}"), &text(n), source)).collect::<Vec<_>>()
    };
    fixture.ingest(all(1), 1).await;
    let plan = fixture.shard.maintenance_plan().await.unwrap();
    fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
    let before = fixture.shard.statistics().await.unwrap();
    let search = Search { grouping: Grouping::Documents, limit: 20, ..Search::new("n7 basalt") };
    let found_before = search.run(&fixture.reader()).await;
    for source in 2..5 {
        fixture.shard.accept(all(source), Timestamp::from_micros(2)).await.unwrap();
        let (now, none) = (Timestamp::from_micros(3), HashSet::new());
        assert!(fixture.reader().due(now, 100, &none).is_empty());
        let after = fixture.shard.statistics().await.unwrap();
        assert_eq!(after.chunks, before.chunks);
        // The same rows in the same fragments, which the indexes cover.
        let of = |table: clew_index::TableStatistics| {
            (table.rows, table.fragments, table.unindexed_rows, table.indexes_missing)
        };
        assert_eq!(of(after.sources), of(before.sources));
        assert_eq!(search.run(&fixture.reader()).await, found_before);
        let view = fixture.reader().with_access(&Access::all());
        assert_eq!(view.describe(&[id("d3")]).await.unwrap().len(), 1);
        assert_eq!(view.count_selected(&Selection::default()).await.unwrap(), 12);
        assert_eq!(fixture.kept("d11").await, (text(11), Some(source)));
    }
    fixture.reopen().await;
    assert_eq!(search.run(&fixture.reader()).await, found_before);
    fixture.assert_sound().await;
}

/// Merges the rows of six documents into one fragment, and changes some of them between their
/// reading and the commit, if wanted. Returns the shard and the number of pieces of work.
async fn merged(is_changed: bool) -> (Fixture, usize) {
    let mut fixture = Fixture::new().await;
    // Two in a fragment, so that no fragment is gone when one of them is forgotten.
    for n in [0, 2, 4] {
        let pair = [n, n + 1].map(|n| numbered(&format!("d{n}"), &format!("text {n}"), 1));
        fixture.ingest(pair.to_vec(), 1).await;
    }
    let step = MaintenanceStep::Compact(TableKind::Sources);
    let mut merging = Maintenance::new(&MaintenancePlan { steps: vec![step] }, PATIENCE);
    let (mut done, mut works) = (None, 0);
    loop {
        match Box::pin(fixture.shard.advance(&mut merging, done.take())).await.unwrap() {
            Next::Turn => {}
            Next::Work(work) => {
                works += 1;
                done = Some(work.run().await.unwrap());
                if is_changed && works == 1 {
                    for n in [1, 4] {
                        fixture.deliver(numbered(&format!("d{n}"), &format!("text {n}"), 9)).await;
                    }
                    fixture.shard.forget(&[id("d2")]).await.unwrap();
                }
            }
            Next::Finished(report) => {
                assert_eq!(report.done, [step]);
                return (fixture, works);
            }
        }
    }
}

#[tokio::test]
async fn numbers_that_change_while_their_rows_are_merged_are_there_afterwards() {
    let (mut fixture, works) = merged(true).await;
    // No work was in vain.
    assert_eq!(works, merged(false).await.1);
    assert_eq!(fixture.shard.statistics().await.unwrap().sources.fragments, 1);
    for _ in 0..2 {
        for (n, number) in [(0, 1), (1, 9), (3, 1), (4, 9), (5, 1)] {
            let name = format!("d{n}");
            assert_eq!(fixture.kept(&name).await, (format!("text {n}"), Some(number)));
            assert_eq!(fixture.deliver(numbered(&name, "older", 0)).await, Novelty::Unchanged);
        }
        assert!(stored(&fixture.reader(), &id("d2")).await.is_none());
        fixture.assert_sound().await;
        fixture.reopen().await;
    }
}

#[tokio::test]
async fn a_forgotten_document_takes_its_number_with_it_and_erasing_keeps_those_of_others() {
    let tuning = Tuning { index_rows: 4, vector_index_rows: 8, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    let text = |n: usize| format!("zanzibarite n{n}");
    let all = |number| (0..8).map(move |n| numbered(&format!("d{n}"), &text(n), number)).collect();
    fixture.ingest(all(1), 1).await;
    let plan = fixture.shard.maintenance_plan().await.unwrap();
    fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
    fixture.shard.accept(all(7), Timestamp::from_micros(2)).await.unwrap();

    let forgotten = [id("d3")];
    let traces = fixture.shard.forget_traced(&forgotten, &Access::all()).await.unwrap().1;
    // Another number comes before the rows are erased.
    assert_eq!(fixture.deliver(numbered("d5", &text(5), 8)).await, Novelty::Unchanged);
    let mut erasing = Maintenance::erasing(traces, PATIENCE);
    let mut done = None;
    let report = loop {
        match Box::pin(fixture.shard.advance(&mut erasing, done.take())).await.unwrap() {
            Next::Turn => {}
            Next::Work(work) => {
                done = Some(work.run().await.unwrap());
                fixture.deliver(numbered("d6", &text(6), 9)).await;
            }
            Next::Finished(report) => break report,
        }
    };
    let scan = report.scan.unwrap();
    assert!(scan.is_clean(), "{scan:?}");
    assert_eq!(scan.unsearched_files, 0, "{scan:?}");
    for (n, number) in [(0, 7), (5, 8), (6, 9)] {
        assert_eq!(fixture.kept(&format!("d{n}")).await, (text(n), Some(number)));
    }
    assert_eq!(fixture.deliver(numbered("d3", "older", 2)).await, Novelty::New);
    assert_eq!(fixture.kept("d3").await, ("older".to_owned(), Some(2)));
    assert_eq!(fixture.reader().status(&id("d3")).unwrap().state, DocumentState::Pending);
    fixture.index_due(3).await;
    fixture.assert_sound().await;
}

/// Delivery of a document: its number and its content.
type Delivery = (u64, u8);

/// Returns the deliveries of some documents, those of each in a random order.
fn deliveries() -> impl Strategy<Value = Vec<Vec<Delivery>>> {
    // Few contents, so that many deliveries differ in their number alone.
    let numbers = prop::collection::btree_map(0_u64..1_000, 0_u8..3, 1..7);
    let of_one = numbers.prop_map(|of| of.into_iter().collect::<Vec<_>>()).prop_shuffle();
    prop::collection::vec(of_one, 12)
}

async fn deliver_all(deliveries: Vec<Vec<Delivery>>, indexed_after: Vec<bool>) {
    let mut fixture = Fixture::new().await;
    let (mut highest, mut rounds) = (BTreeMap::new(), indexed_after.into_iter().cycle());
    let most = deliveries.iter().map(Vec::len).max().unwrap_or(0);
    let name = |n: usize| format!("d{n}");
    let text = |content: u8| format!("content {content}");
    for round in 0..most {
        let mut sent = Vec::new();
        for (n, of) in deliveries.iter().enumerate() {
            let Some(&(number, content)) = of.get(round) else { continue };
            sent.push(numbered(&name(n), &text(content), number));
            let known = highest.entry(n).or_insert((number, content));
            *known = (*known).max((number, content));
        }
        let now = Timestamp::from_micros(1 + round as i64);
        fixture.shard.accept(sent, now).await.unwrap();
        if rounds.next() == Some(true) {
            fixture.index_due(1 + round as i64).await;
        }
    }
    fixture.index_due(100).await;
    for (n, (number, content)) in highest {
        assert_eq!(fixture.kept(&name(n)).await, (text(content), Some(number)), "{deliveries:?}");
    }
    fixture.assert_sound().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn the_stored_content_is_that_of_the_highest_number_in_whatever_order_they_come(
        deliveries in deliveries(),
        indexed_after in prop::collection::vec(any::<bool>(), 4),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(deliver_all(deliveries, indexed_after));
    }
}
