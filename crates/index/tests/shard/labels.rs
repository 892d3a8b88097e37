//! Tests of access labels: a caller who lacks a label of a document sees nothing of it, and
//! everything of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clew_core::{
    Access, CheckQuery, Document, DocumentId, Grouping, IfThere, Labels, ListQuery, MemoryPart,
    MemoryRecord, Novelty, SearchMode, SegmentId, ShardIndex, Span, Timestamp, TreeNode,
    TreeNodeId, Version,
};
use clew_index::{Offer, ShardView, Tuning};

use crate::fixture::{Fixture, Search, document, id};
use crate::memories::store_memory;

const SHARD: ShardIndex = ShardIndex(0);
const PATIENCE: Duration = Duration::from_secs(5);

fn labels(names: &[&str]) -> Labels {
    Labels::parse(names).unwrap()
}

fn holding(names: &[&str]) -> Access {
    Access::holding(names.iter().map(|name| name.parse().unwrap()))
}

fn labelled(name: &str, text: &str, needed: &[&str]) -> Document {
    Document { labels: labels(needed), ..document(name, text) }
}

/// Documents with every set of two labels, each with a word of its own.
const DOCUMENTS: [(&str, &str, &[&str]); 6] = [
    ("open", "apricot openword", &[]),
    ("of-a", "apricot alphaword", &["a"]),
    ("of-b", "apricot betaword", &["b"]),
    ("of-both", "apricot bothword", &["a", "b"]),
    ("open-2", "apricot secondword", &[]),
    ("of-a-2", "apricot thirdword", &["a"]),
];

fn callers() -> Vec<Access> {
    vec![holding(&[]), holding(&["a"]), holding(&["b"]), holding(&["a", "b"]), Access::all()]
}

fn seen_by(access: &Access) -> BTreeSet<DocumentId> {
    let seen = DOCUMENTS.iter().filter(|(_, _, needed)| access.admits(&labels(needed)));
    seen.map(|(name, ..)| id(name)).collect()
}

async fn all_kinds(tuning: Tuning) -> Fixture {
    let mut fixture = Fixture::with_tuning(tuning).await;
    let documents = DOCUMENTS.iter().map(|(name, text, needed)| labelled(name, text, needed));
    fixture.ingest(documents.collect(), 1).await;
    fixture
}

/// Returns the documents that a search finds in any of its rankings, with a text of each.
async fn found(view: &ShardView, search: &Search<'_>) -> BTreeMap<DocumentId, String> {
    let found = view.candidates(&search.query()).await.unwrap();
    let hits = found.dense.into_iter().chain(found.sparse);
    hits.map(|hit| (hit.document_id, hit.shown.unwrap().text)).collect()
}

fn searches(text: &str, limit: usize) -> Vec<Search<'_>> {
    let mut all = Vec::new();
    for mode in SearchMode::ALL {
        for grouping in [Grouping::Chunks, Grouping::Documents] {
            for exact in [false, true] {
                all.push(Search { mode, grouping, exact, limit, ..Search::new(text) });
            }
        }
    }
    all
}

async fn meets_what_it_may(view: &ShardView) {
    let seen = seen_by(view.access());
    for search in searches("apricot", 100) {
        let found: BTreeSet<DocumentId> = found(view, &search).await.into_keys().collect();
        assert_eq!(found, seen, "{:?} {:?}", search.mode, view.access());
    }
    for (name, text, _) in DOCUMENTS {
        let word = text.split(' ').next_back().unwrap();
        for search in searches(word, 100) {
            let found = found(view, &search).await;
            let is_told = found.values().any(|text| text.contains(word));
            assert_eq!(is_told, seen.contains(&id(name)), "{word} {:?}", view.access());
        }
    }
    let listed = view.list(&ListQuery { after: None, limit: 100, state: None });
    assert_eq!(listed.iter().map(|of| of.document_id.clone()).collect::<BTreeSet<_>>(), seen);
    let counts = view.counts();
    let bytes: u64 = listed.iter().map(|of| of.bytes).sum();
    let expected = (seen.len() as u64, seen.len() as u64, seen.len() as u64, bytes);
    assert_eq!((counts.accepted, counts.documents, counts.chunks, counts.bytes), expected);
    let ids: Vec<DocumentId> = DOCUMENTS.iter().map(|(name, ..)| id(name)).collect();
    let read = view.get(&ids).await.unwrap().into_iter();
    assert_eq!(read.map(|(stored, _)| stored.document.id).collect::<BTreeSet<_>>(), seen);
    let checked = view.check(&CheckQuery { after: None, limit: 100 }).await.unwrap();
    assert_eq!((checked.documents, checked.breaches.as_slice()), (seen.len() as u64, &[][..]));
}

