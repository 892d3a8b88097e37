use std::sync::Mutex;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Citation, ClueQuery, Clues, Cost, Error, Evidence, Memory, MemoryUse, Partial, SearchMode,
    Span, Task, TextKind, Version,
};

use super::*;
use crate::testing::{World, calls, document, evidence, node, upper};
use crate::{Seams, Strategy, TreeMemory};

/// Creates a world in which each query finds the given places of document `d`.
fn world(found: &[(&str, &[usize])]) -> World {
    let mut world = World::default();
    for (query, starts) in found {
        let hits = starts.iter().map(|start| evidence("d", *start, start + 90, 0.5)).collect();
        world.retriever.found.insert((*query).to_owned(), hits);
    }
    world
}

async fn read(world: &World, strategy: &dyn Strategy) -> Vec<String> {
    world.ask(strategy).await.unwrap();
    world.reasoner.evidence().iter().map(place).collect()
}

fn place(passage: &Evidence) -> String {
    format!("{}:{}", passage.document_id, passage.span.start)
}

fn queries(world: &World) -> Vec<String> {
    world.retriever.queries().into_iter().map(|query| query.text).collect()
}

#[tokio::test]
async fn naive_searches_once_in_its_mode() {
    for (strategy, mode) in [
        (Naive::HYBRID, SearchMode::Hybrid),
        (Naive::DENSE, SearchMode::Dense),
        (Naive::SPARSE, SearchMode::Sparse),
    ] {
        let world = world(&[("what?", &[0, 100])]);
        assert_eq!(read(&world, &strategy).await, ["d:0", "d:100"]);
        let queries = world.retriever.queries();
        assert_eq!((queries.len(), queries[0].mode), (1, mode));
    }
}

#[tokio::test]
async fn full_context_keeps_one_end_in_order_and_says_what_it_drops() {
    for (strategy, kept) in
        [(FullContext::LEFT, ["d:0", "d:20000"]), (FullContext::RIGHT, ["d:20000", "d:40000"])]
    {
        let mut world = World::default();
        let long = |start| evidence("d", start, start + 11_000, 0.5);
        let hits = vec![long(40_000), long(0), long(20_000)];
        world.retriever.found.insert("what?".to_owned(), hits);
        assert_eq!(read(&world, &strategy).await, kept);
        assert_eq!(world.steps_of("gathered"), ["gathered 2 dropped 1 bytes 22000"]);
    }
}

#[tokio::test]
async fn recurrent_summary_carries_a_summary_over_the_text_in_order() {
    let mut world = World::default();
    let long = |start| evidence("d", start, start + 5_000, 0.5);
    let hits = vec![long(20_000), long(0), long(10_000)];
    world.retriever.found.insert("what?".to_owned(), hits);
    world.retriever.found.insert("d:0 d:10000 d:20000".to_owned(), vec![long(10_000)]);
    world.graph_builder.cost = calls(1);
    // Each passage is too long to be grouped with another.
    let answer = world.ask(&RecurrentSummary).await.unwrap();
    assert_eq!(answer.cost.model_calls, 1000 + 3);
    assert_eq!(queries(&world), ["what?", "d:0 d:10000 d:20000"]);
    assert_eq!(world.retriever.queries()[1].mode, SearchMode::Dense);
    assert_eq!(world.reasoner.read_last(), ["d:10000"]);
}

#[tokio::test]
async fn with_nothing_to_go_through_recurrent_summary_reads_nothing() {
    let world = World::default();
    assert!(read(&world, &RecurrentSummary).await.is_empty());
}

#[tokio::test]
async fn hyde_searches_for_what_it_imagines_out_of_the_best_passages() {
    let mut world = world(&[("what?", &[0, 100, 200, 300]), ("a clew of thread", &[100, 500])]);
    world.planner.imagined = vec!["a clew of thread".to_owned()];
    world.planner.cost = calls(7);
    world.question.k = Some(3);
    let answer = world.ask(&Hyde).await.unwrap();
    assert_eq!(answer.cost.model_calls, 1007);
    assert_eq!(world.planner.shown(), ["0", "100", "200"]);
    assert_eq!(world.retriever.queries()[1].mode, SearchMode::Dense);
    let read: Vec<String> = world.reasoner.evidence().iter().map(place).collect();
    assert_eq!((read[0].as_str(), read.len()), ("d:100", 3));
}

