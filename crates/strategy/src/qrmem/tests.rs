//! Tests of the navigations step by step, over hand-made graphs and with a navigator that follows a
//! script.

use std::time::Instant;

use clew_core::{AttributeName, ErrorKind, Outcome, ShardIndex, Span, TextKind, TraceEvent};

use super::*;
use crate::Strategy;
use crate::testing::{World, calls, document, evidence, segment};

const ALL: [&dyn Strategy; 5] =
    [&QrmemEntity, &QrmemExpand, &REFLECT, &QrmemReflect::OFFLINE, &QrmemReflect::FULL];

const REFLECT: QrmemReflect = QrmemReflect::QUERY_ORIENTED;

/// Creates a world with a ship, its builder and buyer, and the builder's husband, in one document.
fn harbour() -> World {
    let mut world = World::default();
    world.question.text = "ship ?".to_owned();
    world.graph.entity("ship", &[("d", 0)]);
    world.graph.entity("anna", &[("d", 1)]);
    world.graph.entity("bert", &[("d", 2), ("d", 3)]);
    world.graph.entity("carl", &[("d", 4)]);
    world.graph.relation("ship", "built by", "anna", ("d", 1));
    world.graph.relation("ship", "sold to", "carl", ("d", 4));
    world.graph.relation("anna", "married", "bert", ("d", 2));
    world.encoder.tell("SHIP built by ANNA", 0.8);
    world.encoder.tell("SHIP sold to CARL", 0.3);
    world.encoder.tell("ANNA married BERT", 0.6);
    world
}

/// Creates seeds that each have one segment and no relations.
fn islands(keys: &[&str]) -> World {
    let mut world = World::default();
    world.question.text = keys.join(" ");
    for (ordinal, key) in (0..).zip(keys) {
        world.graph.entity(key, &[("d", ordinal)]);
    }
    world
}

fn missing(words: &[&str]) -> Vec<Option<String>> {
    words.iter().map(|word| (!word.is_empty()).then(|| (*word).to_owned())).collect()
}

async fn ask(world: &World, strategy: &dyn Strategy) -> clew_core::Answer {
    world.ask(strategy).await.unwrap()
}

// Algorithm 1.

#[tokio::test]
async fn reflection_follows_the_edge_most_similar_to_what_is_missing() {
    let mut world = harbour();
    world.navigator.missing = missing(&["the builder", "his spouse", ""]);
    let answer = ask(&world, &REFLECT).await;
    let expected = [
        "searched ship ? 0",
        "chose SHIP",
        "gathered 1 dropped 0 bytes 100",
        "reflected false",
        "edge SHIP built by ANNA to ANNA 0.80",
        "gathered 2 dropped 0 bytes 200",
        "reflected false",
        "edge ANNA married BERT to BERT 0.60",
        "gathered 4 dropped 0 bytes 400",
        "reflected true",
        "read 4",
        "judged 0.9",
        "text a clew",
    ];
    assert_eq!(world.steps(), expected);
    let judged = [vec!["d:0"], vec!["d:0", "d:100"], vec!["d:0", "d:100", "d:200", "d:300"]];
    assert_eq!(world.navigator.judged(), judged);
    assert_eq!(world.reasoner.read_last(), ["d:0", "d:100", "d:200", "d:300"]);
    // Calls: the entities named, three reflections, and the reader. Embeddings: two texts, and
    // three edges once each.
    assert_eq!((answer.cost.model_calls, answer.cost.embedded_tokens), (1004, 5));
}

#[tokio::test]
async fn what_is_looked_for_is_question_reason_and_entities() {
    let mut world = harbour();
    world.navigator.missing = missing(&["the builder", ""]);
    ask(&world, &REFLECT).await;
    let expected = [
        (vec!["ship ?\nthe builder so it is\nSHIP".to_owned()], TextKind::Query),
        (vec!["SHIP built by ANNA".to_owned(), "SHIP sold to CARL".to_owned()], TextKind::Passage),
    ];
    assert_eq!(world.encoder.calls(), expected);
    let query = world.graph.queries().pop().unwrap();
    assert_eq!((query.entities.len(), query.hops), (1, 1));
}

#[tokio::test]
async fn the_least_similar_of_the_additional_segments_is_dropped_first() {
    let mut world = islands(&["ship"]);
    world.graph.entity("carl", &[("d", 4)]);
    world.graph.entity("dora", &[("d", 5)]);
    world.graph.relation("ship", "sold to", "carl", ("d", 4));
    world.graph.relation("carl", "cheated", "dora", ("d", 5));
    world.encoder.tell("SHIP sold to CARL", 0.3);
    world.encoder.tell("CARL cheated DORA", 0.8);
    world.graph.text_bytes = Some(WINDOW_BYTES / 2);
    world.navigator.missing = missing(&["the buyer", "the victim", ""]);
    ask(&world, &REFLECT).await;
    let judged = [vec!["d:0"], vec!["d:0", "d:400"], vec!["d:0", "d:500"]];
    assert_eq!(world.navigator.judged(), judged);
    let gathered = ["gathered 1 dropped 0", "gathered 2 dropped 0", "gathered 2 dropped 1"];
    for (step, expected) in world.steps_of("gathered").iter().zip(gathered) {
        assert!(step.starts_with(expected), "{step}");
    }
}

