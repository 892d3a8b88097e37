//! Personalised PageRank over entities and segments ("HippoRAG: Neurobiologically Inspired
//! Long-Term Memory for Large Language Models", section 2.3): which segments a question's entities
//! lead to, over any number of steps at once.

use std::collections::HashMap;

use clew_core::{EntityKey, SegmentId, Subgraph};

use crate::near::NameIndex;

/// Maximum number of iterations.
const MOST_ROUNDS: usize = 50;
/// Change of probability below which an iteration is the last.
const CONVERGED: f64 = 1e-6;

/// Start of a walk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seed {
    /// Entity that a question names.
    Entity(EntityKey),
    /// Segment that a search found.
    Segment(SegmentId),
}

/// Probabilities of a walk to be at each place, the likeliest first. They sum to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// Segments; equals in order.
    pub segments: Vec<(SegmentId, f64)>,
    /// Entities; equals by key.
    pub entities: Vec<(EntityKey, f64)>,
}

/// Ranks the segments and entities of a graph by a random walk from weighted `seeds`. At each step
/// the walk restarts with `reset_probability` (HippoRAG: 0.5). Otherwise it follows one of the
/// place's edges. Edges connect an entity and a segment that mentions it (weight 1), two entities
/// with a relation (1 for each relation), and two entities with near names (their nearness).
///
/// HippoRAG weights an entity of the question by one over the number of segments that mention it,
/// see [`clew_core::EntityNode::mentioned_in`]. Seeds that are not in the graph do not count.
/// Without any seed the ranking is empty. The cost is at most fifty times the number of edges.
pub fn pagerank(graph: &Subgraph, seeds: &[(Seed, f64)], reset_probability: f64) -> Ranking {
    let places = Places::of(graph);
    let Some(reset) = places.reset(seeds) else { return Ranking::default() };
    let reset_probability = reset_probability.clamp(0.0, 1.0);
    let edges = places.edges(graph);
    let mut ranks = reset.clone();
    for _ in 0..MOST_ROUNDS {
        let next = step(&edges, &ranks, &reset, reset_probability);
        let moved: f64 = next.iter().zip(&ranks).map(|(new, old)| (new - old).abs()).sum();
        ranks = next;
        if moved < CONVERGED {
            break;
        }
    }
    places.ranking(&ranks)
}

/// Neighbours of each place, with their shares of the walks that leave it.
type Edges = Vec<Vec<(usize, f64)>>;

fn step(edges: &Edges, ranks: &[f64], reset: &[f64], reset_probability: f64) -> Vec<f64> {
    let mut next = vec![0.0; ranks.len()];
    let mut stuck = 0.0;
    for (leaving, rank) in edges.iter().zip(ranks) {
        if leaving.is_empty() {
            stuck += rank;
        }
        for (to, share) in leaving {
            next[*to] += (1.0 - reset_probability) * share * rank;
        }
    }
    // A walk that cannot go on restarts.
    let anew = reset_probability + (1.0 - reset_probability) * stuck;
    for (rank, share) in next.iter_mut().zip(reset) {
        *rank += anew * share;
    }
    next
}

/// Places of a graph: its entities, then its segments.
struct Places<'g> {
    entities: Vec<&'g EntityKey>,
    segments: Vec<&'g SegmentId>,
    entity_at: HashMap<&'g EntityKey, usize>,
    segment_at: HashMap<&'g SegmentId, usize>,
}

impl<'g> Places<'g> {
    fn of(graph: &'g Subgraph) -> Self {
        let mut entities: Vec<&EntityKey> = graph.entities.iter().map(|node| &node.key).collect();
        entities.sort_unstable();
        entities.dedup();
        let stated = graph.relations.iter().map(|edge| &edge.segment);
        let mentioned = graph.entities.iter().flat_map(|node| &node.segments);
        let mut segments: Vec<&SegmentId> = mentioned.chain(stated).collect();
        segments.sort_unstable();
        segments.dedup();
        let entity_at = entities.iter().copied().zip(0..).collect();
        let segment_at = segments.iter().copied().zip(entities.len()..).collect();
        Self { entities, segments, entity_at, segment_at }
    }

