//! Memory layout of a graph: everything that repeats is a number.

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

/// Values by number. The numbers of removed values are reused.
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

    /// Returns one more than the greatest number used so far.
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

/// Entity of the graph.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub key: Arc<str>,
    /// Names with their numbers of uses, in alphabetical order.
    pub spellings: Vec<(Arc<str>, u32)>,
    /// Number of mentions by kind.
    pub kinds: [u32; KINDS.len()],
    /// Documents that mention it, in the order of their ids.
    pub documents: Vec<u32>,
    /// Number of segments that mention it.
    pub segments: u64,
}

impl Node {
    pub fn new(key: &str) -> Self {
        let (spellings, documents) = (Vec::new(), Vec::new());
        Self { key: key.into(), spellings, kinds: [0; KINDS.len()], documents, segments: 0 }
    }

    /// Counts `count` uses of a name. Returns the stored name, and whether it is new.
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

    /// Undoes [`Self::count`]. Returns whether nothing uses the name any more.
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

    /// Returns the names of the entity, those of its own key before aliases, the most frequent
    /// first.
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

    /// Returns the kind that most mentions suggest, ignoring those that suggest none.
    pub fn kind(&self) -> EntityKind {
        let telling = KINDS.into_iter().filter(|kind| *kind != EntityKind::Other).rev();
        // `max_by_key` takes the last of equals, which is the first kind in reverse.
        let best = telling.max_by_key(|kind| self.kinds[*kind as usize]);
        best.filter(|kind| self.kinds[*kind as usize] > 0).unwrap_or(EntityKind::Other)
    }
}

/// Use of a name for an entity in a document.
#[derive(Debug)]
pub(super) struct Naming {
    pub entity: u32,
    pub kind: EntityKind,
    pub count: u32,
    /// Shared with the entity.
    pub spelling: Arc<str>,
}

/// Mention of an entity in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mention {
    pub entity: u32,
    /// Index in the document's segments.
    pub segment: u32,
}

/// Relation as a document states it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relation {
    pub head: u32,
    pub tail: u32,
    /// Index in the document's segments.
    pub segment: u32,
    /// Byte range in the document's relation texts.
    pub text: (u32, u32),
    /// Byte range in the segment.
    pub evidence: (u32, u32),
}

/// Document of the graph, with its mentions and relations.
#[derive(Debug)]
pub(super) struct Document {
    pub id: DocumentId,
    pub version: Version,
    pub title: Option<u32>,
    /// Ordinals and byte ranges, in the order of ordinals.
    pub segments: Box<[(u32, Span)]>,
    /// Mentions by entity, then segment.
    pub mentions: Box<[Mention]>,
    pub namings: Box<[Naming]>,
    /// Words of all relations.
    pub texts: Box<str>,
    /// Relations in the order of the text.
    pub relations: Box<[Relation]>,
    /// Relations by each of their ends: entity and index, in order.
    pub ends: Box<[(u32, u32)]>,
    pub vectors: Vectors,
}

/// Vectors of a document's entities, as signs, all of one model.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    /// Fingerprint of the model; empty if there is none.
    pub encoder: Box<str>,
    pub dimension: u32,
    /// Entity of each vector. An entity may have several vectors.
    pub entities: Box<[u32]>,
    /// Signs of all vectors, the same number of words for each.
    pub words: Box<[u64]>,
    /// Whether each entity of the document has a vector. The title may have none, because segments
    /// need not name it.
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

    /// Returns the document's entities, with the number of segments that mention each.
    pub fn entities(&self) -> impl Iterator<Item = (u32, u64)> {
        let runs = self.mentions.chunk_by(|a, b| a.entity == b.entity);
        runs.map(|run| (run[0].entity, run.len() as u64))
    }

    /// Returns the indices of an entity's relations, in order.
    pub fn relations_of(&self, entity: u32) -> impl Iterator<Item = u32> {
        let from = self.ends.partition_point(|(end, _)| *end < entity);
        let ends = self.ends[from..].iter().take_while(move |(end, _)| *end == entity);
        ends.map(|(_, relation)| *relation)
    }

    /// Returns the entities of segments that overlap `place`. An empty place overlaps the segment
    /// that contains it.
    pub fn entities_at(&self, place: Span) -> impl Iterator<Item = u32> {
        let end = place.end.max(place.start.saturating_add(1));
        self.mentions.iter().filter_map(move |mention| {
            let (_, span) = self.segments.get(mention.segment as usize)?;
            (span.start < end && place.start < span.end).then_some(mention.entity)
        })
    }

    /// Returns a relation in its public form. `key_of` returns the keys of entities.
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

/// Narrows a count. The limits of documents keep counts far below 2^32.
pub(super) fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
