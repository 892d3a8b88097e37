//! Tests of the rules of a walk, step by step, with a navigator that follows a script.

use std::time::Instant;

use clew_core::{AttributeName, ErrorKind, Outcome, ShardIndex, TextKind, TraceEvent};

use super::*;
use crate::testing::{Play, World, document, evidence, node, upper};

/// Creates a document with two parts: segments 0 and 1, and segment 10.
fn book() -> World {
    let mut world = World::default();
    world.tree.tops = vec![node("d", 2, 0, 2)];
    world.tree.put(&node("d", 2, 0, 2), vec![node("d", 1, 0, 2), node("d", 1, 1, 1)]);
    world.tree.put(&node("d", 1, 0, 2), vec![node("d", 0, 0, 0), node("d", 0, 1, 0)]);
    world.tree.put(&node("d", 1, 1, 1), vec![node("d", 0, 10, 0)]);
    world
}

/// Creates documents of one segment each.
fn shelf(documents: &[&str]) -> World {
    let mut world = World::default();
    world.tree.tops = documents.iter().map(|id| node(id, 0, 0, 0)).collect();
    world
}

/// Creates the same documents under one node.
fn under_one_node(documents: &[String]) -> World {
    let mut world = World::default();
    let (first, last) = (documents.first().unwrap(), documents.last().unwrap());
    let above = upper(1, first, last, documents.len() as u32);
    world.tree.put(&above, documents.iter().map(|id| node(id, 0, 0, 0)).collect());
    world.tree.tops = vec![above];
    world
}

/// Goes down in the [`book`], turns back, and finds the answer in its other part.
fn plays_of_the_paper() -> Vec<Play> {
    vec![
        Play::Enter(0),
        Play::Enter(1),
        Play::Nothing,
        Play::Back,
        Play::Enter(0),
        Play::Enter(0),
        Play::Answer,
    ]
}

async fn walks(world: &World, plays: Vec<Play>, strategy: MemWalker) -> Answer {
    world.navigator.play(plays);
    world.ask(&strategy).await.unwrap()
}

fn ended(world: &World) -> String {
    world.steps_of("walked").pop().unwrap()
}

fn shown(world: &World) -> Vec<Vec<String>> {
    world.navigator.choices().into_iter().map(|choice| choice.summaries).collect()
}

fn segments_read(world: &World) -> Vec<String> {
    world.navigator.leaves().into_iter().map(|(leaf, _)| leaf).collect()
}

#[tokio::test]
async fn the_walk_of_the_paper_goes_down_turns_back_and_answers() {
    let world = book();
    let answer = walks(&world, plays_of_the_paper(), MemWalker::DEPTH_FIRST).await;
    let expected = [
        "searched what? 0",
        "entered d#2.0 from ",
        "entered d#1.0 from d#2.0",
        "entered d#0.1 from d#1.0",
        "leaf d#0.1 false",
        "back from d#0.1: it says",
        "back from d#1.0: it may",
        "entered d#1.1 from d#2.0",
        "entered d#0.10 from d#1.1",
        "leaf d#0.10 true",
        "read 2",
        "walked: a segment answers",
        "judged 0.9",
        "text a clew",
    ];
    assert_eq!(world.steps(), expected);
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Answered, "a clew"));
    // Five choices and two readings. The cost of the answer is part of its reading.
    assert_eq!(answer.cost.model_calls, 7);
}

#[tokio::test]
async fn a_visited_child_is_not_shown_again() {
    let world = book();
    let plays = vec![Play::Enter(0), Play::Enter(1), Play::Nothing, Play::Back, Play::Back];
    walks(&world, plays, MemWalker::DEPTH_FIRST).await;
    let expected = [vec!["d#1.0", "d#1.1"], vec!["d#0.0", "d#0.1"], vec!["d#0.0"], vec!["d#1.1"]];
    assert_eq!(shown(&world), expected);
    let may_turn_back: Vec<_> =
        world.navigator.choices().iter().map(|choice| choice.may_turn_back).collect();
    assert_eq!(may_turn_back, [false, true, true, false]);
}

