//! Tests of kept states: later pages of a search rank what the first one ranked, and show nothing
//! that has been forgotten or hidden since.

use std::time::Duration;

use clew_core::{
    Access, AttributeName, CandidateQuery, Candidates, ChunkRef, Document, Filter, Grouping, Hit,
    Label, Labels, SearchMode, SearchedView, Timestamp, ViewName,
};
use clew_index::{MaintenancePlan, MaintenanceStep, ShardReader, TableKind, Tuning};

use crate::fixture::{Fixture, Search, document, id, shown};

const PATIENCE: Duration = Duration::from_secs(5);
/// Views that a shard keeps of first pages, and as many of further ones.
const KEPT: usize = 16;

/// Returns what searches of every kind ask: all modes, by chunk and by document, exact or not,
/// with and without a filter.
fn searches(limit: usize) -> Vec<CandidateQuery> {
    let even = Filter {
        attributes: vec![(AttributeName::try_from("even".to_owned()).unwrap(), "yes".to_owned())],
        ..Filter::default()
    };
    let mut all = Vec::new();
    for mode in SearchMode::ALL {
        for grouping in [Grouping::Chunks, Grouping::Documents] {
            for filter in [Filter::default(), even.clone()] {
                for exact in [false, true] {
                    let text = "apricot stone n3 n7";
                    let filter = filter.clone();
                    let search = Search { text, mode, filter, grouping, limit, exact };
                    all.push(search.query());
                }
            }
        }
    }
    all
}

/// Returns documents of three lines each, all of which differ, so that no two have the same score.
/// Every third document needs a label.
fn documents(numbers: std::ops::Range<usize>) -> Vec<Document> {
    let one = |number: usize| {
        let second = format!("stone n{} o{number}", number % 9);
        let text = format!("apricot n{number}\n{second}\napricot stone m{number}\n");
        let mut made = document(&format!("d{number:03}"), &text);
        let even = if number.is_multiple_of(2) { "yes" } else { "no" };
        made.attributes.insert("even".to_owned().try_into().unwrap(), even.into());
        if number.is_multiple_of(3) {
            made.labels = Labels::parse(["secret"]).unwrap();
        }
        made
    };
    numbers.map(one).collect()
}

async fn found(reader: &ShardReader, access: &Access, query: &CandidateQuery) -> Candidates {
    reader.with_access(access).candidates(query).await.unwrap()
}

fn in_view(query: &CandidateQuery, view: SearchedView) -> CandidateQuery {
    CandidateQuery { view, ..query.clone() }
}

/// Returns the chunks of a ranking with their scores, without their texts.
fn ranking(hits: &[Hit]) -> Vec<(String, u64, u32, f32)> {
    let of = |hit: &Hit| (hit.document_id.to_string(), hit.version.0, hit.ordinal, hit.score);
    hits.iter().map(of).collect()
}

/// Returns whether a ranking begins with a shorter one. Among hits with its last score, the storage
/// engine chooses.
fn begins(long: &[Hit], short: &[Hit]) -> bool {
    let scores = |hits: &[Hit]| hits.iter().map(|hit| hit.score).collect::<Vec<_>>();
    let Some(last) = short.last() else { return true };
    let above = short.iter().take_while(|hit| hit.score > last.score).count();
    scores(&long[..short.len()]) == scores(short)
        && ranking(&long[..above]) == ranking(&short[..above])
}

/// Keeps the newest state and returns its name.
async fn keep(reader: &ShardReader) -> ViewName {
    let query = in_view(&Search::new("apricot").query(), SearchedView::Kept);
    found(reader, &Access::all(), &query).await.view.unwrap()
}