#[tokio::test]
async fn rewrite_searches_for_each_wording_and_the_question() {
    for (strategy, how) in [
        (Rewrite::PLAIN, "Rewrite"),
        (Rewrite::DECOMPOSE, "Decompose"),
        (Rewrite::DISAMBIGUATE, "Disambiguate"),
    ] {
        let mut world = world(&[("what?", &[0]), ("one", &[100]), ("two", &[200, 0])]);
        world.planner.wordings = ["one", "two", "three", "four"].map(str::to_owned).to_vec();
        assert_eq!(read(&world, &strategy).await[0], "d:0");
        assert_eq!(world.planner.shown(), [how]);
        assert_eq!(queries(&world), ["what?", "one", "two", "three"]);
    }
}

#[tokio::test]
async fn iterative_searches_for_what_is_missing_until_nothing_is() {
    let missing = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect();
    // Nothing is missing any more; the same is missing again; each time something else is missing.
    let cases: [(Vec<Option<String>>, &[&str]); 3] = [
        (vec![Some("who".to_owned()), None], &["what?", "who"]),
        (missing(&["who", "who"]), &["what?", "who"]),
        (missing(&["a", "b", "c", "d", "e"]), &["what?", "a", "b", "c"]),
    ];
    for (missing, expected) in cases {
        let mut world = world(&[("what?", &[0]), ("who", &[100]), ("a", &[100])]);
        world.navigator.missing = missing;
        assert_eq!(read(&world, &Iterative).await, ["d:0", "d:100"]);
        assert_eq!(queries(&world), expected);
    }
}

#[tokio::test]
async fn graph_walk_reads_the_segments_that_the_questions_entities_lead_to() {
    let mut world = World::default();
    world.question.text = "ship".to_owned();
    world.graph.entity("ship", &[("d", 0)]);
    world.graph.entity("anna", &[("d", 1)]);
    world.graph.entity("bert", &[("e", 3)]);
    world.graph.relation("ship", "built by", "anna", ("d", 0));
    assert_eq!(read(&world, &GraphWalk).await[..2], ["d:0", "d:100"]);
    assert_eq!(world.steps_of("chose"), ["chose ship"]);
}

#[tokio::test]
async fn where_the_graph_knows_nothing_graph_walk_reads_what_a_search_finds() {
    let world = world(&[("what?", &[0, 100])]);
    assert_eq!(read(&world, &GraphWalk).await, ["d:0", "d:100"]);
}

#[tokio::test]
async fn summary_levels_ranks_nodes_of_all_levels_and_reads_segments_for_them() {
    let mut world = World::default();
    let (top, root) = (upper(1, "d", "d", 1), node("d", 1, 0, 3));
    world.tree.tops = vec![top.clone()];
    world.tree.put(&top, vec![root.clone()]);
    world.tree.put(&root, (0..3).map(|ordinal| node("d", 0, ordinal, 0)).collect());
    world.encoder.tell("d#0.2", 0.9);
    world.encoder.tell("d#1.0", 0.8);
    world.encoder.tell("d#0.1", 0.3);
    // The segment itself, then the root, which stands for the best segment not read yet.
    assert_eq!(read(&world, &SummaryLevels).await[..2], ["d:200", "d:100"]);
    let entered = world.steps_of("entered");
    assert_eq!(entered[0], "entered d#0.2 from d#1.0");
    assert!(entered[1].starts_with("entered d#1.0 from "), "{entered:?}");
}

#[tokio::test]
async fn summary_levels_embeds_no_summary_that_has_a_stored_vector() {
    let mut world = World::default();
    let root = node("d", 1, 0, 2);
    world.tree.tops = vec![root.clone()];
    world.tree.put(&root, vec![node("d", 0, 0, 0), node("d", 0, 1, 0)]);
    world.encoder.tell("d#0.1", 0.9);
    let embedded = |world: &World| {
        let calls = world.encoder.calls().into_iter();
        calls.filter(|(_, kind)| *kind == TextKind::Passage).flat_map(|(texts, _)| texts).collect()
    };
    world.tree.vectors = Some(world.encoder.stored(&["d#1.0", "d#0.1"]));
    assert_eq!(read(&world, &SummaryLevels).await, ["d:100", "d:0"]);
    let only: Vec<String> = embedded(&world);
    assert_eq!(only, ["d#0.0"]);
}