#[tokio::test]
async fn a_caller_meets_what_needs_only_labels_that_the_caller_holds() {
    let tuning = Tuning { index_rows: 2, vector_index_rows: 4, ..Tuning::default() };
    let mut fixture = all_kinds(tuning).await;
    for round in ["without indexes", "with indexes", "with rows outside of indexes"] {
        if round == "with rows outside of indexes" {
            let again = |(name, text, needed): &(&str, &str, &[&str])| {
                labelled(name, &format!("again {text}"), needed)
            };
            fixture.ingest(DOCUMENTS.iter().map(again).collect(), 2).await;
        }
        for access in callers() {
            meets_what_it_may(&fixture.reader().with_access(&access)).await;
        }
        let plan = fixture.shard.maintenance_plan().await.unwrap();
        fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
        fixture.reopen().await;
    }
}

#[tokio::test]
async fn what_is_hidden_takes_no_place_of_what_is_seen() {
    for indexed in [false, true] {
        let rows = if indexed { 20 } else { 100_000 };
        let tuning = Tuning { index_rows: rows, vector_index_rows: rows, ..Tuning::default() };
        let mut fixture = Fixture::with_tuning(tuning).await;
        // The hidden documents match the query better than the visible ones.
        let hidden = (0..200).map(|i| labelled(&format!("h{i}"), "apricot basalt", &["secret"]));
        let seen = (0..20).map(|i| document(&format!("s{i:02}"), &format!("apricot word{i}")));
        fixture.ingest(hidden.chain(seen).collect(), 1).await;
        if indexed {
            let plan = fixture.shard.maintenance_plan().await.unwrap();
            fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
        }
        let nobody = fixture.reader().with_access(&holding(&["other"]));
        let holder = fixture.reader().with_access(&holding(&["secret"]));
        for search in searches("apricot basalt", 10) {
            let found = nobody.candidates(&search.query()).await.unwrap();
            for ranking in [&found.dense, &found.sparse] {
                let wanted = if ranking.is_empty() { 0 } else { 10 };
                assert_eq!(ranking.len(), wanted, "{:?} indexed: {indexed}", search.mode);
                assert!(ranking.iter().all(|hit| hit.document_id.as_str().starts_with('s')));
            }
            assert!(found.dense.len() + found.sparse.len() > 0);
            let found = holder.candidates(&search.query()).await.unwrap();
            let all = found.dense.iter().chain(&found.sparse);
            assert!(all.clone().count() >= 10);
            assert!(all.clone().all(|hit| hit.document_id.as_str().starts_with('h')));
        }
    }
}

#[tokio::test]
async fn only_what_is_seen_is_replaced() {
    let mut fixture = all_kinds(Tuning::default()).await;
    let of_a = || holding(&["a"]);
    let offer = |name: &str| Offer {
        document: document(name, "melon"),
        access: of_a(),
        if_there: IfThere::Replace,
    };
    let offers = vec![offer("of-b"), offer("of-a"), offer("open"), offer("of-both"), offer("new")];
    let now = Timestamp::from_micros(2);
    let outcomes = fixture.shard.accept_offers(offers, now).await.unwrap();
    let reasons: Vec<Option<&str>> =
        outcomes.iter().map(|outcome| outcome.as_ref().err().map(|error| error.reason())).collect();
    let refused = Some("LABEL_NOT_HELD");
    assert_eq!(reasons, [refused, None, None, refused, None]);
    fixture.index_due(2).await;
    let found = found(&fixture.reader().with_access(&Access::all()), &Search::new("melon")).await;
    let replaced: Vec<&str> =
        found.iter().filter(|(_, text)| *text == "melon").map(|(id, _)| id.as_str()).collect();
    assert_eq!(replaced, ["new", "of-a", "open"]);
    let all = fixture.reader().with_access(&Access::all());
    let kept = all.get(&[id("of-b"), id("of-both")]).await.unwrap();
    assert!(kept.iter().all(|(stored, _)| stored.document.text.starts_with("apricot")));
}

