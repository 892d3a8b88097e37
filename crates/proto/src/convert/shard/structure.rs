//! Queries for the tree, the graph and the segments of a shard.

use clew_core::{
    DocumentId, Error, GraphQuery, Limits, SegmentId, TreeNode, TreeQuery, WantedNodes,
};

use super::{ShardRefWithAccess, shard_from_wire};
use crate::convert::{document_id, memory};
use crate::shard::v1 as wire;

/// Converts a query for nodes of a shard's tree for the wire.
pub fn tree_query_to_wire(shard: &ShardRefWithAccess, query: &TreeQuery) -> wire::ReadTreeRequest {
    use wire::read_tree_request::Wanted;
    let ids = |ids: &[DocumentId]| ids.iter().map(ToString::to_string).collect();
    let wanted = match &query.nodes {
        WantedNodes::Tops { first, limit } => Wanted::Tops(wire::Tops {
            first: ids(first),
            limit: u32::try_from(*limit).unwrap_or(u32::MAX),
        }),
        WantedNodes::Roots(documents) => {
            Wanted::Roots(wire::Roots { document_ids: ids(documents) })
        }
        WantedNodes::Children(node) => Wanted::Parent(memory::node_id_to_wire(node)),
    };
    let encoder = query.encoder.clone().unwrap_or_default();
    wire::ReadTreeRequest { shard: Some(shard.into()), wanted: Some(wanted), encoder }
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
    let encoder = memory::fingerprint_from_wire("encoder", request.encoder)?;
    let nodes = match request.wanted {
        Some(Wanted::Tops(tops)) => {
            WantedNodes::Tops { first: ids("tops.first", tops.first)?, limit: tops.limit as usize }
        }
        Some(Wanted::Roots(roots)) => {
            WantedNodes::Roots(ids("roots.document_ids", roots.document_ids)?)
        }
        Some(Wanted::Parent(parent)) => {
            WantedNodes::Children(memory::node_id_from_wire("parent", parent)?)
        }
        None => return Err(Error::invalid("wanted", "expected one of tops, roots, parent")),
    };
    let encoder = Some(encoder).filter(|encoder| !encoder.is_empty());
    Ok((shard_from_wire(request.shard)?, TreeQuery { nodes, encoder }))
}

/// Converts nodes of a shard's tree for the wire.
pub fn tree_to_wire(mut nodes: Vec<TreeNode>) -> wire::ReadTreeResponse {
    let vector = |node: &mut TreeNode| wire::SummaryVector {
        components: node.vector.take().unwrap_or_default(),
    };
    let has_vectors = nodes.iter().any(|node| node.vector.is_some());
    let vectors = if has_vectors { nodes.iter_mut().map(vector).collect() } else { Vec::new() };
    wire::ReadTreeResponse {
        nodes: nodes.into_iter().map(memory::tree_node_to_wire).collect(),
        vectors,
    }
}

/// Converts nodes of a shard's tree from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn tree_from_wire(read: wire::ReadTreeResponse) -> Result<Vec<TreeNode>, Error> {
    let (expected, got) = (read.nodes.len(), read.vectors.len());
    if got != 0 && got != expected {
        return Err(Error::invalid("vectors", format!("expected none or {expected}, got {got}")));
    }
    let mut vectors = read.vectors.into_iter().map(|vector| vector.components);
    let node = |node| {
        let vector = vectors.next().filter(|components| !components.is_empty());
        Ok(TreeNode { vector, ..memory::tree_node_from_wire(node)? })
    };
    read.nodes.into_iter().map(node).collect()
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

#[cfg(test)]
mod tests {
    use clew_core::{Access, ShardIndex, Timestamp, TreeNodeId, Version};

    use super::super::ShardRef;
    use super::*;

    fn shard() -> ShardRefWithAccess {
        let corpus_created_at = Timestamp::from_micros(1);
        let corpus = "notes".parse().unwrap();
        let shard = ShardRef { corpus, corpus_created_at, shard: ShardIndex(0) };
        ShardRefWithAccess { shard, access: Access::all() }
    }

    fn node(ordinal: u32, vector: Option<Vec<f32>>) -> TreeNode {
        let document_id: DocumentId = "a".parse().unwrap();
        let (documents, version) = ((document_id.clone(), document_id.clone()), Version(1));
        TreeNode {
            id: TreeNodeId::Document { document_id, version, level: 0, ordinal },
            title: String::new(),
            summary: "s".to_owned(),
            span: None,
            documents,
            bytes: 1,
            children: 0,
            vector,
        }
    }

    #[test]
    fn queries_for_nodes_survive_the_wire_with_and_without_a_model() {
        let id = node(0, None).id;
        for nodes in [
            WantedNodes::Tops { first: vec!["a".parse().unwrap()], limit: 7 },
            WantedNodes::Roots(vec!["a".parse().unwrap()]),
            WantedNodes::Children(id),
        ] {
            for encoder in [None, Some("0f".to_owned())] {
                let query = TreeQuery { nodes: nodes.clone(), encoder };
                let back = tree_query_from_wire(tree_query_to_wire(&shard(), &query)).unwrap();
                assert_eq!(back, (shard(), query));
            }
        }
        let nodes = WantedNodes::Roots(Vec::new());
        let endless = TreeQuery { nodes, encoder: Some("f".repeat(65)) };
        let error = tree_query_from_wire(tree_query_to_wire(&shard(), &endless)).unwrap_err();
        assert_eq!(error.violations()[0].field, "encoder");
    }

    #[test]
    fn nodes_keep_the_vectors_that_they_have() {
        let vector = Some(vec![0.6, -0.8]);
        let nodes = vec![node(0, None), node(1, vector.clone()), node(2, None)];
        assert_eq!(tree_from_wire(tree_to_wire(nodes.clone())).unwrap(), nodes);
        // Without vectors, the message is the one of an earlier release.
        let plain = vec![node(0, None), node(1, None)];
        let sent = tree_to_wire(plain.clone());
        assert!(sent.vectors.is_empty());
        assert_eq!(tree_from_wire(sent).unwrap(), plain);
        let mut torn = tree_to_wire(nodes);
        torn.vectors.pop();
        assert_eq!(tree_from_wire(torn).unwrap_err().violations()[0].field, "vectors");
    }
}
