//! Conversions of the messages of `clew.memory.v1`.

use clew_core::{
    CorpusName, CorpusTreeKey, DocumentId, EntityKey, EntityNode, Error, Evidence, GraphQuery,
    Like, Limits, MemoryFailure, MemoryModelIdentity, MemoryPart, MemoryRecord, Partial,
    RelationEdge, SegmentId, ShardIndex, Signs, Span, Subgraph, TreeNode, TreeNodeId, Version,
    Violations,
};

use crate::convert::graph_builder::{kind_from_wire, kind_to_wire};
use crate::convert::query::{
    evidence_from_wire, evidence_to_wire, place_from_wire, place_to_wire, required_span,
    shards_from_wire, shards_to_wire, span_from_wire, span_to_wire,
};
use crate::convert::{corpus_name, document_id, timestamp_from_wire, timestamp_to_wire};
use crate::memory::v1 as wire;
use crate::status::{code_of, kind_of};

/// Default number of entities, and of relations, of a part of a graph.
const DEFAULT_MOST: usize = 100;
/// Maximum number of entities, and of relations, of a part of a graph.
const MOST: u32 = 10_000;
/// Maximum bytes of a model's fingerprint.
const FINGERPRINT_BYTES: usize = 64;
/// Maximum number of relations that come with their quotes.
const MOST_QUOTED: usize = 1000;
/// Maximum number of edges that a part of a graph reaches beyond its seeds.
const MOST_HOPS: u32 = 8;

/// Nodes of a tree that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedNodes {
    /// The nodes at the top.
    Tops,
    /// The root of a document's tree.
    Root(DocumentId),
    /// The children of a node.
    Children(TreeNodeId),
}

/// Converts the record of a compressed memory for the wire.
pub fn record_to_wire(record: MemoryRecord) -> wire::CompressedMemory {
    let MemoryRecord { key, model, ratio, parts, tokens, slots, bytes } = record;
    let part = |part: MemoryPart| wire::MemoryPart {
        document_id: part.document_id.to_string(),
        version: part.version.0,
        start: part.span.start as u64,
        end: part.span.end as u64,
    };
    let parts = parts.into_iter().map(part).collect();
    wire::CompressedMemory { key, model, ratio, parts, tokens, slots, bytes }
}

/// Converts the record of a compressed memory from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the message is malformed.
pub fn record_from_wire(record: wire::CompressedMemory) -> Result<MemoryRecord, Error> {
    let wire::CompressedMemory { key, model, ratio, parts, tokens, slots, bytes } = record;
    let place = |name: &str, at: u64| {
        usize::try_from(at).map_err(|_| Error::invalid(name, format!("expected a place, got {at}")))
    };
    let part = |part: wire::MemoryPart| {
        Ok(MemoryPart {
            document_id: document_id("parts.document_id", &part.document_id)?,
            version: Version(part.version),
            span: Span::new(place("parts.start", part.start)?, place("parts.end", part.end)?),
        })
    };
    let parts = parts.into_iter().map(part).collect::<Result<_, Error>>()?;
    Ok(MemoryRecord { key, model, ratio, parts, tokens, slots, bytes })
}

/// Converts a failure at a compressed memory for the wire.
pub fn failure_to_wire(failure: MemoryFailure) -> wire::MemoryFailure {
    let MemoryFailure { documents, attempts, kind, message, next_try } = failure;
    wire::MemoryFailure {
        document_ids: documents.iter().map(ToString::to_string).collect(),
        attempts,
        code: code_of(kind).into(),
        message,
        next_try: next_try.map(timestamp_to_wire),
    }
}

/// Converts a failure at a compressed memory from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the message is malformed.
pub fn failure_from_wire(failure: wire::MemoryFailure) -> Result<MemoryFailure, Error> {
    let wire::MemoryFailure { document_ids, attempts, code, message, next_try } = failure;
    let documents = document_ids.iter().map(|id| document_id("failures.document_ids", id));
    let next_try = next_try.map(|time| timestamp_from_wire("failures.next_try", &time));
    Ok(MemoryFailure {
        documents: documents.collect::<Result<_, Error>>()?,
        attempts,
        kind: kind_of(tonic::Code::from(code)),
        message,
        next_try: next_try.transpose()?,
    })
}

