//! Property: whatever happened to a shard, a search finds what an exact reference finds, with its
//! scores.
//!
//! The reference knows the documents that are stored now, compares every vector, and computes BM25
//! anew over all texts. Vectors have room in memory or not.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{
    Access, AttributeTest, AttributeValue, Condition, Document, DocumentId, Filter, Grouping, Hit,
    Labels, SearchMode, Selection, TimeRange, Timestamp,
};
use clew_index::{SearchMemory, ShardReader, ShardSettings, Tuning, VectorMemory};
use proptest::prelude::*;

use crate::fixture::{Fixture, Search, document, embed, id, open, shown};
use crate::search::{bm25, words};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
const LABELS: [&[&str]; 3] = [&[], &["a"], &["a", "b"]];
const COLOURS: [&str; 3] = ["red", "green", "blue"];

/// What happens to a shard.
#[derive(Clone, Debug)]
enum Step {
    /// Documents come, of which some replace others.
    Ingest(Vec<Spec>),
    /// Some are forgotten, and their text is removed from the disk.
    Forget(BTreeSet<u8>),
    /// Indexes are built and extended, and fragments merged.
    Maintain,
    /// The shard is opened anew.
    Reopen,
}

/// Document that a test makes.
#[derive(Clone, Debug)]
struct Spec {
    name: u8,
    /// Seed of each line, which becomes a chunk.
    lines: Vec<u8>,
    labels: usize,
    colour: usize,
    time: i64,
}

impl Spec {
    fn lines(&self) -> Vec<String> {
        let line = |seed: &u8| words(u64::from(*seed) + 1, 3 + usize::from(*seed) % 7);
        self.lines.iter().map(line).collect()
    }

    fn document(&self) -> Document {
        let mut document = document(&format!("d{}", self.name), &self.lines().join("\n"));
        document.labels = Labels::parse(LABELS[self.labels]).unwrap();
        let colour = (attribute("colour"), COLOURS[self.colour].into());
        document.attributes = [colour, (attribute("time"), self.time.into())].into();
        // Attributes of one name have values of several types, or are not there.
        let mixed = match self.name % 5 {
            0 => Some(AttributeValue::from(self.time.to_string())),
            1 => Some(AttributeValue::from(self.time)),
            2 => AttributeValue::number(self.time as f64 + 0.5),
            3 => Some(AttributeValue::from(self.time > 1)),
            _ => None,
        };
        document.attributes.extend(mixed.map(|value| (attribute("mixed"), value)));
        document.event_time = Some(Timestamp::from_micros(self.time));
        document
    }
}

fn attribute(name: &str) -> clew_core::AttributeName {
    name.to_owned().try_into().unwrap()
}

fn specs() -> impl Strategy<Value = Spec> {
    let lines = prop::collection::vec(any::<u8>(), 1..6);
    (0..24_u8, lines, 0..3_usize, 0..3_usize, 0..4_i64)
        .prop_map(|(name, lines, labels, colour, time)| Spec { name, lines, labels, colour, time })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(specs(), 1..12).prop_map(Step::Ingest),
        1 => prop::collection::btree_set(0..24_u8, 1..5).prop_map(Step::Forget),
        2 => Just(Step::Maintain),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Clone, Debug)]
struct Question {
    seed: u8,
    access: usize,
    filter: usize,
    condition: Option<Condition>,
    /// Conditions by which documents are selected without a search.
    others: Vec<Condition>,
    limit: usize,
}

fn questions() -> impl Strategy<Value = Question> {
    let condition = prop::option::weighted(0.7, conditions());
    let others = prop::collection::vec(conditions(), 4);
    let limits = prop_oneof![Just(3_usize), Just(500)];
    (any::<u8>(), 0..4_usize, 0..5_usize, condition, others, limits).prop_map(
        |(seed, access, filter, condition, others, limit)| Question {
            seed,
            access,
            filter,
            condition,
            others,
            limit,
        },
    )
}

fn conditions() -> impl Strategy<Value = Condition> {
    let names = prop::sample::select(vec!["colour", "time", "mixed", "nothing"]);
    let test =
        (names, tests()).prop_map(|(name, test)| Condition::Attribute(attribute(name), test));
    test.prop_recursive(3, 12, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            several.clone().prop_map(Condition::All),
            several.prop_map(Condition::Any),
            inner.prop_map(|inner| Condition::Not(Box::new(inner))),
        ]
    })
}

