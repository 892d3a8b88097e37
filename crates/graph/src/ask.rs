//! Questions to a graph: how two entities are connected, and which entities and segments a text
//! leads to.
//!
//! Both work on a part of the graph around the names. The caller reads that part first, from one
//! shard, from many, or from a file.

use std::collections::BTreeSet;

use clew_core::{EntityKey, EntityNode, Error, GraphQuery, RelationEdge, Subgraph};

use crate::{PathLimits, Ranking, Seed, entity_key, pagerank, paths, union};

/// Maximum number of entities, and of relations, in the part.
const AROUND: usize = 10_000;
/// Maximum number of edges from an entity of the text to a ranked one.
const RANKED_HOPS: u32 = 3;
/// Probability that a walk of the ranking restarts at each step (HippoRAG).
const RESET: f64 = 0.5;

/// Paths between two entities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntityPaths {
    /// Paths, the shortest first.
    pub paths: Vec<Vec<RelationEdge>>,
    /// Entities on the paths, by key.
    pub entities: Vec<EntityNode>,
}

/// Returns the query for one half of the paths of up to `most_hops` edges: the part of the graph
/// around a name.
pub fn half_way(name: &str, most_hops: u32) -> GraphQuery {
    GraphQuery {
        entities: entity_key(name).into_iter().collect(),
        hops: most_hops.div_ceil(2),
        ..around(name)
    }
}

/// Returns the paths between the entities of two names. Each name comes with its part of the graph
/// ([`half_way`]).
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if a name means nothing in the graph.
pub fn connect(
    from: (&str, Subgraph),
    to: (&str, Subgraph),
    limits: PathLimits,
) -> Result<EntityPaths, Error> {
    let (start, end) = (meant("from", from.0, &from.1)?, meant("to", to.0, &to.1)?);
    let graph = union([from.1, to.1]);
    let paths = paths(&graph, &start, &end, limits);
    let edges = paths.iter().flatten();
    let keys: BTreeSet<&EntityKey> = edges.flat_map(|edge| [&edge.head, &edge.tail]).collect();
    let on_paths = graph.entities.iter().filter(|node| keys.contains(&node.key));
    Ok(EntityPaths { entities: on_paths.cloned().collect(), paths })
}

/// Returns the query for the part of a graph that [`rank`] ranks.
pub fn reach(text: &str) -> GraphQuery {
    GraphQuery { hops: RANKED_HOPS, ..around(text) }
}

/// Ranks entities and segments by how much the seeds of a part of a graph lead to them. A seed that
/// few segments mention has more weight (HippoRAG, node specificity).
pub fn rank(graph: &Subgraph) -> Ranking {
    let is_seed = |node: &&EntityNode| graph.seeds.contains(&node.key);
    let weighted =
        |node: &EntityNode| (Seed::Entity(node.key.clone()), 1.0 / node.mentioned_in.max(1) as f64);
    let seeds: Vec<(Seed, f64)> = graph.entities.iter().filter(is_seed).map(weighted).collect();
    pagerank(graph, &seeds, RESET)
}

fn around(text: &str) -> GraphQuery {
    GraphQuery {
        texts: vec![text.to_owned()],
        most_entities: AROUND,
        most_relations: AROUND,
        ..GraphQuery::default()
    }
}

/// Returns the entity that a name means: the one with that key, or else the first seed that the
/// name yields.
fn meant(field: &str, name: &str, graph: &Subgraph) -> Result<EntityKey, Error> {
    let own = entity_key(name).filter(|key| graph.seeds.contains(key));
    own.or_else(|| graph.seeds.first().cloned()).ok_or_else(|| {
        Error::invalid(field, format!("expected the name of an entity of the graph, got `{name}`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, from_openie};

    const LIMITS: PathLimits = PathLimits { most_hops: 4, most_paths: 10 };

    fn graph() -> Graph {
        let lines = r#"{"idx": 0, "title": "Ada", "entities": ["Ada", "Lodz"], "triples": [["Ada", "was born in", "Lodz"]]}
                       {"idx": 1, "title": "Lodz", "entities": ["Lodz", "Poland"], "triples": [["Lodz", "lies in", "Poland"]]}
                       {"idx": 2, "title": "Rome", "entities": ["Rome"], "triples": []}"#;
        from_openie(lines).unwrap().into_graph().unwrap()
    }

    fn connected(from: &str, to: &str) -> Result<EntityPaths, Error> {
        let graph = graph();
        let part = |name| graph.subgraph(&half_way(name, 4));
        connect((from, part(from)), (to, part(to)), LIMITS)
    }

    #[test]
    fn two_entities_of_an_imported_graph_are_connected() {
        let found = connected("Ada", "Poland").unwrap();
        let texts: Vec<&str> = found.paths[0].iter().map(|edge| edge.text.as_str()).collect();
        assert_eq!(texts, ["was born in", "lies in"]);
        let names: Vec<&str> = found.entities.iter().map(|entity| entity.name.as_str()).collect();
        assert_eq!(names, ["Ada", "Lodz", "Poland"]);
        assert_eq!(connected("Ada", "Rome").unwrap(), EntityPaths::default());
    }

    #[test]
    fn a_name_that_means_nothing_is_refused() {
        let refused = connected("Ada", "Atlantis").unwrap_err();
        assert!(refused.message().contains("got `Atlantis`"), "{refused}");
    }

    #[test]
    fn a_text_leads_to_what_is_near_it_first() {
        let graph = graph();
        let ranking = rank(&graph.subgraph(&reach("Where was Ada born?")));
        let keys: Vec<&str> = ranking.entities.iter().map(|(key, _)| key.0.as_str()).collect();
        assert_eq!(keys, ["ada", "lodz", "poland"]);
        assert_eq!(ranking.segments[0].0.document_id.as_str(), "0");
    }
}