#[tokio::test]
async fn memorag_searches_for_clues_out_of_the_top_of_the_tree() {
    let mut world =
        world(&[("what?", &[0, 100]), ("red thread", &[300]), ("who gave it?", &[100])]);
    world.tree.tops = vec![upper(1, "a", "c", 2), node("d", 0, 0, 0)];
    world.planner.clues = Clues {
        queries: vec!["who gave it?".to_owned()],
        clues: vec!["red thread".to_owned()],
        ..Clues::default()
    };
    assert_eq!(read(&world, &MemoRag).await, ["d:100", "d:0", "d:300"]);
    assert_eq!(world.planner.shown(), ["upper 1\nd: d#0.0\n"]);
    assert_eq!(queries(&world), ["what?", "who gave it?", "red thread"]);
    assert_eq!(world.ask(&MemoRag).await.unwrap().cost, Cost { ..calls(1000) });
}

#[tokio::test]
async fn memorag_searches_for_every_line_that_was_drafted() {
    let texts = |kind: &str| (0..7).map(|n| format!("{kind} {n}")).collect::<Vec<String>>();
    let mut world = world(&[("what?", &[0]), ("clue 6", &[300])]);
    world.planner.clues =
        Clues { queries: texts("query"), clues: texts("clue"), ..Clues::default() };
    assert!(read(&world, &MemoRag).await.contains(&"d:300".to_owned()));
    let sought = [vec!["what?".to_owned()], texts("query"), texts("clue")].concat();
    assert_eq!(queries(&world), sought);
    assert_eq!(world.retriever.batches(), [14]);
    assert_eq!(world.planner.most(), [4], "who only sees an outline is not asked for as many");
}

#[tokio::test]
async fn memorag_searches_in_batches_and_line_by_line_where_batches_are_refused() {
    let clues = Clues { clues: (0..40).map(|n| format!("clue {n}")).collect(), ..Clues::default() };
    let asked = async |refuses_batches| {
        let mut world = world(&[("what?", &[0]), ("clue 3", &[300]), ("clue 39", &[600, 0])]);
        world.retriever.refuses_batches = refuses_batches;
        world.planner.clues = clues.clone();
        let read = read(&world, &MemoRag).await;
        (read, queries(&world), world.steps_of("searched"), world.retriever.batches())
    };
    let (read, sought, steps, batches) = asked(false).await;
    assert_eq!((sought.len(), steps.len(), batches), (41, 41, vec![32, 8]));
    assert_eq!(asked(true).await, (read, sought, steps, Vec::new()));
}

#[tokio::test]
async fn wordings_are_searched_for_in_one_batch_and_each_search_is_told() {
    let mut world = world(&[("what?", &[0]), ("which?", &[100, 0])]);
    world.planner.wordings = vec!["which?".to_owned(), "who?".to_owned()];
    assert_eq!(read(&world, &Rewrite::PLAIN).await, ["d:0", "d:100"]);
    assert_eq!(world.retriever.batches(), [3]);
    let told = ["searched what? 1", "searched which? 2", "searched who? 0"];
    assert_eq!(world.steps_of("searched"), told);
}

/// Memory that answers by itself if asked to.
struct Answering(Mutex<Vec<ClueQuery>>);

#[async_trait]
impl Memory for Answering {
    async fn clues(
        &self,
        query: &ClueQuery,
        _: &[Evidence],
        _: usize,
        _: Instant,
    ) -> Result<Partial<(Clues, Cost)>, Error> {
        self.0.lock().unwrap().push(query.clone());
        let answers =
            if query.draft.answers { vec!["The", "Ariadne of Crete", "Medea"] } else { vec![] };
        let answers = answers.into_iter().map(str::to_owned).collect();
        let clues = vec!["the red thread was given".to_owned()];
        Ok(Partial::whole((Clues { clues, answers, ..Clues::default() }, calls(3))))
    }
}

