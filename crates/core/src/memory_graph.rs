//! A graph of entities and open relations over the segments of a corpus (QRMeM, section 2.1): its parts,
//! and the seam by which it is read.

use std::fmt;
use std::time::Instant;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{DocumentId, EntityKind, Error, Evidence, Like, Partial, Place, Span, Version};

/// A segment of a document: a leaf of its tree, and what the entities and relations of the graph stand in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    /// The document.
    pub document_id: DocumentId,
    /// Its version.
    pub version: Version,
    /// Position among the document's segments, from 0.
    pub ordinal: u32,
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.document_id, self.ordinal)
    }
}

/// What tells entities apart: a name without case, accents, punctuation, articles and forms of address.
/// Made by `clew_graph`; entities of one key are one.
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
    /// What tells it apart.
    pub key: EntityKey,
    /// Its most frequent name.
    pub name: String,
    /// What kind of thing it is, by most of its mentions.
    pub kind: EntityKind,
    /// Its other names, most frequent first.
    pub aliases: Vec<String>,
    /// Segments that mention it, in order; of one that very many mention, the first of them.
    pub segments: Vec<SegmentId>,
    /// How many segments mention it.
    pub mentioned_in: u64,
    /// Documents whose title it is, in order.
    pub titled: Vec<DocumentId>,
    /// Some of what is said of it, where that was asked for ([`GraphQuery::describe`]); else empty.
    pub description: String,
}

/// An open relation between two entities: an edge of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationEdge {
    /// What it starts from.
    pub head: EntityKey,
    /// The relation in words.
    pub text: String,
    /// What it leads to.
    pub tail: EntityKey,
    /// Where it is stated.
    pub segment: SegmentId,
    /// Byte range of the document's text that states it.
    pub evidence: Span,
}

/// What part of a graph is wanted: the *seeds* that a query names, and what is around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphQuery {
    /// Texts, such as a question: the entities that they name are seeds.
    pub texts: Vec<String>,
    /// Entities that are seeds.
    pub entities: Vec<EntityKey>,
    /// Ranges of documents: the entities of the segments that overlap them are seeds.
    pub places: Vec<Place>,
    /// What entities are like that are seeds, after those of texts, entities and places: of all entities those whose
    /// names and descriptions are most like it, as many as there is room for.
    pub like: Option<Like>,
    /// Whether it is to be told what is said of the entities.
    pub describe: bool,
    /// How many edges the part may reach beyond the seeds; 0: the seeds and the relations between them.
    pub hops: u32,
    /// Most entities, seeds included.
    pub most_entities: usize,
    /// Most relations.
    pub most_relations: usize,
}

/// A part of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subgraph {
    /// The seeds, by key.
    pub seeds: Vec<EntityKey>,
    /// The entities, seeds included, by key.
    pub entities: Vec<EntityNode>,
    /// The relations between them, by segment and place.
    pub relations: Vec<RelationEdge>,
    /// Whether there would have been more.
    pub is_cut: bool,
    /// Whether what entities were to be like was compared with all of them. It was not if nothing was to be compared,
    /// or if some are kept without vectors, or with those of another model.
    pub is_compared: bool,
}

/// The graph of a corpus. Each answer names the shards that should have been asked and did not answer; that none did
/// is an error.
#[async_trait]
pub trait GraphMemory: Send + Sync {
    /// The part of the graph around what `query` names.
    ///
    /// # Errors
    /// [`crate::ErrorKind::WrongState`] with the reason `NO_STRUCTURE` if the corpus has no graph by its
    /// settings; [`crate::ErrorKind::Unavailable`]; [`crate::ErrorKind::DeadlineExceeded`].
    async fn subgraph(
        &self,
        query: &GraphQuery,
        deadline: Instant,
    ) -> Result<Partial<Subgraph>, Error>;

    /// The texts of segments; those that are there no more are left out. In no particular order.
    ///
    /// # Errors
    /// As [`Self::subgraph`].
    async fn segments(
        &self,
        ids: &[SegmentId],
        deadline: Instant,
    ) -> Result<Partial<Vec<(SegmentId, Evidence)>>, Error>;
}
