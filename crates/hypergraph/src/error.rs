//! Errors of the memory's operations.

use std::fmt;

use clew_core::ErrorKind;

use crate::limit::Limit;
use crate::point::PointId;

/// Reason why an operation was refused; nothing was changed then. The messages contain numbers, and
/// nothing that documents or models wrote, so that they may be shown to a reasoner as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No point has ever had that number.
    UnknownPoint(PointId),
    /// The point was merged into another.
    Merged {
        /// The point.
        point: PointId,
        /// Point that it is part of now.
        into: PointId,
    },
    /// A point needs at least two different entities (section 3.3).
    TooFewEntities {
        /// Number of different entities.
        got: usize,
    },
    /// Merging needs at least two different points.
    TooFewPoints {
        /// Number of different points.
        got: usize,
    },
    /// A description without words.
    NoDescription,
    /// An entity without a name or key.
    NoName {
        /// Index of the entity in the given list, from 0.
        at: usize,
    },
    /// A point without segments.
    NoSegments,
    /// A limit is exceeded.
    TooMany {
        /// Limit that is exceeded.
        limit: Limit,
        /// Value that exceeds the limit.
        got: usize,
    },
}

impl Error {
    /// Returns the kind of the error, which says what the caller can do about it. No error can be
    /// retried without a change.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownPoint(_) | Self::Merged { .. } => ErrorKind::NotFound,
            Self::TooFewEntities { .. }
            | Self::TooFewPoints { .. }
            | Self::NoDescription
            | Self::NoName { .. }
            | Self::NoSegments => ErrorKind::InvalidInput,
            Self::TooMany { limit, .. } => match limit {
                Limit::Points
                | Limit::PointsMade
                | Limit::KnownEntities
                | Limit::KnownRelations => ErrorKind::WrongState,
                Limit::Entities | Limit::Segments | Limit::DescriptionBytes | Limit::NameBytes => {
                    ErrorKind::InvalidInput
                }
            },
        }
    }
}

impl Limit {
    /// Refuses a value above the maximum.
    pub(crate) fn check(self, got: usize) -> Result<(), Error> {
        if got <= self.most() { Ok(()) } else { Err(Error::TooMany { limit: self, got }) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPoint(point) => {
                write!(f, "expected a point in memory, got `{point}`, which was never made")
            }
            Self::Merged { point, into } => {
                write!(
                    f,
                    "expected a point in memory, got `{point}`, which is part of `{into}` now"
                )
            }
            Self::TooFewEntities { got } => {
                write!(f, "expected at least 2 different entities of a point, got {got}")
            }
            Self::TooFewPoints { got } => {
                write!(f, "expected at least 2 different points to merge, got {got}")
            }
            Self::NoDescription => write!(f, "expected a description, got none"),
            Self::NoName { at } => {
                write!(f, "expected a name and a key of `entities[{at}]`, got an empty one")
            }
            Self::NoSegments => write!(f, "expected at least 1 segment of a point, got none"),
            Self::TooMany { limit, got } => {
                write!(f, "expected at most {} {limit}, got {got}", limit.most())
            }
        }
    }
}

impl std::error::Error for Error {}
