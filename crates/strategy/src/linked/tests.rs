//! Tests of rankings computed by hand, over hand-made graphs.

use std::time::Instant;

use clew_core::{AttributeName, Cost, EntityKind, ErrorKind, Outcome, ShardIndex, Version};

use super::*;
use crate::testing::{World, document, evidence, segment};

/// Returns the passage of `id` from `start` on, as long as a segment.
fn hit(id: &str, start: usize, cosine: f32, bm25: Option<f32>, text: &str) -> Evidence {
    Evidence {
        dense_score: Some(cosine),
        sparse_score: bm25,
        text: text.to_owned(),
        ..evidence(id, start, start + 100, 0.0)
    }
}

fn found(world: &mut World, hits: Vec<Evidence>) {
    world.retriever.found.insert(world.question.text.clone(), hits);
}

/// Creates a world about a film: `a` says that anna directed it, and `n` is about her. S0 of `a` is
/// 0.7 * 0.8 + 0.3 = 0.86, of `b` 0.7 * 0.5 + 0.3 / 2 = 0.5, and of `c` 0.7 * 0.4 = 0.28.
fn film() -> World {
    let mut world = World::default();
    world.question.text = "film ?".to_owned();
    let hits = vec![
        hit("a", 0, 0.8, Some(10.0), "anna directed the film"),
        hit("b", 0, 0.5, Some(5.0), "a review"),
        hit("c", 0, 0.4, None, "another"),
    ];
    found(&mut world, hits);
    world
}

/// Creates [`film`], where anna is the title of `n`.
fn titled() -> World {
    let mut world = film();
    world.graph.entity("anna", &[("a", 0), ("n", 0), ("n", 1)]);
    world.graph.title("anna", &["n"]);
    world
}

async fn ask(world: &World) -> Answer {
    world.ask(&Linked).await.unwrap()
}

/// Returns the places that were read, with scores.
async fn ranked(world: &World) -> Vec<(String, f32)> {
    ask(world).await;
    let read = world.reasoner.evidence();
    read.iter().map(|e| (format!("{}:{}", e.document_id, e.span.start), e.score)).collect()
}

async fn edges(world: &World) -> Vec<String> {
    ask(world).await;
    world.steps_of("edge")
}

#[track_caller]
fn expect(ranked: &[(String, f32)], expected: &[(&str, f32)]) {
    // Tolerance for few additions and products of numbers below 2, rounded to 24 bits each.
    let is_near = |(a, b): (&(String, f32), &(&str, f32))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-5;
    let are_near = ranked.len() == expected.len() && ranked.iter().zip(expected).all(is_near);
    assert!(are_near, "{ranked:?}");
}

#[tokio::test]
async fn what_the_best_passage_names_is_read_too() {
    let world = titled();
    let answer = ask(&world).await;
    assert_eq!(answer.outcome, Outcome::Answered);
    let expected = [
        "searched film ? 3",
        "edge a names ANNA to n 0.52",
        // The texts of the fakes have 22, 100, 8 and 7 bytes.
        "gathered 4 dropped 0 bytes 137",
        "read 4",
        "judged 0.9",
        "text a clew",
    ];
    assert_eq!(world.steps(), expected);
    // `n` is worth 0.28 + 0.6 * 0.86.
    expect(&ranked(&world).await, &[("a:0", 0.86), ("n:0", 0.796), ("b:0", 0.5), ("c:0", 0.28)]);
}

#[tokio::test]
async fn it_costs_one_search_and_few_questions_to_the_graph() {
    let mut world = titled();
    world.retriever.cost = Cost { embedded_tokens: 5, ..Cost::default() };
    let answer = ask(&world).await;
    let queries = world.retriever.queries();
    assert_eq!((queries.len(), queries[0].k), (1, 100));
    let asked: Vec<_> =
        world.graph.queries().into_iter().map(|q| (q.texts, q.hops, q.most_entities)).collect();
    let text = |text: &str, most| (vec![text.to_owned()], 0, most);
    let expected = [
        text("film ?", 32),
        text("anna directed the film", 256),
        text("a review", 256),
        text("another", 256),
    ];
    assert_eq!(asked, expected);
    assert_eq!(world.graph.asked_for(), [segment("n", 0)]);
    assert!(world.encoder.calls().is_empty());
    // Only the reader's cost.
    assert_eq!((answer.cost.model_calls, answer.cost.embedded_tokens), (1000, 5));
}

