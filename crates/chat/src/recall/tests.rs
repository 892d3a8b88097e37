use std::time::Duration;

use async_trait::async_trait;
use clew_core::{
    Attributes, ChunkId, CorpusName, Document, Filter, Retrieved, ShardIndex, Span, SpeakerRole,
    Version, WholeDocument,
};
use proptest::prelude::*;

use super::*;
use crate::{turn_document, turn_document_with};

/// A memory of one user whose searches return preset hits.
#[derive(Default)]
struct Memory {
    documents: Vec<Document>,
    hits: Vec<Evidence>,
    /// Hits for each key, if a search asks for one.
    by_key: BTreeMap<String, Vec<Evidence>>,
    /// The shard that does not answer searches, and the one that does not answer reads of
    /// documents.
    missing: (Option<ShardIndex>, Option<ShardIndex>),
}

fn passage(document: &Document, span: Span, score: f32) -> Evidence {
    let corpus: CorpusName = "test".parse().unwrap();
    Evidence {
        chunk_id: ChunkId::derive(&corpus, &document.id, Version(1), span.start as u32),
        document_id: document.id.clone(),
        version: Version(1),
        title: document.title.clone(),
        span,
        text: span.of(&document.text).unwrap().to_owned(),
        event_time: document.event_time,
        score,
        dense_score: None,
        sparse_score: None,
    }
}

impl Memory {
    /// Adds a session with a single turn on a day and a reply. The search finds the turn if it has
    /// a score.
    fn say(&mut self, day: u32, text: &str, score: Option<f32>) {
        for (number, role, text) in
            [(0, SpeakerRole::User, text), (1, SpeakerRole::Assistant, "I see.")]
        {
            let time = format!("2024-05-{day:02}T10:00:00Z").parse().ok();
            let id = TurnId { session: format!("day-{day:02}").parse().unwrap(), number };
            let (speaker, text) = (String::new(), text.to_owned());
            let turn = Turn { id, speaker, role, text, time, attributes: Attributes::new() };
            let document = turn_document(&turn, "ada").unwrap();
            if let (Some(score), 0) = (score, number) {
                self.find(&document, Span::new(0, document.text.len()), score);
            }
            self.documents.push(document);
        }
    }

    fn find(&mut self, document: &Document, span: Span, score: f32) {
        self.hits.push(passage(document, span, score));
        self.hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    }

    async fn recall(&self, k: usize, history: History) -> Vec<Item> {
        let (time, range) = (TimeUse::default(), None);
        self.recall_then(Recall { k, history, time, range, ..of_hives() }).await
    }

    async fn recall_then(&self, asked: Recall) -> Vec<Item> {
        let deadline = Instant::now() + Duration::from_secs(60);
        recall(self, self, &asked, deadline).await.unwrap().items
    }
}

#[async_trait]
impl Retriever for Memory {
    async fn retrieve(&self, query: &Query, _: Instant) -> Result<Retrieved, Error> {
        let key = query.filter.attributes.iter().find(|(name, _)| name.as_str() == "chat.key");
        let mut evidence = match key {
            Some((_, key)) => self.by_key.get(key).cloned().unwrap_or_default(),
            None => self.hits.clone(),
        };
        let shards_missing = self.missing.0.into_iter().collect();
        let asked = query.filter.event_time;
        evidence.retain(|hit| hit.event_time.is_none_or(|time| asked.contains(time)));
        evidence.truncate(query.k);
        Ok(Retrieved { evidence, shards_missing, cost: Cost::default() })
    }
}

#[async_trait]
impl Documents for Memory {
    async fn documents(
        &self,
        ids: &[DocumentId],
        _: Instant,
    ) -> Result<Partial<Vec<WholeDocument>>, Error> {
        let asked = self.documents.iter().filter(|document| ids.contains(&document.id));
        let whole = |document: &Document| {
            let span = Span::new(0, document.text.len());
            WholeDocument { document: document.clone(), passage: passage(document, span, 0.0) }
        };
        Ok(Partial::whole(asked.map(whole).collect()).missing(self.missing.1))
    }

    async fn ids(
        &self,
        prefix: &str,
        _: Option<&DocumentId>,
        _: usize,
        _: Instant,
    ) -> Result<Partial<Vec<DocumentId>>, Error> {
        let ids = self.documents.iter().map(|document| document.id.clone());
        let ids = ids.filter(|id| id.as_str().starts_with(prefix)).collect();
        Ok(Partial::whole(ids).missing(self.missing.1))
    }
}

fn of_hives() -> Recall {
    Recall {
        question: "How many hives do I keep on my roof?".to_owned(),
        asked_at: None,
        filter: Filter::default(),
        k: 10,
        keys: Vec::new(),
        merging: KeyMerging::default(),
        value: Value::Round,
        time: TimeUse::default(),
        range: None,
        history: History::default(),
    }
}

