//! How large the memory of a question may become.

use std::fmt;

/// What is limited. The numbers lie well above what the paper reports: it takes at most six steps (section
/// 5.2), with points of three to eight entities on average (table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Points in memory. With some forty words each they fill about four thousand tokens of every prompt;
    /// a reasoner with more than that should merge.
    Points,
    /// Points ever made, merged ones included. Their numbers are kept, so that this bounds a question that
    /// inserts and merges without end; it is as much as filling the memory sixteen times.
    PointsMade,
    /// Entities of a point. One that is about more is about nothing in particular.
    Entities,
    /// Segments that a point came from: sixteen for each of the entities that it may have.
    Segments,
    /// Bytes of a point's description: a long paragraph, which merging writes anew and does not append to.
    DescriptionBytes,
    /// Bytes of an entity's name and of its key: as many as a document's id has.
    NameBytes,
    /// Entities that the question has seen. Retrieving tells a few hundred at a time.
    KnownEntities,
    /// Relations that the question has seen: five for each entity.
    KnownRelations,
}

impl Limit {
    /// The most that is allowed.
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
