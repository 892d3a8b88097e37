//! The common parts of the three navigations: the seeds, their segments, and the steps from there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use clew_core::{
    Answer, EntityKey, EntityNode, Error, Evidence, GraphQuery, Reflection, SegmentId, Subgraph,
    TraceEvent,
};

use super::SEGMENTS_PER_ENTITY;
use super::edge::{Edge, EdgeVectors, leading_out};
use super::extension::{Extension, MAX_READ, MAX_READ_BYTES};
use super::fusion::Fusions;
use super::passage::{Passage, Window, as_evidence, join, rank};
use crate::admitted::Admitted;
use crate::work::{Work, overlap};

/// Number of passages that a search finds for the question. Segments are ranked by them.
const HITS: usize = 64;

/// Maximum number of passages from which a graph is built for one question.
pub const MAX_FULL: usize = 400;

/// Number of best places whose entities are the seeds if the question names none that the graph
/// knows.
const SEED_PLACES: usize = 5;

/// Number of best hits that become important themselves if the seeds have no segment.
const IMPORTANT_HITS: usize = 3;

/// Reason for taking up an entity that the stored graph does not know.
const OWN_READING: &str = "only the question's own reading tells of them";

/// Maximum number of seeds.
const MAX_SEEDS: usize = 32;

/// Maximum number of segments whose texts are looked at to find the most relevant ones: of one
/// entity, and of all entities taken up together.
const MAX_LOOKED_AT: (usize, usize) = (64, 512);

/// Maximum numbers of entities and relations that are looked at around the known entities.
const MAX_AROUND: (usize, usize) = (512, 1024);

/// Maximum number of segments whose texts are looked at to find those that the best hits lie in.
const MAX_LOCATED: usize = 4 * MAX_READ;

/// Graph in which entities and their surroundings are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// The stored graph alone.
    Stored,
    /// The stored graph with what is extracted for the question.
    QueryOriented,
    /// Only what is extracted for the question, from every passage up to [`MAX_FULL`].
    Full,
}

/// Navigation in progress.
pub(super) struct Navigation<'a> {
    pub(super) work: Work<'a>,
    pub(super) window: Window,
    /// Passages that a search for the question found, best first.
    pub(super) hits: Vec<Evidence>,
    /// Entities taken up, E, in the order in which they were.
    pub(super) entities: Vec<EntityNode>,
    /// Important segments, S_imp, the most relevant first.
    pub(super) important: Vec<Passage>,
    admitted: Admitted,
    vectors: EdgeVectors,
    fusions: Fusions,
    memory: Memory,
    extension: Extension,
    /// Entities that the stored graph has returned so far.
    stored: BTreeSet<EntityKey>,
}

impl<'a> Navigation<'a> {
    /// Starts a navigation: reads the best places for the question, and finds the seeds and the
    /// important segments.
    pub(super) async fn begin(mut work: Work<'a>, memory: Memory) -> Result<Self, Error> {
        let most = if memory == Memory::Full { MAX_FULL } else { HITS };
        let query = work.query(work.question.text.clone(), most);
        let hits = work.search(query).await?;
        let admitted = Admitted::find(&mut work).await?;
        let window = Window::new(work.question.k);
        let mut navigation = Self {
            work,
            window,
            hits,
            entities: Vec::new(),
            important: Vec::new(),
            admitted,
            vectors: EdgeVectors::default(),
            fusions: Fusions::default(),
            memory,
            extension: Extension::default(),
            stored: BTreeSet::new(),
        };
        match memory {
            Memory::Stored => {}
            Memory::QueryOriented => navigation.read_best_hits().await?,
            Memory::Full => navigation.read_all_hits().await?,
        }
        navigation.take_up_seeds().await?;
        navigation.gather_important().await?;
        Ok(navigation)
    }

