//! `explore_graph`: returns the part of a graph around an entity.

use std::collections::BTreeMap;

use clew_core::{CorpusName, Error};
use clew_proto::memory::v1::{Entity, GraphQuery, ReadGraphRequest, Relation, Subgraph};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Caller;

/// Number of edges that the part reaches beyond the entity.
const HOPS: u32 = 1;
/// Maximum number of entities and of relations: as much as an agent reads at once.
const ENTITIES: u32 = 50;
const RELATIONS: u32 = 100;
/// Maximum number of other names of an entity that are told.
const ALIASES: usize = 5;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    entity: String,
    hops: Option<u32>,
}

pub(super) async fn run(
    caller: &Caller,
    named: Option<CorpusName>,
    arguments: Arguments,
) -> Result<Value, Error> {
    let corpus = caller.corpus(named).await?;
    let query = GraphQuery {
        texts: vec![arguments.entity],
        hops: arguments.hops.unwrap_or(HOPS),
        most_entities: ENTITIES,
        most_relations: RELATIONS,
        describe: true,
        ..GraphQuery::default()
    };
    let request = ReadGraphRequest {
        corpus: corpus.to_string(),
        query: Some(query),
        ..ReadGraphRequest::default()
    };
    let read = caller.memories().read_graph(caller.request(request)).await;
    let read = read.map_err(|status| caller.failed(&status))?.into_inner();
    let is_whole = read.shards_missing.is_empty();
    Ok(part(&read.graph.unwrap_or_default(), is_whole))
}

fn part(graph: &Subgraph, is_whole: bool) -> Value {
    let names: BTreeMap<&str, &str> =
        graph.entities.iter().map(|entity| (entity.key.as_str(), entity.name.as_str())).collect();
    let name = |key: &str| (*names.get(key).unwrap_or(&key)).to_owned();
    let entity = |entity: &Entity| {
        json!({
            "name": entity.name,
            "aliases": entity.aliases.iter().take(ALIASES).collect::<Vec<_>>(),
            "description": entity.description,
            "mentioned_in": entity.mentioned_in,
        })
    };
    let relation = |relation: &Relation| {
        let segment = relation.segment.as_ref();
        json!({
            "from": name(&relation.head),
            "relation": relation.text,
            "to": name(&relation.tail),
            "id": segment.map(|segment| segment.document_id.as_str()).unwrap_or_default(),
        })
    };
    json!({
        "entities": graph.entities.iter().map(entity).collect::<Vec<_>>(),
        "relations": graph.relations.iter().map(relation).collect::<Vec<_>>(),
        "complete": is_whole && !graph.is_cut && !graph.is_being_built,
    })
}

#[cfg(test)]
mod tests {
    use clew_proto::memory::v1::SegmentId;

    use super::*;

    #[test]
    fn relations_are_told_by_the_names_of_their_entities() {
        let entity = |key: &str, name: &str| Entity {
            key: key.to_owned(),
            name: name.to_owned(),
            mentioned_in: 2,
            ..Entity::default()
        };
        let segment = SegmentId { document_id: "people".to_owned(), version: 1, ordinal: 0 };
        let graph = Subgraph {
            entities: vec![entity("ann", "Ann"), entity("rome", "Rome")],
            relations: vec![Relation {
                head: "ann".to_owned(),
                text: "lives in".to_owned(),
                tail: "rome".to_owned(),
                segment: Some(segment),
                ..Relation::default()
            }],
            ..Subgraph::default()
        };
        let told = part(&graph, true);
        let expected =
            json!([{ "from": "Ann", "relation": "lives in", "to": "Rome", "id": "people" }]);
        assert_eq!(told["relations"], expected);
        assert_eq!(told["entities"][1]["name"], "Rome");
        assert_eq!(told["complete"], true);
        assert_eq!(part(&graph, false)["complete"], false);
        let cut = Subgraph { is_cut: true, ..graph.clone() };
        let growing = Subgraph { is_being_built: true, ..graph };
        for lacking in [cut, growing] {
            assert_eq!(part(&lacking, true)["complete"], false);
        }
    }
}
