//! Graphs for tests.

use clew_proto::graph_builder::v1::EntityKind;
use clew_proto::memory::v1::{Entity, Relation, Subgraph};

/// Returns a graph of relations between entities, that begins at the first of the first.
pub(super) fn graph(relations: &[(&str, &str)]) -> Subgraph {
    let mut keys: Vec<&str> = relations.iter().flat_map(|(head, tail)| [*head, *tail]).collect();
    keys.sort_unstable();
    keys.dedup();
    let entity = |key: &str| Entity {
        key: key.to_owned(),
        name: key.to_uppercase(),
        kind: EntityKind::Other.into(),
        mentioned_in: 1,
        ..Entity::default()
    };
    let relation = |(head, tail): &(&str, &str)| Relation {
        head: (*head).to_owned(),
        text: "met".to_owned(),
        tail: (*tail).to_owned(),
        ..Relation::default()
    };
    Subgraph {
        seeds: vec![relations[0].0.to_owned()],
        entities: keys.into_iter().map(entity).collect(),
        relations: relations.iter().map(relation).collect(),
        ..Subgraph::default()
    }
}
