//! Tests of the public interface: the paper's example, refusals, and the laws.

mod laws;

use std::collections::BTreeSet;

use clew_core::{EntityKey, EntityKind, EntityNode, ErrorKind, RelationEdge, SegmentId, Span};
use clew_core::{Subgraph, Version};

use crate::{Error, Hypergraph, Limit, Point, PointEntity, PointId, svg, svg_steps, to_json};

fn key(name: &str) -> EntityKey {
    EntityKey(name.to_lowercase())
}

fn keys(names: &[&str]) -> BTreeSet<EntityKey> {
    names.iter().map(|name| key(name)).collect()
}

fn named(names: &[&str]) -> Vec<PointEntity> {
    names.iter().map(|name| PointEntity { key: key(name), name: (*name).to_owned() }).collect()
}

fn segment(ordinal: u32) -> SegmentId {
    SegmentId { document_id: "gods of mars".parse().unwrap(), version: Version(7), ordinal }
}

fn segments(ordinals: &[u32]) -> BTreeSet<SegmentId> {
    ordinals.iter().copied().map(segment).collect()
}

fn node(name: &str, ordinals: &[u32]) -> EntityNode {
    EntityNode {
        key: key(name),
        name: name.to_owned(),
        kind: EntityKind::Person,
        aliases: Vec::new(),
        segments: ordinals.iter().copied().map(segment).collect(),
        mentioned_in: ordinals.len() as u64,
        titled: Vec::new(),
        description: String::new(),
    }
}

fn edge(head: &str, text: &str, tail: &str) -> RelationEdge {
    RelationEdge {
        head: key(head),
        text: text.to_owned(),
        tail: key(tail),
        segment: segment(1),
        evidence: Span::new(0, 9),
    }
}

fn part(entities: Vec<EntityNode>, relations: Vec<RelationEdge>) -> Subgraph {
    Subgraph { entities, relations, ..Subgraph::default() }
}

/// Returns many entities with different names.
fn crowd(count: usize) -> Vec<PointEntity> {
    let entity = |number: usize| PointEntity {
        key: EntityKey(format!("n{number}")),
        name: format!("N{number}"),
    };
    (0..count).map(entity).collect()
}

/// Returns the case of table 6 and appendix H before its points are merged.
fn xodar() -> (Hypergraph, PointId, PointId) {
    let mut memory = Hypergraph::default();
    let entities = vec![node("Xodar", &[1, 2]), node("Issus", &[1]), node("Carter", &[3])];
    let relations = vec![edge("Issus", "glared at", "Xodar"), edge("Carter", "fought", "Xodar")];
    memory.learn(&part(entities, relations)).unwrap();
    let disgrace = memory
        .insert(
            "Issus punishes Xodar for the disgrace he brought.",
            &named(&["Xodar", "Issus", "Cowardly injustice"]),
            [segment(1)],
        )
        .unwrap();
    memory.next_step();
    let degradation = memory
        .insert(
            "Issus degrades Xodar to a slave of slaves.",
            &named(&["Xodar", "Issus", "Degradation"]),
            [segment(2)],
        )
        .unwrap();
    (memory, disgrace, degradation)
}

#[test]
fn two_points_of_three_entities_merge_into_one_of_four() {
    let (mut memory, disgrace, degradation) = xodar();
    let whole =
        memory.merge(&[disgrace, degradation], "Xodar's defeat cost him his rank.").unwrap();
    let expected = Point {
        id: PointId(3),
        description: "Xodar's defeat cost him his rank.".to_owned(),
        entities: keys(&["Xodar", "Issus", "Cowardly injustice", "Degradation"]),
        segments: segments(&[1, 2]),
        step: 1,
        merged_from: [disgrace, degradation].into(),
    };
    assert_eq!(memory.points().collect::<Vec<_>>(), [&expected]);
    assert_eq!(memory.point(disgrace), Err(Error::Merged { point: disgrace, into: whole }));
    assert_eq!(memory.current(degradation), Some(whole));
    let changes = memory.changes();
    assert_eq!((changes.entities_per_point_before, changes.entities_per_point), (3.0, 4.0));
    assert_eq!(changes.merged[0].into, whole);
    assert_eq!(changes.inserted, [degradation].into());
    assert_eq!(changes.entities_inserted, keys(&["Degradation"]));
    assert_eq!(memory.segments(), segments(&[1, 2]));
}