#[tokio::test]
async fn an_important_segment_is_never_dropped_for_an_additional_one() {
    let mut world = harbour();
    world.graph.entity("port", &[("d", 9)]);
    world.question.text = "ship port".to_owned();
    world.graph.text_bytes = Some(WINDOW_BYTES / 2);
    world.navigator.missing = missing(&["the builder", ""]);
    ask(&world, &REFLECT).await;
    assert_eq!(world.navigator.judged(), [["d:0", "d:900"], ["d:0", "d:900"]]);
    assert!(world.steps().iter().any(|step| step.starts_with("gathered 2 dropped 1")));
}

#[tokio::test]
async fn the_window_counts_passages_where_the_question_does() {
    let mut world = harbour();
    world.question.k = Some(2);
    world.navigator.missing = missing(&["the builder", "his spouse", ""]);
    ask(&world, &REFLECT).await;
    // The builder's segment is more similar than those of the husband.
    assert_eq!(world.reasoner.read_last(), ["d:0", "d:100"]);
}

#[tokio::test]
async fn a_segment_that_is_read_already_is_not_added() {
    let mut world = islands(&["ship"]);
    world.graph.entity("anna", &[("d", 0), ("d", 1)]);
    world.graph.relation("ship", "built by", "anna", ("d", 0));
    world.navigator.missing = missing(&["the builder", ""]);
    ask(&world, &REFLECT).await;
    assert_eq!(world.reasoner.read_last(), ["d:0", "d:100"]);
}

#[tokio::test]
async fn without_a_further_edge_what_there_is_is_read() {
    let world = islands(&["ship"]);
    let answer = ask(&world, &REFLECT).await;
    assert_eq!(answer.outcome, Outcome::Answered);
    let expected = ["reflected false", "read 1", "judged 0.9", "text a clew"];
    assert_eq!(world.steps()[3..], expected);
}

/// Creates entities in a row, each with one segment and an edge to the next.
fn row(length: u32) -> World {
    let mut world = World::default();
    world.question.text = "e00".to_owned();
    for number in 0..length {
        world.graph.entity(&format!("e{number:02}"), &[("d", number)]);
        let next = format!("e{:02}", number + 1);
        world.graph.relation(&format!("e{number:02}"), "before", &next, ("d", number + 1));
    }
    world
}

#[tokio::test]
async fn after_the_last_trial_the_reader_decides() {
    for (confidence, outcome) in [(0.9, Outcome::Answered), (0.1, Outcome::NotInMemory)] {
        let mut world = row(9);
        world.reasoner.confidence = confidence;
        let answer = ask(&world, &REFLECT).await;
        assert_eq!(answer.outcome, outcome);
        assert_eq!(world.steps_of("edge").len(), MAX_TRIALS);
        assert_eq!(world.navigator.judged().len(), MAX_TRIALS);
        assert_eq!(world.reasoner.read_last().len(), MAX_TRIALS + 1);
    }
}

#[tokio::test]
async fn a_passed_deadline_is_an_error() {
    for strategy in ALL {
        let mut world = harbour();
        world.question.deadline = Instant::now();
        let error = world.ask(strategy).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{}", strategy.name());
    }
}

#[tokio::test]
async fn the_segment_that_states_the_edge_comes_first_of_its_entity() {
    let mut world = islands(&["ship"]);
    let many: Vec<(&str, u32)> = (10..30).map(|ordinal| ("d", ordinal)).collect();
    world.graph.entity("anna", &many);
    world.graph.relation("ship", "built by", "anna", ("d", 29));
    world.navigator.missing = missing(&["the builder", ""]);
    ask(&world, &REFLECT).await;
    let read = world.reasoner.read_last();
    assert_eq!(read[..3], ["d:0", "d:2900", "d:1000"]);
    assert_eq!(read.len(), 1 + SEGMENTS_PER_ENTITY);
}