/// Converts the identity of a memory model for the wire.
pub fn model_to_wire(identity: MemoryModelIdentity) -> wire::MemoryModel {
    let MemoryModelIdentity { model, fingerprint, window, slot_bytes, prompts, cache_bytes: _ } =
        identity;
    wire::MemoryModel { model, fingerprint, window, slot_bytes, prompts }
}

/// Converts the id of a tree node for the wire.
pub fn node_id_to_wire(id: &TreeNodeId) -> wire::NodeId {
    use wire::node_id::Node;
    let node = match id {
        TreeNodeId::Document { document_id, version, level, ordinal } => {
            Node::Document(wire::DocumentNode {
                document_id: document_id.to_string(),
                version: version.0,
                level: *level,
                ordinal: *ordinal,
            })
        }
        TreeNodeId::Upper { shard, key } => {
            Node::Upper(wire::UpperNode { shard: shard.0, key: key.to_string() })
        }
    };
    wire::NodeId { node: Some(node) }
}

/// Converts the id of a tree node from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn node_id_from_wire(field: &str, id: wire::NodeId) -> Result<TreeNodeId, Error> {
    use wire::node_id::Node;
    match id.node {
        Some(Node::Document(node)) => Ok(TreeNodeId::Document {
            document_id: document_id(&format!("{field}.document_id"), &node.document_id)?,
            version: Version(node.version),
            level: node.level,
            ordinal: node.ordinal,
        }),
        Some(Node::Upper(node)) => {
            let expected = "expected 32 hexadecimal digits";
            let key = CorpusTreeKey::from_hex(&node.key)
                .ok_or_else(|| Error::invalid(format!("{field}.key"), expected))?;
            Ok(TreeNodeId::Upper { shard: ShardIndex(node.shard), key })
        }
        None => Err(Error::invalid(field, "expected `document` or `upper`")),
    }
}

/// Converts a tree node for the wire, without the vector of its summary.
pub fn tree_node_to_wire(node: TreeNode) -> wire::TreeNode {
    let (first, last) = node.documents;
    wire::TreeNode {
        id: Some(node_id_to_wire(&node.id)),
        title: node.title,
        summary: node.summary,
        span: node.span.map(span_to_wire),
        first_document: first.into(),
        last_document: last.into(),
        bytes: node.bytes,
        children: node.children,
    }
}

/// Converts tree nodes for the wire, with the shards that did not answer.
pub fn tree_nodes_to_wire(nodes: Partial<Vec<TreeNode>>) -> wire::ReadTreeResponse {
    wire::ReadTreeResponse {
        nodes: nodes.found.into_iter().map(tree_node_to_wire).collect(),
        shards_missing: shards_to_wire(&nodes.shards_missing),
    }
}

/// Converts tree nodes from the wire, with the shards that did not answer.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn tree_nodes_from_wire(read: wire::ReadTreeResponse) -> Result<Partial<Vec<TreeNode>>, Error> {
    Ok(Partial {
        found: read.nodes.into_iter().map(tree_node_from_wire).collect::<Result<_, Error>>()?,
        shards_missing: shards_from_wire(read.shards_missing),
    })
}

/// Converts a tree node from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn tree_node_from_wire(node: wire::TreeNode) -> Result<TreeNode, Error> {
    let first = document_id("first_document", &node.first_document)?;
    let last = document_id("last_document", &node.last_document)?;
    Ok(TreeNode {
        id: node_id_from_wire("id", node.id.unwrap_or_default())?,
        title: node.title,
        summary: node.summary,
        span: node.span.and_then(span_from_wire),
        documents: (first, last),
        bytes: node.bytes,
        children: node.children,
        vector: None,
    })
}

/// Converts the id of a segment for the wire.
pub fn segment_id_to_wire(id: &SegmentId) -> wire::SegmentId {
    wire::SegmentId {
        document_id: id.document_id.to_string(),
        version: id.version.0,
        ordinal: id.ordinal,
    }
}

/// Converts the id of a segment from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn segment_id_from_wire(id: wire::SegmentId) -> Result<SegmentId, Error> {
    Ok(SegmentId {
        document_id: document_id("segment.document_id", &id.document_id)?,
        version: Version(id.version),
        ordinal: id.ordinal,
    })
}

