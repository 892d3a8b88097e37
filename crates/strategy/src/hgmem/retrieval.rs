//! Retrieval for a subquery: the entities in its scope with their relations and passages (equations
//! 1, 6 and 7).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use clew_core::{
    EntityKey, EntityNode, Error, Evidence, GraphQuery, Like, RelationEdge, SegmentId, TextKind,
};
use clew_hypergraph::PointId;

use super::memory::Memory;
use crate::work::{cosine, overlap};

/// Number of entities retrieved for a subquery, n_v.
const ENTITIES: usize = 8;
/// Maximum number of their relations, n_e.
const RELATIONS: usize = 16;
/// Maximum number of their passages, n_d.
const PASSAGES: usize = 6;
/// Number of best places of a search for a subquery. Entities are looked for there if not all
/// entities have vectors, and the passages of entities are looked at in the order of these places.
const PLACES: usize = 12;
/// Number of entities nearest to a subquery by the signs of their vectors that are compared with it
/// exactly.
const NEAREST: usize = 64;
/// Maximum numbers of entities and relations that are looked at for one subquery.
const LOOKED_AT: (usize, usize) = (128, 512);
/// Maximum number of segments among which those found by the search for a subquery are looked for:
/// the people of a long book are mentioned in hundreds. One call reads this many.
const LOCATED: usize = 256;
/// Maximum numbers of segments whose texts are looked at to find the passages of a subquery, and
/// whose texts are compared in the end. Each text is embedded, which is most of the cost of a step.
const TEXTS: (usize, usize) = (24, 48);

/// Scope in which a subquery looks for entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The whole graph: for the question itself.
    Everything,
    /// Around a point (local investigation, equation 6).
    Around(PointId),
    /// Outside the memory (global exploration, equation 7).
    Outside,
}

/// Query of a step.
pub(super) struct Subquery {
    pub(super) text: String,
    pub(super) vector: Vec<f32>,
    pub(super) scope: Scope,
}

/// Relations and passages that the subqueries of a step found, best first.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) relations: Vec<RelationEdge>,
    pub(super) passages: Vec<(SegmentId, Evidence)>,
}