#[tokio::test]
async fn of_very_many_edges_those_that_share_words_are_compared() {
    let mut world = islands(&["ship"]);
    for number in 0..200 {
        let key = format!("e{number:03}");
        world.graph.entity(&key, &[("e", number)]);
        let text = if number == 199 { "was, so it is, builder of" } else { "saw" };
        world.graph.relation(&key, text, "ship", ("e", number));
    }
    world.navigator.missing = missing(&["the Builder", ""]);
    ask(&world, &REFLECT).await;
    let (edges, _) = world.encoder.calls().pop().unwrap();
    assert_eq!(edges.len(), 128);
    assert_eq!(edges[0], "E199 was, so it is, builder of SHIP");
}

// The common start.

#[tokio::test]
async fn seeds_are_what_the_navigator_names_and_the_graph_recognises() {
    let mut world = harbour();
    world.navigator.named = vec!["carl".to_owned(), "nobody".to_owned()];
    ask(&world, &REFLECT).await;
    let query = &world.graph.queries()[0];
    assert_eq!(query.texts, ["ship ?", "carl", "nobody"]);
    assert_eq!(world.steps_of("chose"), ["chose CARL,SHIP"]);
}

#[tokio::test]
async fn where_the_graph_knows_no_entity_of_the_question_the_best_places_seed() {
    let mut world = harbour();
    world.question.text = "who?".to_owned();
    let mut hits: Vec<_> = (0..4).map(|n| evidence("x", n * 100, n * 100 + 9, 0.9)).collect();
    hits.push(evidence("d", 250, 290, 0.8));
    hits.push(evidence("d", 410, 450, 0.7));
    world.retriever.found.insert("who?".to_owned(), hits);
    world.navigator.missing = missing(&[""]);
    ask(&world, &QrmemReflect::OFFLINE).await;
    assert_eq!(world.graph.queries()[1].places.len(), 5);
    assert_eq!(world.steps_of("chose"), ["chose BERT"]);
    assert_eq!(world.reasoner.read_last(), ["d:200", "d:300"]);
}

#[tokio::test]
async fn without_any_seed_the_best_hits_are_important() {
    for strategy in ALL {
        let mut world = World::default();
        let hits = (0..4).map(|n| evidence("x", n * 100, n * 100 + 9, 0.9)).collect();
        world.retriever.found.insert("what?".to_owned(), hits);
        ask(&world, strategy).await;
        let read = world.reasoner.read_last();
        assert_eq!(read[..3], ["x:0", "x:100", "x:200"], "{}", strategy.name());
        assert!(world.steps_of("chose").is_empty());
    }
}

#[tokio::test]
async fn with_nothing_at_all_the_reader_decides() {
    for strategy in ALL {
        let mut world = World::default();
        world.reasoner.confidence = 0.0;
        assert_eq!(ask(&world, strategy).await.outcome, Outcome::NotInMemory);
    }
}

#[tokio::test]
async fn of_an_entity_with_many_segments_the_best_found_are_taken() {
    let mut world = World::default();
    world.question.text = "ship port".to_owned();
    let many: Vec<(&str, u32)> = (0..12).map(|ordinal| ("d", ordinal)).collect();
    world.graph.entity("ship", &many);
    world.graph.entity("port", &[("d", 7)]);
    let hits = vec![evidence("d", 1110, 1130, 0.9), evidence("d", 390, 410, 0.8)];
    world.retriever.found.insert("ship port".to_owned(), hits);
    world.navigator.missing = missing(&[""]);
    ask(&world, &REFLECT).await;
    // First the passages found, then those that mention both, then by place.
    let expected = ["d:1100", "d:300", "d:400", "d:700", "d:0", "d:100", "d:200", "d:500"];
    assert_eq!(world.reasoner.read_last(), expected);
}

#[tokio::test]
async fn important_segments_are_cut_to_the_window_by_rank() {
    let mut world = islands(&["anna", "bert", "carl"]);
    world.graph.text_bytes = Some(WINDOW_BYTES / 2);
    let hits = vec![evidence("d", 210, 230, 0.9)];
    world.retriever.found.insert("anna bert carl".to_owned(), hits);
    world.navigator.missing = missing(&[""]);
    ask(&world, &REFLECT).await;
    assert_eq!(world.reasoner.read_last(), ["d:200", "d:0"]);
    let gathered = format!("gathered 2 dropped 1 bytes {WINDOW_BYTES}");
    assert_eq!(world.steps_of("gathered"), [gathered]);
}

#[tokio::test]
async fn a_segment_longer_than_the_window_is_read_if_it_is_the_best() {
    let mut world = islands(&["anna", "bert"]);
    world.graph.text_bytes = Some(WINDOW_BYTES + 1);
    ask(&world, &REFLECT).await;
    assert_eq!(world.reasoner.read_last(), ["d:0"]);
}

#[tokio::test]
async fn a_segment_that_is_gone_is_left_out() {
    let mut world = islands(&["anna", "bert"]);
    world.graph.gone = vec![segment("d", 0)];
    ask(&world, &REFLECT).await;
    assert_eq!(world.reasoner.read_last(), ["d:100"]);
}