#[tokio::test]
async fn a_node_without_unvisited_children_is_left_to_its_parent() {
    let world = book();
    let plays = vec![
        Play::Enter(0),
        Play::Enter(0),
        Play::Nothing,
        Play::Enter(0),
        Play::Nothing,
        Play::Enter(0),
        Play::Enter(0),
        Play::Nothing,
    ];
    let answer = walks(&world, plays, MemWalker::DEPTH_FIRST).await;
    assert_eq!(answer.outcome, Outcome::NotInMemory);
    assert_eq!(segments_read(&world), ["d:0", "d:100", "d:1000"]);
    let left = ["back from d#1.0: everything below it was looked at"];
    assert_eq!(world.steps_of("back from d#1.0"), left);
    assert_eq!(ended(&world), "walked: everything was looked at");
}

#[tokio::test]
async fn turning_back_at_the_top_ends() {
    let world = book();
    let answer = walks(&world, vec![Play::Back], MemWalker::DEPTH_FIRST).await;
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::NotInMemory, ""));
    assert_eq!(ended(&world), "walked: turned back at the top: it may");
}

#[tokio::test]
async fn what_was_read_on_the_way_is_carried_along_oldest_first() {
    let world = book();
    walks(&world, plays_of_the_paper(), MemWalker::DEPTH_FIRST).await;
    let leaves = world.navigator.leaves();
    let text = evidence("d", 100, 200, 0.0).text;
    assert_eq!(leaves[0].1, ["d#2.0", "d#1.0"]);
    assert_eq!(leaves[1].1, ["d#2.0", "d#1.0", text.as_str(), "d#1.1"]);
    assert_eq!(world.navigator.choices()[2].memory, ["d#2.0", "d#1.0", text.as_str()]);
}

#[tokio::test]
async fn the_end_tells_the_share_of_the_text_that_was_read() {
    let world = book();
    let plays = vec![Play::Enter(0), Play::Enter(1), Play::Nothing, Play::Back, Play::Back];
    walks(&world, plays, MemWalker::DEPTH_FIRST).await;
    let walked = TraceEvent::Walked {
        nodes: 3,
        turns: 3,
        // The summaries of five nodes, each counted once, and a segment.
        bytes_read: 5 * 5 + 100,
        bytes_total: 10_000,
        ended: "turned back at the top: it may".to_owned(),
    };
    assert!(world.trace().contains(&walked), "{:?}", world.trace());
}

#[tokio::test]
async fn the_steps_are_bounded() {
    let many: Vec<String> = (10..50).map(|number| format!("d{number}")).collect();
    let world = under_one_node(&many);
    let plays = (0..MAX_STEPS / 2).flat_map(|_| [Play::Enter(0), Play::Nothing]).collect();
    let answer = walks(&world, plays, MemWalker::DEPTH_FIRST).await;
    assert_eq!(answer.outcome, Outcome::NotInMemory);
    assert_eq!(answer.cost.model_calls, MAX_STEPS as u64);
    assert_eq!(ended(&world), "walked: all 24 steps are used up");

    let world = shelf(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let plays = (0..MAX_STEPS).map(|_| Play::Nothing).collect();
    walks(&world, plays, MemWalker::BEST_FIRST).await;
    assert_eq!(ended(&world), "walked: all 24 steps are used up");
}

#[tokio::test]
async fn no_more_segments_are_read_than_the_question_wants() {
    let mut world = shelf(&["a", "b", "c"]);
    world.question.k = Some(2);
    walks(&world, vec![Play::Nothing, Play::Nothing], MemWalker::BEST_FIRST).await;
    assert_eq!(ended(&world), "walked: all 2 segments that may be read were read");
}

#[tokio::test]
async fn replies_that_cannot_be_read_end_without_an_answer() {
    for plays in [vec![Play::Unreadable], vec![Play::Enter(0), Play::Enter(0), Play::Unreadable]] {
        let world = book();
        let answer = walks(&world, plays, MemWalker::DEPTH_FIRST).await;
        assert_eq!(answer.outcome, Outcome::NotInMemory);
        assert_eq!(ended(&world), "walked: the navigator's replies could not be read");
    }
}

#[tokio::test]
async fn a_passed_deadline_is_an_error() {
    let world = book();
    world.navigator.play([Play::Enter(0), Play::Late]);
    let error = world.ask(&MemWalker::DEPTH_FIRST).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);

    for strategy in [MemWalker::DEPTH_FIRST, MemWalker::BEST_FIRST, MemWalker::BEAM] {
        let mut world = book();
        world.question.deadline = Instant::now();
        let error = world.ask(&strategy).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    }
}

