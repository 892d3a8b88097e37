//! Limits on the memory of a question.

use std::fmt;

/// Quantities that are limited. The maxima are well above what the paper reports: it takes at most
/// six steps (section 5.2), with points of three to eight entities on average (table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Points in memory. With about forty words each, the maximum fills about four thousand tokens
    /// of every prompt. A reasoner with more points should merge.
    Points,
    /// Points ever made, merged ones included. Their numbers are kept, so this bounds a question
    /// that inserts and merges without end. The maximum is sixteen times that of points in memory.
    PointsMade,
    /// Entities of a point. A point about more entities is about nothing in particular.
    Entities,
    /// Segments that a point came from: sixteen for each entity that it may have.
    Segments,
    /// Bytes of a point's description: a long paragraph. Merging writes a new description and does
    /// not append.
    DescriptionBytes,
    /// Bytes of an entity's name and of its key: as many as a document's id may have.
    NameBytes,
    /// Entities that the question has seen. A retrieval adds a few hundred at a time.
    KnownEntities,
    /// Relations that the question has seen: five for each entity.
    KnownRelations,
}

impl Limit {
    /// Returns the maximum.
    pub const fn most(self) -> usize {
        match self {
            Self::Points => 64,
            Self::PointsMade => 1024,
            Self::Entities => 64,
            Self::Segments => 1024,
            Self::DescriptionBytes => 4096,
            Self::NameBytes => 512,
            Self::KnownEntities => 10_000,
            Self::KnownRelations => 50_000,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Points => "points in memory",
            Self::PointsMade => "points made for one question",
            Self::Entities => "entities of a point",
            Self::Segments => "segments of a point",
            Self::DescriptionBytes => "bytes of a description",
            Self::NameBytes => "bytes of the name or key of an entity",
            Self::KnownEntities => "entities seen by one question",
            Self::KnownRelations => "relations seen by one question",
        })
    }
}
