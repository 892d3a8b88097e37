//! Tests of the rules of sections 3.2 to 3.6 with a scripted planner. The toy example is that of
//! appendix H.

use clew_core::{
    Concerns, EntityKey, MemoryPoint, MergedPoint, NewPoint, PointChanges, UpdatedPoint,
};

use super::*;
use crate::testing::{World, calls, document, evidence, segment};

/// Creates a world about Barsoom: Xodar, Issus and Carter, and far from them Thuvia and her lions.
fn barsoom() -> World {
    let mut world = World::default();
    world.question.text = "xodar ?".to_owned();
    world.encoder.tells_queries_apart = true;
    world.graph.entity("xodar", &[("b", 0), ("b", 1)]);
    world.graph.entity("issus", &[("b", 0)]);
    world.graph.entity("carter", &[("b", 1), ("b", 2)]);
    world.graph.entity("thuvia", &[("b", 3)]);
    world.graph.entity("lions", &[("b", 3)]);
    world.graph.relation("issus", "degrades", "xodar", ("b", 0));
    world.graph.relation("carter", "defeats", "xodar", ("b", 1));
    world.graph.relation("thuvia", "tames", "lions", ("b", 3));
    world
}

fn inserts(points: &[(&[&str], &str)]) -> PointChanges {
    let inserted = points.iter().map(|(entities, text)| NewPoint {
        entities: entities.iter().map(|entity| (*entity).to_owned()).collect(),
        text: (*text).to_owned(),
    });
    PointChanges { inserted: inserted.collect(), ..PointChanges::default() }
}

fn global(concerns: &[&str]) -> Concerns {
    Concerns::Global(concerns.iter().map(|concern| (*concern).to_owned()).collect())
}

fn local(point: usize, concern: &str) -> Concerns {
    Concerns::Local(vec![(point, concern.to_owned())])
}

fn script(
    world: &World,
    concerns: impl IntoIterator<Item = Concerns>,
    changes: impl IntoIterator<Item = PointChanges>,
) {
    world.planner.concerns.lock().unwrap().extend(concerns);
    world.planner.changes.lock().unwrap().extend(changes);
}

/// Returns the relations that each step found, in words.
fn relations(world: &World) -> Vec<Vec<String>> {
    let words = |findings: Findings| findings.relations.iter().map(|r| r.join(" ")).collect();
    world.planner.findings().into_iter().map(words).collect()
}

const DEGRADED: (&[&str], &str) = (&["XODAR", "ISSUS"], "Issus degrades Xodar");
const DEFEATED: (&[&str], &str) = (&["XODAR", "CARTER"], "Carter defeats Xodar");

#[tokio::test]
async fn at_first_the_question_is_the_only_subquery() {
    let world = barsoom();
    world.ask(&HgMem).await.unwrap();
    let findings = world.planner.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].asked, ["xodar ?"]);
    assert_eq!(relations(&world)[0], ["ISSUS degrades XODAR", "CARTER defeats XODAR"]);
    let places: Vec<usize> = findings[0].passages.iter().map(|p| p.span.start).collect();
    assert_eq!(places, [0, 100]);
}

#[tokio::test]
async fn a_memory_that_resolves_the_question_is_answered_from() {
    let world = barsoom();
    script(&world, [], [inserts(&[DEGRADED])]);
    world.ask(&HgMem).await.unwrap();
    let entities = vec!["ISSUS".to_owned(), "XODAR".to_owned()];
    let text = DEGRADED.1.to_owned();
    let point = MemoryPoint { entities, text };
    assert_eq!(world.planner.memories(), [[point.clone()]]);
    // The passage that the point rests on comes first, then the other passage of its entities.
    assert_eq!(world.reasoner.points(), [point]);
    assert_eq!(world.reasoner.read_last(), ["b:0", "b:100"]);
    assert_eq!(world.steps_of("reflected"), ["reflected true"]);
}

#[tokio::test]
async fn a_concern_about_a_point_is_investigated_around_its_entities() {
    let world = barsoom();
    let point = inserts(&[DEGRADED]);
    script(&world, [local(0, "thuvia carter")], [point]);
    world.ask(&HgMem).await.unwrap();
    // Thuvia is named but out of reach: she is not around Xodar and Issus (equation 6).
    assert_eq!(relations(&world)[1], ["ISSUS degrades XODAR", "CARTER defeats XODAR"]);
    assert_eq!(world.planner.findings()[1].asked, ["xodar ?", "thuvia carter ?"]);
    // No search: the graph alone knows what is around a point.
    assert_eq!(world.retriever.queries().len(), 1);
}