#[tokio::test]
async fn what_is_gone_meanwhile_counts_as_visited() {
    let mut world = book();
    world.tree.gone = vec![node("d", 1, 1, 1).id, node("d", 0, 0, 0).id];
    let plays = vec![Play::Enter(1), Play::Enter(0), Play::Enter(0), Play::Enter(0), Play::Answer];
    let answer = walks(&world, plays, MemWalker::DEPTH_FIRST).await;
    assert_eq!(answer.outcome, Outcome::Answered);
    let expected = [vec!["d#1.0", "d#1.1"], vec!["d#1.0"], vec!["d#0.0", "d#0.1"], vec!["d#0.1"]];
    assert_eq!(shown(&world), expected);
    let gone = ["back from d#1.1: it is there no more", "back from d#0.0: it is there no more"];
    assert_eq!(world.steps_of("back"), gone);
}

#[tokio::test]
async fn several_tops_are_shown_as_children_of_one_node() {
    let world = shelf(&["a", "b"]);
    walks(&world, vec![Play::Enter(1), Play::Nothing, Play::Back], MemWalker::DEPTH_FIRST).await;
    assert_eq!(shown(&world), [vec!["a#0.0", "b#0.0"], vec!["a#0.0"]]);
    assert_eq!(world.steps_of("entered"), ["entered b#0.0 from "]);
}

#[tokio::test]
async fn many_shards_have_one_root_with_levels_of_few_children_between() {
    // Each shard has a root above two documents of a segment each.
    let mut world = World::default();
    for shard in 10..30 {
        let (first, last) = (format!("d{shard}a"), format!("d{shard}b"));
        let root = upper(shard, &first, &last, 2);
        world.tree.put(&root, vec![node(&first, 0, 0, 0), node(&last, 0, 0, 0)]);
        world.tree.tops.push(root);
    }
    let found = evidence("d17b", 0, 50, 0.9);
    world.retriever.found.insert("what?".to_owned(), vec![found]);
    let plays = vec![Play::Enter(1), Play::Enter(1), Play::Enter(1), Play::Answer];
    let answer = walks(&world, plays, MemWalker::DEPTH_FIRST).await;
    assert_eq!(answer.outcome, Outcome::Answered);
    assert_eq!(segments_read(&world), ["d17b:0"]);
    let shown = shown(&world);
    // Three groups of six or seven shards. Their summaries are made of those below.
    assert_eq!(shown.iter().map(Vec::len).collect::<Vec<_>>(), [3, 7, 2]);
    assert!(shown[0][1].contains("upper 17"), "{shown:?}");
    assert_eq!(shown[1][1], "upper 17");
    let hints: Vec<Vec<f32>> =
        world.navigator.choices().into_iter().map(|choice| choice.found).collect();
    assert_eq!(hints[0], [0.0, 1.0, 0.0]);
    // Every order covers all nodes.
    for strategy in [MemWalker::BEST_FIRST, MemWalker::BEAM] {
        let answer = walks(&world, vec![Play::Answer], strategy).await;
        assert_eq!(answer.outcome, Outcome::Answered);
        assert_eq!(segments_read(&world).last().unwrap(), "d17b:0");
    }
}