fn tests() -> impl Strategy<Value = AttributeTest> {
    let values = prop_oneof![
        prop::sample::select(COLOURS.to_vec()).prop_map(AttributeValue::from),
        (0..4_i64).prop_map(|text| AttributeValue::from(text.to_string())),
        (0..4_i64).prop_map(AttributeValue::from),
        (0..9_u8).prop_map(|half| AttributeValue::number(f64::from(half) / 2.0).unwrap()),
        any::<bool>().prop_map(AttributeValue::from),
    ];
    let lists = prop::collection::vec(values.clone(), 1..4);
    prop_oneof![
        values.clone().prop_map(AttributeTest::Eq),
        values.clone().prop_map(AttributeTest::Ne),
        values.clone().prop_map(AttributeTest::Gt),
        values.clone().prop_map(AttributeTest::Gte),
        values.clone().prop_map(AttributeTest::Lt),
        values.prop_map(AttributeTest::Lte),
        lists.clone().prop_map(AttributeTest::In),
        lists.prop_map(AttributeTest::Nin),
        "[edr1]{0,2}".prop_map(AttributeTest::Contains),
        Just(AttributeTest::Exists),
    ]
}

impl Question {
    fn text(&self) -> String {
        // Each word once.
        let text = words(u64::from(self.seed) + 7, 4);
        let words: BTreeSet<&str> = text.split(' ').collect();
        words.into_iter().collect::<Vec<_>>().join(" ")
    }

    fn access(&self) -> Access {
        let holding =
            |held: &[&str]| Access::holding(held.iter().map(|label| label.parse().unwrap()));
        match self.access {
            0 => Access::all(),
            1 => holding(&[]),
            2 => holding(&["a"]),
            _ => holding(&["a", "b"]),
        }
    }

    fn filter(&self) -> Filter {
        let mut filter = Filter { condition: self.condition.clone(), ..Filter::default() };
        match self.filter {
            1 => filter.attributes = vec![(attribute("colour"), "red".to_owned())],
            2 => filter.event_time.from = Some(Timestamp::from_micros(2)),
            3 => filter.documents = (0..9).map(|name| id(&format!("d{name}"))).collect(),
            4 => {
                filter.documents = (5..19).map(|name| id(&format!("d{name}"))).collect();
                filter.attributes = vec![(attribute("colour"), "blue".to_owned())];
                filter.event_time =
                    TimeRange { from: None, until: Some(Timestamp::from_micros(3)) };
            }
            _ => {}
        }
        filter
    }
}

/// Scores by what is ranked: a document, or a document and a chunk.
type Scores = BTreeMap<(String, u32), f64>;

/// What a search should find.
struct Reference<'a> {
    stored: &'a BTreeMap<u8, Spec>,
    question: &'a Question,
    grouping: Grouping,
}

impl Reference<'_> {
    fn is_allowed(&self, spec: &Spec) -> bool {
        let document = spec.document();
        let filter = self.question.filter();
        let is_listed = filter.documents.is_empty() || filter.documents.contains(&document.id);
        self.question.access().admits(&document.labels) && is_listed && filter.admits(&document)
    }

    fn key(&self, spec: &Spec, ordinal: usize) -> (String, u32) {
        let ordinal = match self.grouping {
            Grouping::Chunks => ordinal as u32,
            Grouping::Documents => 0,
        };
        (format!("d{}", spec.name), ordinal)
    }

    /// Returns the best score of each allowed key. `score` gets the number of a text among all.
    fn best(&self, texts: &[(&Spec, usize, String)], scores: &[f64], least: f64) -> Scores {
        let mut best = Scores::new();
        for ((spec, ordinal, _), &score) in texts.iter().zip(scores) {
            if score > least && self.is_allowed(spec) {
                let known = best.entry(self.key(spec, *ordinal)).or_insert(score);
                *known = known.max(score);
            }
        }
        best
    }

    fn chunks(&self) -> Vec<(&Spec, usize, String)> {
        let chunks = |spec| {
            let lines = Spec::lines(spec).into_iter().enumerate();
            lines.map(move |(ordinal, line)| (spec, ordinal, line))
        };
        self.stored.values().flat_map(chunks).collect()
    }

    fn dense(&self) -> Scores {
        let (chunks, query) = (self.chunks(), embed(&self.question.text()));
        let cosine = |(_, _, text): &(&Spec, usize, String)| {
            embed(text).iter().zip(&query).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
        };
        let scores: Vec<f64> = chunks.iter().map(cosine).collect();
        self.best(&chunks, &scores, f64::NEG_INFINITY)
    }

    fn sparse(&self, texts: &[(&Spec, usize, String)]) -> Scores {
        let all: Vec<&str> = texts.iter().map(|(.., text)| text.as_str()).collect();
        self.best(texts, &bm25(&all, &self.question.text()), 0.0)
    }

    fn sparse_documents(&self) -> Scores {
        let whole = |spec| (spec, 0, Spec::lines(spec).join(" "));
        let texts: Vec<_> = self.stored.values().map(whole).collect();
        self.sparse(&texts)
    }
}

