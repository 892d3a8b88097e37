//! Queries to a graph: which entities a text names, and what is around them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use clew_core::{
    DocumentId, EntityKey, EntityKind, EntityNode, GraphQuery, Like, SegmentId, Subgraph,
    cosine_of_signs, signs_apart,
};
use clew_text::{is_common_verb, is_grammar_word};

use super::Graph;
use super::store::{Document, Node, Vectors};
use crate::described::{MOST_RELATIONS, description};
use crate::key::{Token, entity_key, key_of, tokens};

/// Maximum number of words in a name that is looked for in a text.
const MAX_NAME_WORDS: usize = 8;
/// Maximum number of entities that an alias, such as a surname, may mean.
const MOST_MEANT: usize = 8;
/// Maximum number of segments that are returned for an entity.
const MOST_SEGMENTS: usize = 256;
/// Maximum number of relations that are read for one query, so that entities to which everything is
/// related, such as the "I" of a diary, cannot hold up others.
const MOST_READ: usize = 100_000;

/// Minimum cosine of the vectors of two names for them to be near, HippoRAG's threshold. Signs
/// approximate the cosine to a few hundredths.
const LEAST_ALIKE: f32 = 0.8;
/// Maximum number of names that are near to one by their vectors.
const MOST_ALIKE: usize = 8;
/// Maximum number of an entity's vectors that others are compared with. Each document that names
/// the entity has one.
const MOST_OWN_VECTORS: usize = 4;
/// Maximum number of seeds whose vectors are compared with all names; the first seeds are the
/// surest.
const MOST_COMPARED: usize = 8;

/// Place of a relation: its document, and its index there.
type Place = (u32, u32);

/// Subgraph under construction.
struct Part {
    seeds: BTreeSet<u32>,
    entities: BTreeSet<u32>,
    most_entities: usize,
    /// Number of relations that may still be read.
    budget: usize,
    is_cut: bool,
}

impl Part {
    /// Adds those of `candidates` that there is room for, and returns the new ones.
    fn add(&mut self, candidates: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut added = Vec::new();
        for entity in candidates {
            if self.entities.contains(&entity) {
                continue;
            }
            if self.entities.len() == self.most_entities {
                self.is_cut = true;
                break;
            }
            self.entities.insert(entity);
            added.push(entity);
        }
        added
    }
}

impl Graph {
    /// Returns the entities that a text, such as a question, names, in the order of the text.
    ///
    /// Names are runs of up to eight words, longer ones first. A name of one word must be written
    /// like one, with a capital or a digit, unless the text has no capitals after its first word. A
    /// name of several words may be written in any way. A text that is not an entity's key may be
    /// an alias of several entities, such as a surname.
    pub fn find(&self, text: &str) -> Vec<EntityKey> {
        let view = self.view();
        view.named(text).into_iter().map(|entity| view.entity_key(entity)).collect()
    }

    /// Returns the part of the graph around the entities that `query` names.
    ///
    /// It grows from the seeds by one relation at a time. In the first step names near to the seeds
    /// count as related, too, because in another document a seed may have another name. These are
    /// names that are spelled alike and, for the first seeds, names with similar vectors. If not
    /// everything fits, entities with more relations to the entities they are reached from come
    /// first, and then those that fewer segments mention. One relation of each pair of entities
    /// comes before further ones, and relations of seeds come first.
    pub fn subgraph(&self, query: &GraphQuery) -> Subgraph {
        self.view().subgraph(query)
    }

    /// Returns the whole graph, for a figure, a file or [`crate::pagerank()`]. Returns all segments
    /// of an entity.
    pub fn whole(&self) -> Subgraph {
        let view = self.view();
        let mut entities: Vec<EntityNode> =
            self.entities.iter().map(|(_, node)| view.node(node, usize::MAX)).collect();
        entities.sort_by(|a, b| a.key.cmp(&b.key));
        let documents = self.by_id.values().filter_map(|handle| self.documents.get(*handle));
        let relations = documents.flat_map(|document| {
            let all = (0..).zip(&document.relations);
            all.filter_map(|(at, _)| document.edge(at, |entity| self.key(entity)))
        });
        Subgraph { entities, relations: relations.collect(), ..Subgraph::default() }
    }

