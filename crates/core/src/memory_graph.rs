//! Graph of entities and open relations over the segments of a corpus (QRMeM, section 2.1): its
//! parts, and the trait by which it is read.

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{DocumentId, DocumentRange, EntityKind, Error, Evidence, Like, Partial, Span, Version};

/// Id of a segment: a leaf of a document's tree, in which entities and relations of the graph
/// occur.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    /// Id of the document.
    pub document_id: DocumentId,
    /// Version of the document.
    pub version: Version,
    /// Position among the document's segments, from 0.
    pub ordinal: u32,
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.document_id, self.ordinal)
    }
}

/// Key of an entity: its name without case, accents, punctuation, articles and forms of address.
/// Made by `clew_graph`. Entities with the same key are one entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntityKey(pub String);

impl fmt::Display for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An entity of a corpus: a node of its graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityNode {
    /// Key of the entity.
    pub key: EntityKey,
    /// Its most frequent name.
    pub name: String,
    /// Kind of the entity, by most of its mentions.
    pub kind: EntityKind,
    /// Its other names, most frequent first.
    pub aliases: Vec<String>,
    /// Segments that mention it, in order. If very many do, only the first of them.
    pub segments: Vec<SegmentId>,
    /// Number of segments that mention it.
    pub mentioned_in: u64,
    /// Documents that have it as their title, in order.
    pub titled: Vec<DocumentId>,
    /// Some of what is said of it, if [`GraphQuery::describe`] asked for that; otherwise empty.
    pub description: String,
}

/// Open relation between two entities: an edge of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationEdge {
    /// Entity from which it starts.
    pub head: EntityKey,
    /// Relation in words.
    pub text: String,
    /// Entity to which it leads.
    pub tail: EntityKey,
    /// Segment that states it.
    pub segment: SegmentId,
    /// Byte range of the document's text that states it.
    pub evidence: Span,
}

/// Query for a part of a graph: the *seeds* that it names, and what is around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphQuery {
    /// Texts, such as a question. The entities that they name are seeds.
    pub texts: Vec<String>,
    /// Entities that are seeds.
    pub entities: Vec<EntityKey>,
    /// Ranges of documents. The entities of the segments that overlap them are seeds.
    pub places: Vec<DocumentRange>,
    /// Vector for further seeds, after those of texts, entities and places. Of all entities, those
    /// whose names and descriptions are most similar to it become seeds, as many as there is room
    /// for.
    pub like: Option<Like>,
    /// Whether to describe the entities.
    pub describe: bool,
    /// Number of edges that the part may reach beyond the seeds. 0 means the seeds and the
    /// relations between them.
    pub hops: u32,
    /// Maximum number of entities, seeds included.
    pub most_entities: usize,
    /// Maximum number of relations.
    pub most_relations: usize,
}

/// Part of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subgraph {
    /// Seeds, ordered by key.
    pub seeds: Vec<EntityKey>,
    /// Entities, seeds included, ordered by key.
    pub entities: Vec<EntityNode>,
    /// Relations between them, ordered by segment and place.
    pub relations: Vec<RelationEdge>,
    /// Whether the limits left something out.
    pub is_cut: bool,
    /// Whether [`GraphQuery::like`] was compared with all entities. It was not if the query has
    /// none, or if some entities are stored without vectors or with those of another model.
    pub is_compared: bool,
    /// Whether documents that the caller sees are still to be added to the graph. What they say may
    /// be missing.
    pub is_being_built: bool,
}

/// Graph of a corpus. Each result names the shards that should have been asked and did not answer.
/// If none answered, the call fails.
#[async_trait]
pub trait GraphMemory: Send + Sync {
    /// Returns the part of the graph around what `query` names.
    ///
    /// # Errors
    /// Returns [`crate::ErrorKind::WrongState`] with the reason `NO_STRUCTURE` if the settings of
    /// the corpus give it no graph, and [`crate::ErrorKind::Unavailable`] or
    /// [`crate::ErrorKind::DeadlineExceeded`] if no shard answers.
    async fn subgraph(
        &self,
        query: &GraphQuery,
        deadline: Instant,
    ) -> Result<Partial<Subgraph>, Error>;

    /// Returns the texts of segments, in no particular order. Segments that no longer exist are
    /// left out.
    ///
    /// # Errors
    /// Returns the errors of [`Self::subgraph`].
    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Partial<Vec<(SegmentId, Evidence)>>, Error>;
}