fn days(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.session.as_str()).collect()
}

#[tokio::test]
async fn a_turn_that_many_hits_are_of_leaves_room_for_others() {
    let mut memory = Memory::default();
    memory.say(1, "I keep seven hives on my roof.", Some(0.9));
    let first = memory.hits[0].clone();
    memory.hits.extend(vec![first; MIN_HITS]);
    memory.say(2, "The hives are painted blue.", Some(0.1));
    let items = memory.recall(2, History::All).await;
    assert_eq!(days(&items), ["day-01", "day-02"]);
}

#[tokio::test]
async fn shards_that_do_not_answer_are_named_whether_turns_are_searched_or_read() {
    for value in [Value::Turn, Value::Round, Value::Session] {
        let mut memory = memory(0);
        memory.missing = (Some(ShardIndex(3)), Some(ShardIndex(1)));
        let deadline = Instant::now() + Duration::from_secs(60);
        let asked = Recall { value, ..of_hives() };
        let recalled = recall(&memory, &memory, &asked, deadline).await.unwrap();
        assert_eq!(recalled.shards_missing, [ShardIndex(1), ShardIndex(3)]);
    }
}

#[tokio::test]
async fn several_keys_are_merged_by_their_best_scores_or_by_their_ranks() {
    let mut memory = Memory::default();
    for day in 1..=3 {
        memory.say(day, &format!("I keep {day} hives."), Some(1.0));
    }
    let hits = |scores: [Option<f32>; 3]| {
        let of_day = |(hit, score): (&Evidence, Option<f32>)| {
            Some(Evidence { score: score?, ..hit.clone() })
        };
        let mut hits: Vec<Evidence> = memory.hits.iter().zip(scores).filter_map(of_day).collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits
    };
    let by_key = [
        ("value".to_owned(), hits([Some(0.9), Some(0.2), Some(0.1)])),
        ("fact".to_owned(), hits([None, Some(0.8), Some(0.7)])),
    ];
    let memory = Memory { by_key: by_key.into(), ..memory };
    let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let history = History::All;
    for (names, merging, expected) in [
        (&["value"][..], KeyMerging::Best, &["day-01", "day-02", "day-03"][..]),
        (&["fact"], KeyMerging::Best, &["day-02", "day-03"]),
        (&["value", "fact"], KeyMerging::Best, &["day-01", "day-02", "day-03"]),
        // Ranks two and one together are better than rank one alone.
        (&["value", "fact"], KeyMerging::Rank, &["day-02", "day-03", "day-01"]),
    ] {
        let asked = Recall { keys: keys(names), merging, history, ..of_hives() };
        assert_eq!(days(&memory.recall_then(asked).await), expected, "{names:?} {merging:?}");
    }
}

const FOUR: &str = "I keep four hives on my roof.";
const SIX: &str = "By the way, I now keep six hives on my roof!";

/// Returns a memory in which the superseded turn has the best score, its successor the lowest, and
/// `others` are in between.
fn memory(others: u32) -> Memory {
    let mut memory = Memory::default();
    memory.say(1, FOUR, Some(0.9));
    for other in 0..others {
        memory.say(2 + other, "Lovely weather on my roof today.", Some(0.8 - other as f32 / 100.0));
    }
    memory.say(20, SIX, Some(0.1));
    memory
}

#[tokio::test]
async fn what_holds_comes_before_what_held() {
    let items = memory(2).recall(4, History::Latest).await;
    assert_eq!(days(&items), ["day-20", "day-01", "day-02", "day-03"]);
    assert!(items.windows(2).all(|pair| pair[0].score >= pair[1].score));
    assert!(items[0].score > items[1].score);
    assert!(items.iter().all(|item| item.passages.iter().all(|text| text.score == item.score)));
}

#[tokio::test]
async fn history_is_in_the_order_of_scores_and_tells_what_is_superseded() {
    let memory = memory(2);
    let items = memory.recall(4, History::All).await;
    assert_eq!(days(&items), ["day-01", "day-02", "day-03", "day-20"]);
    for history in [History::All, History::Latest] {
        let items = memory.recall(4, history).await;
        let told = items.iter().flat_map(|item| &item.superseded);
        let told: Vec<(&str, &str)> =
            told.map(|update| (&*update.older.text, &*update.newer.text)).collect();
        assert_eq!(told, [(FOUR, SIX)]);
    }
}