/// Converts a segment with its text for the wire.
pub fn segment_to_wire((id, evidence): (SegmentId, Evidence)) -> wire::Segment {
    wire::Segment { id: Some(segment_id_to_wire(&id)), evidence: Some(evidence_to_wire(evidence)) }
}

/// Converts a segment with its text from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn segment_from_wire(segment: wire::Segment) -> Result<(SegmentId, Evidence), Error> {
    let id = segment_id_from_wire(segment.id.unwrap_or_default())?;
    Ok((id, evidence_from_wire(segment.evidence.unwrap_or_default())?))
}

/// Converts a query for a part of a graph for the wire.
pub fn graph_query_to_wire(query: &GraphQuery) -> wire::GraphQuery {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    wire::GraphQuery {
        texts: query.texts.clone(),
        entities: query.entities.iter().map(ToString::to_string).collect(),
        places: query.places.iter().map(place_to_wire).collect(),
        like: query.like.as_ref().map(|like| wire::Like {
            encoder: like.encoder.clone(),
            signs: like.signs.to_bytes().into(),
        }),
        describe: query.describe,
        hops: query.hops,
        most_entities: count(query.most_entities),
        most_relations: count(query.most_relations),
    }
}

/// Converts a query for a part of a graph from the wire, and checks it against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn graph_query_from_wire(
    query: wire::GraphQuery,
    limits: &Limits,
) -> Result<GraphQuery, Error> {
    let mut violations = Violations::default();
    let bytes: usize = query.texts.iter().map(String::len).sum();
    if bytes > limits.query_bytes {
        let problem = format!("expected at most {} bytes in all, got {bytes}", limits.query_bytes);
        violations.push("query.texts", problem);
    }
    for (field, count) in
        [("query.entities", query.entities.len()), ("query.places", query.places.len())]
    {
        if count > limits.results {
            violations.push(field, format!("expected at most {}, got {count}", limits.results));
        }
    }
    for (field, value, most) in [
        ("query.hops", query.hops, MOST_HOPS),
        ("query.most_entities", query.most_entities, MOST),
        ("query.most_relations", query.most_relations, MOST),
    ] {
        if value > most {
            violations.push(field, format!("expected at most {most}, got {value}"));
        }
    }
    let places = query
        .places
        .into_iter()
        .filter_map(|place| violations.take(place_from_wire("query.places", place)));
    let places = places.collect();
    let like = query.like.and_then(|like| violations.take(like_from_wire(like)));
    violations.into_result()?;
    let or_default = |most: u32| if most == 0 { DEFAULT_MOST } else { most as usize };
    Ok(GraphQuery {
        texts: query.texts,
        entities: query.entities.into_iter().map(EntityKey).collect(),
        places,
        like,
        describe: query.describe,
        hops: query.hops,
        most_entities: or_default(query.most_entities),
        most_relations: or_default(query.most_relations),
    })
}

/// Returns the fingerprint of a model from the wire.
pub(crate) fn fingerprint_from_wire(field: &str, fingerprint: String) -> Result<String, Error> {
    let got = fingerprint.len();
    match got <= FINGERPRINT_BYTES {
        true => Ok(fingerprint),
        false => {
            let problem = format!("expected at most {FINGERPRINT_BYTES} bytes, got {got}");
            Err(Error::invalid(field, problem))
        }
    }
}

fn like_from_wire(like: wire::Like) -> Result<Like, Error> {
    let encoder = fingerprint_from_wire("query.like.encoder", like.encoder)?;
    Ok(Like { encoder, signs: Signs::from_bytes("query.like.signs", &like.signs)? })
}

/// Converts an entity for the wire.
pub fn entity_to_wire(entity: EntityNode) -> wire::Entity {
    wire::Entity {
        key: entity.key.0,
        name: entity.name,
        kind: kind_to_wire(entity.kind).into(),
        aliases: entity.aliases,
        segments: entity.segments.iter().map(segment_id_to_wire).collect(),
        mentioned_in: entity.mentioned_in,
        titled: entity.titled.into_iter().map(Into::into).collect(),
        description: entity.description,
    }
}