#[tokio::test]
async fn longer_rankings_of_a_kept_state_begin_with_the_shorter_ones_whatever_came_since() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(documents(0..40), 1).await;
    let reader = fixture.reader();
    // The first search reads vectors into memory, whose scores differ a little from those in files.
    reader.upkeep(1.0).await.unwrap();
    let callers = [Access::all(), Access::holding([])];
    let mut first = Vec::new();
    for access in &callers {
        for query in searches(7) {
            let kept = found(&reader, access, &in_view(&query, SearchedView::Kept)).await;
            let newest = found(&reader, access, &query).await;
            assert_eq!((newest.view, &newest.dense), (None, &kept.dense));
            first.push((access, query, kept));
        }
    }
    let names: std::collections::BTreeSet<_> = first.iter().map(|(.., kept)| kept.view).collect();
    assert_eq!(names.len(), 1, "all are of one state");
    let name = first[0].2.view.unwrap();

    // Documents come and are replaced, before the second page and after it.
    let mut now = 2;
    for limit in [12, 25, 1000] {
        fixture.ingest(documents(40 + now..45 + now), now as i64).await;
        let replaced = document("d001", &format!("apricot stone n3 n7 again{now}"));
        fixture.ingest(vec![replaced], now as i64).await;
        now += 10;
        for (access, query, kept) in &first {
            let longer = CandidateQuery { limit, ..query.clone() };
            let page = found(&reader, access, &in_view(&longer, SearchedView::Named(name))).await;
            assert_eq!(page.view, Some(name));
            assert_eq!(page.attainable, kept.attainable, "{query:?}");
            assert!(begins(&page.dense, &kept.dense), "{query:?}");
            assert!(begins(&page.sparse, &kept.sparse), "{query:?}");
            let old = |hit: &Hit| shown(hit).text.contains("again") || hit.document_id > id("d039");
            assert!(!page.dense.iter().chain(&page.sparse).any(old), "{query:?}");
            let hidden = |hit: &Hit| {
                hit.document_id.as_str()[1..].parse::<usize>().unwrap().is_multiple_of(3)
            };
            let all = page.dense.iter().chain(&page.sparse);
            assert!(access.is_all() || !all.clone().any(hidden), "{query:?}");
        }
    }
    let query = Search { limit: 1000, ..Search::new("n3") }.query();
    let newest = found(&reader, &Access::all(), &query).await;
    assert!(newest.sparse.iter().any(|hit| shown(hit).text.contains("again")));
}

#[tokio::test]
async fn texts_are_read_in_the_state_in_which_their_chunks_were_found() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("a", "apricot"), document("b", "basalt")], 1).await;
    let reader = fixture.reader();
    let view = reader.with_access(&Access::all());
    let query = in_view(&Search::new("apricot").query(), SearchedView::Kept);
    let kept = view.candidates(&query).await.unwrap();
    let wanted: Vec<ChunkRef> = kept
        .dense
        .iter()
        .map(|hit| ChunkRef {
            document_id: hit.document_id.clone(),
            version: hit.version,
            ordinal: hit.ordinal,
        })
        .collect();
    fixture.ingest(vec![document("a", "granite")], 2).await;
    let texts = async |name| {
        let read = view.chunks(&wanted, name).await.unwrap();
        let mut texts: Vec<String> = read.into_iter().map(|(_, shown)| shown.text).collect();
        texts.sort_unstable();
        texts
    };
    assert_eq!(texts(kept.view).await, ["apricot", "basalt"]);
    assert_eq!(texts(None).await, ["basalt"]);
    assert_eq!(texts(ViewName::new(1)).await, ["basalt"], "nobody has kept that one");
    fixture.shard.forget(&[id("b")]).await.unwrap();
    assert!(texts(kept.view).await.is_empty());
}