#[test]
fn a_reasoner_reads_a_line_for_each_point() {
    let (memory, ..) = xodar();
    let expected = "\
        P1 [Cowardly injustice; Issus; Xodar]: Issus punishes Xodar for the disgrace he brought.\n\
        P2 [Degradation; Issus; Xodar]: Issus degrades Xodar to a slave of slaves.\n";
    assert_eq!(memory.text(), expected);
    let mut memory = Hypergraph::default();
    memory.insert("a\nP9 [b]: c", &named(&["A\r\nP8", "b\u{2028}"]), [segment(1)]).unwrap();
    assert_eq!(memory.text(), "P1 [A P8; b]: a P9 [b]: c\n");
}

#[test]
fn an_update_revises_words_and_adds_segments_and_leaves_entities() {
    let (mut memory, disgrace, _) = xodar();
    let before = memory.point(disgrace).unwrap().clone();
    memory.update(disgrace, &before.description, []).unwrap();
    assert!(memory.changes().updated.is_empty());
    memory.update(disgrace, "  Issus shames Xodar. ", [segment(5)]).unwrap();
    let description = "Issus shames Xodar.".to_owned();
    let expected = Point { description, segments: segments(&[1, 5]), ..before };
    assert_eq!(memory.point(disgrace), Ok(&expected));
    assert_eq!(memory.changes().updated, [disgrace].into());
}

#[test]
fn local_investigation_reaches_over_memory_and_graph_and_global_exploration_past_memory() {
    let (memory, disgrace, _) = xodar();
    // Carter by the graph, the degradation by the other point, the anchors by each other.
    let all = ["Xodar", "Issus", "Cowardly injustice", "Degradation", "Carter"];
    assert_eq!(memory.neighbourhood(disgrace), Ok(keys(&all)));
    assert_eq!(memory.neighbours(&keys(&["Degradation"])), keys(&["Xodar", "Issus"]));
    assert_eq!(memory.view().neighbours(&keys(&["Carter"])), keys(&["Xodar"]));
    let outside = |name: &str| memory.is_outside(&key(name));
    assert!(outside("Carter") && outside("Helium") && !outside("Degradation"));
}

#[test]
fn what_the_graph_does_not_know_is_inserted_until_the_graph_tells_it() {
    let (mut memory, ..) = xodar();
    let injustice = key("Cowardly injustice");
    assert!(memory.view().is_inserted(&injustice) && !memory.view().is_inserted(&key("Issus")));
    let tied = memory.view().neighbours(&[injustice.clone()].into());
    assert_eq!(tied, keys(&["Xodar", "Issus"]));
    assert_eq!(memory.view().told()[0].segments, segments(&[1]));
    let unknown_end = edge("Cowardly injustice", "angers", "Nobody");
    memory.learn(&part(vec![node("Cowardly injustice", &[9])], vec![unknown_end])).unwrap();
    assert!(!memory.view().is_inserted(&injustice));
    let known = memory.view().entity(&injustice).unwrap();
    assert_eq!(known.segments, [segment(1), segment(9)]);
    assert_eq!(memory.view().relations().len(), 2);
}