#[tokio::test]
async fn the_levels_above_shards_have_few_children_each_and_leave_nothing_out() {
    for count in [1, 8, 9, 17, 64, 65, 255] {
        let tops: Vec<_> = (1..=count).map(|number| upper(number, "a", "b", 1)).collect();
        let (levels, mut nodes) = corpus::CorpusLevels::over(tops.clone());
        let mut below = Vec::new();
        assert!(nodes.len() <= MAX_GROUPED);
        while let Some(node) = nodes.pop() {
            match levels.children(&node.id) {
                Some(children) => {
                    assert!((2..=MAX_GROUPED).contains(&children.len()), "{count}");
                    nodes.extend(children);
                }
                None => below.push(node),
            }
        }
        below.sort_by_key(|node| node.summary.clone());
        let mut expected = tops;
        expected.sort_by_key(|node| node.summary.clone());
        assert_eq!(below, expected);
    }
}

#[tokio::test]
async fn a_document_of_one_segment_is_read_without_a_choice() {
    let world = shelf(&["a"]);
    let answer = walks(&world, vec![Play::Answer], MemWalker::DEPTH_FIRST).await;
    assert_eq!(answer.outcome, Outcome::Answered);
}

#[tokio::test]
async fn an_empty_tree_answers_nothing() {
    for strategy in [MemWalker::DEPTH_FIRST, MemWalker::BEST_FIRST, MemWalker::BEAM] {
        let world = shelf(&[]);
        assert_eq!(walks(&world, vec![], strategy).await.outcome, Outcome::NotInMemory);
        assert_eq!(ended(&world), "walked: there is nothing to walk");
    }
}

#[tokio::test]
async fn of_too_many_children_the_best_are_shown_in_their_order() {
    let many: Vec<String> = (10..30).map(|number| format!("d{number}")).collect();
    let mut world = under_one_node(&many);
    for number in 14..30 {
        world.encoder.tell(&format!("d{number}#0.0"), 0.5);
    }
    walks(&world, vec![Play::Enter(0), Play::Nothing, Play::Back], MemWalker::DEPTH_FIRST).await;
    let shown = shown(&world);
    let expected: Vec<String> = (14..30).map(|number| format!("d{number}#0.0")).collect();
    assert_eq!(shown[0], expected);
    // The best node was visited, so the first of the others takes its place.
    assert_eq!((shown[1][0].as_str(), shown[1][1].as_str()), ("d10#0.0", "d15#0.0"));
    assert_eq!(shown[1].len(), MAX_SHOWN);
}

#[tokio::test]
async fn a_search_hints_where_to_go() {
    let mut world = book();
    let hits = vec![
        evidence("d", 1000, 1040, 0.8),
        evidence("d", 110, 150, 0.4),
        evidence("d", 60, 120, 0.2),
    ];
    world.retriever.found.insert("what?".to_owned(), hits);
    walks(&world, vec![Play::Enter(0), Play::Back, Play::Back], MemWalker::DEPTH_FIRST).await;
    let found: Vec<_> = world.navigator.choices().into_iter().map(|choice| choice.found).collect();
    assert_eq!(found, [vec![0.5, 1.0], vec![0.25, 0.5], vec![1.0]]);
    let query = &world.retriever.queries()[0];
    assert_eq!((query.k, query.filter.clone()), (64, world.question.filter.clone()));
}

#[tokio::test]
async fn an_answer_without_support_is_none() {
    let world = shelf(&["a"]);
    let answer = walks(&world, vec![Play::Weak], MemWalker::DEPTH_FIRST).await;
    assert_eq!(answer.outcome, Outcome::NotInMemory);
    assert_eq!(world.steps_of("leaf"), ["leaf a#0.0 false"]);
}

#[tokio::test]
async fn missing_shards_are_named_in_the_outcome() {
    let mut world = shelf(&["a"]);
    world.retriever.shards_missing = vec![ShardIndex(3)];
    let answer = walks(&world, vec![Play::Answer], MemWalker::DEPTH_FIRST).await;
    assert_eq!(answer.outcome, Outcome::AnsweredWithShardsMissing(vec![ShardIndex(3)]));
}