#[tokio::test]
async fn a_change_of_labels_is_a_new_version_that_hides_at_once() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("d", "apricot")], 1).await;
    let finds = async |fixture: &Fixture, access: Access| {
        let view = fixture.reader().with_access(&access);
        let found = found(&view, &Search::new("apricot")).await;
        assert_eq!(found.len() == 1, view.get(&[id("d")]).await.unwrap().len() == 1);
        assert_eq!(found.len(), view.list(&ListQuery { after: None, limit: 9, state: None }).len());
        assert_eq!(found.len() as u64, view.counts().accepted);
        found.len() == 1
    };
    assert!(finds(&fixture, holding(&[])).await);
    // (labels from then on, who sees the document before its chunks are made, and after)
    let steps: [(&[&str], [bool; 3], [bool; 3]); 4] = [
        (&["a"], [false, true, false], [false, true, false]),
        (&["b"], [false, false, false], [false, false, true]),
        (&["b"], [false, false, true], [false, false, true]),
        (&[], [false, false, true], [true, true, true]),
    ];
    let callers = || [holding(&[]), holding(&["a"]), holding(&["b"])];
    for (now, (needed, before, after)) in (2..).zip(steps) {
        let is_same = fixture.reader().status(&id("d")).unwrap().labels == labels(needed);
        let documents = vec![labelled("d", "apricot", needed)];
        let accepted = fixture.shard.accept(documents, Timestamp::from_micros(now)).await.unwrap();
        assert_eq!(accepted[0].novelty == Novelty::Unchanged, is_same);
        for (caller, seen) in callers().into_iter().zip(before) {
            assert_eq!(finds(&fixture, caller.clone()).await, seen, "{needed:?} {caller:?}");
        }
        assert!(finds(&fixture, holding(&["a", "b"])).await, "who holds all that either needs");
        fixture.index_due(now).await;
        fixture.reopen().await;
        for (caller, seen) in callers().into_iter().zip(after) {
            assert_eq!(finds(&fixture, caller.clone()).await, seen, "{needed:?} {caller:?}");
        }
    }
}

#[tokio::test]
async fn only_what_is_seen_is_forgotten_and_the_rest_is_told_as_unknown() {
    let mut fixture = all_kinds(Tuning::default()).await;
    let ids = ["of-a", "of-b", "nobody", "open"].map(id);
    let receipts = fixture.shard.forget_seen(&ids, &holding(&["a"])).await.unwrap();
    let told: Vec<(u64, u64, u64)> =
        receipts.iter().map(|of| (of.versions, of.chunks, of.bytes)).collect();
    assert_eq!(told, [(1, 1, 17), (0, 0, 0), (0, 0, 0), (1, 1, 16)]);
    assert!(receipts.iter().zip(&ids).all(|(receipt, id)| receipt.document_id == *id));
    assert!(fixture.reader().status(&id("of-b")).is_some());
    assert_eq!(fixture.reader().counts().accepted, DOCUMENTS.len() as u64 - 2);
}

/// Returns all nodes that a caller reaches.
async fn reachable(view: &ShardView) -> Vec<TreeNode> {
    let mut found = Vec::new();
    let mut todo = view.tree_tops(SHARD, &[], 1000, None).await.unwrap();
    while let Some(node) = todo.pop() {
        todo.extend(view.tree_children(SHARD, &node.id, None).await.unwrap());
        found.push(node);
    }
    found
}

