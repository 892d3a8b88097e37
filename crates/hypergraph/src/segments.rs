//! JSON form of segments.

use clew_core::SegmentId;
use serde::{Serialize, Serializer};

#[derive(Serialize)]
struct Segment<'s> {
    document: &'s str,
    version: u64,
    ordinal: u32,
}

/// Serializes segments, because [`SegmentId`] does not implement `Serialize`.
pub(crate) fn serialize<'s, S: Serializer>(
    segments: impl IntoIterator<Item = &'s SegmentId>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(segments.into_iter().map(|id| Segment {
        document: id.document_id.as_str(),
        version: id.version.0,
        ordinal: id.ordinal,
    }))
}