#[test]
fn a_refusal_tells_what_was_expected_and_what_came() {
    let (mut memory, disgrace, degradation) = xodar();
    memory.merge(&[disgrace, degradation], "Both.").unwrap();
    let before = memory.clone();
    let check = |refused: Result<PointId, Error>, kind, expected: &str| {
        let refused = refused.unwrap_err();
        assert_eq!((refused.kind(), refused.to_string().as_str()), (kind, expected));
    };
    let invalid = ErrorKind::InvalidInput;
    check(
        memory.insert("One.", &named(&["Issus", "issus"]), [segment(1)]),
        invalid,
        "expected at least 2 different entities of a point, got 1",
    );
    check(
        memory.insert("One.", &named(&["Issus", " "]), [segment(1)]),
        invalid,
        "expected a name and a key of `entities[1]`, got an empty one",
    );
    check(
        memory.insert("One.", &named(&["Issus", "Xodar"]), []),
        invalid,
        "expected at least 1 segment of a point, got none",
    );
    check(
        memory.insert(" \n", &named(&["Issus", "Xodar"]), [segment(1)]),
        invalid,
        "expected a description, got none",
    );
    check(
        memory.merge(&[PointId(3), PointId(3)], "Itself."),
        invalid,
        "expected at least 2 different points to merge, got 1",
    );
    check(
        memory.merge(&[PointId(3), degradation], "Again."),
        ErrorKind::NotFound,
        "expected a point in memory, got `P2`, which is part of `P3` now",
    );
    check(
        memory.update(PointId(0), "Nothing.", []).map(|()| PointId(0)),
        ErrorKind::NotFound,
        "expected a point in memory, got `P0`, which was never made",
    );
    assert_eq!(memory, before);
}

#[test]
fn what_exceeds_a_limit_is_refused_and_what_reaches_it_is_not() {
    let too_many = |limit: Limit| Error::TooMany { limit, got: limit.most() + 1 };
    let most = |limit: Limit| limit.most();
    let mut memory = Hypergraph::default();
    let text = "x".repeat(most(Limit::DescriptionBytes) + 1);
    let two = crowd(2);
    assert_eq!(memory.insert(&text, &two, [segment(0)]), Err(too_many(Limit::DescriptionBytes)));
    memory.insert(&text[1..], &two, [segment(0)]).unwrap();

    let long = "x".repeat(most(Limit::NameBytes) + 1);
    let refused = memory.insert("x", &named(&[&long, "a"]), [segment(0)]);
    assert_eq!(refused, Err(too_many(Limit::NameBytes)));
    memory.insert("x", &named(&[&long[1..], "a"]), [segment(0)]).unwrap();

    let entities = crowd(most(Limit::Entities) + 1);
    assert_eq!(memory.insert("x", &entities, [segment(0)]), Err(too_many(Limit::Entities)));
    let large = memory.insert("x", &entities[1..], [segment(0)]).unwrap();
    let small = memory.insert("x", &entities[..2], [segment(0)]).unwrap();
    assert_eq!(memory.merge(&[large, small], "x"), Err(too_many(Limit::Entities)));

    let ordinals = 0..=u32::try_from(most(Limit::Segments)).unwrap();
    let refused = memory.update(small, "x", ordinals.clone().map(segment));
    assert_eq!(refused, Err(too_many(Limit::Segments)));
    memory.update(small, "x", ordinals.take(most(Limit::Segments)).map(segment)).unwrap();

    while memory.points().len() < most(Limit::Points) {
        memory.insert("x", &two, [segment(0)]).unwrap();
    }
    assert_eq!(memory.insert("x", &two, [segment(0)]), Err(too_many(Limit::Points)));
}