#[tokio::test]
async fn documents_that_the_filter_excludes_are_not_shown() {
    let mut world = World::default();
    world.tree.tops = vec![upper(1, "a", "c", 3), upper(2, "m", "p", 2)];
    world.tree.put(
        &upper(1, "a", "c", 3),
        vec![node("a", 0, 0, 0), node("b", 0, 0, 0), node("c", 0, 0, 0)],
    );
    world.question.filter.documents = vec![document("b"), document("z")];
    walks(&world, vec![Play::Enter(0), Play::Answer], MemWalker::DEPTH_FIRST).await;
    assert_eq!(shown(&world), [vec!["b#0.0"]]);
    assert_eq!(world.retriever.queries().len(), 1);
}

#[tokio::test]
async fn of_attributes_the_search_knows_what_the_filter_admits() {
    let mut world = shelf(&["a", "b"]);
    let name = AttributeName::try_from("lang".to_owned()).unwrap();
    world.question.filter.attributes = vec![(name, "la".to_owned())];
    world.retriever.documents_found = vec![evidence("b", 0, 10, 1.0)];
    walks(&world, vec![Play::Answer], MemWalker::DEPTH_FIRST).await;
    assert_eq!(segments_read(&world), ["b:0"]);
    let query = &world.retriever.queries()[1];
    assert_eq!((query.k, &query.filter), (200, &world.question.filter));
}

/// Creates two documents: `a`, whose first segment scores 0.2 and second 0.45, and `b`, whose only
/// segment scores 0.3.
fn scored() -> World {
    let mut world = World::default();
    world.tree.tops = vec![node("a", 1, 0, 2), node("b", 1, 0, 1)];
    world.tree.put(&node("a", 1, 0, 2), vec![node("a", 0, 0, 0), node("a", 0, 1, 0)]);
    world.tree.put(&node("b", 1, 0, 1), vec![node("b", 0, 0, 0)]);
    let cosines = [("a#1.0", 0.6), ("b#1.0", 0.8), ("a#0.0", 0.4), ("a#0.1", 0.9), ("b#0.0", 0.5)];
    for (summary, cosine) in cosines {
        world.encoder.tell(summary, cosine);
    }
    world
}

#[tokio::test]
async fn best_first_always_goes_on_at_the_best_node() {
    let world = scored();
    let plays = vec![Play::Nothing, Play::Nothing, Play::Answer];
    let answer = walks(&world, plays, MemWalker::BEST_FIRST).await;
    let entered = [
        "entered b#1.0 from ",
        "entered a#1.0 from ",
        "entered a#0.1 from a#1.0",
        "entered b#0.0 from b#1.0",
        "entered a#0.0 from a#1.0",
    ];
    assert_eq!(world.steps_of("entered"), entered);
    assert_eq!(answer.outcome, Outcome::Answered);
    // The question, two tops, one child and two children.
    assert_eq!(answer.cost.embedded_tokens, 6);
    assert_eq!(answer.cost.model_calls, 3);
    let scores: Vec<_> = world.trace().into_iter().filter_map(score).collect();
    assert_eq!(scores, [0.4, 0.3, 0.45, 0.25, 0.2]);
}

fn score(event: TraceEvent) -> Option<f32> {
    let TraceEvent::Entered { score, .. } = event else { return None };
    score
}

#[tokio::test]
async fn summaries_with_stored_vectors_are_not_embedded_and_scored_the_same() {
    let call = |kind: TextKind, texts: &[&str]| {
        (texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>(), kind)
    };
    let passages = |texts: &[&str]| call(TextKind::Passage, texts);
    let question = call(TextKind::Query, &["what?"]);
    let told = scored().encoder;
    let all = ["a#1.0", "b#1.0", "a#0.0", "a#0.1", "b#0.0"];
    let tops = passages(&["a#1.0", "b#1.0"]);
    let (below_a, below_b) = (passages(&["a#0.0", "a#0.1"]), passages(&["b#0.0"]));
    let (b, second) = (passages(&["b#1.0"]), passages(&["a#0.1"]));
    let cases = [
        (told.stored(&all), vec![question.clone()]),
        (told.stored(&["a#1.0", "b#0.0", "a#0.0"]), vec![b, question.clone(), second]),
        (("another model".to_owned(), told.stored(&all).1), vec![tops, question, below_b, below_a]),
    ];
    for (stored, expected) in cases {
        let mut world = scored();
        world.tree.vectors = Some(stored);
        let plays = vec![Play::Nothing, Play::Nothing, Play::Answer];
        let answer = walks(&world, plays, MemWalker::BEST_FIRST).await;
        let scores: Vec<_> = world.trace().into_iter().filter_map(score).collect();
        assert_eq!(scores, [0.4, 0.3, 0.45, 0.25, 0.2]);
        let embedded: usize = expected.iter().map(|(texts, _)| texts.len()).sum();
        assert_eq!(answer.cost.embedded_tokens, embedded as u64);
        assert_eq!(world.encoder.calls(), expected);
    }
}

