//! Paths between two entities.

use std::collections::{BTreeMap, VecDeque};

use clew_core::{EntityKey, RelationEdge, Subgraph};

/// Maximum number of steps of a search, because there may be exponentially many paths.
const MOST_STEPS: usize = 100_000;

/// Limits of a search for paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLimits {
    /// Maximum number of relations in a path.
    pub most_hops: usize,
    /// Maximum number of paths.
    pub most_paths: usize,
}

/// Neighbours of each entity in order, each with the first relation between the two.
type Neighbours<'g> = BTreeMap<&'g EntityKey, BTreeMap<&'g EntityKey, &'g RelationEdge>>;

/// Returns the paths from one entity to another, over relations in either direction and through no
/// entity twice. The shortest come first, equals in the order of the keys on the path. If there are
/// several relations between two entities, the first stands for all.
///
/// Returns none if the two entities are the same, or if one of them is not in the graph.
pub fn paths(
    graph: &Subgraph,
    from: &EntityKey,
    to: &EntityKey,
    limits: PathLimits,
) -> Vec<Vec<RelationEdge>> {
    let neighbours = neighbours(graph);
    let hops_to = hops_to(&neighbours, to);
    let Some(&shortest) = hops_to.get(from).filter(|hops| **hops > 0) else { return Vec::new() };
    let mut search = Search {
        neighbours: &neighbours,
        hops_to: &hops_to,
        most_paths: limits.most_paths,
        steps: 0,
        way: Vec::new(),
        found: Vec::new(),
    };
    // A path without repeats has fewer relations than there are entities.
    for length in shortest..=limits.most_hops.min(neighbours.len()) {
        search.extend(from, to, length, &mut vec![from]);
    }
    search.found
}

fn neighbours(graph: &Subgraph) -> Neighbours<'_> {
    let mut neighbours = Neighbours::new();
    for edge in graph.relations.iter().filter(|edge| edge.head != edge.tail) {
        for (one, other) in [(&edge.head, &edge.tail), (&edge.tail, &edge.head)] {
            neighbours.entry(one).or_default().entry(other).or_insert(edge);
        }
    }
    neighbours
}

/// Returns the minimum number of relations from each entity to `to`.
fn hops_to<'g>(neighbours: &Neighbours<'g>, to: &'g EntityKey) -> BTreeMap<&'g EntityKey, usize> {
    let mut hops_to = BTreeMap::from([(to, 0)]);
    let mut queue = VecDeque::from([(to, 0)]);
    while let Some((entity, hops)) = queue.pop_front() {
        for &other in neighbours.get(entity).into_iter().flat_map(BTreeMap::keys) {
            if !hops_to.contains_key(other) {
                hops_to.insert(other, hops + 1);
                queue.push_back((other, hops + 1));
            }
        }
    }
    hops_to
}

struct Search<'s, 'g> {
    neighbours: &'s Neighbours<'g>,
    hops_to: &'s BTreeMap<&'g EntityKey, usize>,
    most_paths: usize,
    steps: usize,
    way: Vec<&'g RelationEdge>,
    found: Vec<Vec<RelationEdge>>,
}

impl<'g> Search<'_, 'g> {
    /// Finds the paths with exactly `length` more relations. The number of requested hops bounds
    /// the depth of the recursion.
    fn extend(
        &mut self,
        at: &'g EntityKey,
        to: &EntityKey,
        length: usize,
        visited: &mut Vec<&'g EntityKey>,
    ) {
        if length == 0 {
            if at == to {
                self.found.push(self.way.iter().map(|edge| (*edge).clone()).collect());
            }
            return;
        }
        for (&next, &edge) in self.neighbours.get(at).into_iter().flatten() {
            let can_arrive = self.hops_to.get(next).is_some_and(|hops| *hops < length);
            let is_end = next == to;
            if !can_arrive || visited.contains(&next) || is_end != (length == 1) {
                continue;
            }
            self.steps += 1;
            if self.found.len() >= self.most_paths || self.steps > MOST_STEPS {
                return;
            }
            visited.push(next);
            self.way.push(edge);
            self.extend(next, to, length - 1, visited);
            self.way.pop();
            visited.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use clew_core::{SegmentId, Span, Version};
    use proptest::prelude::*;

    use super::*;

    fn graph(edges: &[(u8, u8)]) -> Subgraph {
        let segment =
            SegmentId { document_id: "d".parse().unwrap(), version: Version(1), ordinal: 0 };
        let edge = |(head, tail): &(u8, u8)| RelationEdge {
            head: key(*head),
            text: "to".to_owned(),
            tail: key(*tail),
            segment: segment.clone(),
            evidence: Span::new(0, 1),
        };
        Subgraph { relations: edges.iter().map(edge).collect(), ..Subgraph::default() }
    }

    fn key(name: u8) -> EntityKey {
        EntityKey(name.to_string())
    }

    /// Returns the entities on each path, from the first on.
    fn ways(edges: &[(u8, u8)], from: u8, to: u8, limits: PathLimits) -> Vec<Vec<u8>> {
        let paths = paths(&graph(edges), &key(from), &key(to), limits);
        let way = |path: &Vec<RelationEdge>| {
            let mut way = vec![key(from)];
            for edge in path {
                let is_forward = Some(&edge.head) == way.last();
                way.push(if is_forward { edge.tail.clone() } else { edge.head.clone() });
            }
            way.iter().map(|key| key.0.parse().unwrap()).collect()
        };
        paths.iter().map(way).collect()
    }

    #[test]
    fn paths_go_either_way_and_the_shortest_first() {
        let edges = [(1, 2), (3, 2), (3, 4), (1, 5), (5, 4), (1, 1), (7, 8)];
        let limits = PathLimits { most_hops: 3, most_paths: 9 };
        assert_eq!(ways(&edges, 1, 4, limits), [vec![1, 5, 4], vec![1, 2, 3, 4]]);
        assert_eq!(ways(&edges, 1, 4, PathLimits { most_hops: 2, ..limits }), [[1, 5, 4]]);
        assert_eq!(ways(&edges, 1, 4, PathLimits { most_paths: 1, ..limits }), [[1, 5, 4]]);
        for (from, to) in [(1, 1), (1, 7), (1, 99), (99, 1)] {
            assert!(ways(&edges, from, to, limits).is_empty(), "{from} {to}");
        }
    }

    #[test]
    fn a_search_among_very_many_ways_ends() {
        let edges: Vec<(u8, u8)> = (0..40).flat_map(|a| (a + 1..40).map(move |b| (a, b))).collect();
        let limits = PathLimits { most_hops: 30, most_paths: usize::MAX };
        assert!(ways(&edges, 0, 39, limits).len() <= MOST_STEPS);
    }

    proptest! {
        #[test]
        fn all_ways_are_found(edges in prop::collection::vec((0..6_u8, 0..6_u8), 0..12)) {
            let is_edge = |a: u8, b: u8| edges.contains(&(a, b)) || edges.contains(&(b, a));
            let mut expected = Vec::new();
            let mut partial = vec![vec![0]];
            while let Some(way) = partial.pop() {
                for next in 1..6 {
                    let last = way[way.len() - 1];
                    if is_edge(last, next) && !way.contains(&next) {
                        let longer: Vec<u8> = way.iter().copied().chain([next]).collect();
                        if next == 5 { expected.push(longer) } else { partial.push(longer) }
                    }
                }
            }
            expected.sort_by_key(|way| (way.len(), way.clone()));
            let limits = PathLimits { most_hops: 9, most_paths: 999 };
            prop_assert_eq!(ways(&edges, 0, 5, limits), expected);
        }
    }
}
