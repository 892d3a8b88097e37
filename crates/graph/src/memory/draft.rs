//! Drafts: a document before it is part of a graph, with its entities merged within the document.

use std::collections::{BTreeMap, BTreeSet};

use clew_core::{DocumentId, EntityKey, EntityKind, Extraction, Signs, Span, Version};
use clew_text::{is_grammar_word, one_line};

use super::document::{GraphDocument, GraphSegment};
use super::store::{self, Document, Mention, Vectors, narrow};
use crate::key::entity_key;

/// Use of a name for an entity in a document.
pub(super) struct Naming {
    /// Index in the keys.
    pub key: usize,
    pub kind: EntityKind,
    pub spelling: String,
    pub count: u32,
}

struct Relation {
    head: EntityKey,
    tail: EntityKey,
    segment: u32,
    text: (u32, u32),
    evidence: (u32, u32),
}

/// Document with keys for entities.
pub(super) struct Draft {
    id: DocumentId,
    version: Version,
    title: Option<usize>,
    segments: Vec<(u32, Span)>,
    /// Keys in order.
    pub keys: Vec<EntityKey>,
    /// Indices of keys and segments.
    mentions: BTreeSet<(usize, u32)>,
    pub namings: Vec<Naming>,
    texts: String,
    /// Model of the vectors and their dimension, then the vectors with indices of keys.
    encoder: (String, u32),
    vectors: Vec<(usize, Signs)>,
    /// Relations, with indices of keys for head and tail.
    relations: Vec<(usize, usize, Relation)>,
}

impl Draft {
    pub fn of(document: GraphDocument) -> Self {
        let mut segments = document.segments;
        segments.sort_by_key(|segment| segment.ordinal);
        segments.dedup_by_key(|segment| segment.ordinal);
        let title = entity_key(&document.title);
        let mut found = Found::default();
        for (at, segment) in (0..).zip(&segments) {
            found.add(at, segment);
        }
        if let Some(title) = &title
            && !segments.is_empty()
        {
            let naming = (title.clone(), EntityKind::Other, one_line(&document.title));
            found.namings.insert(naming, 1);
            found.mentions.extend((0..narrow(segments.len())).map(|at| (title.clone(), at)));
        }
        found.unite_surnames(title.as_ref());
        let keys: BTreeSet<EntityKey> = found.mentions.iter().map(|(key, _)| key.clone()).collect();
        let keys: Vec<EntityKey> = keys.into_iter().collect();
        let index = |key: &EntityKey| keys.binary_search(key).ok();
        let mentions = found.mentions.iter().filter_map(|(key, at)| Some((index(key)?, *at)));
        let namings = found.namings.iter().filter_map(|((key, kind, spelling), count)| {
            let (key, spelling) = (index(key)?, spelling.clone());
            Some(Naming { key, kind: *kind, spelling, count: *count })
        });
        let vectors = found.vectors.iter().filter_map(|(key, signs)| {
            let is_alike = signs.words().len() == found.vectors.last()?.1.words().len();
            Some((index(key).filter(|_| is_alike)?, signs.clone()))
        });
        let vectors = vectors.collect();
        let relations = found.relations.into_iter().filter_map(|relation| {
            let (head, tail) = (index(&relation.head)?, index(&relation.tail)?);
            // Two names that turned out to be one entity are not related.
            (head != tail).then_some((head, tail, relation))
        });
        Self {
            id: document.document_id,
            version: document.version,
            title: title.and_then(|title| index(&title)),
            segments: segments.iter().map(|segment| (segment.ordinal, segment.span)).collect(),
            mentions: mentions.collect(),
            namings: namings.collect(),
            texts: found.texts,
            encoder: found.encoder,
            vectors,
            relations: relations.collect(),
            keys,
        }
    }

    /// Returns the document of the graph, with `ids` for the keys.
    pub fn into_document(self, ids: &[u32], namings: Vec<store::Naming>) -> Document {
        let mut mentions: Vec<Mention> = self
            .mentions
            .iter()
            .map(|&(key, segment)| Mention { entity: ids[key], segment })
            .collect();
        mentions.sort_unstable();
        let relations: Box<[store::Relation]> = self
            .relations
            .iter()
            .map(|(head, tail, relation)| store::Relation {
                head: ids[*head],
                tail: ids[*tail],
                segment: relation.segment,
                text: relation.text,
                evidence: relation.evidence,
            })
            .collect();
        let numbered = (0..).zip(&relations);
        let mut ends: Vec<(u32, u32)> = numbered
            .flat_map(|(at, relation)| [(relation.head, at), (relation.tail, at)])
            .collect();
        ends.sort_unstable();
        let has_vector: BTreeSet<usize> = self.vectors.iter().map(|(key, _)| *key).collect();
        let has_vector = |key: &usize| Some(*key) == self.title || has_vector.contains(key);
        let vectors = Vectors {
            encoder: self.encoder.0.into(),
            dimension: self.encoder.1,
            entities: self.vectors.iter().map(|(key, _)| ids[*key]).collect(),
            words: self.vectors.iter().flat_map(|(_, signs)| signs.words()).copied().collect(),
            is_whole: (0..ids.len()).all(|key| has_vector(&key)),
        };
        Document {
            id: self.id,
            version: self.version,
            title: self.title.map(|title| ids[title]),
            segments: self.segments.into(),
            mentions: mentions.into(),
            namings: namings.into(),
            texts: self.texts.into(),
            relations,
            ends: ends.into(),
            vectors,
        }
    }
}