    /// Returns a view of the graph as if it did not hold these documents. Their names, relations
    /// and counts are not returned, and do not affect the result. A query on the view costs more
    /// than one on the graph, the more documents mention its entities.
    pub fn without<'a>(&self, hidden: impl IntoIterator<Item = &'a DocumentId>) -> GraphView<'_> {
        let handles = hidden.into_iter().filter_map(|id| self.by_id.get(id).copied());
        let hidden: HashSet<u32> = handles.collect();
        let segments = |handle: &u32| {
            self.documents.get(*handle).map_or(0, |document| document.segments.len() as u64)
        };
        let segments = self.segments - hidden.iter().map(segments).sum::<u64>();
        GraphView { graph: self, hidden, segments }
    }

    fn view(&self) -> GraphView<'_> {
        GraphView { graph: self, hidden: HashSet::new(), segments: self.segments }
    }
}

/// View of a graph without some of its documents, see [`Graph::without`].
#[derive(Debug)]
pub struct GraphView<'a> {
    graph: &'a Graph,
    /// Handles of the hidden documents.
    hidden: HashSet<u32>,
    /// Number of segments of the other documents.
    segments: u64,
}

impl<'a> GraphView<'a> {
    /// Returns the part of the view around the entities that `query` names, see
    /// [`Graph::subgraph`].
    pub fn subgraph(&self, query: &GraphQuery) -> Subgraph {
        let mut part = Part {
            seeds: BTreeSet::new(),
            entities: BTreeSet::new(),
            most_entities: query.most_entities,
            budget: MOST_READ,
            is_cut: false,
        };
        let mut frontier = part.add(self.seeds(query));
        part.seeds = frontier.iter().copied().collect();
        for hop in 0..query.hops {
            if frontier.is_empty() {
                break;
            }
            let reached = self.reached(&frontier, hop == 0, &mut part);
            frontier = part.add(reached);
        }
        let relations = self.relations_within(&mut part, query.most_relations);
        let mut told = self.told(&part, &relations);
        if query.describe {
            for node in &mut told.entities {
                node.description = self.description(&node.key);
            }
        }
        told.is_compared = query.like.as_ref().is_some_and(|like| self.compares_all(like));
        told
    }

    fn documents_of(&self, node: &'a Node) -> impl Iterator<Item = (u32, &'a Document)> {
        let handles = node.documents.iter().filter(|handle| !self.hidden.contains(*handle));
        handles.filter_map(|&handle| Some((handle, self.graph.documents.get(handle)?)))
    }