#[tokio::test]
async fn what_holds_is_pulled_in_however_low_it_is_ranked() {
    let memory = memory(15);
    for k in 1..4 {
        let items = memory.recall(k, History::Latest).await;
        let expected = ["day-20", "day-01", "day-02"];
        assert_eq!(days(&items), expected[..k]);
        let items = memory.recall(k, History::All).await;
        assert_eq!(items[0].superseded[0].newer.text, SIX);
        assert!(!days(&items).contains(&"day-20"));
    }
}

#[tokio::test]
async fn a_turn_of_which_something_else_is_asked_keeps_its_place() {
    let mut memory = Memory::default();
    let text = "My roof has room for many hives of bees. I work at the bakery three days a week.";
    memory.say(1, text, Some(0.9));
    memory.say(2, "I work at the bakery five days a week.", Some(0.1));
    let items = memory.recall(2, History::Latest).await;
    assert_eq!(days(&items), ["day-01", "day-02"]);
    assert_eq!(items[0].superseded.len(), 1);
}

#[tokio::test]
async fn chunks_of_a_long_turn_are_understood() {
    let mut memory = memory(0);
    memory.hits.clear();
    let long = "It rains a lot in this town. ".repeat(60);
    memory.say(21, &format!("{long}{SIX}"), None);
    let (older, newer) = (memory.documents[0].clone(), memory.documents[4].clone());
    memory.find(&older, Span::new(0, older.text.len()), 0.9);
    let start = newer.text.find(SIX).unwrap();
    // Adjacent chunks may overlap.
    memory.find(&newer, Span::new(start, newer.text.len()), 0.2);
    memory.find(&newer, Span::new(start - 29, newer.text.len()), 0.1);
    for k in [1, 2] {
        let items = memory.recall(k, History::Latest).await;
        assert_eq!(days(&items), ["day-21", "day-01"][..k]);
    }
    let items = memory.recall(2, History::Latest).await;
    let newer = &items[1].superseded[0].newer;
    assert_eq!(newer.start, start - "user: ".len());
}

#[tokio::test]
#[ignore = "prints how long it takes"]
async fn recall_of_sixty_hits_takes_milliseconds() {
    let mut memory = Memory::default();
    for day in 1..=30 {
        let text = format!(
            "I keep {day} hives on my roof. We have been living in the old town for {day} months, and I like it. \
             By the way, I work at the bakery {day} times a week, and my sister visits me on Sundays."
        );
        memory.say(day, &text, Some(0.9 - day as f32 / 100.0));
    }
    let again = memory.hits.clone();
    memory.hits.extend(again);
    for history in [History::All, History::Latest] {
        let started = Instant::now();
        let items = memory.recall(10, history).await;
        println!("{} items in {:?}", items.len(), started.elapsed());
    }
}

