//! The part of a graph that a page shows: which entities, and how far each is from where it begins.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use clew_proto::graph_builder::v1::EntityKind;
use clew_proto::memory::v1::{Entity, Relation, Subgraph};

/// Most entities that a page shows. Pictures of more are not readable.
pub(super) const MOST_ENTITIES: u32 = 150;
/// Most relations that a page shows: what people read, and whose sentences are read at once.
pub(super) const MOST_RELATIONS: u32 = 300;

/// A part of a graph.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Its entities, by ring, kind and name.
    pub entities: Vec<Shown>,
    /// The relations between them: those of the same two entities after each other.
    pub relations: Vec<Relation>,
    /// Whether something came that is not shown: each shard may send as much as was asked for.
    pub is_cut: bool,
}

/// An entity that is shown.
#[derive(Debug)]
pub(super) struct Shown {
    pub entity: Entity,
    /// Relations to go from where the part begins, which is 0. Entities that are alike and not
    /// related are as near as those that are.
    pub ring: usize,
}

impl Part {
    /// Returns the part that was read. If it has too many entities, the nearest are shown.
    pub fn of(graph: Subgraph) -> Self {
        let rings = rings(&graph);
        let mut degrees: HashMap<&str, usize> = HashMap::new();
        for end in graph.relations.iter().flat_map(|relation| [&relation.head, &relation.tail]) {
            *degrees.entry(end).or_default() += 1;
        }
        let rank = |entity: &Entity| {
            let ring = rings.get(entity.key.as_str()).copied().unwrap_or(1);
            (ring, Reverse(degrees.get(entity.key.as_str()).copied().unwrap_or_default()))
        };
        let mut ranked: Vec<(usize, Reverse<usize>, Entity)> = graph
            .entities
            .iter()
            .map(|entity| {
                let (ring, degree) = rank(entity);
                (ring, degree, entity.clone())
            })
            .collect();
        ranked.sort_by(|a, b| (a.0, a.1, &a.2.key).cmp(&(b.0, b.1, &b.2.key)));
        let is_cut = ranked.len() > MOST_ENTITIES as usize;
        ranked.truncate(MOST_ENTITIES as usize);
        let mut entities: Vec<Shown> =
            ranked.into_iter().map(|(ring, _, entity)| Shown { entity, ring }).collect();
        entities.sort_by(|a, b| {
            let place = |shown: &Shown| (shown.ring, order(shown.entity.kind()));
            place(a).cmp(&place(b)).then_with(|| a.entity.name.cmp(&b.entity.name))
        });
        let mut part = Self { entities, relations: Vec::new(), is_cut };
        let places = part.places();
        let mut pairs: BTreeMap<(usize, usize), Vec<Relation>> = BTreeMap::new();
        for relation in &graph.relations {
            let ends = [&relation.head, &relation.tail].map(|end| places.get(end.as_str()));
            if let [Some(&head), Some(&tail)] = ends {
                let pair = (head.min(tail), head.max(tail));
                pairs.entry(pair).or_default().push(relation.clone());
            }
        }
        part.relations = pairs.into_values().flatten().collect();
        part.is_cut |= part.relations.len() > MOST_RELATIONS as usize;
        part.relations.truncate(MOST_RELATIONS as usize);
        part
    }

    /// Returns the index of each entity, by its key.
    pub fn places(&self) -> HashMap<String, usize> {
        let keys = self.entities.iter().map(|shown| shown.entity.key.clone());
        keys.zip(0..).collect()
    }

    /// Returns the entities at which the part begins.
    pub fn seeds(&self) -> impl Iterator<Item = &Entity> {
        self.entities.iter().filter(|shown| shown.ring == 0).map(|shown| &shown.entity)
    }
}

/// Returns the number of relations between each entity and the nearest seed, for those that
/// relations lead to.
fn rings(graph: &Subgraph) -> HashMap<&str, usize> {
    let mut beside: HashMap<&str, Vec<&str>> = HashMap::new();
    for Relation { head, tail, .. } in &graph.relations {
        beside.entry(head).or_default().push(tail);
        beside.entry(tail).or_default().push(head);
    }
    let mut rings: HashMap<&str, usize> =
        graph.seeds.iter().map(|seed| (seed.as_str(), 0)).collect();
    let mut frontier: Vec<&str> = graph.seeds.iter().map(String::as_str).collect();
    let mut ring = 0;
    while !frontier.is_empty() {
        ring += 1;
        let near = frontier.iter().filter_map(|entity| beside.get(entity)).flatten().copied();
        let mut reached: Vec<&str> = near.filter(|near| !rings.contains_key(near)).collect();
        reached.sort_unstable();
        reached.dedup();
        rings.extend(reached.iter().map(|entity| (*entity, ring)));
        frontier = reached;
    }
    rings
}

/// Returns the place of a kind among the others.
fn order(kind: EntityKind) -> usize {
    KINDS.iter().position(|(one, ..)| *one == kind).unwrap_or(KINDS.len())
}

/// Kinds of entities, in the order in which they are shown: each with its name, and the class of
/// its symbol.
pub(super) const KINDS: [(EntityKind, &str, &str); 5] = [
    (EntityKind::Person, "person", "entity person"),
    (EntityKind::Organisation, "organisation", "entity organisation"),
    (EntityKind::Place, "place", "entity place"),
    (EntityKind::Time, "time", "entity time"),
    (EntityKind::Other, "other", "entity other"),
];

/// Returns the name of a kind, and the class of its symbol.
pub(super) fn kind(kind: EntityKind) -> (&'static str, &'static str) {
    let known = KINDS.iter().find(|(one, ..)| *one == kind);
    known.map_or(("other", "entity other"), |(_, name, class)| (name, class))
}

#[cfg(test)]
mod tests {
    use super::super::testing::graph;
    use super::*;

    #[test]
    fn entities_are_as_far_as_their_relations_say() {
        let graph = graph(&[("a", "b"), ("c", "b"), ("c", "d"), ("b", "a"), ("x", "y")]);
        let part = Part::of(graph);
        let rings: Vec<(&str, usize)> =
            part.entities.iter().map(|shown| (shown.entity.key.as_str(), shown.ring)).collect();
        // Nothing tells how far `x` and `y` are.
        assert_eq!(rings, [("a", 0), ("b", 1), ("x", 1), ("y", 1), ("c", 2), ("d", 3)]);
        let ends: Vec<(&str, &str)> =
            part.relations.iter().map(|one| (one.head.as_str(), one.tail.as_str())).collect();
        assert_eq!(ends[..2], [("a", "b"), ("b", "a")], "those of a pair are together");
        assert_eq!(part.seeds().map(|seed| seed.key.as_str()).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn the_nearest_are_shown_where_there_are_too_many() {
        let names: Vec<String> = (0..200).map(|number| format!("n{number:03}")).collect();
        let mut relations: Vec<(&str, &str)> =
            names.iter().map(|name| ("hub", name.as_str())).collect();
        relations.extend([("hub", "n199"), ("n199", "far")]);
        let part = Part::of(graph(&relations));
        assert_eq!((part.entities.len(), part.is_cut), (MOST_ENTITIES as usize, true));
        let has = |key: &str| part.entities.iter().any(|shown| shown.entity.key == key);
        assert!(has("hub") && has("n199") && has("n000") && !has("n198") && !has("far"));
        assert!(part.relations.iter().all(|one| has(&one.head) && has(&one.tail)));
    }
}