/// Asserts that hits are the best of the reference. Where scores are as good as equal, any of them
/// may be there.
fn assert_best(hits: &[Hit], reference: &Scores, limit: usize, scores_count: bool, told: &str) {
    assert_eq!(hits.len(), reference.len().min(limit), "{told}: {hits:?} {reference:?}");
    let mut best: Vec<f64> = reference.values().copied().collect();
    best.sort_by(|a, b| b.total_cmp(a));
    let mut seen = BTreeSet::new();
    for (hit, best) in hits.iter().zip(best) {
        let documents = reference.keys().all(|(_, ordinal)| *ordinal == 0);
        let key = (hit.document_id.to_string(), hit.ordinal);
        let key = match reference.contains_key(&key) {
            true => key,
            false if documents => (key.0, 0),
            false => panic!("{told}: {key:?} is not in {reference:?}"),
        };
        let expected = reference[&key];
        let got = f64::from(hit.score);
        assert!(seen.insert(key.clone()), "{told}: {key:?} twice");
        if scores_count {
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            assert!(close(got, expected), "{told}: {key:?} has {got} and not {expected}");
            assert!(close(got, best), "{told}: {got} is there and not {best}");
        }
    }
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score), "{told}");
}

async fn check(
    reader: &ShardReader,
    stored: &BTreeMap<u8, Spec>,
    question: &Question,
    has_all_statistics: bool,
) {
    let text = question.text();
    let view = reader.with_access(&question.access());
    for grouping in [Grouping::Chunks, Grouping::Documents] {
        let reference = Reference { stored, question, grouping };
        for mode in SearchMode::ALL {
            let filter = question.filter();
            let search =
                Search { mode, grouping, filter, limit: question.limit, ..Search::new(&text) };
            let found = view.candidates(&search.query()).await.unwrap();
            let told = format!("{mode:?} {grouping:?} {question:?}");
            if mode.uses_embeddings() {
                let expected = reference.dense();
                assert_best(&found.dense, &expected, question.limit, true, &told);
            }
            if mode.uses_text_index() {
                let expected = match (mode, grouping) {
                    (SearchMode::Sparse, Grouping::Documents) => reference.sparse_documents(),
                    _ => reference.sparse(&reference.chunks()),
                };
                let limit = question.limit;
                assert_best(&found.sparse, &expected, limit, has_all_statistics, &told);
                let most = found.sparse.first().map_or(0.0, |hit| hit.score);
                assert!(found.attainable.unwrap_or(0.0) >= most, "{told}");
            }
            for hit in found.dense.iter().chain(&found.sparse) {
                let name: u8 = hit.document_id.as_str()[1..].parse().unwrap();
                let lines = stored[&name].lines();
                assert_eq!(shown(hit).text.trim_end(), lines[hit.ordinal as usize], "{told}");
            }
        }
    }
}