    fn document(&self, id: &DocumentId) -> Option<&'a Document> {
        let handle = self.graph.by_id.get(id).filter(|handle| !self.hidden.contains(*handle))?;
        self.graph.documents.get(*handle)
    }

    /// Returns whether any visible document mentions an entity.
    fn sees(&self, entity: u32) -> bool {
        let node = self.graph.entities.get(entity);
        node.is_some_and(|node| self.hidden.is_empty() || self.documents_of(node).next().is_some())
    }

    /// Returns whether any visible document uses a name with that key for an entity.
    fn calls(&self, entity: u32, key: &EntityKey) -> bool {
        let Some(node) = self.graph.entities.get(entity) else { return false };
        self.hidden.is_empty()
            || self.documents_of(node).any(|(_, document)| {
                let mut names = document.namings.iter().filter(|naming| naming.entity == entity);
                names.any(|naming| entity_key(&naming.spelling).as_ref() == Some(key))
            })
    }

    /// Returns an entity as the visible documents mention it.
    fn seen(&self, node: &'a Node) -> Cow<'a, Node> {
        if node.documents.iter().all(|handle| !self.hidden.contains(handle)) {
            return Cow::Borrowed(node);
        }
        let entity = self.graph.names.get(&node.key).unwrap_or(u32::MAX);
        let mut seen = Node::new(&node.key);
        for (handle, document) in self.documents_of(node) {
            seen.documents.push(handle);
            seen.segments += document.mentions_of(entity).len() as u64;
            for naming in document.namings.iter().filter(|naming| naming.entity == entity) {
                seen.count(Arc::clone(&naming.spelling), naming.kind, naming.count);
            }
        }
        Cow::Owned(seen)
    }

    /// Returns how many segments mention an entity.
    fn mentioned_in(&self, entity: u32) -> u64 {
        let Some(node) = self.graph.entities.get(entity) else { return 0 };
        if self.hidden.is_empty() {
            return node.segments;
        }
        let documents = self.documents_of(node);
        documents.map(|(_, document)| document.mentions_of(entity).len() as u64).sum()
    }

    fn key(&self, entity: u32) -> &'a str {
        self.graph.key(entity)
    }

    fn entity_key(&self, entity: u32) -> EntityKey {
        EntityKey(self.key(entity).to_owned())
    }

    fn named(&self, text: &str) -> Vec<u32> {
        let tokens = tokens(text);
        let is_capital =
            |token: &Token| token.is_name_like && token.text.starts_with(char::is_alphabetic);
        // The first word of a sentence has a capital in any case.
        let has_capitals = tokens.iter().skip(1).any(is_capital);
        let mut named: Vec<u32> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let most = MAX_NAME_WORDS.min(tokens.len() - at);
            let longest = (1..=most).rev().find_map(|words| {
                let meant = self.meant(&tokens[at..at + words], has_capitals);
                (!meant.is_empty()).then_some((words, meant))
            });
            let Some((words, meant)) = longest else {
                at += 1;
                continue;
            };
            at += words;
            for entity in meant {
                if !named.contains(&entity) {
                    named.push(entity);
                }
            }
        }
        named
    }

    /// Returns the entities that the words mean, if they are a name.
    fn meant(&self, words: &[Token], has_capitals: bool) -> Vec<u32> {
        let Some(key) = key_of(words) else { return Vec::new() };
        let is_name_like = words.last().is_some_and(|word| word.is_name_like);
        let is_common = |word: &str| is_grammar_word(word) || is_common_verb(word);
        let is_name = match key.0.contains(' ') {
            true => !key.0.split(' ').all(is_grammar_word) || words.iter().all(|w| w.is_name_like),
            false if is_grammar_word(&key.0) => false,
            false => is_name_like || (!has_capitals && !is_common(&key.0)),
        };
        if is_name { self.known_as(&key) } else { Vec::new() }
    }

    /// Returns the entity with that key, or else those with an alias of that key.
    fn known_as(&self, key: &EntityKey) -> Vec<u32> {
        if let Some(entity) = self.graph.names.get(&key.0).filter(|entity| self.sees(*entity)) {
            return vec![entity];
        }
        let mut meant = self.graph.aliases.get(key.0.as_str()).cloned().unwrap_or_default();
        meant.retain(|entity| self.calls(*entity, key));
        meant.sort_by(|a, b| self.key(*a).cmp(self.key(*b)));
        meant.dedup();
        meant.truncate(MOST_MEANT);
        meant
    }

    /// Returns the seeds of a query, the surest first: given entities, then those that texts name,
    /// then those at the places, by number of places and rarity, then those with the vectors most
    /// like `like`.
    fn seeds(&self, query: &GraphQuery) -> Vec<u32> {
        let named = query.texts.iter().flat_map(|text| self.named(text));
        let given = query.entities.iter().flat_map(|key| self.known_as(key));
        let mut seeds: Vec<u32> = given.chain(named).collect();
        let mut there: BTreeMap<u32, f64> = BTreeMap::new();
        for clew_core::DocumentRange { document_id, version, span } in &query.places {
            let document =
                self.document(document_id).filter(|document| document.version == *version);
            for entity in document.into_iter().flat_map(|document| document.entities_at(*span)) {
                *there.entry(entity).or_default() += 1.0;
            }
        }
        seeds.extend(self.best_first(there));
        if let Some(like) = &query.like {
            seeds.extend(self.most_like(like, query.most_entities));
        }
        seeds
    }

    fn visible_documents(&self) -> impl Iterator<Item = &'a Document> {
        let handles = self.graph.by_id.values().filter(|handle| !self.hidden.contains(*handle));
        handles.filter_map(|handle| self.graph.documents.get(*handle))
    }

    /// Returns whether all visible entities have vectors that can be compared with `like`.
    fn compares_all(&self, like: &Like) -> bool {
        let is_of_model = |vectors: &Vectors| *vectors.encoder == *like.encoder;
        self.visible_documents().all(|document| {
            let vectors = &document.vectors;
            vectors.is_whole && (vectors.entities.is_empty() || is_of_model(vectors))
        })
    }

    /// Returns at most `most` entities whose vectors are most similar to `like`, the most similar
    /// first, equals by key.
    fn most_like(&self, like: &Like, most: usize) -> Vec<u32> {
        let asked = like.signs.words();
        let mut nearest = vec![u32::MAX; self.graph.entities.end()];
        for Document { vectors, .. } in self.visible_documents() {
            if *vectors.encoder != *like.encoder {
                continue;
            }
            for (entity, signs) in vectors.each().filter(|(_, signs)| signs.len() == asked.len()) {
                if let Some(best) = nearest.get_mut(entity as usize) {
                    *best = signs_apart(asked, signs).min(*best);
                }
            }
        }
        let compared = (0..).zip(nearest).filter(|(_, apart)| *apart != u32::MAX);
        let mut compared: Vec<(u32, u32)> = compared.collect();
        let in_order = |a: &(u32, u32), b: &(u32, u32)| {
            a.1.cmp(&b.1).then_with(|| self.key(a.0).cmp(self.key(b.0)))
        };
        if compared.len() > most {
            compared.select_nth_unstable_by(most, in_order);
            compared.truncate(most);
        }
        compared.sort_unstable_by(in_order);
        compared.into_iter().map(|(entity, _)| entity).collect()
    }

    /// Returns the relations of an entity in the visible documents, as a description.
    fn description(&self, key: &EntityKey) -> String {
        let Some(entity) = self.graph.names.get(&key.0) else { return String::new() };
        let node = self.graph.entities.get(entity).into_iter();
        let said = node.flat_map(|node| self.documents_of(node)).flat_map(|(_, document)| {
            let edges = document.relations_of(entity);
            edges.filter_map(move |index| document.edge(index, |entity| self.key(entity)))
        });
        let words = said.map(|edge| format!("{} {} {}", edge.head, edge.text, edge.tail));
        description(words.take(2 * MOST_RELATIONS))
    }

    /// Returns entities of other documents with a similar name and description, most similar first,
    /// with their similarity: above 0, at most 1. If a document names both, they are different
    /// entities.
    fn alike(&self, entity: u32) -> Vec<(u32, f32)> {
        let Some(node) = self.graph.entities.get(entity) else { return Vec::new() };
        let own = self.documents_of(node).flat_map(|(_, document)| {
            document.vectors.of(entity).map(move |signs| (&document.vectors, signs))
        });
        let own: Vec<(&Vectors, &[u64])> = own.take(MOST_OWN_VECTORS).collect();
        let Some((model, _)) = own.first() else { return Vec::new() };
        let dimension = model.dimension as usize;
        let mut found: BTreeMap<u32, u32> = BTreeMap::new();
        for Document { vectors, .. } in self.visible_documents() {
            if vectors.encoder != model.encoder {
                continue;
            }
            for (other, signs) in vectors.each() {
                let comparable = own.iter().filter(|(of, _)| of.encoder == model.encoder);
                let apart = comparable.map(|(_, own)| signs_apart(own, signs)).min();
                let Some(apart) = apart.filter(|_| other != entity) else { continue };
                if cosine_of_signs(apart, dimension) >= LEAST_ALIKE {
                    let best = found.entry(other).or_insert(apart);
                    *best = apart.min(*best);
                }
            }
        }
        let mut alike: Vec<(u32, u32)> = found.into_iter().collect();
        alike.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| self.key(a.0).cmp(self.key(b.0))));
        let (kind, documents) = (self.seen(node).kind(), self.documents_of(node));
        let documents: HashSet<u32> = documents.map(|(handle, _)| handle).collect();
        // Checked lazily and in order: if many are similar, most need not be checked.
        let alike =
            alike.into_iter().filter(|(other, _)| self.may_be_one(kind, &documents, *other));
        let cosine = |(other, apart)| (other, cosine_of_signs(apart, dimension));
        alike.take(MOST_ALIKE).map(cosine).collect()
    }

    /// Returns whether `other` may be the same as an entity of this kind that these documents name:
    /// no document names both, and their kinds do not differ.
    fn may_be_one(&self, kind: EntityKind, documents: &HashSet<u32>, other: u32) -> bool {
        let Some(other) = self.graph.entities.get(other) else { return false };
        let kinds = [kind, self.seen(other).kind()];
        let is_of_one_kind = kinds[0] == kinds[1] || kinds.contains(&EntityKind::Other);
        is_of_one_kind && !other.documents.iter().any(|handle| documents.contains(handle))
    }

    /// Returns the neighbours of `frontier`, best first.
    fn reached(&self, frontier: &[u32], is_first: bool, part: &mut Part) -> Vec<u32> {
        let mut links: BTreeMap<u32, f64> = BTreeMap::new();
        for (place, &entity) in frontier.iter().enumerate() {
            for (handle, index) in self.relations_of(entity, part) {
                let Some(document) = self.graph.documents.get(handle) else { continue };
                let relation = document.relations[index as usize];
                let other = if relation.head == entity { relation.tail } else { relation.head };
                *links.entry(other).or_default() += 1.0;
            }
            let near = if is_first { self.near(entity) } else { Vec::new() };
            let may_compare = is_first && place < MOST_COMPARED;
            let alike = if may_compare { self.alike(entity) } else { Vec::new() };
            for (other, nearness) in near.into_iter().chain(alike) {
                *links.entry(other).or_default() += f64::from(nearness);
            }
        }
        self.best_first(links)
    }

    /// Returns the relations of an entity, as far as the budget allows.
    fn relations_of(&self, entity: u32, part: &mut Part) -> Vec<Place> {
        let node = self.graph.entities.get(entity).into_iter();
        let documents = node.flat_map(|node| self.documents_of(node));
        let mut places = documents.flat_map(|(handle, document)| {
            document.relations_of(entity).map(move |index| (handle, index))
        });
        let read: Vec<Place> = places.by_ref().take(part.budget).collect();
        part.budget -= read.len();
        part.is_cut |= places.next().is_some();
        read
    }

    /// Orders entities by weight times rarity, like terms in a text index; equals by key.
    fn best_first(&self, weights: BTreeMap<u32, f64>) -> Vec<u32> {
        let score = |entity: u32, weight: f64| {
            let segments = self.mentioned_in(entity).max(1);
            weight * (1.0 + quotient(self.segments, segments)).ln()
        };
        let mut scored: Vec<(f64, u32)> =
            weights.into_iter().map(|(entity, weight)| (score(entity, weight), entity)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| self.key(a.1).cmp(self.key(b.1))));
        scored.into_iter().map(|(_, entity)| entity).collect()
    }

    /// Returns at most `most` relations between entities of the part, preferring those of seeds, in
    /// order.
    fn relations_within(&self, part: &mut Part, most: usize) -> Vec<Place> {
        let mut within: Vec<(usize, Place)> = Vec::new();
        part.budget = MOST_READ;
        // Relations of seeds are read first.
        let (seeds, others): (Vec<u32>, Vec<u32>) =
            part.entities.iter().partition(|entity| part.seeds.contains(entity));
        for entity in seeds.into_iter().chain(others) {
            for (handle, index) in self.relations_of(entity, part) {
                let Some(document) = self.graph.documents.get(handle) else { continue };
                let relation = document.relations[index as usize];
                let ends = [relation.head, relation.tail];
                if relation.head == entity && ends.iter().all(|end| part.entities.contains(end)) {
                    let seeds = ends.iter().filter(|end| part.seeds.contains(end)).count();
                    within.push((seeds, (handle, index)));
                }
            }
        }
        let document =
            |place: &Place| self.graph.documents.get(place.0).map(|document| &document.id);
        let in_order = |a: &Place, b: &Place| document(a).cmp(&document(b)).then(a.1.cmp(&b.1));
        within.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| in_order(x, y)));
        if within.len() > most {
            self.spread(&mut within);
        }
        part.is_cut |= within.len() > most;
        within.truncate(most);
        let mut places: Vec<Place> = within.into_iter().map(|(_, place)| place).collect();
        places.sort_by(in_order);
        places
    }

    /// Puts one relation of each pair of entities before a second one, and so on, so that a cut
    /// does not disconnect a pair while another keeps several relations.
    fn spread(&self, relations: &mut [(usize, Place)]) {
        let mut told: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        relations.sort_by_cached_key(|(_, (handle, index))| {
            let document = self.graph.documents.get(*handle);
            let relation = document.map(|document| document.relations[*index as usize]);
            let ends = relation.map_or((0, 0), |relation| (relation.head, relation.tail));
            let count = told.entry((ends.0.min(ends.1), ends.0.max(ends.1))).or_default();
            *count += 1;
            *count
        });
    }

    fn told(&self, part: &Part, relations: &[Place]) -> Subgraph {
        let mut seeds: Vec<EntityKey> =
            part.seeds.iter().map(|entity| self.entity_key(*entity)).collect();
        seeds.sort_unstable();
        let nodes = part.entities.iter().filter_map(|entity| self.graph.entities.get(*entity));
        let mut entities: Vec<EntityNode> =
            nodes.map(|node| self.node(node, MOST_SEGMENTS)).collect();
        entities.sort_by(|a, b| a.key.cmp(&b.key));
        let edge = |document: &Document, index| document.edge(index, |entity| self.key(entity));
        let relations = relations.iter();
        let relations = relations.filter_map(|(handle, index)| {
            self.graph.documents.get(*handle).and_then(|document| edge(document, *index))
        });
        let (relations, is_cut) = (relations.collect(), part.is_cut);
        Subgraph { seeds, entities, relations, is_cut, ..Subgraph::default() }
    }

    fn node(&self, node: &'a Node, most_segments: usize) -> EntityNode {
        let seen = self.seen(node);
        let mut names = seen.names().into_iter();
        let entity = self.graph.names.get(&node.key);
        let titled = self.documents_of(node).filter(|(_, document)| document.title == entity);
        EntityNode {
            key: EntityKey(node.key.to_string()),
            name: names.next().unwrap_or_default(),
            kind: seen.kind(),
            aliases: names.collect(),
            segments: self.segments_of(node).take(most_segments).collect(),
            mentioned_in: seen.segments,
            titled: titled.map(|(_, document)| document.id.clone()).collect(),
            description: String::new(),
        }
    }

    /// Returns the segments that mention an entity, in order.
    fn segments_of(&self, node: &'a Node) -> impl Iterator<Item = SegmentId> {
        let entity = self.graph.names.get(&node.key).unwrap_or(u32::MAX);
        self.documents_of(node).flat_map(move |(_, document)| {
            document.mentions_of(entity).iter().map(|mention| document.segment_id(mention.segment))
        })
    }

    /// Returns the entities whose names are near to that of `entity`, nearest first.
    fn near(&self, entity: u32) -> Vec<(u32, f32)> {
        let sees = |other| self.sees(other);
        self.graph.names.near_seen(self.key(entity), |other| self.key(other), sees)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of segments are far below 2^52")]
fn quotient(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}
