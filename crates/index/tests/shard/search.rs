//! Tests of scores, filters, grouping, and recall of the approximate index.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use clew_core::{
    Access, AttributeName, CandidateQuery, Document, Filter, Grouping, Hit, SearchMode,
    SearchedView, TimeRange, Timestamp,
};
use clew_index::{DerivedDocument, Error, MaintenanceStep, ShardReader, Tuning};
use proptest::prelude::*;

use crate::fixture::{DIMENSION, Fixture, Search, document, embed, id, shown};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Words that stemming and stop words leave unchanged.
const WORDS: [&str; 12] = [
    "apricot", "basalt", "cobalt", "dragon", "ember", "falcon", "granit", "harbor", "indigo",
    "jasmin", "kelvin", "lagoon",
];

/// Returns a text of pseudo-random words.
pub fn words(seed: u64, count: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // The minimum of two draws makes early words frequent and late ones rare.
        let draw = |bits: u64| (bits % WORDS.len() as u64) as usize;
        WORDS[draw(state).min(draw(state >> 32))]
    };
    (0..count).map(|_| next()).collect::<Vec<_>>().join(" ")
}

/// Returns the scores of BM25 as Lucene defines it, k1 = 1.2, b = 0.75, over texts split at white
/// space.
pub fn bm25(texts: &[&str], query: &str) -> Vec<f64> {
    let (k1, b) = (1.2, 0.75);
    let split: Vec<Vec<&str>> =
        texts.iter().map(|text| text.split_whitespace().collect()).collect();
    let n = texts.len() as f64;
    let average = split.iter().map(Vec::len).sum::<usize>() as f64 / n;
    let terms: HashSet<&str> = query.split_whitespace().collect();
    let score = |document: &Vec<&str>| {
        let mut total = 0.0;
        for term in &terms {
            let frequency = document.iter().filter(|word| word == &term).count() as f64;
            let containing = split.iter().filter(|other| other.contains(term)).count() as f64;
            let idf = (1.0 + (n - containing + 0.5) / (containing + 0.5)).ln();
            let length = document.len() as f64 / average;
            total += idf * frequency * (k1 + 1.0) / (frequency + k1 * (1.0 - b + b * length));
        }
        total
    };
    split.iter().map(score).collect()
}

fn assert_scores(hits: &[Hit], expected: &BTreeMap<String, f64>, tolerance: f64) {
    let found: BTreeMap<&str, f64> =
        hits.iter().map(|hit| (shown(hit).text.trim(), f64::from(hit.score))).collect();
    assert_eq!(found.len(), expected.len());
    for (text, score) in expected {
        let got = found[text.as_str()];
        assert!((got - score).abs() <= tolerance * score, "{text}: {got} instead of {score}");
    }
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
}

/// Returns the chunks (one per document) that contain a word of the query, with their scores by the
/// oracle.
fn oracle(texts: &[String], query: &str) -> BTreeMap<String, f64> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let scores = bm25(&texts, query);
    let all = texts.iter().zip(scores).filter(|(_, score)| *score > 0.0);
    all.map(|(text, score)| ((*text).to_owned(), score)).collect()
}