#[tokio::test]
async fn segments_and_edges_of_excluded_documents_are_not_used() {
    for strategy in ALL {
        let mut world = harbour();
        world
            .graph
            .entities
            .iter_mut()
            .find(|e| e.key.0 == "ship")
            .unwrap()
            .segments
            .push(segment("x", 0));
        world.graph.entity("dora", &[("x", 0)]);
        world.graph.relation("ship", "stolen by", "dora", ("x", 0));
        world.encoder.tell("SHIP stolen by DORA", 0.99);
        world.question.filter.documents = vec![document("d")];
        world.navigator.elaborated = vec!["more".to_owned()];
        ask(&world, strategy).await;
        let read = world.reasoner.read_last();
        assert!(read.iter().all(|place| place.starts_with("d:")), "{read:?}");
        assert!(!world.steps().iter().any(|step| step.contains("DORA")));
        let queries = world.retriever.queries();
        assert!(queries.iter().all(|query| query.filter == world.question.filter));
    }
}

#[tokio::test]
async fn of_attributes_the_search_knows_what_the_filter_admits() {
    let mut world = islands(&["anna", "bert"]);
    world.graph.entities[0].segments = vec![segment("x", 0)];
    let name = AttributeName::try_from("lang".to_owned()).unwrap();
    world.question.filter.attributes = vec![(name, "la".to_owned())];
    world.retriever.documents_found = vec![evidence("d", 0, 10, 1.0)];
    ask(&world, &REFLECT).await;
    assert_eq!(world.steps_of("chose"), ["chose BERT"]);
    assert_eq!(world.reasoner.read_last(), ["d:100"]);
    assert_eq!(world.retriever.queries()[1].k, 200);
}

#[tokio::test]
async fn missing_shards_are_named_in_the_outcome() {
    for strategy in ALL {
        let mut world = harbour();
        world.retriever.shards_missing = vec![ShardIndex(2)];
        let answer = ask(&world, strategy).await;
        assert_eq!(answer.outcome, Outcome::AnsweredWithShardsMissing(vec![ShardIndex(2)]));
    }
}

// Entity trial.

/// Creates a chain: a ship with its builder in one segment, the builder with another in the next,
/// and so on.
fn chain() -> World {
    let mut world = World::default();
    world.question.text = "e0".to_owned();
    for number in 0..9u32 {
        let first = number.saturating_sub(1);
        world.graph.entity(&format!("e{number}"), &[("d", first), ("d", number)]);
    }
    world.graph.entities[0].segments.truncate(1);
    world
}

fn chosen(names: &[&str]) -> Vec<Vec<String>> {
    names.iter().map(|name| vec![(*name).to_owned()]).collect()
}

#[tokio::test]
async fn entities_are_tried_until_what_was_read_suffices() {
    let mut world = chain();
    world.navigator.missing = missing(&["the builder", "his spouse", ""]);
    world.navigator.chosen = chosen(&["E1", "E2"]);
    let answer = ask(&world, &QrmemEntity).await;
    let judged = [vec!["d:0"], vec!["d:0", "d:100"], vec!["d:0", "d:100", "d:200"]];
    assert_eq!(world.navigator.judged(), judged);
    assert_eq!(world.steps_of("chose"), ["chose E0", "chose E1", "chose E2"]);
    let choices = world.navigator.entity_choices();
    assert_eq!(
        (choices[0].known.clone(), choices[0].candidates.clone()),
        (vec!["E0".to_owned()], vec!["E1".to_owned()])
    );
    assert_eq!(choices[1].reason, "his spouse so it is");
    // An entity that was tried is no longer a candidate.
    assert_eq!(choices[1].candidates, ["E2"]);
    assert_eq!(answer.outcome, Outcome::Answered);
    assert_eq!(answer.cost.model_calls, 1 + 3 + 2 + 1000);
}

#[tokio::test]
async fn entity_trial_ends_where_none_is_chosen_or_left() {
    let world = chain();
    assert_eq!(ask(&world, &QrmemEntity).await.outcome, Outcome::Answered);
    assert_eq!(world.navigator.entity_choices().len(), 1);
    assert_eq!(world.reasoner.read_last(), ["d:0"]);

    let world = islands(&["anna"]);
    ask(&world, &QrmemEntity).await;
    assert!(world.navigator.entity_choices().is_empty());
    assert_eq!(world.reasoner.read_last(), ["d:0"]);
}

#[tokio::test]
async fn entity_trial_ends_when_the_window_is_full() {
    let mut world = chain();
    world.graph.text_bytes = Some(WINDOW_BYTES / 2);
    world.navigator.chosen = chosen(&["E1", "E2", "E3"]);
    ask(&world, &QrmemEntity).await;
    assert_eq!(world.navigator.judged().len(), 2);
    assert_eq!(world.reasoner.read_last(), ["d:0", "d:100"]);
}