#[tokio::test]
async fn a_concern_beyond_memory_is_explored_among_what_is_not_in_it() {
    let world = barsoom();
    script(&world, [global(&["xodar thuvia"])], [inserts(&[DEGRADED])]);
    world.ask(&HgMem).await.unwrap();
    // Xodar is in memory (equation 7).
    assert_eq!(relations(&world)[1], ["THUVIA tames LIONS"]);
}

#[tokio::test]
async fn all_entities_are_explored_by_name_and_description_and_not_those_that_a_search_finds() {
    let mut world = barsoom();
    world.graph.alike = Some(["issus", "thuvia"].map(|key| EntityKey(key.to_owned())).to_vec());
    for entity in &mut world.graph.entities {
        entity.description = format!("said of {}", entity.key);
    }
    // This entity is nearer than the named one (equation 1). Only the best eight are retrieved, and
    // here that is all.
    world.encoder.tell("THUVIA: said of thuvia", 0.9);
    world.retriever.found.insert("lost ?".to_owned(), vec![evidence("b", 110, 120, 0.9)]);
    world.retriever.found.insert("xodar ?".to_owned(), vec![evidence("b", 310, 320, 0.9)]);
    script(&world, [global(&["lost"])], [inserts(&[DEGRADED])]);
    world.ask(&HgMem).await.unwrap();
    // Issus is similar but in memory (equation 7). Carter is where the search finds most.
    assert_eq!(relations(&world)[1], ["THUVIA tames LIONS"]);
    let queries = world.graph.queries();
    let explored: Vec<_> = queries.iter().filter(|query| query.like.is_some()).collect();
    assert_eq!(explored.len(), 2);
    assert!(explored.iter().all(|query| query.places.is_empty() && query.describe));
    assert!(queries.iter().all(|query| query.places.is_empty()));
    let texts = world.encoder.calls().into_iter().map(|(texts, _)| texts).collect::<Vec<_>>();
    let first = ["ISSUS: said of issus", "THUVIA: said of thuvia", "XODAR: said of xodar"];
    assert!(texts.iter().any(|texts| texts == &first), "{texts:?}");
}

#[tokio::test]
async fn entities_are_found_where_a_search_finds_most_too() {
    let mut world = barsoom();
    world.question.text = "who?".to_owned();
    world.retriever.found.insert("who?".to_owned(), vec![evidence("b", 310, 320, 0.9)]);
    world.ask(&HgMem).await.unwrap();
    assert_eq!(relations(&world)[0], ["THUVIA tames LIONS"]);
}

#[tokio::test]
async fn each_step_has_one_subquery_a_concern_and_there_are_three_steps() {
    let world = barsoom();
    let concerns = [global(&["a", "b", "c", "d"]), global(&["e"]), global(&["f"])];
    script(&world, concerns, []);
    world.ask(&HgMem).await.unwrap();
    let asked: Vec<Vec<String>> = world.planner.findings().into_iter().map(|f| f.asked).collect();
    assert_eq!(asked.len(), MAX_STEPS);
    assert_eq!(asked[2], ["xodar ?", "a ?", "b ?", "c ?", "e ?"]);
    assert_eq!(world.retriever.batches(), [1, 3, 1], "a step searches for its subqueries together");
}

#[tokio::test]
async fn what_was_asked_is_not_asked_again() {
    let world = barsoom();
    script(&world, [global(&["xodar", "carter", "carter"]), global(&["carter"])], []);
    world.ask(&HgMem).await.unwrap();
    // The second look raises nothing new, which ends the loop.
    let asked = world.planner.findings().pop().unwrap().asked;
    assert_eq!(asked, ["xodar ?", "carter ?"]);
    assert_eq!(world.planner.findings().len(), 2);
}

