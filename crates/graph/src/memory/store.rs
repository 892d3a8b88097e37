//! How a graph is laid out in memory: everything that repeats is a number.

use std::sync::Arc;

use clew_core::{DocumentId, EntityKey, EntityKind, RelationEdge, SegmentId, Span, Version};

/// Kinds of entities.
const KINDS: [EntityKind; 5] = [
    EntityKind::Person,
    EntityKind::Organisation,
    EntityKind::Place,
    EntityKind::Time,
    EntityKind::Other,
];

/// Values by number; numbers of values that were taken out are used again.
#[derive(Debug)]
pub(super) struct Slots<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub fn add(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.items[number as usize] = Some(item);
            return number;
        }
        self.items.push(Some(item));
        narrow(self.items.len() - 1)
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        self.items.get(number as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(number as usize)?.as_mut()
    }

    pub fn take(&mut self, number: u32) -> Option<T> {
        let item = self.items.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(item)
    }

    /// One more than the greatest number there is.
    pub fn end(&self) -> usize {
        self.items.len()
    }

    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.items).filter_map(|(number, item)| Some((number, item.as_ref()?)))
    }
}

/// An entity.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub key: Arc<str>,
    /// Its names with how often each is used, in alphabetical order.
    pub spellings: Vec<(Arc<str>, u32)>,
    /// Mentions as a thing of each kind.
    pub kinds: [u32; KINDS.len()],
    /// Documents that mention it, by id.
    pub documents: Vec<u32>,
    /// How many segments mention it.
    pub segments: u64,
}

impl Node {
    pub fn new(key: &str) -> Self {
        let (spellings, documents) = (Vec::new(), Vec::new());
        Self { key: key.into(), spellings, kinds: [0; KINDS.len()], documents, segments: 0 }
    }

    /// Counts `count` uses of a name; the name as it is stored, and whether it is new.
    pub fn count(&mut self, spelling: Arc<str>, kind: EntityKind, count: u32) -> (Arc<str>, bool) {
        self.kinds[kind as usize] += count;
        match self.spellings.binary_search_by(|(known, _)| known.cmp(&spelling)) {
            Ok(at) => {
                self.spellings[at].1 += count;
                (self.spellings[at].0.clone(), false)
            }
            Err(at) => {
                self.spellings.insert(at, (spelling.clone(), count));
                (spelling, true)
            }
        }
    }

    /// Undoes [`Self::count`]; whether nothing uses that name any more.
    pub fn uncount(&mut self, naming: &Naming) -> bool {
        self.kinds[naming.kind as usize] -= naming.count;
        let Ok(at) = self.spellings.binary_search_by(|(known, _)| known.cmp(&naming.spelling))
        else {
            return false;
        };
        self.spellings[at].1 -= naming.count;
        let is_last = self.spellings[at].1 == 0;
        if is_last {
            self.spellings.remove(at);
        }
        is_last
    }

    /// Its names, those of its own key before aliases, the most frequent first.
    pub fn names(&self) -> Vec<String> {
        let is_alias =
            |spelling: &str| crate::key::entity_key(spelling).is_none_or(|key| key.0 != *self.key);
        let mut names: Vec<_> = self
            .spellings
            .iter()
            .map(|(spelling, count)| (is_alias(spelling), u32::MAX - count, spelling))
            .collect();
        names.sort_unstable();
        names.into_iter().map(|(_, _, spelling)| spelling.to_string()).collect()
    }

    /// The kind that most mentions tell, of those that tell one.
    pub fn kind(&self) -> EntityKind {
        let telling = KINDS.into_iter().filter(|kind| *kind != EntityKind::Other).rev();
        // The first of equals, which is the last one here.
        let best = telling.max_by_key(|kind| self.kinds[*kind as usize]);
        best.filter(|kind| self.kinds[*kind as usize] > 0).unwrap_or(EntityKind::Other)
    }
}

/// That a document uses a name for an entity.
#[derive(Debug)]
pub(super) struct Naming {
    pub entity: u32,
    pub kind: EntityKind,
    pub count: u32,
    /// Shared with the entity.
    pub spelling: Arc<str>,
}

/// That a segment mentions an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mention {
    pub entity: u32,
    /// Index of the document's segments.
    pub segment: u32,
}