#[tokio::test]
async fn entity_trial_ends_after_the_last_trial() {
    let mut world = chain();
    world.reasoner.confidence = 0.1;
    world.navigator.chosen = chosen(&["E1", "E2", "E3", "E4", "E5", "E6"]);
    assert_eq!(ask(&world, &QrmemEntity).await.outcome, Outcome::NotInMemory);
    assert_eq!(world.navigator.judged().len(), MAX_TRIALS);
    assert_eq!(world.reasoner.read_last().len(), MAX_TRIALS + 1);
}

#[tokio::test]
async fn candidates_are_bounded() {
    let mut world = islands(&["ship"]);
    for number in 0..100 {
        world.graph.entity(&format!("e{number:02}"), &[("d", 0)]);
    }
    ask(&world, &QrmemEntity).await;
    assert_eq!(world.navigator.entity_choices()[0].candidates.len(), 64);
}

// Relation fusion.

/// Creates a world in which three segments describe the ship and her builder, two of them in the
/// same words.
fn twice_told() -> World {
    let mut world = harbour();
    world.graph.relation("anna", "painted", "ship", ("d", 7));
    world.graph.relation("ship", "built by", "anna", ("d", 8));
    world.navigator.missing = missing(&["the builder", "his spouse", ""]);
    world
}

#[tokio::test]
async fn what_several_segments_tell_of_the_same_two_is_one_edge_that_leads_to_all() {
    let mut world = twice_told();
    world.navigator.fused = Some("Anna built the ship and painted it".to_owned());
    world.encoder.tell("Anna built the ship and painted it", 0.9);
    let answer = ask(&world, &REFLECT).await;
    let told = vec!["SHIP built by ANNA".to_owned(), "ANNA painted SHIP".to_owned()];
    // Fused once: on the next trial it is known.
    assert_eq!(world.navigator.fusions(), [("SHIP and ANNA".to_owned(), told)]);
    let edges = [
        "edge SHIP Anna built the ship and painted it ANNA to ANNA 0.90",
        "edge ANNA married BERT to BERT 0.60",
    ];
    assert_eq!(world.steps_of("edge"), edges);
    // The entities named, three reflections, one fusion, and the reader.
    assert_eq!(answer.cost.model_calls, 1000 + 5);
}

#[tokio::test]
async fn what_is_fused_is_told_with_the_words_that_state_it() {
    let mut world = twice_told();
    // The segment that mentions painting begins at 700. The other statement lies outside its
    // segment.
    let painted = world.graph.relations.iter_mut().find(|edge| edge.text == "painted").unwrap();
    painted.evidence = Span::new(700, 705);
    ask(&world, &REFLECT).await;
    let told = ["SHIP built by ANNA", "ANNA painted SHIP: \"d:700\""].map(str::to_owned).to_vec();
    assert_eq!(world.navigator.fusions(), [("SHIP and ANNA".to_owned(), told)]);
}

#[tokio::test]
async fn what_cannot_be_fused_is_followed_as_it_is() {
    let world = twice_told();
    ask(&world, &REFLECT).await;
    assert_eq!(world.steps_of("edge")[0], "edge SHIP built by ANNA to ANNA 0.80");
    assert_eq!(world.navigator.fusions().len(), 1);
}

#[tokio::test]
async fn what_one_segment_tells_or_all_tell_alike_is_not_fused() {
    let mut world = harbour();
    world.graph.relation("anna", "painted", "ship", ("d", 1));
    world.graph.relation("ship", "sold to", "carl", ("d", 8));
    world.navigator.missing = missing(&["the builder", ""]);
    ask(&world, &REFLECT).await;
    assert!(world.navigator.fusions().is_empty());
}

#[tokio::test]
async fn relations_that_are_fused_for_a_question_are_few() {
    let mut world = islands(&["ship"]);
    world.navigator.fused = Some("told often".to_owned());
    for number in 0..9 {
        let key = format!("e{number}");
        world.graph.entity(&key, &[("d", number + 1)]);
        for (ordinal, said) in (0..).zip(["met", "saw", "heard"].repeat(4)) {
            let said = format!("{said} {ordinal}");
            world.graph.relation("ship", &said, &key, ("d", 100 * number + ordinal));
        }
    }
    world.navigator.missing = missing(&["a", "b", "c", "d", "e"]);
    ask(&world, &REFLECT).await;
    let fusions = world.navigator.fusions();
    assert_eq!(fusions.len(), MAX_FUSED);
    assert!(fusions.iter().all(|(_, told)| told.len() == MAX_DESCRIPTIONS));
}