#[tokio::test]
async fn only_the_best_three_link_to_others() {
    let mut world = film();
    let mut hits = world.retriever.found["film ?"].clone();
    hits.insert(0, hit("d", 0, 0.3, None, "dora"));
    found(&mut world, hits);
    world.graph.entity("dora", &[("n", 0)]);
    world.graph.title("dora", &["n"]);
    assert!(ranked(&world).await.iter().all(|(place, _)| place != "n:0"));
}

#[tokio::test]
async fn a_document_whose_title_the_question_names_gains_once() {
    let mut world = film();
    world.graph.entity("film", &[("c", 0), ("f", 3), ("f", 4)]);
    world.graph.title("film", &["c", "f"]);
    let mut hits = world.retriever.found["film ?"].clone();
    hits.push(hit("c", 200, 0.35, None, "worse"));
    found(&mut world, hits);
    // The best passage of `c`. For `f`, which was not found, the first segment.
    let expected = [("a:0", 0.86), ("c:0", 0.78), ("f:300", 0.745), ("b:0", 0.5), ("c:200", 0.245)];
    expect(&ranked(&world).await, &expected);
    assert_eq!(world.steps_of("chose"), ["chose FILM"]);
    // Names of the question are not followed.
    assert!(world.steps_of("edge").is_empty());
}

#[tokio::test]
async fn a_title_counts_more_than_a_mention_and_hides_it() {
    let mut world = titled();
    // Mentioned beside the title in `n`, which alone would bring 0.6 * 0.86 / 2.
    world.graph.entity("directed", &[("a", 0), ("n", 0)]);
    // The title of `o`, so that the link to `m`, which mentions it, is dropped.
    world.graph.entity("the", &[("a", 0), ("m", 0), ("o", 0)]);
    world.graph.title("the", &["o"]);
    let expected = ["edge a names ANNA to n 0.52", "edge a names THE to o 0.52"];
    assert_eq!(edges(&world).await, expected);
    assert_eq!(world.graph.asked_for(), [segment("n", 0), segment("o", 0), segment("a", 0)]);
}

