//! Tests of properties that every strategy with a tree, a graph or a memory has.

use clew_core::{Outcome, ShardIndex};

use crate::testing::{Play, World, evidence, node};
use crate::{
    GraphWalk, HgMem, Linked, MemWalker, MemoRag, QrmemEntity, QrmemExpand, QrmemReflect, Strategy,
    SummaryLevels,
};

const GONE: ShardIndex = ShardIndex(5);

/// Creates a world with document `d`, which has a tree and whose first segment the graph knows, and
/// with another document that a search finds.
fn world() -> World {
    let mut world = World::default();
    world.question.text = "anna ?".to_owned();
    world.retriever.found.insert("anna ?".to_owned(), vec![evidence("other", 0, 90, 0.5)]);
    let top = node("d", 1, 0, 1);
    world.tree.tops = vec![top.clone()];
    world.tree.put(&top, vec![node("d", 0, 0, 0)]);
    world.graph.entity("anna", &[("d", 0)]);
    world.graph.title("anna", &["d"]);
    world
}

async fn expect_named(world: &World, strategy: &dyn Strategy) {
    let outcome = world.ask(strategy).await.unwrap().outcome;
    let named = Outcome::AnsweredWithShardsMissing(vec![GONE]);
    assert_eq!(outcome, named, "{}", strategy.name());
}

#[tokio::test]
async fn shards_that_do_not_show_their_trees_are_named() {
    // Only the paper's walk asks where to go from the top.
    let strategies: [(&dyn Strategy, bool); 4] = [
        (&MemWalker::DEPTH_FIRST, true),
        (&MemWalker::BEST_FIRST, false),
        (&MemWalker::BEAM, false),
        (&SummaryLevels, false),
    ];
    for (strategy, asks_where) in strategies {
        for at in 0..3 {
            let mut world = world();
            world.navigator.play(asks_where.then_some(Play::Enter(0)));
            world.navigator.play([Play::Answer]);
            let missing = &mut world.tree.missing;
            *[&mut missing.tops, &mut missing.children, &mut missing.segment][at] = Some(GONE);
            expect_named(&world, strategy).await;
        }
    }
}

#[tokio::test]
async fn shards_whose_part_a_memory_of_the_corpus_lacks_are_named() {
    let mut world = world();
    world.tree.missing.tops = Some(GONE);
    expect_named(&world, &MemoRag).await;
}

#[tokio::test]
async fn shards_that_do_not_show_their_graphs_are_named() {
    let strategies: [&dyn Strategy; 6] =
        [&QrmemEntity, &QrmemExpand, &QrmemReflect::QUERY_ORIENTED, &HgMem, &GraphWalk, &Linked];
    for strategy in strategies {
        let mut part_missing = world();
        part_missing.graph.missing.0 = Some(GONE);
        expect_named(&part_missing, strategy).await;
        let mut texts_missing = world();
        texts_missing.graph.missing.1 = Some(GONE);
        expect_named(&texts_missing, strategy).await;
    }
}

#[tokio::test]
async fn what_was_not_found_is_not_said_to_be_nowhere_while_shards_are_missing() {
    let mut world = world();
    world.reasoner.confidence = 0.1;
    world.graph.missing.0 = Some(GONE);
    let answer = world.ask(&GraphWalk).await.unwrap();
    assert_eq!(answer.outcome, Outcome::NotFoundWithShardsMissing(vec![GONE]));
    assert_eq!(answer.text, "");
}