// Graph expansion search.

#[tokio::test]
async fn the_question_is_elaborated_with_the_edges_that_are_similar_to_it() {
    let mut world = harbour();
    world.navigator.elaborated = vec!["ship of anna".to_owned()];
    let stray = evidence("x", 0, 50, 0.9);
    world.retriever.found.insert("ship ?".to_owned(), vec![stray.clone()]);
    let builder = evidence("d", 110, 150, 7.0);
    world.retriever.found.insert("ship of anna".to_owned(), vec![builder, stray]);
    let answer = ask(&world, &QrmemExpand).await;
    assert_eq!(world.navigator.relations(), ["SHIP built by ANNA", "ANNA married BERT"]);
    let edges = ["edge SHIP built by ANNA to ANNA 0.80", "edge ANNA married BERT to BERT 0.60"];
    assert_eq!(world.steps_of("edge"), edges);
    // The passage that both searches found comes first, then the segment that was found, one that
    // states an edge, and the others.
    assert_eq!(world.reasoner.read_last(), ["x:0", "d:100", "d:200", "d:0", "d:300"]);
    assert_eq!(world.retriever.queries()[1].k, 10);
    assert_eq!(answer.cost.model_calls, 1 + 1 + 1000);
    assert_eq!(answer.cost.embedded_tokens, (1 + 2) + (1 + 1));
}

#[tokio::test]
async fn without_a_similar_edge_the_question_is_not_elaborated() {
    let mut world = harbour();
    world.encoder.tell("SHIP built by ANNA", EDGE_THRESHOLD - 0.01);
    world.navigator.elaborated = vec!["more".to_owned()];
    ask(&world, &QrmemExpand).await;
    assert!(world.navigator.relations().is_empty());
    assert_eq!(world.retriever.queries().len(), 1);
    assert_eq!(world.reasoner.read_last(), ["d:0"]);
}

#[tokio::test]
async fn rounds_and_edges_of_an_expansion_are_bounded() {
    let mut world = islands(&["ship"]);
    for number in 0..30 {
        let key = format!("e{number:02}");
        world.graph.entity(&key, &[("d", number + 1)]);
        world.graph.relation("ship", "met", &key, ("d", number + 1));
        world.encoder.tell(&format!("SHIP met {}", key.to_uppercase()), 0.5);
    }
    ask(&world, &QrmemExpand).await;
    assert_eq!(world.steps_of("edge").len(), 10 * MAX_EXPANSIONS);
}

#[tokio::test]
async fn the_window_of_an_expansion_is_filled_by_what_was_found_first() {
    let mut world = harbour();
    world.graph.text_bytes = Some(WINDOW_BYTES / 2);
    let hits = vec![evidence("d", 210, 250, 0.9)];
    world.retriever.found.insert("ship ?".to_owned(), hits);
    ask(&world, &QrmemExpand).await;
    assert_eq!(world.reasoner.read_last(), ["d:200", "d:100"]);
}

// Reading for the question.

/// Creates a question about a rope, which is no stored entity, and a search that finds where it
/// hangs.
fn rope() -> World {
    let mut world = harbour();
    world.question.text = "who held the rope?".to_owned();
    world.navigator.named = vec!["rope".to_owned()];
    let hits = vec![evidence("d", 410, 440, 0.9), evidence("d", 450, 480, 0.8)];
    world.retriever.found.insert(world.question.text.clone(), hits);
    world.graph_builder.tell("d:400", "rope", "was held by", "BERT");
    world.encoder.tell("rope was held by BERT", 0.7);
    world.navigator.missing = missing(&["the holder", ""]);
    world
}

/// Returns the reasons for taking up entities, with their names.
fn reasons(world: &World) -> Vec<(String, String)> {
    let chosen = |event| match event {
        TraceEvent::EntitiesChosen { entities, reason } => Some((entities.join(","), reason)),
        _ => None,
    };
    world.trace().into_iter().filter_map(chosen).collect()
}

#[tokio::test]
async fn a_topic_that_only_the_reading_finds_leads_on() {
    let world = rope();
    ask(&world, &REFLECT).await;
    // Two hits in one segment are one passage to read.
    assert_eq!(world.graph_builder.read()[0], ["d:400"]);
    let task = &world.graph_builder.calls()[0][0];
    assert_eq!((task.question.as_str(), task.text.len()), ("who held the rope?", 100));
    assert_eq!(world.steps_of("chose"), ["chose rope"]);
    let reason = "the question names them; only the question's own reading tells of them";
    assert_eq!(reasons(&world), [("rope".to_owned(), reason.to_owned())]);
    // The stored segments of the entity that the edge leads to are read, too.
    assert_eq!(world.steps_of("edge"), ["edge rope was held by BERT to BERT 0.70"]);
    assert_eq!(world.navigator.judged(), [vec!["d:400"], vec!["d:400", "d:200", "d:300"]]);
}