/// Converts a relation for the wire, without a quote.
pub fn relation_to_wire(relation: RelationEdge) -> wire::Relation {
    wire::Relation {
        head: relation.head.0,
        text: relation.text,
        tail: relation.tail.0,
        segment: Some(segment_id_to_wire(&relation.segment)),
        evidence: Some(span_to_wire(relation.evidence)),
        quote: String::new(),
    }
}

/// Converts paths between two entities for the wire, without missing shards.
pub fn paths_to_wire(
    paths: Vec<Vec<RelationEdge>>,
    entities: Vec<EntityNode>,
) -> wire::FindPathsResponse {
    let path = |edges: Vec<RelationEdge>| wire::Path {
        relations: edges.into_iter().map(relation_to_wire).collect(),
    };
    wire::FindPathsResponse {
        paths: paths.into_iter().map(path).collect(),
        entities: entities.into_iter().map(entity_to_wire).collect(),
        shards_missing: Vec::new(),
    }
}

/// Converts a ranking for the wire: at most `k` entities and `k` segments, without missing shards.
pub fn ranking_to_wire(
    seeds: &[EntityKey],
    entities: Vec<(EntityKey, f64)>,
    segments: Vec<(SegmentId, f64)>,
    k: usize,
) -> wire::RankGraphResponse {
    use wire::ranked::Item;
    let ranked = |item, score: f64| wire::Ranked { item: Some(item), score: score as f32 };
    let entity = |(key, score): (EntityKey, f64)| ranked(Item::Entity(key.0), score);
    let segment =
        |(id, score): (SegmentId, f64)| ranked(Item::Segment(segment_id_to_wire(&id)), score);
    wire::RankGraphResponse {
        entities: entities.into_iter().take(k).map(entity).collect(),
        segments: segments.into_iter().take(k).map(segment).collect(),
        seeds: seeds.iter().map(ToString::to_string).collect(),
        shards_missing: Vec::new(),
    }
}

/// Converts a part of a graph for the wire.
pub fn subgraph_to_wire(graph: Subgraph) -> wire::Subgraph {
    wire::Subgraph {
        seeds: graph.seeds.into_iter().map(|key| key.0).collect(),
        entities: graph.entities.into_iter().map(entity_to_wire).collect(),
        relations: graph.relations.into_iter().map(relation_to_wire).collect(),
        is_cut: graph.is_cut,
        is_compared: graph.is_compared,
        is_being_built: graph.is_being_built,
    }
}

/// Converts a part of a graph for the wire, with the shards that did not answer. `quotes` are the
/// texts that state its relations, one for each or none at all.
pub fn read_graph_to_wire(
    graph: Partial<Subgraph>,
    quotes: Vec<String>,
) -> wire::ReadGraphResponse {
    let shards_missing = shards_to_wire(&graph.shards_missing);
    let mut graph = subgraph_to_wire(graph.found);
    for (relation, quote) in graph.relations.iter_mut().zip(quotes) {
        relation.quote = quote;
    }
    wire::ReadGraphResponse { graph: Some(graph), shards_missing }
}

/// Returns what a ReadGraph request asks for, checked against `limits`: the name of the corpus, the
/// query, and whether each relation comes with the text that states it.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn asked_graph_from_wire(
    request: wire::ReadGraphRequest,
    limits: &Limits,
) -> Result<(CorpusName, GraphQuery, bool), Error> {
    let corpus = corpus_name(&request.corpus)?;
    let query = graph_query_from_wire(request.query.unwrap_or_default(), limits)?;
    if request.with_quotes && query.most_relations > MOST_QUOTED {
        let got = query.most_relations;
        let problem = format!("expected at most {MOST_QUOTED} relations with quotes, got {got}");
        return Err(Error::invalid("query.most_relations", problem));
    }
    Ok((corpus, query, request.with_quotes))
}

/// Converts a part of a graph from the wire, with the shards that did not answer.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn read_graph_from_wire(read: wire::ReadGraphResponse) -> Result<Partial<Subgraph>, Error> {
    Ok(Partial {
        found: subgraph_from_wire(read.graph.unwrap_or_default())?,
        shards_missing: shards_from_wire(read.shards_missing),
    })
}