#[tokio::test]
async fn what_is_forgotten_or_gets_labels_is_in_no_kept_state() {
    let mut fixture = Fixture::new().await;
    let texts = ["apricot one", "apricot two", "apricot three"];
    let made = |(name, text): (&str, &str)| document(name, text);
    fixture.ingest(["a", "b", "c"].into_iter().zip(texts).map(made).collect(), 1).await;
    let reader = fixture.reader();
    let name = keep(&reader).await;
    let access = Access::holding(["other".parse::<Label>().unwrap()]);
    let ids = async |access: &Access, name| {
        let mut seen = std::collections::BTreeSet::new();
        for mut query in searches(10) {
            query.text = "apricot".to_owned();
            query.filter = Filter::default();
            let found = found(&reader, access, &in_view(&query, SearchedView::Named(name))).await;
            let hits = found.dense.iter().chain(&found.sparse);
            seen.extend(hits.map(|hit| hit.document_id.to_string()));
        }
        seen.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(ids(&access, name).await, ["a", "b", "c"]);

    // The newest version cannot be found yet, and its labels hold already.
    let labels = Labels::parse(["secret"]).unwrap();
    let labelled = Document { labels, ..document("a", "apricot four") };
    fixture.shard.accept(vec![labelled], Timestamp::from_micros(2)).await.unwrap();
    assert_eq!(ids(&access, name).await, ["b", "c"]);
    assert_eq!(ids(&Access::all(), name).await, ["a", "b", "c"]);
    fixture.index_due(2).await;
    assert_eq!(ids(&access, name).await, ["b", "c"]);

    let name = keep(&reader).await;
    fixture.shard.forget(&[id("b")]).await.unwrap();
    // Of the same name as before.
    fixture.ingest(vec![document("b", "basalt")], 3).await;
    for mode in SearchMode::ALL {
        let query = Search { mode, ..Search::new("apricot") }.query();
        let query = in_view(&query, SearchedView::Named(name));
        let found = found(&reader, &Access::all(), &query).await;
        assert_ne!(found.view, Some(name), "the newest took its place");
        let texts: Vec<&str> =
            found.dense.iter().chain(&found.sparse).map(|hit| shown(hit).text.as_str()).collect();
        assert!(!texts.is_empty() && !texts.contains(&"apricot two"), "{texts:?}");
    }
}

#[tokio::test]
async fn kept_states_hold_up_neither_compaction_nor_the_removal_of_old_versions() {
    let mut fixture = Fixture::new().await;
    for i in 0..6 {
        fixture.ingest(documents(i..i + 1), i as i64 + 1).await;
    }
    let reader = fixture.reader();
    for step in
        [MaintenanceStep::Compact(TableKind::Chunks), MaintenanceStep::Prune(TableKind::Chunks)]
    {
        let name = keep(&reader).await;
        fixture.ingest(documents(20..21), 20).await;
        let plan = MaintenancePlan { steps: vec![step] };
        let report = fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
        assert_eq!((report.done, report.postponed), (plan.steps, vec![]));
        let query = Search { limit: 100, ..Search::new("apricot") }.query();
        let page =
            found(&reader, &Access::all(), &in_view(&query, SearchedView::Named(name))).await;
        assert_ne!(page.view, Some(name));
        assert_eq!(page.dense.len(), 7 * 3, "what the newest state has");
    }
    let name = keep(&reader).await;
    fixture.shard.forget(&[id("d001")]).await.unwrap();
    fixture.shard.erase(PATIENCE).await.unwrap();
    fixture.reopen().await;
    let query = in_view(&Search::new("apricot").query(), SearchedView::Named(name));
    assert_ne!(found(&fixture.reader(), &Access::all(), &query).await.view, Some(name));
}

#[tokio::test]
async fn states_of_further_pages_stay_whatever_the_number_of_other_searches() {
    let mut fixture = Fixture::with_tuning(Tuning::default()).await;
    fixture.ingest(documents(0..3), 1).await;
    let reader = fixture.reader();
    let read_on = keep(&reader).await;
    let is_kept = async |name| {
        let query = in_view(&Search::new("apricot").query(), SearchedView::Named(name));
        found(&reader, &Access::all(), &query).await.view == Some(name)
    };
    assert!(is_kept(read_on).await);
    let mut names = Vec::new();
    for i in 0..2 * KEPT {
        fixture.ingest(documents(10 + i..11 + i), 2 + i as i64).await;
        names.push(keep(&reader).await);
    }
    assert!(is_kept(read_on).await);
    // Asking keeps the ones that are there; so the last ones first.
    let mut left = 0;
    for name in names.iter().rev() {
        left += usize::from(is_kept(*name).await);
    }
    assert_eq!(left, KEPT, "the others made room");
}