#[tokio::test]
async fn every_navigation_reads_for_the_question_but_the_offline_one() {
    for strategy in ALL {
        let mut world = rope();
        // `qrmem-reflect-full` reads the hits, the others the segments that they lie in.
        world.graph_builder.tell("d:410", "rope", "was held by", "BERT");
        ask(&world, strategy).await;
        let is_offline = strategy.name() == "qrmem-reflect-offline";
        let expected = if is_offline { vec!["chose CARL"] } else { vec!["chose rope"] };
        assert_eq!(world.steps_of("chose")[..1], expected, "{}", strategy.name());
        assert_eq!(world.graph_builder.calls().is_empty(), is_offline);
    }
}

#[tokio::test]
async fn what_is_read_joins_what_is_stored() {
    let mut world = rope();
    world.question.text = "ship rope".to_owned();
    let hits = vec![evidence("d", 410, 440, 0.9)];
    world.retriever.found.insert("ship rope".to_owned(), hits);
    world.graph_builder.tell("d:400", "The Ship", "had", "rope");
    world.graph_builder.tell("d:400", "Ship", "sank near", "DORA");
    world.encoder.tell("SHIP sank near DORA", 0.9);
    ask(&world, &REFLECT).await;
    let reason = "the question names them";
    let own = "the question names them; only the question's own reading tells of them";
    let expected = [("SHIP", reason), ("rope", own)];
    let expected = expected.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
    assert_eq!(reasons(&world), expected);
    // One entity, under the name of the stored graph, with the segments of both.
    assert_eq!(world.navigator.judged()[0], ["d:400", "d:0"]);
    assert_eq!(world.steps_of("edge")[0], "edge SHIP sank near DORA to DORA 0.90");
    let stored = world.encoder.calls().into_iter().flat_map(|(texts, _)| texts);
    assert!(stored.into_iter().any(|text| text == "SHIP built by ANNA"));
}

#[tokio::test]
async fn a_hit_without_a_segment_is_read_and_kept_itself() {
    let mut world = rope();
    let hits = vec![evidence("x", 30, 70, 0.9), evidence("x", 80, 90, 0.8)];
    world.retriever.found.insert(world.question.text.clone(), hits);
    world.graph_builder.tell("x:30", "Rope", "was held by", "BERT");
    world.graph_builder.tell("x:80", "Rope", "hung from", "mast");
    world.encoder.tell("Rope was held by BERT", 0.7);
    ask(&world, &REFLECT).await;
    assert_eq!(world.graph_builder.read()[0], ["x:30", "x:80"]);
    let judged = [vec!["x:30", "x:80"], vec!["x:30", "x:80", "d:200", "d:300"]];
    assert_eq!(world.navigator.judged(), judged);
    // The stored graph is never asked for ids that it cannot know.
    assert!(world.graph.asked_for().iter().all(|id| id.document_id == document("d")));
    assert_eq!(world.reasoner.evidence()[0].text, evidence("x", 30, 70, 0.9).text);
}

#[tokio::test]
async fn what_is_read_at_once_is_bounded() {
    let mut world = World::default();
    let mut hits: Vec<_> = (0..9).map(|n| evidence("x", n * 100, n * 100 + 50, 0.9)).collect();
    hits[1] = evidence("x", 100, 100 + 2 * MAX_READ_BYTES, 0.9);
    world.retriever.found.insert("what?".to_owned(), hits);
    ask(&world, &REFLECT).await;
    let calls = world.graph_builder.calls();
    assert_eq!((calls.len(), calls[0].len()), (1, MAX_READ));
    let bytes: Vec<usize> = calls[0].iter().map(|task| task.text.len()).collect();
    assert_eq!(bytes, [50, MAX_READ_BYTES, 50, 50, 50, 50]);
}

#[tokio::test]
async fn the_full_construction_reads_every_passage_and_nothing_stored() {
    let mut world = rope();
    world.question.text = "ship".to_owned();
    world.navigator.named.clear();
    let hits: Vec<_> = (0..10).map(|n| evidence("d", n * 100, n * 100 + 50, 0.9)).collect();
    world.retriever.found.insert("ship".to_owned(), hits);
    world.graph_builder.tell("d:900", "SHIP", "belongs to", "ZENO");
    world.graph_builder.tell("d:200", "ZENO", "taught", "ANNA");
    world.encoder.tell("SHIP belongs to ZENO", 0.8);
    world.navigator.missing = missing(&["the owner", ""]);
    ask(&world, &QrmemReflect::FULL).await;
    assert!(world.graph.queries().is_empty());
    let read = world.graph_builder.read();
    assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), [MAX_READ, 10 - MAX_READ]);
    assert_eq!(world.steps_of("edge"), ["edge SHIP belongs to ZENO to ZENO 0.80"]);
    assert_eq!(world.reasoner.read_last(), ["d:900", "d:200"]);
}