#[tokio::test]
async fn a_memory_evolves_by_update_insertion_and_merging() {
    let world = barsoom();
    let update = PointChanges {
        updated: vec![UpdatedPoint { point: 0, text: "Issus makes Xodar a slave".to_owned() }],
        ..inserts(&[DEFEATED])
    };
    script(&world, [local(0, "why")], [inserts(&[DEGRADED]), update]);
    let text = "Xodar was degraded for his defeat by Carter".to_owned();
    let merging = MergedPoint { points: vec![0, 1], text: text.clone() };
    world.planner.merged.lock().unwrap().extend([Vec::new(), vec![merging]]);
    world.ask(&HgMem).await.unwrap();
    let entities = ["CARTER", "ISSUS", "XODAR"].map(str::to_owned).to_vec();
    assert_eq!(world.planner.memories()[1], [MemoryPoint { entities, text }]);
    assert_eq!(
        world.steps_of("evolved"),
        [
            "evolved 0: inserted 1 ISSUS,XODAR of b#0",
            "evolved 1: merged 3 from 1+2 CARTER,ISSUS,XODAR of b#0,b#1"
        ]
    );
    // The merged point rests on what both rested on.
    assert_eq!(world.reasoner.read_last()[..2], ["b:0", "b:100"]);
}

#[tokio::test]
async fn an_entity_that_the_graph_does_not_know_comes_into_the_questions_view() {
    let world = barsoom();
    script(&world, [], [inserts(&[(&["XODAR", "Cowardly injustice"], "He is punished so")])]);
    world.ask(&HgMem).await.unwrap();
    let entities = ["Cowardly injustice", "XODAR"].map(str::to_owned).to_vec();
    assert_eq!(world.planner.memories()[0][0].entities, entities);
    let steps = world.steps_of("evolved");
    assert!(steps[0].ends_with(" brought Cowardly injustice"), "{steps:?}");
}

#[tokio::test]
async fn a_name_means_the_one_entity_that_is_called_so_too() {
    let mut world = barsoom();
    let xodar = world.graph.entities.iter_mut().find(|entity| entity.key.0 == "xodar").unwrap();
    xodar.aliases.push("Dator".to_owned());
    script(&world, [], [inserts(&[(&["the Dator", "Issus"], "He is degraded by her")])]);
    world.ask(&HgMem).await.unwrap();
    assert_eq!(world.steps_of("evolved"), ["evolved 0: inserted 1 ISSUS,XODAR of b#0"]);
}

/// Creates a long book in which Dejah appears everywhere and Tars beside her in two places. Neither
/// place states a relation.
fn long_book() -> World {
    let mut world = World::default();
    world.question.text = "dejah tars ?".to_owned();
    let everywhere: Vec<(&str, u32)> = (0..60).map(|ordinal| ("b", ordinal)).collect();
    world.graph.entity("dejah", &everywhere);
    world.graph.entity("tars", &[("b", 1), ("b", 55)]);
    script(&world, [], [inserts(&[(&["DEJAH", "TARS"], "They are friends")])]);
    world
}

#[tokio::test]
async fn of_many_passages_of_an_entity_those_that_a_search_found_are_looked_at() {
    let mut world = long_book();
    let found = vec![evidence("b", 4000, 4100, 0.9), evidence("b", 5510, 5520, 0.8)];
    world.retriever.found.insert("dejah tars ?".to_owned(), found);
    world.ask(&HgMem).await.unwrap();
    let passages = &world.planner.findings()[0].passages;
    let places: Vec<usize> = passages.iter().map(|passage| passage.span.start).collect();
    assert_eq!(places[..2], [4000, 5500]);
}

#[tokio::test]
async fn a_point_comes_from_the_passages_that_mention_two_of_its_entities() {
    let world = long_book();
    world.ask(&HgMem).await.unwrap();
    assert!(world.planner.findings()[0].passages.len() > 1);
    assert_eq!(world.steps_of("evolved"), ["evolved 0: inserted 1 DEJAH,TARS of b#1"]);
}

#[tokio::test]
async fn of_too_many_passages_those_that_mention_most_entities_are_read() {
    let mut world = long_book();
    let far = evidence("b", 5500, 5600, 0.0);
    world.encoder.tell(&far.text, 0.5);
    world.ask(&HgMem).await.unwrap();
    assert_eq!(world.reasoner.read_last()[..2], ["b:100", "b:5500"]);
}