#[tokio::test]
async fn a_name_that_is_no_title_leads_to_its_segments_by_its_rarity() {
    let mut world = film();
    world.graph.entity("anna", &[("a", 0), ("m", 3)]);
    world.graph.entity("directed", &[("a", 0), ("n", 0), ("n", 1), ("o", 0)]);
    // 0.28 + 0.6 * 0.86 / 2, and 0.28 + 0.6 * 0.86 / 4.
    let expected = [
        ("a:0", 0.86),
        ("m:300", 0.538),
        ("b:0", 0.5),
        ("n:0", 0.409),
        ("n:100", 0.409),
        ("o:0", 0.409),
        ("c:0", 0.28),
    ];
    expect(&ranked(&world).await, &expected);
    let reasons: Vec<String> = world
        .trace()
        .into_iter()
        .filter_map(|event| match event {
            TraceEvent::EdgeFollowed { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons[..2], ["2 segments mention it", "4 segments mention it"]);
}

#[tokio::test]
async fn a_hub_is_not_followed() {
    for (mentions, followed) in [(HUB_SEGMENTS, 1), (HUB_SEGMENTS + 1, 0)] {
        let mut world = film();
        world.graph.entity("anna", &[("n", 0)]);
        world.graph.entities[0].mentioned_in = mentions;
        assert_eq!(edges(&world).await.len(), followed, "{mentions}");
    }
}

#[tokio::test]
async fn a_date_is_followed_as_a_title_only() {
    for (title, followed) in [(vec![], 0), (vec!["n"], 1)] {
        let mut world = film();
        world.graph.entity("anna", &[("n", 0)]);
        world.graph.entities[0].kind = EntityKind::Time;
        world.graph.title("anna", &title);
        assert_eq!(edges(&world).await.len(), followed);
    }
}

#[tokio::test]
async fn the_title_of_a_passage_is_not_followed_from_it() {
    let mut world = film();
    world.graph.entity("anna", &[("a", 0), ("n", 0)]);
    world.graph.title("anna", &["a", "n"]);
    assert!(edges(&world).await.is_empty());
}

#[test]
fn a_name_within_a_name_of_the_question_is_named_by_it() {
    let named = BTreeSet::from([EntityKey("battle of paris".to_owned())]);
    let is_named = |key: &str| link::is_named(&EntityKey(key.to_owned()), &named);
    assert!(is_named("battle of paris") && is_named("paris"));
    assert!(!is_named("par") && !is_named("paris texas"));
}

#[tokio::test]
async fn a_passage_that_was_found_stands_for_the_segment_it_overlaps() {
    let mut world = film();
    let mut hits = world.retriever.found["film ?"].clone();
    // Both overlap the segment n#2, from 200 to 300; the other version does not.
    hits.push(hit("n", 150, 0.42, None, "worse"));
    hits.push(hit("n", 250, 0.45, None, "better"));
    hits.push(Evidence { version: Version(2), ..hit("n", 200, 0.46, None, "elsewhere") });
    found(&mut world, hits);
    world.graph.entity("anna", &[("a", 0), ("n", 2)]);
    let ranked = ranked(&world).await;
    // 0.315 + 0.6 * 0.86 / 2
    expect(&ranked[..2], &[("a:0", 0.86), ("n:250", 0.573)]);
    assert_eq!(ranked.len(), 6);
}

#[tokio::test]
async fn the_place_of_the_source_itself_is_no_target() {
    let mut world = film();
    world.graph.entity("anna", &[("a", 0)]);
    assert!(edges(&world).await.is_empty());
    expect(&ranked(&world).await, &[("a:0", 0.86), ("b:0", 0.5), ("c:0", 0.28)]);
}

#[tokio::test]
async fn a_source_may_be_linked_itself() {
    let mut world = film();
    world.graph.entity("anna", &[("a", 0), ("b", 0)]);
    world.graph.entity("review", &[("a", 0), ("b", 0)]);
    // Each gains from the other's S0: 0.86 + 0.3 * 0.5, and 0.5 + 0.3 * 0.86.
    expect(&ranked(&world).await, &[("a:0", 1.01), ("b:0", 0.758), ("c:0", 0.28)]);
}

#[tokio::test]
async fn of_several_links_the_best_counts() {
    let mut world = titled();
    // From `b`, worth 0.5 / 2.
    world.graph.entity("review", &[("b", 0), ("n", 0)]);
    assert_eq!(edges(&world).await, ["edge a names ANNA to n 0.52"]);
}

#[tokio::test]
async fn segments_that_are_gone_are_no_targets() {
    let mut world = titled();
    world.graph.gone = vec![segment("n", 0)];
    assert!(edges(&world).await.is_empty());
}

#[tokio::test]
async fn a_title_whose_document_is_not_among_its_segments_is_left() {
    let mut world = titled();
    world.graph.entities[0].segments.truncate(1);
    assert!(edges(&world).await.is_empty());
}

#[tokio::test]
async fn what_is_missing_is_searched_for_until_it_is_missing_again() {
    let mut world = titled();
    world.reasoner.confidence = 0.1;
    let missing = |text: &str| Some(text.to_owned());
    world.navigator.missing = vec![missing("where anna is"), missing("where anna is ")];
    let there = hit("t", 0, 0.9, None, "anna is in tara");
    world.retriever.found.insert("where anna is".to_owned(), vec![there]);
    let answer = ask(&world).await;
    assert_eq!(answer.outcome, Outcome::NotInMemory);
    let steps = world.steps();
    let steps: Vec<&str> = steps[4..].iter().map(String::as_str).collect();
    let expected =
        ["reflected false", "searched where anna is 1", "read 5", "reflected false", "judged 0.1"];
    assert_eq!(steps, expected);
    // Two readings and two judgements.
    assert_eq!(answer.cost.model_calls, 2 * 1000 + 2);
}

#[tokio::test]
async fn at_most_k_are_read_and_titles_are_shown() {
    let mut world = titled();
    world.question.k = Some(2);
    let mut hits = world.retriever.found["film ?"].clone();
    hits[0].title = "The Film".to_owned();
    found(&mut world, hits);
    ask(&world).await;
    assert_eq!(world.reasoner.read_last(), ["a:0", "n:0"]);
    assert_eq!(world.steps_of("edge"), ["edge The Film names ANNA to n 0.52"]);
    assert_eq!(world.steps_of("gathered"), ["gathered 2 dropped 2 bytes 122"]);
}

#[tokio::test]
async fn links_of_passages_that_are_not_read_are_not_shown() {
    let mut world = titled();
    world.question.k = Some(1);
    assert!(edges(&world).await.is_empty());
}

#[tokio::test]
async fn equal_scores_are_ordered_by_place() {
    let mut world = World::default();
    let hits = [("b", 100), ("b", 0), ("a", 300)];
    found(&mut world, hits.map(|(id, start)| hit(id, start, 0.5, None, "x")).to_vec());
    expect(&ranked(&world).await, &[("a:300", 0.35), ("b:0", 0.35), ("b:100", 0.35)]);
}

#[tokio::test]
async fn scores_that_a_hit_lacks_are_the_lowest() {
    let mut world = World::default();
    let mut hits = vec![
        hit("a", 0, 0.9, None, "x"),
        hit("b", 0, 0.5, Some(0.0), "x"),
        hit("c", 0, 0.1, Some(0.0), "x"),
    ];
    hits[2].dense_score = None;
    found(&mut world, hits);
    expect(&ranked(&world).await, &[("a:0", 0.63), ("b:0", 0.35), ("c:0", 0.35)]);
}

#[tokio::test]
async fn where_a_search_compares_no_embeddings_words_decide() {
    let mut world = World::default();
    let mut hits = vec![hit("a", 0, 0.0, Some(2.0), "x"), hit("b", 0, 0.0, Some(4.0), "x")];
    hits.iter_mut().for_each(|hit| hit.dense_score = None);
    found(&mut world, hits);
    expect(&ranked(&world).await, &[("b:0", 0.3), ("a:0", 0.15)]);
}

#[tokio::test]
async fn segments_that_are_read_to_find_targets_are_bounded() {
    let mut world = film();
    let text: Vec<String> = (0..30).map(|n| format!("e{n:02}")).collect();
    found(&mut world, vec![hit("a", 0, 0.8, None, &text.join(" "))]);
    for (number, key) in (0..).zip(&text) {
        let segments: Vec<(&str, u32)> = (0..20).map(|n| ("n", 20 * number + n)).collect();
        world.graph.entity(key, &segments);
    }
    world.graph.entity("e99", &[("z", 0)]);
    let last = world.graph.entities.last_mut().unwrap();
    last.key = EntityKey("e29".to_owned());
    ask(&world).await;
    let asked_for = world.graph.asked_for();
    assert_eq!(asked_for.len(), MAX_TARGETS);
    // The rarest name comes first, though its place is last.
    assert_eq!(asked_for[..2], [segment("z", 0), segment("n", 0)]);
}

#[tokio::test]
async fn what_a_filter_excludes_is_not_used() {
    let mut world = titled();
    world.question.filter.documents = ["a", "b", "c", "m"].map(document).to_vec();
    world.graph.entity("film", &[("x", 0)]);
    world.graph.title("film", &["x"]);
    world.graph.entity("directed", &[("a", 0), ("m", 0), ("x", 0)]);
    let ranked = ranked(&world).await;
    let places: Vec<&str> = ranked.iter().map(|(place, _)| place.as_str()).collect();
    assert_eq!(places, ["a:0", "b:0", "m:0", "c:0"]);
    // An entity that only `x` mentions is not reported either.
    assert!(world.steps_of("chose").is_empty());
    assert_eq!(world.retriever.queries()[0].filter, world.question.filter);
    assert!(world.graph.asked_for().iter().all(|id| id.document_id != document("x")));
}

#[tokio::test]
async fn of_attributes_the_search_knows_what_the_filter_admits() {
    for (admitted, followed) in [("n", 1), ("x", 0)] {
        let mut world = titled();
        let name = AttributeName::try_from("lang".to_owned()).unwrap();
        world.question.filter.attributes = vec![(name, "la".to_owned())];
        world.retriever.documents_found = vec![evidence(admitted, 0, 10, 1.0)];
        assert_eq!(edges(&world).await.len(), followed, "{admitted}");
    }
}

#[tokio::test]
async fn where_nothing_is_found_the_reader_decides() {
    let mut world = World::default();
    world.reasoner.confidence = 0.0;
    assert_eq!(ask(&world).await.outcome, Outcome::NotInMemory);
    assert_eq!(
        world.steps(),
        ["searched what? 0", "gathered 0 dropped 0 bytes 0", "read 0", "judged 0"]
    );
}

#[tokio::test]
async fn where_the_search_finds_nothing_a_title_of_the_question_is_read() {
    let mut world = titled();
    world.question.text = "anna ?".to_owned();
    expect(&ranked(&world).await, &[("n:0", NAMED_BONUS)]);
}

#[tokio::test]
async fn missing_shards_are_named_in_the_outcome() {
    let mut world = titled();
    world.retriever.shards_missing = vec![ShardIndex(2)];
    let outcome = ask(&world).await.outcome;
    assert_eq!(outcome, Outcome::AnsweredWithShardsMissing(vec![ShardIndex(2)]));
}

#[tokio::test]
async fn a_passed_deadline_is_an_error() {
    let mut world = titled();
    world.question.deadline = Instant::now();
    let error = world.ask(&Linked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}