#[tokio::test]
async fn a_summary_of_several_documents_needs_the_labels_of_all() {
    let mut fixture = Fixture::new().await;
    let secret = |i: usize| i % 9 == 4;
    let documents = (0..40).map(|i| {
        let (text, needed): (String, &[&str]) = match secret(i) {
            true => (format!("zyx{i}\nzyxb{i}\n"), &["secret"]),
            false => (format!("plain{i}\nmore{i}\n"), &[]),
        };
        labelled(&format!("d{i:02}"), &text, needed)
    });
    fixture.ingest(documents.collect(), 1).await;
    fixture.structure().await;
    let holder = fixture.reader().with_access(&holding(&["secret"]));
    let nobody = fixture.reader().with_access(&holding(&[]));
    let root = holder.tree_tops(SHARD, &[], 10, None).await.unwrap();
    assert_eq!(root.len(), 1, "one root is over all");
    assert!(root[0].summary.contains("ZYX4"));
    // The root is hidden, and so are the nodes below it that cover hidden documents.
    assert!(nobody.tree_children(SHARD, &root[0].id, None).await.unwrap().is_empty());
    let all = reachable(&holder).await;
    let seen = reachable(&nobody).await;
    for node in &seen {
        assert!(!node.summary.contains("ZYX"), "{node:?}");
        assert!(all.contains(node));
    }
    let documents = |nodes: &[TreeNode]| -> BTreeSet<DocumentId> {
        let of = nodes.iter().filter(|node| matches!(node.id, TreeNodeId::Document { .. }));
        of.map(|node| node.documents.0.clone()).collect()
    };
    let expected = |is_seen: &dyn Fn(usize) -> bool| -> BTreeSet<DocumentId> {
        (0..40).filter(|i| is_seen(*i)).map(|i| id(&format!("d{i:02}"))).collect()
    };
    assert_eq!(documents(&all), expected(&|_| true));
    assert_eq!(documents(&seen), expected(&|i| !secret(i)));
    assert!(seen.iter().any(|node| matches!(node.id, TreeNodeId::Upper { .. })));
    // Nothing can be read by the names of hidden nodes either.
    let hidden: Vec<&TreeNode> = all.iter().filter(|node| !seen.contains(node)).collect();
    for node in &hidden {
        assert!(nobody.tree_children(SHARD, &node.id, None).await.unwrap().is_empty(), "{node:?}");
    }
    assert!(nobody.tree_roots(&[id("d04")], None).await.unwrap().is_empty());
    assert_eq!(holder.tree_roots(&[id("d04"), id("d05")], None).await.unwrap().len(), 2);
    let version = fixture.reader().status(&id("d04")).unwrap().version;
    let segments = [SegmentId { document_id: id("d04"), version, ordinal: 0 }];
    assert!(nobody.segment_texts(&segments).await.unwrap().is_empty());
    assert_eq!(holder.segment_texts(&segments).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_memory_is_of_who_sees_all_that_it_covers() {
    let mut fixture = all_kinds(Tuning::default()).await;
    let version = |name: &str| fixture.reader().status(&id(name)).unwrap().version;
    let record = |digit: char, names: &[&str]| MemoryRecord {
        key: digit.to_string().repeat(32),
        model: "model".to_owned(),
        ratio: 4,
        parts: names
            .iter()
            .map(|name| MemoryPart {
                document_id: id(name),
                version: version(name),
                span: Span::new(0, 4),
            })
            .collect(),
        tokens: 100,
        slots: 25,
        bytes: 1,
    };
    let records = [record('1', &["open", "open-2"]), record('2', &["of-a", "of-b"])];
    for record in records {
        assert!(store_memory(&mut fixture.shard, record, b"x", &[]).await.unwrap());
    }
    let told: Vec<usize> = callers()
        .iter()
        .map(|access| fixture.reader().with_access(access).memories().len())
        .collect();
    assert_eq!(told, [1, 1, 1, 2, 2]);
}

#[tokio::test]
async fn a_table_of_before_labels_is_opened_as_one_without() {
    let mut fixture = Fixture::with_tuning(Tuning { index_rows: 1, ..Tuning::default() }).await;
    fixture.ingest(vec![document("old", "apricot one")], 1).await;
    let connection = lancedb::connect(fixture.folder.to_str().unwrap()).execute().await.unwrap();
    for table in ["sources", "chunks"] {
        let table = connection.open_table(table).execute().await.unwrap();
        table.drop_columns(&["labels"]).await.unwrap();
    }
    fixture.reopen().await;
    fixture.ingest(vec![labelled("new", "apricot two", &["a"])], 2).await;
    for restarted in [false, true] {
        if restarted {
            // With indexes on the added column.
            let plan = fixture.shard.maintenance_plan().await.unwrap();
            fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
            fixture.reopen().await;
        }
        for (access, expected) in
            [(holding(&[]), vec!["old"]), (holding(&["a"]), vec!["new", "old"])]
        {
            let view = fixture.reader().with_access(&access);
            for search in searches("apricot", 10) {
                let found: Vec<DocumentId> = found(&view, &search).await.into_keys().collect();
                assert_eq!(found, expected.iter().map(|name| id(name)).collect::<Vec<_>>());
            }
        }
        let checked = fixture.reader().with_access(&Access::all());
        let checked = checked.check(&CheckQuery { after: None, limit: 9 }).await.unwrap();
        assert_eq!((checked.documents, checked.breaches.len()), (2, 0));
    }
    assert_eq!(fixture.reader().status(&id("old")).unwrap().version, Version(1));
}