/// A relation as a document states it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relation {
    pub head: u32,
    pub tail: u32,
    /// Index of the document's segments.
    pub segment: u32,
    /// Byte range of the document's relation texts.
    pub text: (u32, u32),
    /// Byte range of the segment.
    pub evidence: (u32, u32),
}

/// What a document tells.
#[derive(Debug)]
pub(super) struct Document {
    pub id: DocumentId,
    pub version: Version,
    pub title: Option<u32>,
    /// By ordinal.
    pub segments: Box<[(u32, Span)]>,
    /// By entity, then segment.
    pub mentions: Box<[Mention]>,
    pub namings: Box<[Naming]>,
    /// The words of all relations.
    pub texts: Box<str>,
    /// In the order of the text.
    pub relations: Box<[Relation]>,
    /// Each relation under each of its ends: entity and index, in order.
    pub ends: Box<[(u32, u32)]>,
    pub vectors: Vectors,
}

/// Vectors of what a document names, as signs, all of one model.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    /// Fingerprint of the model; empty where there is none.
    pub encoder: Box<str>,
    pub dimension: u32,
    /// An entity may have several.
    pub entities: Box<[u32]>,
    /// Of each entity as many words as of every other.
    pub words: Box<[u64]>,
    /// Whether each entity that the document names has one; its title, which segments need not name, may have none.
    pub is_whole: bool,
}

impl Vectors {
    pub fn each(&self) -> impl Iterator<Item = (u32, &[u64])> {
        let width = self.words.len() / self.entities.len().max(1);
        self.entities.iter().copied().zip(self.words.chunks_exact(width.max(1)))
    }

    pub fn of(&self, entity: u32) -> impl Iterator<Item = &[u64]> {
        self.each().filter(move |(of, _)| *of == entity).map(|(_, signs)| signs)
    }
}

impl Document {
    pub fn segment_id(&self, segment: u32) -> SegmentId {
        let ordinal = self.segments.get(segment as usize).map_or(segment, |(ordinal, _)| *ordinal);
        SegmentId { document_id: self.id.clone(), version: self.version, ordinal }
    }

    pub fn mentions_of(&self, entity: u32) -> &[Mention] {
        let from = self.mentions.partition_point(|mention| mention.entity < entity);
        let to = self.mentions.partition_point(|mention| mention.entity <= entity);
        &self.mentions[from..to]
    }

    /// Its entities with how many segments mention each.
    pub fn entities(&self) -> impl Iterator<Item = (u32, u64)> {
        let runs = self.mentions.chunk_by(|a, b| a.entity == b.entity);
        runs.map(|run| (run[0].entity, run.len() as u64))
    }

    /// Indices of the relations that an entity has, in order.
    pub fn relations_of(&self, entity: u32) -> impl Iterator<Item = u32> {
        let from = self.ends.partition_point(|(end, _)| *end < entity);
        let ends = self.ends[from..].iter().take_while(move |(end, _)| *end == entity);
        ends.map(|(_, relation)| *relation)
    }

    /// Entities that segments overlapping `place` mention; of an empty place, those that hold it.
    pub fn entities_at(&self, place: Span) -> impl Iterator<Item = u32> {
        let end = place.end.max(place.start + 1);
        self.mentions.iter().filter_map(move |mention| {
            let (_, span) = self.segments.get(mention.segment as usize)?;
            (span.start < end && place.start < span.end).then_some(mention.entity)
        })
    }

    /// A relation for others to read; `key_of` tells the keys of entities.
    pub fn edge<'k>(&self, index: u32, key_of: impl Fn(u32) -> &'k str) -> Option<RelationEdge> {
        let relation = self.relations.get(index as usize)?;
        let (_, span) = self.segments.get(relation.segment as usize)?;
        let (from, to) = relation.text;
        let (start, end) = relation.evidence;
        Some(RelationEdge {
            head: EntityKey(key_of(relation.head).to_owned()),
            text: self.texts.get(from as usize..to as usize)?.to_owned(),
            tail: EntityKey(key_of(relation.tail).to_owned()),
            segment: self.segment_id(relation.segment),
            evidence: Span::new(start as usize, end as usize).shifted(span.start),
        })
    }
}

/// A count that is far below 2^32 by the limits of documents.
pub(super) fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