    /// Reads the best hits for the question: the segments that they lie in, or the hits themselves
    /// where the stored graph has no segment or a very long one.
    async fn read_best_hits(&mut self) -> Result<(), Error> {
        let admitted = self.hits.iter().filter(|hit| self.admitted.has(&hit.document_id));
        let best: Vec<Evidence> = admitted.take(MAX_READ).cloned().collect();
        if best.is_empty() {
            return Ok(());
        }
        let segments = self.segments_at(&best).await?;
        let mut passages = Vec::new();
        for hit in best {
            let shared = |(_, segment): &&(SegmentId, Evidence)| shared_bytes(segment, &hit);
            let around = segments.iter().filter(|(_, segment)| overlap(segment, &hit));
            passages.push(match around.max_by_key(shared) {
                Some((id, segment)) if segment.text.len() <= MAX_READ_BYTES => {
                    (id.clone(), segment.clone())
                }
                Some((id, _)) => (id.clone(), hit),
                None => (self.extension.own_segment(&hit), hit),
            });
        }
        self.extension.read(&mut self.work, passages).await
    }

    /// Reads all passages that the search found, best first. They are the segments of the
    /// question's own graph.
    async fn read_all_hits(&mut self) -> Result<(), Error> {
        let admitted = self.hits.iter().filter(|hit| self.admitted.has(&hit.document_id));
        let all: Vec<Evidence> = admitted.cloned().collect();
        let own = all.into_iter().map(|hit| (self.extension.own_segment(&hit), hit));
        let own: Vec<(SegmentId, Evidence)> = own.collect();
        for some in own.chunks(MAX_READ) {
            self.extension.read(&mut self.work, some.to_vec()).await?;
        }
        Ok(())
    }

    /// Reads segments that were gathered for the question, at most [`MAX_READ`] of them.
    pub(super) async fn read_for_question(&mut self, gathered: &[Passage]) -> Result<(), Error> {
        if self.memory != Memory::QueryOriented {
            return Ok(());
        }
        let segment =
            |passage: &Passage| Some((passage.segment.clone()?, passage.evidence.clone()));
        let passages = gathered.iter().filter_map(segment).collect();
        self.extension.read(&mut self.work, passages).await
    }