/// Asserts that documents are selected and described as a scan of all that are stored would.
async fn check_selections(reader: &ShardReader, stored: &BTreeMap<u8, Spec>, question: &Question) {
    let access = question.access();
    let view = reader.with_access(&access);
    let others = question
        .others
        .iter()
        .cloned()
        .map(|condition| Filter { condition: Some(condition), ..Filter::default() });
    let filters = others.chain([question.filter(), Filter::default()]);
    for (filter, prefix) in filters.zip([None, Some("d1"), None, Some("d1"), Some("d"), None]) {
        let selection = Selection { filter, prefix: prefix.map(id), ..Selection::default() };
        let expected: BTreeSet<DocumentId> = stored
            .values()
            .map(Spec::document)
            .filter(|document| access.admits(&document.labels) && selection.filter.admits(document))
            .map(|document| document.id)
            .filter(|id| prefix.is_none_or(|prefix| id.as_str().starts_with(prefix)))
            .collect();
        let told = format!("{selection:?} {access:?}");
        let counted = view.count_selected(&selection).await.unwrap();
        assert_eq!(counted, expected.len() as u64, "{told}");
        let mut selected: Vec<DocumentId> = Vec::new();
        loop {
            let page = view.select(&selection, selected.last(), 3).await.unwrap();
            let is_last = page.len() < 3;
            selected.extend(page.into_iter().map(|status| status.document_id));
            if is_last {
                break;
            }
        }
        assert_eq!(selected, expected.into_iter().collect::<Vec<_>>(), "{told}");
    }
    let all: Vec<DocumentId> = (0..24).map(|name| id(&format!("d{name}"))).collect();
    let described = view.describe(&all).await.unwrap();
    let described: BTreeMap<_, _> =
        described.into_iter().map(|one| (one.document_id, one.attributes)).collect();
    let seen = stored.values().map(Spec::document);
    let seen = seen.filter(|document| access.admits(&document.labels));
    let expected: BTreeMap<_, _> =
        seen.map(|document| (document.id, document.attributes)).collect();
    assert_eq!(described, expected);
}

async fn run(steps: Vec<Step>, questions: Vec<Question>, has_room: bool) {
    let tuning = Tuning { index_rows: 20, unindexed_chunks: 1_000, ..Tuning::default() };
    let mut fixture = Fixture::with_tuning(tuning).await;
    if !has_room {
        let memory = SearchMemory { vectors: VectorMemory::new(0), ..SearchMemory::default() };
        let settings = ShardSettings { memory, ..fixture.shard.settings().clone() };
        fixture.shard = open(&fixture.folder, settings).await.unwrap();
    }
    let mut stored: BTreeMap<u8, Spec> = BTreeMap::new();
    // The text index keeps counting rows that were deleted until it is built anew.
    let mut has_all_statistics = true;
    for (now, step) in steps.into_iter().enumerate() {
        match step {
            Step::Ingest(specs) => {
                let specs: BTreeMap<u8, Spec> =
                    specs.into_iter().map(|spec| (spec.name, spec)).collect();
                has_all_statistics &= specs.keys().all(|name| !stored.contains_key(name));
                let documents = specs.values().map(Spec::document).collect();
                fixture.ingest(documents, now as i64 + 1).await;
                stored.extend(specs);
            }
            Step::Forget(names) => {
                let ids: Vec<_> = names.iter().map(|name| id(&format!("d{name}"))).collect();
                fixture.shard.forget(&ids).await.unwrap();
                fixture.shard.erase(PATIENCE).await.unwrap();
                // Nothing is built anew if nothing was there to be forgotten.
                has_all_statistics |= names.iter().any(|name| stored.contains_key(name));
                stored.retain(|name, _| !names.contains(name));
            }
            Step::Maintain => {
                let plan = fixture.shard.maintenance_plan().await.unwrap();
                fixture.shard.maintain(&plan, PATIENCE).await.unwrap();
            }
            Step::Reopen => fixture.reopen().await,
        }
        // Between steps, so that views hand on what was read.
        if let Some(question) = questions.get(now % questions.len().max(1)) {
            check(&fixture.reader(), &stored, question, has_all_statistics).await;
            check_selections(&fixture.reader(), &stored, question).await;
        }
    }
    for question in &questions {
        check(&fixture.reader(), &stored, question, has_all_statistics).await;
        check_selections(&fixture.reader(), &stored, question).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_what_the_exact_reference_finds(
        steps in prop::collection::vec(steps(), 2..7),
        questions in prop::collection::vec(questions(), 3..6),
        has_room in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(run(steps, questions, has_room));
    }
}