#[tokio::test]
async fn bm25_scores_are_lucenes() {
    let tuning = Tuning { index_rows: 10, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    let texts: Vec<String> = (0..60).map(|i| words(i + 1, 5 + (i as usize * 7) % 25)).collect();
    let documents = texts.iter().enumerate().map(|(i, text)| document(&format!("d{i}"), text));
    fixture.ingest(documents.collect(), 1).await;
    let query = "lagoon kelvin basalt";
    let search = Search { mode: SearchMode::Sparse, limit: 100, ..Search::new(query) };
    let by_document = Search { grouping: Grouping::Documents, ..Search::new(query) };
    let by_document = Search { mode: SearchMode::Sparse, limit: 100, ..by_document };
    let expected = oracle(&texts, query);
    for _ in ["before they are in the index", "after"] {
        assert_scores(&search.run(&fixture.reader()).await.sparse, &expected, 1e-5);
        assert_scores(&by_document.run(&fixture.reader()).await.sparse, &expected, 1e-5);
        let plan = fixture.shard.maintenance_plan().await.unwrap();
        fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
    }

    // Rows that came after the index was built are found at once, and scored correctly once they
    // are in it.
    let tail: Vec<String> = (100..120).map(|i| words(i, 8)).collect();
    let documents = tail.iter().enumerate().map(|(i, text)| document(&format!("t{i}"), text));
    fixture.ingest(documents.collect(), 2).await;
    let expected = oracle(&[texts, tail].concat(), query);
    let found = search.run(&fixture.reader()).await.sparse;
    let found: BTreeSet<&String> = found.iter().map(|hit| &shown(hit).text).collect();
    assert_eq!(found, expected.keys().collect::<BTreeSet<_>>());
    let plan = fixture.shard.maintenance_plan().await.unwrap();
    fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
    for search in [&search, &by_document] {
        let found = search.run(&fixture.reader()).await;
        assert_scores(&found.sparse, &expected, 1e-5);
        assert!(found.attainable.unwrap() > found.sparse[0].score);
    }
}

#[tokio::test]
async fn documents_are_ranked_by_their_whole_text_and_shown_by_their_best_chunk() {
    let mut fixture = Fixture::new().await;
    let spread = "first about apricot\nthen about basalt\nnothing here";
    let once = "apricot apricot\nother words entirely here";
    fixture.ingest(vec![document("spread", spread), document("once", once)], 1).await;
    let search = Search { grouping: Grouping::Documents, ..Search::new("apricot basalt") };
    let found = search.run(&fixture.reader()).await;
    let ids: Vec<_> = found.sparse.iter().map(|hit| hit.document_id.as_str()).collect();
    assert_eq!(ids, ["spread", "once"]);
    assert_eq!(shown(&found.sparse[0]).text, "then about basalt\n");
    assert_eq!(found.dense.len(), 2);
    for hit in found.dense.iter().chain(&found.sparse) {
        let text = if hit.document_id == id("spread") { spread } else { once };
        assert_eq!(shown(hit).span.of(text), Some(shown(hit).text.as_str()));
    }
}

#[tokio::test]
async fn a_title_counts_for_the_document_it_is_of() {
    let mut fixture = Fixture::new().await;
    let mut titled = document("titled", "plain words");
    titled.title = "Falcon".to_owned();
    fixture.ingest(vec![titled, document("other", "plain words")], 1).await;
    for grouping in [Grouping::Chunks, Grouping::Documents] {
        let search = Search { grouping, ..Search::new("falcon") };
        let found = search.run(&fixture.reader()).await.sparse;
        assert_eq!(found.len(), 1);
        let found = shown(&found[0]);
        assert_eq!((found.title.as_str(), found.text.as_str()), ("Falcon", "plain words"));
    }
}

#[tokio::test]
async fn dense_scores_are_cosine_similarities() {
    let mut fixture = Fixture::new().await;
    let texts = ["apricot basalt", "cobalt dragon ember", "basalt"];
    let documents = texts.iter().map(|text| document(text, text)).collect();
    fixture.ingest(documents, 1).await;
    let query = embed("basalt apricot");
    // Directions in memory are rounded to 16 bits per component.
    for (exact, tolerance) in [(true, 1e-5), (false, 5e-5)] {
        let search = Search { exact, ..Search::new("basalt apricot") };
        let found = search.run(&fixture.reader()).await.dense;
        assert_eq!(found.len(), texts.len());
        for hit in found {
            let text = &shown(&hit).text;
            let cosine: f32 = embed(text).iter().zip(&query).map(|(x, y)| x * y).sum();
            let difference = (hit.score - cosine).abs();
            assert!(difference < tolerance, "{text}: {} {cosine}", hit.score);
        }
    }
}

fn attribute(name: &str) -> AttributeName {
    name.to_owned().try_into().unwrap()
}

#[tokio::test]
async fn filters_hold_with_and_without_indexes() {
    let tuning = Tuning { index_rows: 5, vector_index_rows: 5, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    let documents = (0..30).map(|i| {
        let mut document = document(&format!("d{i}"), &format!("apricot number{i}"));
        document.attributes.insert(attribute("parity"), (i % 2).to_string().into());
        document.attributes.insert(attribute("group"), format!("g'{}", i % 3).into());
        if i < 20 {
            document.event_time = Some(Timestamp::from_micros(i));
        }
        document
    });
    fixture.ingest(documents.collect(), 1).await;
    let time = |from: Option<i64>, until: Option<i64>| TimeRange {
        from: from.map(Timestamp::from_micros),
        until: until.map(Timestamp::from_micros),
    };
    let all = Filter::default;
    type Expected = fn(i64) -> bool;
    let cases: [(Filter, Expected); 6] = [
        (Filter { documents: vec![id("d3"), id("d4"), id("x")], ..all() }, |i| i == 3 || i == 4),
        (Filter { attributes: vec![(attribute("parity"), "1".into())], ..all() }, |i| i % 2 == 1),
        (
            Filter {
                attributes: vec![
                    (attribute("parity"), "0".into()),
                    (attribute("group"), "g'0".into()),
                ],
                ..all()
            },
            |i| i % 6 == 0,
        ),
        (Filter { event_time: time(Some(5), Some(8)), ..all() }, |i| (5..8).contains(&i)),
        (Filter { event_time: time(Some(18), None), ..all() }, |i| i == 18 || i == 19),
        (
            Filter {
                event_time: time(None, Some(10)),
                attributes: vec![(attribute("parity"), "0".into())],
                ..all()
            },
            |i| i < 10 && i % 2 == 0,
        ),
    ];
    for has_indexes in [false, true] {
        for (filter, expected) in &cases {
            let expected: HashSet<_> =
                (0..30).filter(|&i| expected(i)).map(|i| id(&format!("d{i}"))).collect();
            for grouping in [Grouping::Chunks, Grouping::Documents] {
                let search = Search::new("apricot");
                let search = Search { filter: filter.clone(), grouping, limit: 30, ..search };
                let found = search.run(&fixture.reader()).await;
                for hits in [found.dense, found.sparse] {
                    let ids: HashSet<_> = hits.into_iter().map(|hit| hit.document_id).collect();
                    assert_eq!(ids, expected, "{filter:?} indexes: {has_indexes}");
                }
            }
        }
        let plan = fixture.shard.maintenance_plan().await.unwrap();
        assert_eq!(plan.steps.contains(&MaintenanceStep::BuildVectorIndex), !has_indexes);
        fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
    }
}

#[tokio::test]
async fn pending_and_replaced_rows_take_no_place_of_live_ones() {
    let mut fixture = Fixture::new().await;
    let live = (0..5).map(|i| document(&format!("live{i}"), "apricot once among other words"));
    fixture.ingest(live.collect(), 1).await;
    let pending = (0..40).map(|i| document(&format!("pending{i}"), "apricot apricot"));
    fixture.shard.accept(pending.collect(), Timestamp::from_micros(2)).await.unwrap();
    let search = Search { grouping: Grouping::Documents, limit: 4, ..Search::new("apricot") };
    let found = search.run(&fixture.reader()).await;
    assert_eq!((found.dense.len(), found.sparse.len()), (4, 4));
}

#[tokio::test]
async fn a_search_without_words_or_with_a_bad_vector() {
    let mut fixture = Fixture::new().await;
    let reader = fixture.reader();
    assert_eq!(Search::new("anything").run(&reader).await, clew_core::Candidates::default());
    fixture.ingest(vec![document("a", "apricot")], 1).await;
    for nothing in ["", "the of and", "?!", "\u{0}"] {
        let search = Search { mode: SearchMode::Sparse, ..Search::new(nothing) };
        assert!(search.run(&reader).await.sparse.is_empty(), "{nothing:?}");
    }
    for bad in [None, Some(vec![1.0; 3]), Some(vec![f32::NAN; DIMENSION])] {
        let query = CandidateQuery {
            encoder: String::new(),
            text: "apricot".to_owned(),
            vector: bad,
            mode: SearchMode::Hybrid,
            filter: Filter::default(),
            grouping: Grouping::Chunks,
            limit: 3,
            exact: false,
            with_texts: true,
            view: SearchedView::Newest,
        };
        let error = reader.with_access(&Access::all()).candidates(&query).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { field: "query.vector", .. }));
    }
}