#[tokio::test]
async fn what_was_found_is_half_of_a_score() {
    let mut world = scored();
    world.retriever.found.insert("what?".to_owned(), vec![evidence("a", 0, 50, 0.1)]);
    walks(&world, vec![Play::Answer], MemWalker::BEST_FIRST).await;
    let scores: Vec<_> = world.trace().into_iter().filter_map(score).collect();
    assert_eq!(scores, [0.8, 0.7]);
    assert_eq!(segments_read(&world), ["a:0"]);
}

#[tokio::test]
async fn best_first_ends_when_everything_was_looked_at() {
    let world = scored();
    let plays = vec![Play::Nothing, Play::Nothing, Play::Nothing];
    walks(&world, plays, MemWalker::BEST_FIRST).await;
    assert_eq!(ended(&world), "walked: everything was looked at");
}

#[tokio::test]
async fn the_nodes_that_a_walk_by_scores_enters_are_bounded() {
    let mut world = World::default();
    // Each node has itself as a child: an endless tree.
    let endless = node("a", 1, 0, 1);
    world.tree.tops = vec![endless.clone()];
    world.tree.put(&endless, vec![endless.clone()]);
    walks(&world, vec![], MemWalker::BEST_FIRST).await;
    assert_eq!(ended(&world), "walked: 64 nodes were entered in vain");
    walks(&world, vec![], MemWalker::BEAM).await;
    assert_eq!(ended(&world), "walked: no segment of the beam answers");
}

#[tokio::test]
async fn a_beam_takes_the_best_three_of_each_level_and_reads_the_best_first() {
    let mut world = World::default();
    // Documents `a` to `c` of two segments each, and `e` of one; `b` is not among the best.
    world.tree.tops = ["a", "b", "c"].iter().map(|id| node(id, 1, 0, 2)).collect();
    world.tree.tops.push(node("e", 0, 0, 0));
    for id in ["a", "b", "c"] {
        world.tree.put(&node(id, 1, 0, 2), vec![node(id, 0, 0, 0), node(id, 0, 1, 0)]);
    }
    let cosines = [
        ("a#1.0", 0.6),
        ("b#1.0", 0.1),
        ("c#1.0", 0.7),
        ("e#0.0", 0.65),
        ("a#0.0", 0.9),
        ("a#0.1", 0.2),
        ("c#0.0", 0.3),
        ("c#0.1", 0.4),
    ];
    for (summary, cosine) in cosines {
        world.encoder.tell(summary, cosine);
    }
    let plays = (0..4).map(|_| Play::Nothing).collect();
    let answer = walks(&world, plays, MemWalker::BEAM).await;
    assert_eq!(answer.outcome, Outcome::NotInMemory);
    let entered = world.steps_of("entered");
    assert_eq!(entered[..2], ["entered c#1.0 from ", "entered a#1.0 from "]);
    assert_eq!(segments_read(&world), ["a:0", "e:0", "c:100", "c:0"]);
    assert_eq!(ended(&world), "walked: no segment of the beam answers");
}

#[tokio::test]
async fn a_beam_ends_at_the_first_segment_that_answers() {
    let world = scored();
    let answer = walks(&world, vec![Play::Answer], MemWalker::BEAM).await;
    assert_eq!(answer.outcome, Outcome::Answered);
    assert_eq!(segments_read(&world), ["a:100"]);
}
