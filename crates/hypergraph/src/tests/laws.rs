//! Properties that hold after any sequence of operations, sensible or not.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Operation on a memory.
#[derive(Clone, Debug)]
enum Operation {
    NextStep,
    Learn { entities: Vec<u8>, relations: Vec<(u8, u8)> },
    Insert { text: String, entities: Vec<u8>, segments: Vec<u32> },
    Update { point: u32, text: String, segments: Vec<u32> },
    Merge { points: Vec<u32>, text: String },
}

/// Number of entities. They are few, so that they meet; the last one has no name.
const ENTITIES: u8 = 90;

fn entity(number: u8) -> PointEntity {
    let name = if number == ENTITIES { " ".to_owned() } else { format!("N{number}") };
    PointEntity { key: key(&name), name }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => "\\PC{1,12}",
        4 => "[<>&\"'\u{0}-\u{1f}a\u{fffe}\u{202e} \\[\\];:]{1,12}",
        1 => Just(" \n".to_owned()),
        1 => Just("x".repeat(Limit::DescriptionBytes.most() + 1)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let few = prop::collection::vec(0..8_u8, 0..5);
    let many = prop::collection::vec(0..=ENTITIES, 0..90);
    let entities = prop_oneof![6 => few.clone(), 1 => many];
    let ordinals = prop::collection::vec(0..12_u32, 0..4);
    let of_points = prop::collection::vec(0..16_u32, 0..4);
    let relations = prop::collection::vec((0..10_u8, 0..10_u8), 0..6);
    prop_oneof![
        1 => Just(Operation::NextStep),
        2 => (few, relations).prop_map(|(entities, relations)| Operation::Learn { entities, relations }),
        5 => (text(), entities, ordinals.clone())
            .prop_map(|(text, entities, segments)| Operation::Insert { text, entities, segments }),
        3 => (0..16_u32, text(), ordinals)
            .prop_map(|(point, text, segments)| Operation::Update { point, text, segments }),
        3 => (of_points, text()).prop_map(|(points, text)| Operation::Merge { points, text }),
    ]
}

/// Applies an operation. Returns the point that it made, if any.
fn apply(memory: &mut Hypergraph, operation: &Operation) -> Result<Option<PointId>, Error> {
    let segments = |ordinals: &[u32]| ordinals.iter().copied().map(segment).collect::<Vec<_>>();
    match operation {
        Operation::NextStep => {
            memory.next_step();
            Ok(None)
        }
        Operation::Learn { entities, relations } => {
            let name = |number: &u8| format!("N{number}");
            let nodes = entities.iter().map(|number| node(&name(number), &[u32::from(*number)]));
            let edges =
                relations.iter().map(|(head, tail)| edge(&name(head), "knows", &name(tail)));
            memory.learn(&part(nodes.collect(), edges.collect())).map(|()| None)
        }
        Operation::Insert { text, entities, segments: from } => {
            let entities: Vec<PointEntity> = entities.iter().copied().map(entity).collect();
            memory.insert(text, &entities, segments(from)).map(Some)
        }
        Operation::Update { point, text, segments: from } => {
            memory.update(PointId(*point), text, segments(from)).map(|()| None)
        }
        Operation::Merge { points, text } => {
            let points: Vec<PointId> = points.iter().copied().map(PointId).collect();
            memory.merge(&points, text).map(Some)
        }
    }
}

/// Checks the properties of every memory.
fn check(memory: &Hypergraph) -> Result<(), TestCaseError> {
    prop_assert!(memory.points().len() <= Limit::Points.most());
    let vertices: BTreeSet<&EntityKey> = memory.vertices().map(|node| &node.key).collect();
    for point in memory.points() {
        prop_assert!((2..=Limit::Entities.most()).contains(&point.entities.len()));
        prop_assert!((1..=Limit::Segments.most()).contains(&point.segments.len()));
        prop_assert!(point.description.len() <= Limit::DescriptionBytes.most());
        prop_assert!(!point.description.trim().is_empty());
        for entity in &point.entities {
            prop_assert!(memory.view().entity(entity).is_some());
            prop_assert!(vertices.contains(entity) && !memory.is_outside(entity));
        }
        let reached = memory.neighbourhood(point.id).unwrap();
        prop_assert!(point.entities.is_subset(&reached));
        prop_assert!(reached.iter().all(|key| memory.view().entity(key).is_some()));
        prop_assert!(point.merged_from.iter().all(|from| *from < point.id));
    }
    prop_assert_eq!(memory.text().lines().count(), memory.points().len());
    Ok(())
}

/// Checks that neighbourhood is symmetric.
fn check_symmetry(
    memory: &Hypergraph,
    neighbours: impl Fn(&BTreeSet<EntityKey>) -> BTreeSet<EntityKey>,
) -> Result<(), TestCaseError> {
    let keys = memory.view().entities().map(|node| &node.key);
    let of_all: BTreeMap<&EntityKey, BTreeSet<EntityKey>> =
        keys.map(|key| (key, neighbours(&[key.clone()].into()))).collect();
    for (key, of_key) in &of_all {
        prop_assert!(!of_key.contains(*key));
        prop_assert!(of_key.iter().all(|other| of_all[other].contains(*key)));
    }
    Ok(())
}

/// Checks that the point which every earlier point is part of now has all its entities and
/// segments.
fn check_nothing_is_lost(before: &Hypergraph, after: &Hypergraph) -> Result<(), TestCaseError> {
    for point in before.points() {
        let now = after.current(point.id).and_then(|id| after.point(id).ok());
        prop_assert!(now.is_some());
        let now = now.unwrap();
        prop_assert!(point.segments.is_subset(&now.segments));
        prop_assert!(point.entities.is_subset(&now.entities));
        if now.id == point.id {
            prop_assert_eq!(&point.entities, &now.entities);
        }
    }
    for node in before.view().entities() {
        prop_assert!(after.view().entity(&node.key).is_some());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_laws_hold_after_every_operation(
        operations in prop::collection::vec(operation(), 0..40),
    ) {
        let mut memory = Hypergraph::default();
        let mut made = BTreeSet::new();
        for operation in &operations {
            let before = memory.clone();
            match apply(&mut memory, operation) {
                Err(_) => prop_assert_eq!(&memory, &before),
                Ok(id) => {
                    if let Some(id) = id {
                        prop_assert!(made.insert(id), "{} was used before", id);
                    }
                    check(&memory)?;
                    check_nothing_is_lost(&before, &memory)?;
                }
            }
            for id in &made {
                prop_assert!(memory.current(*id).is_some());
            }
        }
        check_symmetry(&memory, |of| memory.neighbours(of))?;
        check_symmetry(&memory, |of| memory.view().neighbours(of))?;
        let step = memory.snapshot();
        let figure = svg_steps(&[step.clone(), step.clone()]);
        prop_assert!(is_well_formed(&figure));
        let json: serde_json::Value = serde_json::from_str(&to_json(&[step])).unwrap();
        prop_assert_eq!(json[0]["points"].as_array().map(Vec::len), Some(memory.points().len()));
    }

    #[test]
    fn merging_unites_entities_and_segments_and_nothing_else(
        parts in prop::collection::vec(
            (prop::collection::btree_set(0..20_u8, 2..6), prop::collection::vec(0..20_u32, 1..4)),
            2..6,
        ),
    ) {
        let mut memory = Hypergraph::default();
        let mut ids = Vec::new();
        for (entities, from) in &parts {
            let entities: Vec<PointEntity> = entities.iter().copied().map(entity).collect();
            ids.push(memory.insert("x", &entities, from.iter().copied().map(segment)).unwrap());
        }
        let vertices = |memory: &Hypergraph| -> Vec<EntityNode> { memory.vertices().cloned().collect() };
        let (before, sources) = (vertices(&memory), memory.segments());
        let whole = memory.merge(&ids, "y").unwrap();
        let expected: BTreeSet<EntityKey> =
            parts.iter().flat_map(|(entities, _)| entities).map(|number| entity(*number).key).collect();
        prop_assert_eq!(&memory.point(whole).unwrap().entities, &expected);
        let expected: BTreeSet<SegmentId> =
            parts.iter().flat_map(|(_, from)| from).copied().map(segment).collect();
        prop_assert_eq!(&memory.point(whole).unwrap().segments, &expected);
        prop_assert_eq!(memory.points().len(), 1);
        prop_assert_eq!((vertices(&memory), memory.segments()), (before, sources));
    }
}