#[tokio::test]
async fn of_a_very_long_segment_the_hit_is_read() {
    let mut world = rope();
    world.graph.text_bytes = Some(MAX_READ_BYTES + 1);
    ask(&world, &REFLECT).await;
    assert_eq!(world.graph_builder.read()[0], ["d:410"]);
}

#[tokio::test]
async fn segments_that_joined_are_read_before_the_next_edge_is_chosen() {
    let mut world = islands(&["ship"]);
    let many: Vec<(&str, u32)> = (1..9).map(|ordinal| ("d", ordinal)).collect();
    world.graph.entity("anna", &many);
    world.graph.entity("zeno", &[("e", 0)]);
    world.graph.relation("ship", "built by", "anna", ("d", 1));
    world.graph_builder.tell("d:200", "ANNA", "taught", "ZENO");
    world.encoder.tell("SHIP built by ANNA", 0.5);
    world.encoder.tell("ANNA taught ZENO", 0.8);
    world.navigator.missing = missing(&["the builder", "her pupil", ""]);
    ask(&world, &REFLECT).await;
    // Six of the eight that joined first are read, and none of the last trial, because no trial
    // follows it.
    let first = ["d:100", "d:200", "d:300", "d:400", "d:500", "d:600"];
    assert_eq!(world.graph_builder.read(), [first]);
    let edges = ["edge SHIP built by ANNA to ANNA 0.50", "edge ANNA taught ZENO to ZENO 0.80"];
    assert_eq!(world.steps_of("edge"), edges);
    assert!(world.reasoner.read_last().contains(&"e:0".to_owned()));
}

#[tokio::test]
async fn no_segment_is_read_twice_and_trials_bound_the_calls() {
    let world = row(9);
    ask(&world, &REFLECT).await;
    let read = world.graph_builder.read();
    assert_eq!(read, [["d:100"], ["d:200"], ["d:300"], ["d:400"]]);

    let mut world = row(9);
    let hits = vec![evidence("d", 110, 120, 0.9), evidence("d", 310, 320, 0.9)];
    world.retriever.found.insert("e00".to_owned(), hits);
    ask(&world, &REFLECT).await;
    let mut read: Vec<String> = world.graph_builder.read().into_iter().flatten().collect();
    read.sort();
    assert_eq!(read, ["d:100", "d:200", "d:300", "d:400"]);
}

#[tokio::test]
async fn where_nothing_can_be_read_the_stored_graph_has_to_do() {
    let mut offline = rope();
    offline.question.text = "ship".to_owned();
    ask(&offline, &QrmemReflect::OFFLINE).await;
    for kind in [ErrorKind::Unavailable, ErrorKind::Exhausted, ErrorKind::InvalidInput] {
        let mut world = rope();
        world.question.text = "ship".to_owned();
        world.retriever.found.insert("ship".to_owned(), vec![evidence("d", 410, 440, 0.9)]);
        offline.retriever.found = world.retriever.found.clone();
        world.graph_builder.failure = Some(kind);
        ask(&world, &REFLECT).await;
        assert!(!world.graph_builder.calls().is_empty());
        assert_eq!(world.steps_of("edge"), offline.steps_of("edge"));
        assert_eq!(world.reasoner.read_last(), offline.reasoner.read_last());
    }
    let mut world = rope();
    world.graph_builder.failure = Some(ErrorKind::DeadlineExceeded);
    let error = world.ask(&REFLECT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

#[tokio::test]
async fn reading_for_the_question_is_paid_for() {
    let mut spent = Vec::new();
    for cost in [0, 100] {
        let mut world = rope();
        world.navigator.missing = missing(&["the holder", "more", ""]);
        world.graph_builder.cost = calls(cost);
        spent.push(ask(&world, &REFLECT).await.cost.model_calls);
        assert_eq!(world.graph_builder.read().concat(), ["d:400", "d:200", "d:300"]);
    }
    assert_eq!(spent[1] - spent[0], 3 * 100);
}

#[tokio::test]
async fn what_the_filter_excludes_is_not_read() {
    let mut world = rope();
    world.question.filter.documents = vec![document("d")];
    let hits = vec![evidence("x", 0, 50, 0.9), evidence("d", 410, 440, 0.8)];
    world.retriever.found.insert(world.question.text.clone(), hits);
    ask(&world, &REFLECT).await;
    assert_eq!(world.graph_builder.read()[0], ["d:400"]);
}