/// Converts a part of a graph from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn subgraph_from_wire(graph: wire::Subgraph) -> Result<Subgraph, Error> {
    let segments = |ids: Vec<wire::SegmentId>| {
        ids.into_iter().map(segment_id_from_wire).collect::<Result<Vec<_>, Error>>()
    };
    let entity = |entity: wire::Entity| {
        let kind = kind_from_wire(entity.kind())?;
        Ok(EntityNode {
            key: EntityKey(entity.key),
            name: entity.name,
            kind,
            aliases: entity.aliases,
            segments: segments(entity.segments)?,
            mentioned_in: entity.mentioned_in,
            titled: entity
                .titled
                .iter()
                .map(|id| document_id("entity.titled", id))
                .collect::<Result<_, Error>>()?,
            description: entity.description,
        })
    };
    let relation = |relation: wire::Relation| {
        Ok(RelationEdge {
            head: EntityKey(relation.head),
            text: relation.text,
            tail: EntityKey(relation.tail),
            segment: segment_id_from_wire(relation.segment.unwrap_or_default())?,
            evidence: required_span("relation.evidence", relation.evidence)?,
        })
    };
    Ok(Subgraph {
        seeds: graph.seeds.into_iter().map(EntityKey).collect(),
        entities: graph.entities.into_iter().map(entity).collect::<Result<_, Error>>()?,
        relations: graph.relations.into_iter().map(relation).collect::<Result<_, Error>>()?,
        is_cut: graph.is_cut,
        is_compared: graph.is_compared,
        is_being_built: graph.is_being_built,
    })
}

/// Returns the corpus of a ReadTree request, and the nodes that it asks for.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn read_tree_from_wire(
    request: wire::ReadTreeRequest,
) -> Result<(CorpusName, AskedNodes), Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(corpus_name(&request.corpus));
    let nodes = violations.take(asked_nodes_from_wire(request.parent, &request.document_id));
    violations.into_result()?;
    corpus.zip(nodes).ok_or_else(|| Error::internal("a field was neither taken nor refused"))
}

fn asked_nodes_from_wire(
    parent: Option<wire::NodeId>,
    document: &str,
) -> Result<AskedNodes, Error> {
    match (parent, document) {
        (None, "") => Ok(AskedNodes::Tops),
        (None, document) => Ok(AskedNodes::Root(document_id("document_id", document)?)),
        (Some(parent), "") => Ok(AskedNodes::Children(node_id_from_wire("parent", parent)?)),
        (Some(_), _) => Err(Error::invalid("document_id", "expected nothing beside `parent`")),
    }
}

#[cfg(test)]
mod tests {
    use clew_core::{DocumentRange, EntityKind, Span};

    use super::*;

    fn id(name: &str) -> DocumentId {
        name.parse().unwrap()
    }

    #[test]
    fn nodes_survive_the_wire() {
        let over_text = TreeNodeId::Document {
            document_id: id("a"),
            version: Version(4),
            level: 1,
            ordinal: 3,
        };
        let above = TreeNodeId::Upper { shard: ShardIndex(2), key: CorpusTreeKey([7; 16]) };
        for (id_of, span) in [(over_text, Some(Span::new(3, 9))), (above, None)] {
            let node = TreeNode {
                id: id_of,
                title: "t".to_owned(),
                summary: "s".to_owned(),
                span,
                documents: (id("a"), id("b")),
                bytes: 6,
                children: 2,
                vector: None,
            };
            let back = tree_node_from_wire(tree_node_to_wire(node.clone())).unwrap();
            assert_eq!(back, node);
        }
        let bad = wire::NodeId {
            node: Some(wire::node_id::Node::Upper(wire::UpperNode {
                shard: 0,
                key: "é".repeat(16),
            })),
        };
        assert_eq!(node_id_from_wire("id", bad).unwrap_err().violations()[0].field, "id.key");
        assert!(node_id_from_wire("id", wire::NodeId::default()).is_err());
    }

