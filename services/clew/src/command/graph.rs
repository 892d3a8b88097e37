//! Command `clew graph`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use clew_core::{CorpusName, EntityKey, GraphQuery, Partial, Subgraph};
use clew_graph::{PathLimits, Ranking};
use clew_proto::convert::memory as convert;
use clew_proto::memory::v1 as wire;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::{self, Output, one_line};

/// Arguments of `graph`.
#[derive(Debug, Args)]
pub struct GraphArgs {
    #[command(subcommand)]
    pub action: GraphAction,
}

/// Queries of a graph.
#[derive(Debug, Subcommand)]
pub enum GraphAction {
    /// Show the entities that a text names, and what is around them.
    Around {
        #[command(flatten)]
        of: GraphSourceArgs,
        /// Question, or name of an entity.
        text: String,
        #[command(flatten)]
        extent: ExtentArgs,
        /// Draw the result as SVG into this file instead (`-`: standard output).
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Show paths between two entities, shortest first.
    Paths {
        #[command(flatten)]
        of: GraphSourceArgs,
        /// Name of the entity to start from.
        from: String,
        /// Name of the entity to reach.
        to: String,
        /// Maximum number of edges of a path, up to 8.
        #[arg(long, default_value_t = 4)]
        hops: u32,
        /// Maximum number of paths.
        #[arg(short, default_value_t = 10)]
        k: u32,
    },
    /// Rank entities and segments by personalised PageRank from the entities that a text names.
    Rank {
        #[command(flatten)]
        of: GraphSourceArgs,
        /// Question, or name of an entity.
        text: String,
        /// Maximum number of entities, and of segments.
        #[arg(short, default_value_t = 10)]
        k: u32,
    },
    /// Write the part of the graph around a text to standard output.
    Export {
        #[command(flatten)]
        of: GraphSourceArgs,
        /// Question, or name of an entity.
        text: String,
        #[command(flatten)]
        extent: ExtentArgs,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "graphml")]
        format: GraphFormat,
    },
}

/// Graph to query.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct GraphSourceArgs {
    /// Name of a corpus.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
    /// File of a graph that was made elsewhere (`-`: standard input): GraphML with the fields of
    /// LightRAG, or lines of JSON with `idx`, `title`, `entities` and `triples`, as HippoRAG keeps
    /// them.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Extent of the part of a graph.
#[derive(Clone, Copy, Debug, Args)]
pub struct ExtentArgs {
    /// Number of edges beyond the entities that the text names, up to 8.
    #[arg(long, default_value_t = 1)]
    pub hops: u32,
    /// Maximum number of entities.
    #[arg(long, default_value_t = 40)]
    pub most: u32,
}

/// Format of a graph.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum GraphFormat {
    /// GraphML, with the fields that LightRAG writes.
    Graphml,
    /// JSON.
    Json,
}

/// Number of relations that are requested for each requested entity.
const RELATIONS: usize = 4;
/// Maximum width of a printed relation, in characters.
const RELATION: usize = 100;