    /// Returns segments of the stored graph that include those in which `hits` lie, if the graph
    /// knows entities there.
    async fn segments_at(
        &mut self,
        hits: &[Evidence],
    ) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        let places = hits.iter().map(Evidence::place).collect();
        let (most_entities, most_relations) = MAX_AROUND;
        let query = GraphQuery { places, most_entities, most_relations, ..GraphQuery::default() };
        let mut ids = likely_segments(&self.subgraph(query).await?, hits);
        ids.truncate(MAX_LOCATED);
        self.work.segments(&ids).await
    }

    async fn take_up_seeds(&mut self) -> Result<(), Error> {
        let (question, deadline) = (&self.work.question.text, self.work.deadline());
        let named = self.work.seams.navigator.name_entities(question, deadline).await?;
        self.work.spend(named.cost);
        let texts = std::iter::once(question.clone()).chain(named.texts).collect();
        let seeds = self.seeds(GraphQuery { texts, ..seed_query() }).await?;
        if !seeds.is_empty() {
            self.take_up(seeds, "the question names them");
            return Ok(());
        }
        let best = self.hits.iter().take(SEED_PLACES).map(Evidence::place).collect();
        let seeds = self.seeds(GraphQuery { places: best, ..seed_query() }).await?;
        self.take_up(seeds, "they stand where a search for the question finds most");
        Ok(())
    }

    async fn seeds(&mut self, query: GraphQuery) -> Result<Vec<EntityNode>, Error> {
        if query.texts.is_empty() && query.places.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.subgraph(query).await?;
        let seeds: BTreeSet<EntityKey> = found.seeds.into_iter().collect();
        found.entities.retain(|entity| seeds.contains(&entity.key) && self.admitted.knows(entity));
        found.entities.truncate(MAX_SEEDS);
        Ok(found.entities)
    }

    async fn gather_important(&mut self) -> Result<(), Error> {
        let seeds = self.entities.clone();
        let mut important = self.segments_of(&seeds, &[]).await?;
        if important.is_empty() {
            let best = self.hits.iter().take(IMPORTANT_HITS);
            important = best.map(|hit| Passage::new(hit.clone(), &self.hits, 0)).collect();
        }
        let dropped = self.window.cut(&mut important);
        self.trace_gathered(important.iter(), dropped);
        self.important = important;
        Ok(())
    }

    /// Adds `entities` to E: first those that the stored graph knows, then the others.
    pub(super) fn take_up(&mut self, entities: Vec<EntityNode>, reason: &str) {
        let (stored, own): (Vec<EntityNode>, Vec<EntityNode>) =
            entities.into_iter().partition(|entity| self.is_stored(&entity.key));
        let of_own =
            [reason, OWN_READING].map(str::trim).into_iter().filter(|part| !part.is_empty());
        let of_own = of_own.collect::<Vec<_>>().join("; ");
        for (entities, reason) in [(stored, reason.to_owned()), (own, of_own)] {
            let names: Vec<String> = entities.iter().map(|entity| entity.name.clone()).collect();
            self.entities.extend(entities);
            if !names.is_empty() {
                self.work.trace(TraceEvent::EntitiesChosen { entities: names, reason });
            }
        }
    }

    /// Returns the most relevant segments of each of `entities`, the most relevant first. `stated`
    /// holds the segments that state the edges that led here, if any.
    pub(super) async fn segments_of(
        &mut self,
        entities: &[EntityNode],
        stated: &[SegmentId],
    ) -> Result<Vec<Passage>, Error> {
        let mentions = self.mentions(entities);
        let (of_one, of_all) = MAX_LOOKED_AT;
        let most = (of_all / entities.len().max(1)).clamp(SEGMENTS_PER_ENTITY, of_one);
        let is_stated = |id: &SegmentId| stated.contains(id);
        // For each entity, its segments and how many entities each of them mentions.
        let looked_at: Vec<Vec<(SegmentId, usize)>> = entities
            .iter()
            .map(|entity| {
                let ids = self.worth_a_look(entity, most, is_stated, &mentions).into_iter();
                let mentioned = |id| mentions.get(id).copied().unwrap_or_default();
                ids.map(|id| (id.clone(), mentioned(id))).collect()
            })
            .collect();
        let ids: BTreeSet<&SegmentId> = looked_at.iter().flatten().map(|(id, _)| id).collect();
        let (mut texts, stored) = self.extension.texts(ids);
        texts.extend(self.work.segments(&stored).await?);
        let mut gathered = Vec::new();
        for ids in looked_at {
            let passage = |(id, entities): (SegmentId, usize)| {
                let passage = Passage::new(texts.get(&id)?.clone(), &self.hits, entities);
                let states_edge = is_stated(&id);
                Some(Passage { segment: Some(id), states_edge, ..passage })
            };
            let mut passages: Vec<Passage> = ids.into_iter().filter_map(passage).collect();
            rank(&mut passages);
            passages.truncate(SEGMENTS_PER_ENTITY);
            join(&mut gathered, passages);
        }
        rank(&mut gathered);
        Ok(gathered)
    }

    /// Counts how many of E and of `entities` each segment mentions.
    fn mentions<'e>(&'e self, entities: &'e [EntityNode]) -> BTreeMap<&'e SegmentId, usize> {
        let both: BTreeMap<&EntityKey, &EntityNode> =
            self.entities.iter().chain(entities).map(|entity| (&entity.key, entity)).collect();
        let mut mentions = BTreeMap::new();
        for id in both.values().flat_map(|entity| &entity.segments) {
            *mentions.entry(id).or_default() += 1;
        }
        mentions
    }

    /// Returns the admitted segments of `entity`. If there are more than `most`, prefers those that
    /// are stated, then those of the documents found best, then those that mention the most
    /// entities.
    fn worth_a_look<'e>(
        &self,
        entity: &'e EntityNode,
        most: usize,
        is_stated: impl Fn(&SegmentId) -> bool,
        mentions: &BTreeMap<&SegmentId, usize>,
    ) -> Vec<&'e SegmentId> {
        let admitted = entity.segments.iter().filter(|id| self.admitted.has(&id.document_id));
        let mut ids: Vec<&SegmentId> = admitted.collect();
        if ids.len() > most {
            ids.sort_by_cached_key(|id| {
                let is_found = |hit: &Evidence| hit.document_id == id.document_id;
                let place = self.hits.iter().position(is_found).unwrap_or(usize::MAX);
                (!is_stated(id), place, Reverse(mentions.get(id).copied()))
            });
            ids.truncate(most);
        }
        ids
    }

    /// Returns entities in the segments of `passages` that were not taken up, those of the most
    /// segments first.
    pub(super) async fn entities_in(
        &mut self,
        passages: &[Passage],
    ) -> Result<Vec<EntityNode>, Error> {
        let places = passages.iter().map(|passage| passage.evidence.place()).collect();
        let most_entities = MAX_AROUND.0;
        let query = GraphQuery { places, most_entities, ..GraphQuery::default() };
        let mut entities = self.subgraph(query).await?.entities;
        let known = self.known();
        entities.retain(|entity| !known.contains(&entity.key));
        entities.sort_by_key(|entity| Reverse(entity.mentioned_in));
        Ok(entities)
    }

    /// Returns the edges between E and the entities one edge away from it, with their similarity to
    /// `text`, the most similar first. If several segments describe the same two entities, the
    /// likeliest of these relations are fused.
    pub(super) async fn edges_by_similarity(
        &mut self,
        text: String,
    ) -> Result<Vec<(Edge, f32)>, Error> {
        let edges = self.edges().await?;
        let scored = self.vectors.by_similarity(&mut self.work, text.clone(), edges).await?;
        match self.fusions.fuse(&mut self.work, &self.extension, &scored).await? {
            Some(edges) => self.vectors.by_similarity(&mut self.work, text, edges).await,
            None => Ok(scored),
        }
    }

    async fn edges(&mut self) -> Result<Vec<Edge>, Error> {
        if self.entities.is_empty() {
            return Ok(Vec::new());
        }
        let (most_entities, most_relations) = MAX_AROUND;
        let entities = self.entities.iter().map(|entity| entity.key.clone()).collect();
        let query =
            GraphQuery { entities, hops: 1, most_entities, most_relations, ..Default::default() };
        let around = self.subgraph(query).await?;
        Ok(leading_out(&around, &self.known(), &self.admitted))
    }

    /// Judges whether `passages` suffice.
    pub(super) async fn judge(&mut self, passages: &[Passage]) -> Result<Reflection, Error> {
        self.work.check_time("navigating the graph")?;
        let evidence = as_evidence(passages);
        let (question, deadline) = (&self.work.question.text, self.work.deadline());
        let reflection = self.work.seams.navigator.judge(question, &evidence, deadline).await?;
        self.work.spend(reflection.cost);
        self.work.trace(TraceEvent::Reflected {
            suffices: reflection.suffices,
            reason: reflection.reasoning.clone(),
            missing: reflection.missing.clone(),
        });
        Ok(reflection)
    }

    /// Reads `passages`, best first. Ends every navigation.
    pub(super) async fn read(mut self, passages: &[Passage]) -> Result<Answer, Error> {
        let reading = self.work.read(&as_evidence(passages)).await?;
        Ok(self.work.conclude(reading))
    }

    pub(super) fn trace_gathered<'p>(
        &self,
        passages: impl Iterator<Item = &'p Passage>,
        dropped: usize,
    ) {
        let sizes: Vec<u64> = passages.map(|passage| passage.bytes() as u64).collect();
        let (segments, bytes) = (sizes.len(), sizes.iter().sum());
        self.work.trace(TraceEvent::Gathered { segments, dropped, bytes });
    }

    /// Returns whether an entity needs no remark about its source.
    fn is_stored(&self, key: &EntityKey) -> bool {
        self.memory == Memory::Full || self.stored.contains(key)
    }

    fn known(&self) -> BTreeSet<EntityKey> {
        self.entities.iter().map(|entity| entity.key.clone()).collect()
    }

    /// Returns the union of what the stored graph and the question's own graph know. Asks the
    /// stored graph what else it knows of entities that only the question's own graph has.
    async fn subgraph(&mut self, query: GraphQuery) -> Result<Subgraph, Error> {
        if self.memory == Memory::Full {
            return Ok(self.extension.subgraph(&query));
        }
        let stored = self.ask_stored(&query).await?;
        let own = self.extension.subgraph(&query);
        if own.entities.is_empty() {
            return Ok(stored);
        }
        let told: BTreeSet<&EntityKey> = stored.entities.iter().map(|entity| &entity.key).collect();
        let keys = own.entities.iter().map(|entity| &entity.key);
        let entities: Vec<EntityKey> = keys.filter(|key| !told.contains(key)).cloned().collect();
        let mut elsewhere = Subgraph::default();
        if !entities.is_empty() {
            let most_entities = entities.len();
            let query = GraphQuery { entities, most_entities, ..GraphQuery::default() };
            elsewhere.entities = self.ask_stored(&query).await?.entities;
            elsewhere.entities.retain(|entity| query.entities.contains(&entity.key));
        }
        Ok(clew_graph::union([stored, elsewhere, own]))
    }

    async fn ask_stored(&mut self, query: &GraphQuery) -> Result<Subgraph, Error> {
        let told = self.work.subgraph(query).await?;
        self.stored.extend(told.entities.iter().map(|entity| entity.key.clone()));
        Ok(told)
    }
}

