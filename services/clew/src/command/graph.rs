//! `clew graph`.

use std::collections::HashMap;
use std::path::Path;

use clew_core::{CorpusName, EntityKey, GraphQuery, Subgraph};
use clew_proto::memory::v1 as wire;
use serde_json::{Value, json};

use crate::cli::{Extent, Graph, GraphAction, GraphFormat, Shared};
use crate::connection::Connection;
use crate::output::{self, Output, one_line};

/// Relations that are asked for, for each entity that is.
const RELATIONS: usize = 4;
/// Columns of a relation.
const RELATION: usize = 100;

/// Asks the graph of a corpus.
pub async fn run(shared: &Shared, arguments: Graph, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(shared).await?;
    let done = act(&connection, arguments.action, output).await;
    connection.close().await?;
    done
}

async fn act(connection: &Connection, action: GraphAction, output: &Output) -> anyhow::Result<()> {
    match action {
        GraphAction::Around { corpus, text, extent, svg } => {
            let graph = around(connection, &corpus, text, extent).await?;
            match svg {
                Some(file) => output::write(&file, &clew_graph::svg(&graph, &graph.seeds)),
                None => {
                    let document: Value = serde_json::from_str(&clew_graph::to_json(&graph))?;
                    output.print(&document, |_| as_text(&graph))
                }
            }
        }
        GraphAction::Paths { corpus, from, to, hops, k } => {
            let found = connection.client.find_paths(&corpus, &from, &to, hops, k).await?;
            let document = json!({
                "paths": found.paths.iter().map(path_document).collect::<Vec<_>>(),
            });
            output.print(&document, |_| paths_text(&found))
        }
        GraphAction::Rank { corpus, text, k } => {
            let ranked = connection.client.rank_graph(&corpus, &text, k).await?;
            let document = json!({
                "seeds": ranked.seeds,
                "entities": ranked.entities.iter().map(ranked_document).collect::<Vec<_>>(),
                "segments": ranked.segments.iter().map(ranked_document).collect::<Vec<_>>(),
            });
            output.print(&document, |_| ranks_text(&ranked))
        }
        GraphAction::Export { corpus, text, extent, format } => {
            let graph = around(connection, &corpus, text, extent).await?;
            let written = match format {
                GraphFormat::Graphml => clew_graph::to_graphml(&graph),
                GraphFormat::Json => clew_graph::to_json(&graph),
            };
            output::write(Path::new("-"), &written)
        }
    }
}

async fn around(
    connection: &Connection,
    corpus: &CorpusName,
    text: String,
    extent: Extent,
) -> anyhow::Result<Subgraph> {
    let query = GraphQuery {
        texts: vec![text],
        hops: extent.hops,
        most_entities: extent.most as usize,
        most_relations: extent.most as usize * RELATIONS,
        ..GraphQuery::default()
    };
    Ok(connection.client.read_graph(corpus, &query).await?)
}

fn as_text(graph: &Subgraph) -> String {
    if graph.seeds.is_empty() {
        return "the graph knows nothing that this names\n".to_owned();
    }
    let names: HashMap<&EntityKey, &str> =
        graph.entities.iter().map(|entity| (&entity.key, entity.name.as_str())).collect();
    let name = |key| names.get(key).copied().unwrap_or_default();
    let mut text = String::new();
    for entity in &graph.entities {
        let mark = if graph.seeds.contains(&entity.key) { "*" } else { " " };
        let (kind, segments) = (entity.kind.as_str(), entity.mentioned_in);
        text.push_str(&format!("{mark} {} ({kind}, in {segments} segments)\n", entity.name));
    }
    for relation in &graph.relations {
        let (head, tail) = (name(&relation.head), name(&relation.tail));
        let line = one_line(&format!("{head} — {} — {tail}", relation.text), RELATION);
        text.push_str(&format!("  {line}  [{}]\n", relation.segment));
    }
    if graph.is_cut {
        text.push_str("(there is more; raise --most or --hops)\n");
    }
    text
}

fn path_document(path: &wire::Path) -> Value {
    let edge = |relation: &wire::Relation| {
        let segment = relation.segment.clone().unwrap_or_default();
        json!({
            "head": relation.head,
            "relation": relation.text,
            "tail": relation.tail,
            "document_id": segment.document_id,
            "segment": segment.ordinal,
        })
    };
    path.relations.iter().map(edge).collect()
}

fn paths_text(found: &wire::FindPathsResponse) -> String {
    let names: HashMap<&str, &str> =
        found.entities.iter().map(|entity| (entity.key.as_str(), entity.name.as_str())).collect();
    let name = |key: &str| names.get(key).copied().unwrap_or_default().to_owned();
    let mut text = String::new();
    for (number, path) in (1..).zip(&found.paths) {
        text.push_str(&format!("{number}.\n"));
        for relation in &path.relations {
            let (head, tail) = (name(&relation.head), name(&relation.tail));
            text.push_str(&format!("   {head} — {} — {tail}\n", relation.text));
        }
    }
    if text.is_empty() { "no path was found\n".to_owned() } else { text }
}

fn item(ranked: &wire::Ranked) -> String {
    match &ranked.item {
        Some(wire::ranked::Item::Entity(key)) => key.clone(),
        Some(wire::ranked::Item::Segment(id)) => format!("{}#{}", id.document_id, id.ordinal),
        None => String::new(),
    }
}

fn ranked_document(ranked: &wire::Ranked) -> Value {
    json!({ "item": item(ranked), "score": ranked.score })
}

fn ranks_text(ranked: &wire::RankGraphResponse) -> String {
    let list = |items: &[wire::Ranked]| -> String {
        items.iter().map(|one| format!("  {:.4}  {}\n", one.score, item(one))).collect()
    };
    let seeds = ranked.seeds.join(", ");
    format!(
        "from: {seeds}\nentities\n{}segments\n{}",
        list(&ranked.entities),
        list(&ranked.segments)
    )
}