#[test]
fn a_question_that_merges_without_end_comes_to_one() {
    let mut memory = Hypergraph::default();
    let insert = |memory: &mut Hypergraph| memory.insert("x", &crowd(2), [segment(0)]);
    let mut one = insert(&mut memory).unwrap();
    let limit = Limit::PointsMade;
    let mut refused = None;
    for _ in 0..limit.most() {
        let merged = insert(&mut memory).and_then(|other| memory.merge(&[one, other], "x"));
        match merged {
            Ok(into) => one = into,
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.unwrap();
    assert_eq!(refused, Error::TooMany { limit, got: limit.most() + 1 });
    assert_eq!(refused.kind(), ErrorKind::WrongState);
    assert_eq!(memory.current(PointId(1)), Some(one));
}

#[test]
fn a_view_that_would_be_too_large_is_refused_whole() {
    let mut memory = Hypergraph::default();
    let limit = Limit::KnownEntities;
    let mut nodes: Vec<EntityNode> =
        (0..limit.most()).map(|number| node(&format!("n{number}"), &[])).collect();
    memory.learn(&part(nodes.clone(), Vec::new())).unwrap();
    nodes.push(node("more", &[]));
    let refused = Err(Error::TooMany { limit, got: limit.most() + 1 });
    assert_eq!(memory.learn(&part(nodes, Vec::new())), refused);
    let before = memory.clone();
    let entities = named(&["n1", "more"]);
    assert_eq!(memory.insert("x", &entities, [segment(0)]).map(|_| ()), refused);
    assert_eq!(memory, before);
}

#[test]
fn steps_are_exported_with_numbers_and_segments() {
    let (memory, ..) = xodar();
    let json: serde_json::Value = serde_json::from_str(&to_json(&[memory.snapshot()])).unwrap();
    let step = &json[0];
    assert_eq!(step["changes"]["step"], 1);
    assert_eq!(step["changes"]["inserted"], serde_json::json!([2]));
    assert_eq!(step["points"][1]["entities"][0], "degradation");
    let segment = serde_json::json!({"document": "gods of mars", "version": 7, "ordinal": 2});
    assert_eq!(step["points"][1]["segments"][0], segment);
    assert_eq!(step["vertices"]["degradation"]["is_inserted"], true);
    assert_eq!(step["vertices"]["xodar"]["name"], "Xodar");
}

/// Returns whether all tags are closed and all references known.
fn is_well_formed(svg: &str) -> bool {
    let mut reader = quick_xml::reader::Reader::from_str(svg);
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => return !svg.contains("NaN"),
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

#[test]
fn a_figure_tells_new_updated_and_merged_points_apart() {
    let (mut memory, disgrace, degradation) = xodar();
    let first = memory.snapshot();
    memory.next_step();
    memory.update(disgrace, "Issus <shames> \"Xodar\" & laughs\u{0}.", []).unwrap();
    let second = memory.snapshot();
    memory.next_step();
    memory.merge(&[disgrace, degradation], "Both.").unwrap();
    let figure = svg_steps(&[first.clone(), second, memory.snapshot()]);
    assert!(is_well_formed(&figure), "{figure}");
    for words in [
        "Step 1",
        "P2 · new",
        "P1 · updated",
        "P3 · merged from P1, P2",
        "&lt;shames&gt; &quot;Xodar&quot; &amp; laughs.",
        "entities per point: 4.0, before 3.0",
    ] {
        assert!(figure.contains(words), "{words}: {figure}");
    }
    assert_eq!(svg(&first), svg(&first));
    assert!(is_well_formed(&svg_steps(&[])));
    let many = vec![first; 11];
    assert!(svg_steps(&many).contains("3 earlier steps not shown"));
}

#[test]
fn a_figure_shows_all_that_a_point_was_merged_from() {
    let mut memory = Hypergraph::default();
    let all = crowd(8);
    let insert = |at: usize| memory.insert("x", &all[2 * at..2 * at + 2], [segment(0)]).unwrap();
    let points: Vec<PointId> = (0..4).map(insert).collect();
    memory.merge(&points, "All.").unwrap();
    let figure = svg(&memory.snapshot());
    assert!(figure.contains("from P1, P2, P3, P4") && figure.contains("segment<"), "{figure}");
}

#[test]
fn a_figure_shows_what_changed_and_the_rest_as_a_number() {
    let mut memory = Hypergraph::default();
    let all = crowd(90);
    for at in 0..45 {
        memory.insert("x", &all[2 * at..2 * at + 2], [segment(0)]).unwrap();
    }
    memory.next_step();
    memory.update(PointId(45), "y", []).unwrap();
    let figure = svg(&memory.snapshot());
    assert!(is_well_formed(&figure));
    assert!(figure.contains("21 more points, 42 more entities not shown"), "{figure}");
    assert!(figure.contains("P45 · updated") && !figure.contains(">P24 ·"));
}