    /// Returns the distribution of restarts, or `None` if there is no seed.
    fn reset(&self, seeds: &[(Seed, f64)]) -> Option<Vec<f64>> {
        let mut reset = vec![0.0; self.entities.len() + self.segments.len()];
        for (seed, weight) in seeds {
            let at = match seed {
                Seed::Entity(key) => self.entity_at.get(key),
                Seed::Segment(id) => self.segment_at.get(id),
            };
            let weight = Some(*weight).filter(|weight| weight.is_finite() && *weight > 0.0);
            if let (Some(&at), Some(weight)) = (at, weight) {
                reset[at] += weight;
            }
        }
        let sum: f64 = reset.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return None;
        }
        reset.iter_mut().for_each(|share| *share /= sum);
        Some(reset)
    }

    fn edges(&self, graph: &Subgraph) -> Edges {
        let mut edges: Edges = vec![Vec::new(); self.entities.len() + self.segments.len()];
        for (from, to, weight) in self.mentions(graph).chain(self.related(graph)) {
            edges[from].push((to, weight));
            edges[to].push((from, weight));
        }
        for (from, to, weight) in self.near() {
            edges[from].push((to, weight));
            edges[to].push((from, weight));
        }
        for leaving in &mut edges {
            leaving.sort_by_key(|(to, _)| *to);
            leaving.dedup_by(|(to, weight), (kept, sum)| {
                let is_same = to == kept;
                *sum += if is_same { *weight } else { 0.0 };
                is_same
            });
            let sum: f64 = leaving.iter().map(|(_, weight)| weight).sum();
            leaving.iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
        edges
    }

    fn mentions(&self, graph: &Subgraph) -> impl Iterator<Item = (usize, usize, f64)> {
        let told = graph.entities.iter();
        let told = told.flat_map(|node| node.segments.iter().map(|segment| (&node.key, segment)));
        // Not all segments of a frequent entity are in `segments`, so relations add those that
        // state them.
        let stated = graph.relations.iter();
        let stated =
            stated.flat_map(|edge| [(&edge.head, &edge.segment), (&edge.tail, &edge.segment)]);
        let at = |(key, segment)| Some((*self.entity_at.get(key)?, *self.segment_at.get(segment)?));
        let mut mentions: Vec<(usize, usize)> = told.chain(stated).filter_map(at).collect();
        mentions.sort_unstable();
        mentions.dedup();
        mentions.into_iter().map(|(entity, segment)| (entity, segment, 1.0))
    }

    fn related(&self, graph: &Subgraph) -> impl Iterator<Item = (usize, usize, f64)> {
        graph.relations.iter().filter_map(|edge| {
            let (head, tail) = (*self.entity_at.get(&edge.head)?, *self.entity_at.get(&edge.tail)?);
            (head != tail).then_some((head, tail, 1.0))
        })
    }

    /// Returns the pairs of entities with near names, each once.
    fn near(&self) -> Vec<(usize, usize, f64)> {
        let mut names = NameIndex::default();
        for (id, key) in (0..).zip(&self.entities) {
            names.insert(id, &key.0);
        }
        let mut pairs: HashMap<(usize, usize), f64> = HashMap::new();
        for (at, key) in self.entities.iter().enumerate() {
            for (other, nearness) in names.near(&key.0, |id| &self.entities[id as usize].0) {
                let other = other as usize;
                pairs.insert((at.min(other), at.max(other)), f64::from(nearness));
            }
        }
        let mut pairs: Vec<_> = pairs.into_iter().map(|((a, b), near)| (a, b, near)).collect();
        pairs.sort_by_key(|(a, b, _)| (*a, *b));
        pairs
    }

    fn ranking(&self, ranks: &[f64]) -> Ranking {
        let (entities, segments) = ranks.split_at(self.entities.len());
        Ranking {
            segments: best_first(&self.segments, segments),
            entities: best_first(&self.entities, entities),
        }
    }
}

/// Sorts `items`, which are in order, by rank.
fn best_first<T: Clone>(items: &[&T], ranks: &[f64]) -> Vec<(T, f64)> {
    let ranked = items.iter().zip(ranks);
    let mut ranked: Vec<(T, f64)> = ranked.map(|(item, rank)| ((*item).clone(), *rank)).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}

#[cfg(test)]
mod tests {
    use clew_core::{EntityKind, EntityNode, RelationEdge, Span, Version};
    use proptest::prelude::*;

    use super::*;

    fn segment(ordinal: u32) -> SegmentId {
        SegmentId { document_id: "d".parse().unwrap(), version: Version(1), ordinal }
    }

    fn key(name: &str) -> EntityKey {
        EntityKey(name.to_owned())
    }

    fn graph(entities: &[(&str, &[u32])], relations: &[(&str, &str)]) -> Subgraph {
        let entities = entities.iter().map(|(name, segments)| EntityNode {
            key: key(name),
            name: (*name).to_owned(),
            kind: EntityKind::Other,
            aliases: Vec::new(),
            segments: segments.iter().copied().map(segment).collect(),
            mentioned_in: segments.len() as u64,
            titled: Vec::new(),
            description: String::new(),
        });
        let relations = relations.iter().map(|(head, tail)| RelationEdge {
            head: key(head),
            text: "to".to_owned(),
            tail: key(tail),
            segment: segment(0),
            evidence: Span::new(0, 1),
        });
        let (entities, relations) = (entities.collect(), relations.collect());
        Subgraph { entities, relations, ..Subgraph::default() }
    }