/// Returns vectors around a few hundred centres, like embeddings of related texts.
fn clustered(i: u64, noise: f32) -> Vec<f32> {
    let direction = |seed: u64| embed(&format!("seed{seed}"));
    let (centre, own) = (direction(i % 300), direction(1_000 + i));
    let sum: Vec<f32> = centre.iter().zip(&own).map(|(c, o)| c + noise * o).collect();
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    sum.iter().map(|x| x / length).collect()
}

#[tokio::test]
async fn the_vector_index_keeps_its_recall() {
    let tuning = Tuning { vector_index_rows: 5_000, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    let text = |i: u64| (0..50).map(|j| format!("line {}\n", i * 50 + j)).collect::<String>();
    let documents: Vec<Document> = (0..200).map(|i| document(&format!("d{i}"), &text(i))).collect();
    fixture.shard.accept(documents, Timestamp::from_micros(1)).await.unwrap();
    let mut derived: Vec<DerivedDocument> = fixture.derive_due(1).await;
    for (i, row) in derived.iter_mut().flat_map(|d| &mut d.chunks).enumerate() {
        row.vectors = vec![clustered(i as u64, 0.6)];
    }
    fixture.shard.commit_derived(derived).await.unwrap();
    let plan = fixture.shard.maintenance_plan().await.unwrap();
    assert!(plan.steps.contains(&MaintenanceStep::BuildVectorIndex), "{plan:?}");
    fixture.shard.maintain(&plan, PATIENCE).await.unwrap();

    let reader = fixture.reader();
    for in_memory in [false, true] {
        assert_recall(&reader, in_memory, 0.95).await;
        // Vectors are missing in memory, or there are questions to measure the recall with.
        assert!(reader.take_upkeep() && !reader.take_upkeep());
        assert_eq!(reader.recall(), None);
        reader.upkeep(0.8).await.unwrap();
    }
    let measured = reader.recall().unwrap();
    assert!(measured.share >= 0.8 && measured.probes <= measured.partitions, "{measured:?}");
    assert!(measured.partitions > 2 && measured.rows == 10_000, "{measured:?}");
    assert_recall(&reader, true, 0.7).await;
    assert!(!reader.take_upkeep(), "it is measured already");
}

/// Asks forty questions, and holds the share of the nearest chunks that are found against `least`.
async fn assert_recall(reader: &ShardReader, in_memory: bool, least: f32) {
    let (mut found, mut wanted) = (0, 0);
    for i in 0..40 {
        let vector = clustered(20_000 + i * 7, 0.6);
        let mut top = Vec::new();
        for exact in [true, false] {
            let query = CandidateQuery {
                encoder: String::new(),
                text: String::new(),
                vector: Some(vector.clone()),
                mode: SearchMode::Dense,
                filter: Filter::default(),
                grouping: Grouping::Chunks,
                limit: 10,
                exact,
                with_texts: false,
                view: SearchedView::Newest,
            };
            let hits = reader.with_access(&Access::all()).candidates(&query).await.unwrap().dense;
            let scores: HashMap<_, _> = hits.iter().map(|hit| (hit.chunk_id, hit.score)).collect();
            top.push(scores);
        }
        wanted += top[0].len();
        found += top[0].keys().filter(|chunk| top[1].contains_key(chunk)).count();
    }
    assert_eq!(wanted, 400);
    assert!(found as f32 >= 400.0 * least, "recall@10 of {found} in 400, in memory: {in_memory}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn no_name_a_caller_chooses_changes_what_a_filter_means(
        names in proptest::collection::btree_set("['\"`;%_\\\\()a-c= -]{1,12}", 2..5),
        value in "['\"`;%_\\\\()a-c= -]{0,12}",
    ) {
        let names: Vec<String> = names.into_iter().collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut fixture = Fixture::new().await;
            let documents = names.iter().enumerate().map(|(i, name)| {
                let mut document = document(name, "apricot");
                if i == 0 {
                    document.attributes.insert(attribute("a"), value.clone().into());
                }
                document
            });
            fixture.ingest(documents.collect(), 1).await;
            let one = Filter { documents: vec![id(&names[0])], ..Filter::default() };
            let valued = Filter {
                attributes: vec![(attribute("a"), value.clone())],
                ..Filter::default()
            };
            for filter in [one, valued] {
                let search = Search { filter, ..Search::new("apricot") };
                let found = search.run(&fixture.reader()).await;
                for hits in [found.dense, found.sparse] {
                    assert_eq!(hits.len(), 1);
                    assert_eq!(hits[0].document_id.as_str(), names[0]);
                }
            }
            let receipts = fixture.shard.forget(&[id(&names[0])]).await.unwrap();
            assert_eq!((receipts[0].versions, receipts[0].chunks), (1, 1));
            assert_eq!(fixture.reader().counts().documents, names.len() as u64 - 1);
            fixture.reopen().await;
            assert_eq!(fixture.reader().counts().documents, names.len() as u64 - 1);
        });
    }
}