impl Memory<'_> {
    /// Returns what searches for the subqueries of a step find, best first, in their order. Those
    /// around a point are not searched for.
    pub(super) async fn search_for(
        &mut self,
        subqueries: &[Subquery],
    ) -> Result<Vec<Vec<Evidence>>, Error> {
        let is_searched_for = |subquery: &Subquery| !matches!(subquery.scope, Scope::Around(_));
        let queries = subqueries
            .iter()
            .filter(|subquery| is_searched_for(subquery))
            .map(|subquery| self.work.query(subquery.text.clone(), PLACES))
            .collect();
        let mut found = self.work.search_all(queries).await?.into_iter();
        let hits = |subquery| match is_searched_for(subquery) {
            true => found.next().unwrap_or_default(),
            false => Vec::new(),
        };
        Ok(subqueries.iter().map(hits).collect())
    }

    /// Retrieves for one subquery, with the passages that a search for it found.
    pub(super) async fn retrieve(
        &mut self,
        subquery: &str,
        vector: &[f32],
        scope: &Scope,
        hits: &[Evidence],
        found: &mut Found,
    ) -> Result<(), Error> {
        let entities = self.entities_in(subquery, vector, scope, hits).await?;
        if entities.is_empty() {
            return Ok(());
        }
        let keys: Vec<EntityKey> = entities.iter().map(|entity| entity.key.clone()).collect();
        let (most_entities, most_relations) = LOOKED_AT;
        let around = GraphQuery {
            entities: keys.clone(),
            hops: 1,
            most_entities,
            most_relations,
            ..GraphQuery::default()
        };
        let graph = self.work.subgraph(&around).await?;
        // A full view knows enough.
        let _is_full = self.graph.learn(&graph);
        let is_of = |edge: &RelationEdge| keys.contains(&edge.head) || keys.contains(&edge.tail);
        let relations: Vec<RelationEdge> = graph
            .relations
            .into_iter()
            .filter(|edge| is_of(edge) && self.admitted.has(&edge.segment.document_id))
            .filter(|edge| !found.relations.contains(edge))
            .collect();
        let texts = relations.iter().map(|edge| self.in_words(edge).join(" ")).collect();
        let relations = self.closest(vector, texts, relations, RELATIONS).await?;
        let stating = relations.iter().map(|edge| &edge.segment);
        let mut ids: Vec<&SegmentId> = stating
            .chain(entities.iter().flat_map(|entity| &entity.segments))
            .filter(|id| self.admitted.has(&id.document_id))
            .filter(|id| found.passages.iter().all(|(known, _)| known != *id))
            .collect();
        // The sort is stable: equal ones keep the order in which segments that state a relation,
        // and those of entities more like the subquery, come first.
        ids.sort_by_key(|id| {
            hits.iter().position(|hit| hit.document_id == id.document_id).unwrap_or(PLACES)
        });
        let mut seen = BTreeSet::new();
        ids.retain(|id| seen.insert(*id));
        let ids: Vec<SegmentId> = ids.into_iter().take(LOCATED).cloned().collect();
        let mut passages = self.texts(&ids).await?;
        passages.sort_by_cached_key(|(id, passage)| {
            let found = hits.iter().position(|hit| overlap(hit, passage)).unwrap_or(PLACES);
            (found, ids.iter().position(|known| known == id))
        });
        passages.truncate(TEXTS.0);
        let texts = passages.iter().map(|(_, passage)| passage.text.clone()).collect();
        let passages = self.closest(vector, texts, passages, PASSAGES).await?;
        found.relations.extend(relations);
        found.passages.extend(passages);
        Ok(())
    }

    /// Returns the entities of a scope that are most like a subquery by name and description.
    ///
    /// In scopes other than around a point, all entities of the graph are compared by the signs of
    /// their vectors, and the nearest of them exactly. If some have no vectors, the entities at the
    /// best places of the search are compared too.
    async fn entities_in(
        &mut self,
        subquery: &str,
        vector: &[f32],
        scope: &Scope,
        hits: &[Evidence],
    ) -> Result<Vec<EntityNode>, Error> {
        let (most_entities, most_relations) = LOOKED_AT;
        let query = GraphQuery { most_relations, describe: true, ..GraphQuery::default() };
        let query = match scope {
            Scope::Around(point) => {
                let anchors = self.graph.point(*point).map(|point| point.entities.clone());
                let entities: Vec<EntityKey> = anchors.unwrap_or_default().into_iter().collect();
                if entities.is_empty() {
                    return Ok(Vec::new());
                }
                GraphQuery { entities, hops: 1, most_entities, ..query }
            }
            Scope::Everything | Scope::Outside => {
                if self.asked.is_empty() {
                    self.hits = hits.to_vec();
                }
                let texts = vec![subquery.to_owned()];
                let like = Some(Like::vector(self.work.seams.encoder.identity(), vector));
                // Entities already in memory must not take the room of others.
                let in_memory = self.graph.vertices().count();
                GraphQuery { texts, like, most_entities: NEAREST + in_memory, ..query }
            }
        };
        let mut graph = self.work.subgraph(&query).await?;
        if query.like.is_some() && !graph.is_compared {
            let places = hits.iter().map(Evidence::place).collect();
            let at_places = GraphQuery { places, most_entities, like: None, ..query };
            graph = clew_graph::union([self.work.subgraph(&at_places).await?, graph]);
        }
        let _is_full = self.graph.learn(&graph);
        let is_admitted = |entity: &EntityNode| {
            entity.segments.iter().any(|id| self.admitted.has(&id.document_id))
        };
        let neighbourhood = match scope {
            Scope::Around(point) => self.graph.neighbourhood(*point).unwrap_or_default(),
            Scope::Everything | Scope::Outside => BTreeSet::new(),
        };
        let is_in_scope = |entity: &EntityNode| match scope {
            Scope::Around(_) => neighbourhood.contains(&entity.key),
            Scope::Outside => self.graph.is_outside(&entity.key),
            Scope::Everything => true,
        };
        let candidates: Vec<EntityNode> = graph
            .entities
            .into_iter()
            .filter(|entity| is_admitted(entity) && is_in_scope(entity))
            .collect();
        let described =
            |entity: &EntityNode| clew_graph::entity_text(&entity.name, &entity.description);
        let texts = candidates.iter().map(described).collect();
        self.closest(vector, texts, candidates, ENTITIES).await
    }

    /// Returns the `most` items whose texts are most like a vector, best first; equal ones in
    /// order.
    async fn closest<T>(
        &mut self,
        vector: &[f32],
        texts: Vec<String>,
        items: Vec<T>,
        most: usize,
    ) -> Result<Vec<T>, Error> {
        let vectors = self.work.embed(texts, TextKind::Passage).await?;
        let mut scored: Vec<(f32, T)> =
            vectors.iter().map(|text| cosine(vector, text)).zip(items).collect();
        scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        Ok(scored.into_iter().take(most).map(|(_, item)| item).collect())
    }

    async fn texts(&mut self, ids: &[SegmentId]) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        let mut texts = self.work.segments(ids).await?;
        texts.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(texts)
    }

    /// Returns the passages to read: those that points rest on, then others of their entities, each
    /// most like the question first. Their scores are their similarities, plus 1 for those of
    /// points. If there are too many others, those that mention the most entities are used.
    pub(super) async fn best_passages(&mut self) -> Result<Vec<Evidence>, Error> {
        let of_points = self.graph.points().flat_map(|point| &point.segments);
        let of_points: BTreeSet<SegmentId> = of_points.cloned().collect();
        let mut others: BTreeMap<&SegmentId, usize> = BTreeMap::new();
        for id in self.graph.vertices().flat_map(|vertex| &vertex.segments) {
            if !of_points.contains(id) && self.admitted.has(&id.document_id) {
                *others.entry(id).or_default() += 1;
            }
        }
        let mut others: Vec<(&SegmentId, usize)> = others.into_iter().collect();
        others.sort_by_key(|(_, entities)| Reverse(*entities));
        let others = others.into_iter().map(|(id, _)| id);
        let ids: Vec<SegmentId> = of_points.iter().chain(others).take(TEXTS.1).cloned().collect();
        let texts = self.texts(&ids).await?;
        let question = self.asked.first().map(|(_, vector)| vector.clone()).unwrap_or_default();
        let contents = texts.iter().map(|(_, passage)| passage.text.clone()).collect();
        let vectors = self.work.embed(contents, TextKind::Passage).await?;
        let mut scored: Vec<Evidence> = texts
            .into_iter()
            .zip(vectors)
            .map(|((id, passage), vector)| {
                let similarity = cosine(&question, &vector).clamp(0.0, 1.0);
                let is_of_point = of_points.contains(&id);
                Evidence { score: similarity + f32::from(u8::from(is_of_point)), ..passage }
            })
            .collect();
        scored.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(scored)
    }

    /// Returns the segments that a point about `entities` comes from: those that state a relation
    /// between two of the entities, and the found passages that mention two of them, else one, else
    /// all found passages. If there are none, the first segment of each entity.
    pub(super) fn sources_of(
        &self,
        entities: &BTreeSet<EntityKey>,
        found: &Found,
    ) -> Vec<SegmentId> {
        let is_of =
            |edge: &&RelationEdge| entities.contains(&edge.head) && entities.contains(&edge.tail);
        let stating: Vec<SegmentId> =
            found.relations.iter().filter(is_of).map(|edge| edge.segment.clone()).collect();
        let nodes: Vec<&EntityNode> =
            entities.iter().filter_map(|key| self.graph.view().entity(key)).collect();
        let mentioned =
            |id: &SegmentId| nodes.iter().filter(|node| node.segments.contains(id)).count();
        for least in [2, 1, 0] {
            let passages = found.passages.iter().map(|(id, _)| id);
            let mentioning = passages.filter(|id| mentioned(id) >= least);
            let sources: Vec<SegmentId> = stating.iter().chain(mentioning).cloned().collect();
            if !sources.is_empty() {
                return sources;
            }
        }
        let first = |node: &&EntityNode| {
            node.segments.iter().find(|id| self.admitted.has(&id.document_id)).cloned()
        };
        nodes.iter().filter_map(first).collect()
    }

    /// Returns a relation as head, words and tail, by name.
    pub(super) fn in_words(&self, edge: &RelationEdge) -> [String; 3] {
        [self.name_of(&edge.head), edge.text.clone(), self.name_of(&edge.tail)]
    }
}
