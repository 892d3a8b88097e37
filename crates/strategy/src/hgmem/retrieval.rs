//! Retrieval for a subquery: entities of its scope, their relations, their passages (equations 1, 6 and 7).

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{
    EntityKey, EntityNode, Error, Evidence, GraphQuery, Place, RelationEdge, SegmentId, TextKind,
};
use clew_hypergraph::PointId;

use super::Memory;
use crate::work::cosine;

/// Entities retrieved for a subquery, n_v.
const ENTITIES: usize = 8;
/// Most relations of them, n_e.
const RELATIONS: usize = 16;
/// Most passages of them, n_d.
const PASSAGES: usize = 6;
/// Best places of a search for a subquery at which entities are looked for.
const PLACES: usize = 12;
/// Entities and relations that are looked at for one subquery.
const LOOKED_AT: (usize, usize) = (128, 512);
/// Segments whose texts are looked at to find the passages of a subquery, and those that are read in the
/// end: each text is embedded, which is most of what a step costs.
const TEXTS: (usize, usize) = (24, 48);

/// Where a subquery looks for entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everywhere: the question itself.
    Everything,
    /// Around a point (local investigation, equation 6).
    Around(PointId),
    /// What is not in memory (global exploration, equation 7).
    Outside,
}

/// What the subqueries of a step found, best first.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) relations: Vec<RelationEdge>,
    pub(super) passages: Vec<(SegmentId, Evidence)>,
    /// The segments of each entity that was found.
    segments: BTreeMap<EntityKey, Vec<SegmentId>>,
}

impl Found {
    /// The segments that a point about `entities` comes from: those that state a relation between two of
    /// them, else the passages that were found, else where its entities stand.
    pub(super) fn sources_of(&self, entities: &BTreeSet<EntityKey>) -> Vec<SegmentId> {
        let is_of =
            |edge: &&RelationEdge| entities.contains(&edge.head) && entities.contains(&edge.tail);
        let stating: Vec<SegmentId> =
            self.relations.iter().filter(is_of).map(|edge| edge.segment.clone()).collect();
        if !stating.is_empty() {
            return stating;
        }
        let passages: Vec<SegmentId> = self.passages.iter().map(|(id, _)| id.clone()).collect();
        if !passages.is_empty() {
            return passages;
        }
        let first = |key: &EntityKey| self.segments.get(key)?.first().cloned();
        entities.iter().filter_map(first).collect()
    }
}

impl Memory<'_> {
    /// Retrieves for one subquery.
    pub(super) async fn retrieve(
        &mut self,
        subquery: &str,
        vector: &[f32],
        scope: &Scope,
        found: &mut Found,
    ) -> Result<(), Error> {
        let (entities, places) = self.entities_in(subquery, vector, scope).await?;
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
        let graph = self.work.seams.graph.subgraph(&around, self.work.deadline()).await?;
        // A view that is full knows enough.
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
        // Stable: among equals what states a relation, or is of an entity more like the subquery, is first.
        ids.sort_by_key(|id| {
            places.iter().position(|place| place.document_id == id.document_id).unwrap_or(PLACES)
        });
        let mut seen = BTreeSet::new();
        ids.retain(|id| seen.insert(*id));
        let ids: Vec<SegmentId> = ids.into_iter().take(TEXTS.0).cloned().collect();
        let passages = self.texts(&ids).await?;
        let texts = passages.iter().map(|(_, passage)| passage.text.clone()).collect();
        let passages = self.closest(vector, texts, passages, PASSAGES).await?;
        for entity in entities {
            found.segments.insert(entity.key, entity.segments);
        }
        found.relations.extend(relations);
        found.passages.extend(passages);
        Ok(())
    }

    /// The entities of a scope that are most like a subquery, and the places that a search for it found, best
    /// first, if there was one.
    async fn entities_in(
        &mut self,
        subquery: &str,
        vector: &[f32],
        scope: &Scope,
    ) -> Result<(Vec<EntityNode>, Vec<Place>), Error> {
        let (most_entities, most_relations) = LOOKED_AT;
        let query = match scope {
            Scope::Around(point) => {
                let anchors = self.graph.point(*point).map(|point| point.entities.clone());
                let entities: Vec<EntityKey> = anchors.unwrap_or_default().into_iter().collect();
                if entities.is_empty() {
                    return Ok((Vec::new(), Vec::new()));
                }
                GraphQuery {
                    entities,
                    hops: 1,
                    most_entities,
                    most_relations,
                    ..GraphQuery::default()
                }
            }
            Scope::Everything | Scope::Outside => {
                let hits = self.work.search(self.work.query(subquery, PLACES)).await?;
                let places = hits.iter().map(Evidence::place).collect();
                let texts = vec![subquery.to_owned()];
                GraphQuery { texts, places, most_entities, most_relations, ..GraphQuery::default() }
            }
        };
        let graph = self.work.seams.graph.subgraph(&query, self.work.deadline()).await?;
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
        let names = candidates.iter().map(|entity| entity.name.clone()).collect();
        Ok((self.closest(vector, names, candidates, ENTITIES).await?, query.places))
    }

    /// The `most` items whose texts are most like a vector, best first; equals in order.
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

    async fn texts(&self, ids: &[SegmentId]) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut texts = self.work.seams.graph.segments(ids, self.work.deadline()).await?;
        texts.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(texts)
    }

    /// Passages to be read: those that points rest on, then others of their entities, each most like the
    /// question first. Their scores are their similarities; those of points come before others.
    pub(super) async fn best_passages(
        &mut self,
        of_points: Vec<SegmentId>,
        all: BTreeSet<SegmentId>,
    ) -> Result<Vec<Evidence>, Error> {
        let of_points: BTreeSet<SegmentId> = of_points.into_iter().collect();
        let others = all.into_iter().filter(|id| !of_points.contains(id));
        let ids: Vec<SegmentId> = of_points.iter().cloned().chain(others).take(TEXTS.1).collect();
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

    /// A relation: head, words, tail, by name.
    pub(super) fn in_words(&self, edge: &RelationEdge) -> [String; 3] {
        [self.name_of(&edge.head), edge.text.clone(), self.name_of(&edge.tail)]
    }
}