#[tokio::test]
async fn what_the_memory_cannot_hold_is_left_out() {
    let world = barsoom();
    let nonsense = PointChanges {
        updated: vec![UpdatedPoint { point: 7, text: "no such point".to_owned() }],
        ..inserts(&[(&["XODAR"], "of one entity"), (&[], "of none"), (&["XODAR", "ISSUS"], " ")])
    };
    script(&world, [local(9, "no such point")], [nonsense]);
    let merging = MergedPoint { points: vec![3, 4], text: "nothing".to_owned() };
    world.planner.merged.lock().unwrap().push_back(vec![merging]);
    world.ask(&HgMem).await.unwrap();
    assert_eq!(world.planner.memories(), [Vec::<MemoryPoint>::new()]);
}

#[tokio::test]
async fn what_the_filter_excludes_is_neither_found_nor_read() {
    let mut world = barsoom();
    world.graph.entity("xodars ghost", &[("x", 0)]);
    world.graph.relation("xodar", "haunts", "xodars ghost", ("x", 0));
    let xodar = world.graph.entities.iter_mut().find(|entity| entity.key.0 == "xodar").unwrap();
    xodar.segments.push(segment("x", 0));
    world.question.filter.documents = vec![document("b")];
    script(&world, [], [inserts(&[DEGRADED])]);
    world.ask(&HgMem).await.unwrap();
    assert!(!relations(&world).concat().iter().any(|relation| relation.contains("haunts")));
    assert!(world.reasoner.read_last().iter().all(|place| place.starts_with("b:")));
}

#[tokio::test]
async fn a_memory_without_points_is_answered_from_what_was_found() {
    let mut world = barsoom();
    world.question.text = "who?".to_owned();
    world.retriever.found.insert("who?".to_owned(), vec![evidence("x", 0, 10, 0.9)]);
    world.ask(&HgMem).await.unwrap();
    assert_eq!(world.reasoner.read_last(), ["x:0"]);
}

#[tokio::test]
async fn every_step_is_paid_for() {
    let mut world = barsoom();
    world.planner.cost = calls(1);
    script(&world, [global(&["carter"])], []);
    // Two steps of taking in, merging and raising concerns, one subquery and one reading.
    assert_eq!(world.ask(&HgMem).await.unwrap().cost.model_calls, 1000 + 7);
}

/// Tests with a hostile planner's replies.
mod hostile {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::strategy::Strategy;

    use super::*;

    const NAMES: [&str; 6] = ["XODAR", "ISSUS", "CARTER", "nobody", "", " "];

    fn name() -> impl Strategy<Value = String> {
        prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
    }

    fn concerns() -> impl Strategy<Value = Concerns> {
        prop_oneof![
            Just(Concerns::Resolved),
            vec(name(), 0..9).prop_map(Concerns::Global),
            vec((0..9_usize, name()), 0..9).prop_map(Concerns::Local),
        ]
    }

    fn changes() -> impl Strategy<Value = PointChanges> {
        let updated = (0..9_usize, name()).prop_map(|(point, text)| UpdatedPoint { point, text });
        let inserted =
            (vec(name(), 0..5), name()).prop_map(|(entities, text)| NewPoint { entities, text });
        (vec(updated, 0..5), vec(inserted, 0..200))
            .prop_map(|(updated, inserted)| PointChanges { updated, inserted })
    }

    fn merged() -> impl Strategy<Value = Vec<MergedPoint>> {
        let merged = (vec(0..99_usize, 0..5), name())
            .prop_map(|(points, text)| MergedPoint { points, text });
        vec(merged, 0..9)
    }

    proptest! {
        #[test]
        fn whatever_a_planner_replies_it_ends_in_time(
            concerns in vec(concerns(), 0..5),
            changes in vec(changes(), 0..5),
            merged in vec(merged(), 0..5),
        ) {
            let mut world = barsoom();
            world.planner.cost = calls(1);
            script(&world, concerns, changes);
            world.planner.merged.lock().unwrap().extend(merged);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let answer = runtime.block_on(world.ask(&HgMem)).unwrap();
            prop_assert!(world.planner.findings().len() <= MAX_STEPS);
            let looks = MAX_STEPS - 1;
            let most = 2 * MAX_STEPS + looks * (1 + MAX_CONCERNS);
            prop_assert!(answer.cost.model_calls <= 1000 + most as u64);
        }
    }
}