    #[test]
    fn what_several_seeds_lead_to_comes_first() {
        // "thomas" and "stanford" share a segment over two hops, as in HippoRAG's example.
        let graph = graph(
            &[("alzheimer", &[1, 2]), ("stanford", &[0, 1, 3]), ("thomas", &[0, 2]), ("zzz", &[9])],
            &[("thomas", "stanford")],
        );
        let seeds = [(Seed::Entity(key("alzheimer")), 1.0), (Seed::Entity(key("stanford")), 1.0)];
        let ranking = pagerank(&graph, &seeds, 0.5);
        assert_eq!(ranking.segments[0].0, segment(1));
        assert_eq!(ranking.entities.last(), Some(&(key("zzz"), 0.0)));
        let from_segment = pagerank(&graph, &[(Seed::Segment(segment(3)), 2.0)], 0.5);
        assert_eq!(from_segment.entities[0].0, key("stanford"));
    }

    #[test]
    fn near_names_are_connected() {
        let graph = graph(&[("pierre bezukhov", &[0]), ("bezukhov", &[1])], &[]);
        let ranking = pagerank(&graph, &[(Seed::Entity(key("bezukhov")), 1.0)], 0.5);
        assert!(ranking.segments.iter().all(|(_, rank)| *rank > 0.0));
    }

    #[test]
    fn seeds_that_tell_nothing_give_no_ranking() {
        let graph = graph(&[("a", &[0])], &[]);
        for (name, weight) in [("b", 1.0), ("a", 0.0), ("a", -1.0), ("a", f64::NAN)] {
            let ranking = pagerank(&graph, &[(Seed::Entity(key(name)), weight)], 0.5);
            assert_eq!(ranking, Ranking::default(), "{name} {weight}");
        }
    }

    /// Computes the same by a dense matrix, with a fixed number of iterations.
    fn dense(edges: &[(usize, usize)], places: usize, reset: &[f64]) -> Vec<f64> {
        let mut matrix = vec![vec![0.0; places]; places];
        for (a, b) in edges {
            matrix[*a][*b] += 1.0;
            matrix[*b][*a] += 1.0;
        }
        for (row, own) in matrix.iter_mut().enumerate() {
            let sum: f64 = own.iter().sum();
            if sum == 0.0 {
                own.copy_from_slice(reset);
                debug_assert!(row < places, "a row of the matrix");
            } else {
                own.iter_mut().for_each(|weight| *weight /= sum);
            }
        }
        let mut ranks = reset.to_vec();
        for _ in 0..300 {
            ranks = (0..places)
                .map(|to| {
                    let come: f64 = (0..places).map(|from| ranks[from] * matrix[from][to]).sum();
                    0.5 * reset[to] + 0.5 * come
                })
                .collect();
        }
        ranks
    }

    proptest! {
        #[test]
        fn it_is_what_a_dense_matrix_says(
            mentions in prop::collection::btree_set((0..4_usize, 0..3_u32), 1..9),
            related in prop::collection::vec((0..4_usize, 0..4_usize), 0..4),
            weights in prop::collection::vec(0.1..2.0_f64, 4),
        ) {
            // Names that are not near.
            let names = ["alpha", "bravo", "charlie", "delta"];
            let segments: Vec<Vec<u32>> = (0..4)
                .map(|e| mentions.iter().filter(|(of, _)| *of == e).map(|(_, s)| *s).collect())
                .collect();
            let entities: Vec<(&str, &[u32])> =
                names.iter().zip(&segments).map(|(name, own)| (*name, own.as_slice())).collect();
            let relations: Vec<(&str, &str)> =
                related.iter().map(|(a, b)| (names[*a], names[*b])).collect();
            let seeds: Vec<(Seed, f64)> = names
                .iter()
                .zip(&weights)
                .map(|(name, weight)| (Seed::Entity(key(name)), *weight))
                .collect();
            let ranking = pagerank(&graph(&entities, &relations), &seeds, 0.5);

            // A relation is stated in segment 0, so both ends are mentioned there.
            let mut edges: std::collections::BTreeSet<(usize, usize)> =
                mentions.iter().map(|(e, s)| (*e, 4 + *s as usize)).collect();
            edges.extend(related.iter().flat_map(|(a, b)| [(*a, 4), (*b, 4)]));
            let mut edges: Vec<(usize, usize)> = edges.into_iter().collect();
            edges.extend(related.iter().filter(|(a, b)| a != b));
            let sum: f64 = weights.iter().sum();
            let mut reset: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
            reset.extend([0.0; 3]);
            let expected = dense(&edges, 7, &reset);
            for (own, rank) in &ranking.entities {
                let at = names.iter().position(|name| *name == own.0).unwrap();
                prop_assert!((rank - expected[at]).abs() < 1e-5, "{own} {rank} {expected:?}");
            }
            for (id, rank) in &ranking.segments {
                let at = 4 + id.ordinal as usize;
                prop_assert!((rank - expected[at]).abs() < 1e-5, "{id} {rank} {expected:?}");
            }
            let entities: f64 = ranking.entities.iter().map(|(_, rank)| rank).sum();
            let segments: f64 = ranking.segments.iter().map(|(_, rank)| rank).sum();
            prop_assert!((entities + segments - 1.0).abs() < 1e-9);
        }
    }
}