/// Returns segments of entities of `there` in which `hits` may lie, the likeliest first: those that
/// state a relation at a hit, then those that mention the most entities, which are all mentioned at
/// hits.
fn likely_segments(there: &Subgraph, hits: &[Evidence]) -> Vec<SegmentId> {
    let is_of = |hit: &&Evidence, id: &SegmentId| {
        hit.document_id == id.document_id && hit.version == id.version
    };
    let mut mentions: BTreeMap<&SegmentId, usize> = BTreeMap::new();
    for id in there.entities.iter().flat_map(|entity| &entity.segments) {
        if hits.iter().any(|hit| is_of(&hit, id)) {
            *mentions.entry(id).or_default() += 1;
        }
    }
    let at_hits = there.relations.iter().filter(|relation| {
        let at = relation.evidence;
        let of_document = hits.iter().filter(|hit| is_of(hit, &relation.segment));
        of_document.map(|hit| hit.span).any(|span| span.start < at.end && at.start < span.end)
    });
    let at_hits: BTreeSet<&SegmentId> = at_hits.map(|relation| &relation.segment).collect();
    let mut ids: Vec<(&SegmentId, usize)> = mentions.into_iter().collect();
    ids.sort_by_key(|(id, mentions)| (!at_hits.contains(id), Reverse(*mentions)));
    ids.into_iter().map(|(id, _)| id.clone()).collect()
}

/// Returns how many bytes two passages of one document share.
fn shared_bytes(a: &Evidence, b: &Evidence) -> usize {
    a.span.end.min(b.span.end).saturating_sub(a.span.start.max(b.span.start))
}

fn seed_query() -> GraphQuery {
    GraphQuery { most_entities: MAX_SEEDS, ..GraphQuery::default() }
}

/// Returns why the passages read do not suffice, in the words of `reflection`.
pub(super) fn failure(reflection: &Reflection) -> String {
    let parts = [reflection.missing.trim(), reflection.reasoning.trim()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