/// Queries the graph of a corpus or of a file.
pub async fn run(global: &GlobalArgs, arguments: GraphArgs, output: &Output) -> anyhow::Result<()> {
    match arguments.action {
        GraphAction::Around { of, text, extent, svg } => {
            let Partial { found: graph, shards_missing } =
                around(global, of, &text, extent).await?;
            let missing = output::shards(&shards_missing);
            match svg {
                Some(file) => {
                    output::warn_of_missing(&missing);
                    output::write(&file, &clew_graph::svg(&graph, &graph.seeds))
                }
                None => {
                    let mut document: Value = serde_json::from_str(&clew_graph::to_json(&graph))?;
                    document["is_being_built"] = json!(graph.is_being_built);
                    document["shards_missing"] = json!(missing);
                    output.print(&document, |_| as_text(&graph) + &output::missing(&missing))
                }
            }
        }
        GraphAction::Paths { of, from, to, hops, k } => {
            let found = match Source::open(global, of).await? {
                Source::Corpus(connection, corpus) => {
                    let found = connection.client.find_paths(&corpus, &from, &to, hops, k).await;
                    connection.close().await?;
                    found?
                }
                Source::File(graph) => {
                    let part = |name| graph.subgraph(&clew_graph::half_way(name, hops));
                    let (start, end) = ((from.as_str(), part(&from)), (to.as_str(), part(&to)));
                    let limits = PathLimits { most_hops: hops as usize, most_paths: k as usize };
                    let found = clew_graph::connect(start, end, limits)?;
                    convert::paths_to_wire(found.paths, found.entities)
                }
            };
            let document = json!({
                "paths": found.paths.iter().map(path_document).collect::<Vec<_>>(),
                "shards_missing": found.shards_missing,
            });
            output
                .print(&document, |_| paths_text(&found) + &output::missing(&found.shards_missing))
        }
        GraphAction::Rank { of, text, k } => {
            let ranked = match Source::open(global, of).await? {
                Source::Corpus(connection, corpus) => {
                    let ranked = connection.client.rank_graph(&corpus, &text, k).await;
                    connection.close().await?;
                    ranked?
                }
                Source::File(graph) => {
                    let part = graph.subgraph(&clew_graph::reach(&text));
                    let Ranking { entities, segments } = clew_graph::rank(&part);
                    convert::ranking_to_wire(&part.seeds, entities, segments, k as usize)
                }
            };
            let document = json!({
                "seeds": ranked.seeds,
                "entities": ranked.entities.iter().map(ranked_document).collect::<Vec<_>>(),
                "segments": ranked.segments.iter().map(ranked_document).collect::<Vec<_>>(),
                "shards_missing": ranked.shards_missing,
            });
            output.print(&document, |_| {
                ranks_text(&ranked) + &output::missing(&ranked.shards_missing)
            })
        }
        GraphAction::Export { of, text, extent, format } => {
            let Partial { found: graph, shards_missing } =
                around(global, of, &text, extent).await?;
            // Programs that know nothing of shards read the output, so the warning goes to standard
            // error.
            output::warn_of_missing(&output::shards(&shards_missing));
            let written = match format {
                GraphFormat::Graphml => clew_graph::to_graphml(&graph),
                GraphFormat::Json => clew_graph::to_json(&graph),
            };
            output::write(Path::new("-"), &written)
        }
    }
}

/// Source of a graph.
enum Source {
    Corpus(Box<Connection>, CorpusName),
    File(Box<clew_graph::Graph>),
}

impl Source {
    async fn open(global: &GlobalArgs, of: GraphSourceArgs) -> anyhow::Result<Self> {
        if let Some(corpus) = of.corpus {
            return Ok(Self::Corpus(Box::new(Connection::open(global).await?), corpus));
        }
        let file = of.file.context("expected --corpus or --file")?;
        let text = match file.as_os_str() == "-" {
            true => std::io::read_to_string(std::io::stdin().lock())?,
            false => std::fs::read_to_string(&file)
                .with_context(|| format!("cannot read `{}`", file.display()))?,
        };
        let imported = clew_graph::import(&text)
            .with_context(|| format!("cannot import `{}`", file.display()))?;
        if imported.left_out > 0 {
            let count = imported.left_out;
            tracing::warn!(count, "relations without two ends and words between them are left out");
        }
        Ok(Self::File(Box::new(imported.into_graph()?)))
    }
}

async fn around(
    global: &GlobalArgs,
    of: GraphSourceArgs,
    text: &str,
    extent: ExtentArgs,
) -> anyhow::Result<Partial<Subgraph>> {
    let query = GraphQuery {
        texts: vec![text.to_owned()],
        hops: extent.hops,
        most_entities: extent.most as usize,
        most_relations: extent.most as usize * RELATIONS,
        ..GraphQuery::default()
    };
    match Source::open(global, of).await? {
        Source::Corpus(connection, corpus) => {
            let graph = connection.client.read_graph(&corpus, &query).await;
            connection.close().await?;
            Ok(graph?)
        }
        Source::File(graph) => Ok(Partial::whole(graph.subgraph(&query))),
    }
}

fn as_text(graph: &Subgraph) -> String {
    let mut text = part_as_text(graph);
    if graph.is_being_built {
        text.push_str("(documents are still to be added to the graph)\n");
    }
    text
}

fn part_as_text(graph: &Subgraph) -> String {
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