    #[test]
    fn graphs_survive_the_wire() {
        let segment = SegmentId { document_id: id("a"), version: Version(1), ordinal: 2 };
        let entity = EntityNode {
            key: EntityKey("ada".to_owned()),
            name: "Ada".to_owned(),
            kind: EntityKind::Person,
            aliases: vec!["ADA".to_owned()],
            segments: vec![segment.clone()],
            mentioned_in: 1,
            titled: vec![id("b")],
            description: "ada met bob".to_owned(),
        };
        let relation = RelationEdge {
            head: EntityKey("ada".to_owned()),
            text: "met".to_owned(),
            tail: EntityKey("bob".to_owned()),
            segment,
            evidence: Span::new(1, 4),
        };
        let graph = Subgraph {
            seeds: vec![EntityKey("ada".to_owned())],
            entities: vec![entity],
            relations: vec![relation],
            is_cut: true,
            is_compared: true,
            is_being_built: true,
        };
        assert_eq!(subgraph_from_wire(subgraph_to_wire(graph.clone())).unwrap(), graph);
        let quoted = read_graph_to_wire(Partial::whole(graph), vec!["Ada met Bob.".to_owned()]);
        assert_eq!(quoted.graph.unwrap().relations[0].quote, "Ada met Bob.");
    }

    #[test]
    fn relations_with_quotes_are_held_to_a_limit_of_their_own() {
        let ask = |most_relations: usize, with_quotes| {
            let most_relations = u32::try_from(most_relations).unwrap();
            let query = Some(wire::GraphQuery { most_relations, ..Default::default() });
            let request = wire::ReadGraphRequest { corpus: "notes".to_owned(), query, with_quotes };
            asked_graph_from_wire(request, &Limits::default())
        };
        assert!(ask(MOST_QUOTED, true).unwrap().2);
        assert!(!ask(MOST_QUOTED + 1, false).unwrap().2);
        let refused = ask(MOST_QUOTED + 1, true).unwrap_err();
        assert_eq!(refused.fields_at_fault(), ["query.most_relations"]);
    }

    #[test]
    fn a_tree_is_asked_for_its_tops_a_root_or_children() {
        let parent = TreeNodeId::Document {
            document_id: id("a"),
            version: Version(4),
            level: 1,
            ordinal: 3,
        };
        let ask = |parent: Option<&TreeNodeId>, document: &str| {
            read_tree_from_wire(wire::ReadTreeRequest {
                corpus: "notes".to_owned(),
                parent: parent.map(node_id_to_wire),
                document_id: document.to_owned(),
            })
        };
        assert_eq!(ask(None, "").unwrap().1, AskedNodes::Tops);
        assert_eq!(ask(None, "a").unwrap().1, AskedNodes::Root(id("a")));
        assert_eq!(ask(Some(&parent), "").unwrap().1, AskedNodes::Children(parent.clone()));
        assert_eq!(ask(Some(&parent), "a").unwrap_err().fields_at_fault(), ["document_id"]);
    }

    #[test]
    fn graph_queries_survive_the_wire_and_are_held_to_the_limits() {
        let query = GraphQuery {
            texts: vec!["Who met Ada?".to_owned()],
            entities: vec![EntityKey("bob".to_owned())],
            places: vec![DocumentRange {
                document_id: id("a"),
                version: Version(1),
                span: Span::new(0, 3),
            }],
            like: Some(Like { encoder: "0f".to_owned(), signs: Signs::of(&[0.5, -0.5]) }),
            describe: true,
            hops: 2,
            most_entities: 10,
            most_relations: 20,
        };
        let limits = Limits::default();
        let back = graph_query_from_wire(graph_query_to_wire(&query), &limits).unwrap();
        assert_eq!(back, query);
        let too_much = wire::GraphQuery {
            texts: vec!["x".repeat(limits.query_bytes + 1)],
            entities: vec![String::new(); limits.results + 1],
            places: vec![crate::query::v1::Place::default(); limits.results + 1],
            like: Some(wire::Like { encoder: "0f".to_owned(), signs: vec![1; 7].into() }),
            describe: false,
            hops: 99,
            most_entities: u32::MAX,
            most_relations: u32::MAX,
        };
        let error = graph_query_from_wire(too_much, &limits).unwrap_err();
        let fields = error.fields_at_fault();
        let expected = [
            "texts",
            "entities",
            "places",
            "like.signs",
            "hops",
            "most_entities",
            "most_relations",
        ];
        assert!(expected.iter().all(|field| fields.contains(&format!("query.{field}").as_str())));
    }
}