/// Extractions of a document's segments, taken together.
#[derive(Default)]
struct Found {
    mentions: BTreeSet<(EntityKey, u32)>,
    namings: BTreeMap<(EntityKey, EntityKind, String), u32>,
    texts: String,
    relations: Vec<Relation>,
    /// Vectors of one model, that of the last segment with vectors.
    vectors: Vec<(EntityKey, Signs)>,
    /// Model and dimension of the vectors.
    encoder: (String, u32),
}

impl Found {
    fn add(&mut self, at: u32, segment: &GraphSegment) {
        let extraction = &segment.extraction;
        let keys: Vec<Option<EntityKey>> =
            extraction.entities.iter().map(|entity| entity_key(&entity.name)).collect();
        for (entity, key) in extraction.entities.iter().zip(&keys) {
            let Some(key) = key else { continue };
            let naming = (key.clone(), entity.kind, one_line(&entity.name));
            // If the model was not asked for positions, the segment still names the entity once.
            *self.namings.entry(naming).or_default() += narrow(entity.mentions.len().max(1));
            self.mentions.insert((key.clone(), at));
        }
        self.relate(at, extraction, &keys);
        self.take_vectors(extraction, &keys);
    }

    fn take_vectors(&mut self, extraction: &Extraction, keys: &[Option<EntityKey>]) {
        let Some(vectors) = &extraction.vectors else { return };
        let encoder = (vectors.encoder.clone(), vectors.dimension);
        if self.encoder != encoder {
            self.vectors.clear();
            self.encoder = encoder;
        }
        for (entity, signs) in &vectors.of {
            let key = usize::try_from(*entity).ok().and_then(|entity| keys.get(entity));
            if let Some(key) = key.cloned().flatten().filter(|_| !signs.words().is_empty()) {
                self.vectors.push((key, signs.clone()));
            }
        }
    }

    fn relate(&mut self, segment: u32, extraction: &Extraction, keys: &[Option<EntityKey>]) {
        for relation in &extraction.relations {
            let end = |end: usize| keys.get(end).cloned().flatten();
            let (Some(head), Some(tail)) = (end(relation.head), end(relation.tail)) else {
                continue;
            };
            let from = narrow(self.texts.len());
            self.texts.push_str(&relation.text);
            let text = (from, narrow(self.texts.len()));
            let evidence = (narrow(relation.evidence.start), narrow(relation.evidence.end));
            self.relations.push(Relation { head, tail, segment, text, evidence });
        }
    }

    /// Merges a surname that stands alone with the one full name that ends with it.
    fn unite_surnames(&mut self, title: Option<&EntityKey>) {
        let full = self.full_names(title);
        if full.is_empty() {
            return;
        }
        let whole = |key: EntityKey| full.get(&key.0).cloned().unwrap_or(key);
        self.mentions = std::mem::take(&mut self.mentions)
            .into_iter()
            .map(|(key, at)| (whole(key), at))
            .collect();
        for ((key, kind, spelling), count) in std::mem::take(&mut self.namings) {
            *self.namings.entry((whole(key), kind, spelling)).or_default() += count;
        }
        for (key, _) in &mut self.vectors {
            if let Some(whole) = full.get(&key.0) {
                *key = whole.clone();
            }
        }
        for relation in &mut self.relations {
            for end in [&mut relation.head, &mut relation.tail] {
                if let Some(whole) = full.get(&end.0) {
                    *end = whole.clone();
                }
            }
        }
    }

    /// Returns for each surname that stands alone the one full name it belongs to: that of a
    /// person, or the title of the document.
    fn full_names(&self, title: Option<&EntityKey>) -> BTreeMap<String, EntityKey> {
        let mut people: BTreeMap<&EntityKey, i64> = BTreeMap::new();
        for ((key, kind, _), count) in &self.namings {
            let vote = match kind {
                EntityKind::Person => i64::from(*count),
                EntityKind::Other => 0,
                EntityKind::Organisation | EntityKind::Place | EntityKind::Time => {
                    -i64::from(*count)
                }
            };
            *people.entry(key).or_default() += vote;
        }
        let mut full: BTreeMap<&str, Option<&EntityKey>> = BTreeMap::new();
        for (key, votes) in &people {
            let Some((_, surname)) = key.0.rsplit_once(' ') else { continue };
            // In "University of Oxford" no single word stands for the whole.
            let is_plain = !key.0.split(' ').any(is_grammar_word);
            if is_plain && (*votes > 0 || title == Some(*key)) {
                full.entry(surname).and_modify(|one| *one = None).or_insert(Some(*key));
            }
        }
        let stands_alone = |surname: &str| {
            let key = EntityKey(surname.to_owned());
            title != Some(&key) && people.get(&key).is_some_and(|votes| *votes >= 0)
        };
        let full = full.into_iter().filter(|(surname, _)| stands_alone(surname));
        full.filter_map(|(surname, key)| Some((surname.to_owned(), key?.clone()))).collect()
    }
}