#[tokio::test]
async fn memorag_has_memories_answer_as_far_as_the_question_wants_it() {
    let quoted = |quote: &str| Citation {
        document_id: document("d"),
        version: Version(1),
        title: String::new(),
        span: Span::new(0, quote.len()),
        quote: quote.to_owned(),
    };
    let asked = async |memory_use, task, quote: &str| {
        let mut world = world(&[("what?", &[0]), ("Ariadne of Crete", &[300])]);
        world.question.memory_use = memory_use;
        world.question.task = task;
        world.reasoner.citations = vec![quoted(quote)];
        let (memory, tree) = (
            Answering(Mutex::default()),
            TreeMemory { tree: &world.tree, planner: &world.planner },
        );
        let seams = Seams { memory: &memory, ..world.seams(&tree) };
        let answer = MemoRag.answer(&world.question, seams, &world.seen).await.unwrap();
        let wanted = memory.0.into_inner().unwrap().remove(0).draft.answers;
        let hints: Vec<String> = world.reasoner.points().into_iter().map(|it| it.text).collect();
        (wanted, queries(&world)[2..].to_vec(), hints, world.steps_of("drafted"), answer.text)
    };
    let said = "Ariadne, who was from Crete, gave it to him.";
    let (wanted, sought, hints, drafted, text) = asked(MemoryUse::Clues, Task::Answer, said).await;
    assert!(!wanted && sought.is_empty() && hints.is_empty());
    assert_eq!((drafted, text.as_str()), (vec!["drafted 1 lines []".to_owned()], "a clew"));

    let (wanted, sought, hints, drafted, text) = asked(MemoryUse::Hint, Task::Answer, said).await;
    let answers = ["The", "Ariadne of Crete", "Medea"];
    assert!(wanted && sought == answers, "{sought:?}");
    assert!(answers.iter().zip(&hints).all(|(answer, hint)| hint.ends_with(answer)), "{hints:?}");
    assert_eq!(drafted, ["drafted 1 lines [The, Ariadne of Crete, Medea]"]);
    assert_eq!(text, "a clew", "a hint is no answer");

    let (.., text) = asked(MemoryUse::Answer, Task::Answer, said).await;
    assert_eq!(text, "Ariadne of Crete");
    let (.., text) = asked(MemoryUse::Answer, Task::Answer, "Theseus came from Athens.").await;
    assert_eq!(text, "a clew", "what nothing cited says is not told");
    let (wanted, ..) = asked(MemoryUse::Answer, Task::Summarise, said).await;
    assert!(!wanted, "a summary has no answer");
}

/// Questions to an assistant leave out what it knows of the user (MemoRAG, table 4), and follow-up
/// questions leave out what was said before (table 5). The question's own words find none of it.
#[tokio::test]
async fn memorag_finds_what_a_question_leaves_unsaid() {
    let cases = [
        (
            "Can you recommend a song?",
            "I play the oud every evening",
            "which music does the user play?",
        ),
        ("Does it have a sequel?", "We talked of The Gods of Mars", "sequel of The Gods of Mars"),
    ];
    for (question, clue, query) in cases {
        let mut world = world(&[(question, &[0]), (clue, &[700]), (query, &[700, 800])]);
        world.question.text = question.to_owned();
        world.planner.clues = Clues {
            queries: vec![query.to_owned()],
            clues: vec![clue.to_owned()],
            ..Clues::default()
        };
        assert_eq!(read(&world, &MemoRag).await[0], "d:700", "{question}");
        assert_eq!(read(&world, &Naive::HYBRID).await, ["d:0"], "{question}");
    }
}

#[tokio::test]
async fn memorag_searches_for_the_points_that_a_summary_has_to_cover() {
    let mut world = world(&[("what?", &[0, 100]), ("the thread", &[300]), ("the maze", &[200])]);
    world.question.task = Task::Summarise;
    world.tree.tops = vec![node("d", 0, 0, 0)];
    let key_points = ["the thread", "the maze"].map(str::to_owned).to_vec();
    world.planner.clues = Clues { key_points, ..Clues::default() };
    let found = read(&world, &MemoRag).await;
    assert_eq!(found[2..], ["d:0", "d:100"]);
    assert_eq!(world.planner.shown(), ["d: d#0.0\n"]);
    assert_eq!(queries(&world), ["what?", "the thread", "the maze"]);
    assert_eq!(world.reasoner.tasks(), [Task::Summarise]);
}

#[tokio::test]
async fn no_more_is_read_than_there_are_tokens_for_and_the_best_always() {
    let mut world = world(&[("what?", &[0, 100, 200, 300])]);
    let passage = world.retriever.found["what?"][0].text.len();
    for (tokens, passages) in [(0, 1), (passage, 1), (3 * passage, 3), (9 * passage, 4)] {
        world.question.evidence_tokens = Some(tokens);
        assert_eq!(read(&world, &Naive::HYBRID).await.len(), passages, "{tokens} tokens");
    }
    world.question.evidence_tokens = Some(2 * passage);
    assert_eq!(read(&world, &FullContext::RIGHT).await, ["d:200", "d:300"]);
}
