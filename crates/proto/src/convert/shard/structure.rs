//! Queries for the tree, the graph and the segments of a shard.

use clew_core::{DocumentId, Error, GraphQuery, Limits, SegmentId, TreeQuery};

use super::{ShardRefWithAccess, shard_from_wire};
use crate::convert::{document_id, memory};
use crate::shard::v1 as wire;

/// Converts a query for nodes of a shard's tree for the wire.
pub fn tree_query_to_wire(shard: &ShardRefWithAccess, query: &TreeQuery) -> wire::ReadTreeRequest {
    use wire::read_tree_request::Wanted;
    let ids = |ids: &[DocumentId]| ids.iter().map(ToString::to_string).collect();
    let wanted = match query {
        TreeQuery::Tops { first, limit } => Wanted::Tops(wire::Tops {
            first: ids(first),
            limit: u32::try_from(*limit).unwrap_or(u32::MAX),
        }),
        TreeQuery::Roots(documents) => Wanted::Roots(wire::Roots { document_ids: ids(documents) }),
        TreeQuery::Children(node) => Wanted::Parent(memory::node_id_to_wire(node)),
    };
    wire::ReadTreeRequest { shard: Some(shard.into()), wanted: Some(wanted) }
}

/// Converts a query for nodes of a shard's tree from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn tree_query_from_wire(
    request: wire::ReadTreeRequest,
) -> Result<(ShardRefWithAccess, TreeQuery), Error> {
    use wire::read_tree_request::Wanted;
    let ids = |field: &str, ids: Vec<String>| {
        ids.iter().map(|id| document_id(field, id)).collect::<Result<Vec<_>, Error>>()
    };
    let query = match request.wanted {
        Some(Wanted::Tops(tops)) => {
            TreeQuery::Tops { first: ids("tops.first", tops.first)?, limit: tops.limit as usize }
        }
        Some(Wanted::Roots(roots)) => {
            TreeQuery::Roots(ids("roots.document_ids", roots.document_ids)?)
        }
        Some(Wanted::Parent(parent)) => {
            TreeQuery::Children(memory::node_id_from_wire("parent", parent)?)
        }
        None => return Err(Error::invalid("wanted", "expected one of tops, roots, parent")),
    };
    Ok((shard_from_wire(request.shard)?, query))
}

/// Converts a query for a part of a shard's graph for the wire.
pub fn graph_query_to_wire(
    shard: &ShardRefWithAccess,
    query: &GraphQuery,
) -> wire::ReadGraphRequest {
    let query = Some(memory::graph_query_to_wire(query));
    wire::ReadGraphRequest { shard: Some(shard.into()), query }
}

/// Converts a query for a part of a shard's graph from the wire, and checks it against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn graph_query_from_wire(
    request: wire::ReadGraphRequest,
    limits: &Limits,
) -> Result<(ShardRefWithAccess, GraphQuery), Error> {
    let query = memory::graph_query_from_wire(request.query.unwrap_or_default(), limits)?;
    Ok((shard_from_wire(request.shard)?, query))
}

/// Converts a request for the texts of segments for the wire.
pub fn segments_to_wire(
    shard: &ShardRefWithAccess,
    ids: &[SegmentId],
) -> wire::ReadSegmentsRequest {
    let segments = ids.iter().map(memory::segment_id_to_wire).collect();
    wire::ReadSegmentsRequest { shard: Some(shard.into()), segments }
}

/// Converts a request for the texts of segments from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn segments_from_wire(
    request: wire::ReadSegmentsRequest,
    limits: &Limits,
) -> Result<(ShardRefWithAccess, Vec<SegmentId>), Error> {
    if request.segments.len() > limits.results {
        let (most, got) = (limits.results, request.segments.len());
        return Err(Error::invalid("segments", format!("expected at most {most}, got {got}")));
    }
    let ids = request.segments.into_iter().map(memory::segment_id_from_wire);
    Ok((shard_from_wire(request.shard)?, ids.collect::<Result<_, Error>>()?))
}