proptest! {
    #[test]
    fn of_any_turns_what_holds_is_never_after_what_held(
        counts in proptest::collection::vec((0u32..4, 0u8..20), 1..12),
        k in 1usize..8,
    ) {
        let mut memory = Memory::default();
        for (day, (count, score)) in (1..).zip(&counts) {
            let text = match count {
                0 => "I like honey a lot.".to_owned(),
                count => format!("I keep {count} hives on my roof."),
            };
            memory.say(day, &text, Some(f32::from(*score)));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let items = runtime.block_on(memory.recall(k, History::Latest));
        prop_assert_eq!(items.len(), k.min(counts.len()));
        prop_assert!(items.windows(2).all(|pair| pair[0].score >= pair[1].score));
        for (at, item) in items.iter().enumerate() {
            for update in &item.superseded {
                let newer = update.newer.turn.session.as_str();
                // The item that supersedes the best one is among them.
                let place = days(&items).iter().position(|day| *day == newer);
                prop_assert!(place.is_some_and(|place| place < at));
                prop_assert!(items[place.unwrap_or(0)].score > item.score);
            }
        }
    }
}

fn day_range(from: i64, until: i64) -> TimeRange {
    TimeRange { from: Some(day_time(from)), until: Some(day_time(until)) }
}

fn day_time(day: i64) -> Timestamp {
    Timestamp::from_micros(day * 86_400_000_000)
}

#[test]
fn what_was_told_then_gains_a_tenth_and_what_has_no_time_nothing() {
    assert_eq!(boosted(2.0, day_range(3, 5), Some(day_time(4))), 2.2);
    assert_eq!(boosted(2.0, day_range(3, 5), Some(day_time(1))), 2.1);
    assert_eq!(boosted(2.0, day_range(3, 5), None), 2.0);
}

proptest! {
    #[test]
    fn the_nearer_the_higher_within_a_tenth(score in 0.0f32..9.0, near in 0i64..99, more in 0i64..99) {
        let range = day_range(-7, 0);
        let gained = |day: i64| boosted(score, range, Some(day_time(day)));
        prop_assert!(score <= gained(near + more) && gained(near + more) <= gained(near));
        prop_assert!(gained(near) <= score * 1.1 + 1e-5);
    }
}

#[tokio::test]
async fn what_tells_of_a_time_is_found_by_it_as_what_was_said_then_is() {
    let mut memory = Memory::default();
    memory.say(2, "We ate figs.", Some(0.5));
    memory.say(9, "A week ago we ate plums.", Some(0.9));
    memory.say(20, "The day before yesterday we ate figs.", Some(0.4));
    memory.say(25, "We ate plums.", Some(0.6));
    // Two turns say something about 2 May or on it, and one mentions 18 May.
    let may =
        |from: &str, until: &str| TimeRange { from: from.parse().ok(), until: until.parse().ok() };
    let second = may("2024-05-02T00:00:00Z", "2024-05-03T00:00:00Z");
    let then = |time, range| Recall { time, range: Some(range), ..of_hives() };
    let filtered = memory.recall_then(then(TimeUse::Filter, second)).await;
    assert_eq!(days(&filtered), ["day-09", "day-02"]);
    let eighteenth = may("2024-05-18T00:00:00Z", "2024-05-19T00:00:00Z");
    let filtered = memory.recall_then(then(TimeUse::Filter, eighteenth)).await;
    assert_eq!(days(&filtered), ["day-20"]);
    let boosted = memory.recall_then(then(TimeUse::Boost, eighteenth)).await;
    assert_eq!(days(&boosted), ["day-09", "day-25", "day-02", "day-20"]);
    assert_eq!(boosted[3].score, 0.4 * 1.1);
    let ignored = memory.recall_then(then(TimeUse::Ignore, eighteenth)).await;
    assert_eq!(ignored[3].score, 0.4);
}

#[tokio::test]
async fn a_round_is_recalled_whole_or_not_at_all() {
    let mut memory = Memory::default();
    let roles = [
        SpeakerRole::User,
        SpeakerRole::Assistant,
        SpeakerRole::Assistant,
        SpeakerRole::User,
        SpeakerRole::Assistant,
    ];
    for (number, role) in (0..).zip(roles) {
        let id = TurnId { session: "monday".parse().unwrap(), number };
        let (speaker, text, attributes) = (String::new(), format!("{number}"), Attributes::new());
        let turn = Turn { id, speaker, role, text, time: None, attributes };
        let document = turn_document(&turn, "ada").unwrap();
        let score = [0.0, 0.1, 0.9, 0.2, 0.1][number as usize];
        memory.find(&document, Span::new(0, document.text.len()), score);
        memory.documents.push(document);
    }
    // Two turns are completed: the second of the first round, and the first of the second.
    for (k, expected) in [(1, vec![vec![0, 1, 2]]), (2, vec![vec![0, 1, 2], vec![3, 4]])] {
        let items = memory.recall(k, History::All).await;
        let numbers =
            |item: &Item| item.turns.iter().map(|turn| turn.id.number).collect::<Vec<_>>();
        assert_eq!(items.iter().map(numbers).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn facts_are_those_that_turns_are_found_by_and_summaries_are_of_sessions() {
    let mut memory = Memory::default();
    memory.say(1, "I keep bees. Do they sting? My roof is flat.", Some(0.9));
    memory.say(2, "Which thread is red?", Some(0.8));
    memory.say(3, "My sister keeps ants.", Some(0.1));
    // Something else, such as a model, has found other facts in it.
    let (_, said) = Turn::of(&memory.documents[4]).unwrap();
    let heard = turn_document_with(&said, "ada", &["Ada's sister has ants.".to_owned()]).unwrap();
    memory.documents[4] = heard;
    let facts = memory.recall_then(Recall { value: Value::Facts, ..of_hives() }).await;
    let texts: Vec<&[String]> = facts.iter().map(|item| item.texts.as_slice()).collect();
    assert_eq!(texts, [["I keep bees. My roof is flat."], ["Ada's sister has ants."]]);
    assert!(facts.iter().all(|item| item.turns.len() == 2));
    let summaries = memory.recall_then(Recall { value: Value::Summary, ..of_hives() }).await;
    assert_eq!(days(&summaries), ["day-01", "day-02", "day-03"]);
    assert!(summaries[0].texts[0].contains("I keep bees."), "{:?}", summaries[0].texts);
    assert!(!summaries[0].texts[0].contains("I see."), "an assistant said that");
    for value in [Value::Turn, Value::Round, Value::Session] {
        let items = memory.recall_then(Recall { value, ..of_hives() }).await;
        assert!(items.len() == 3 && items.iter().all(|item| item.texts.is_empty()));
    }
}
