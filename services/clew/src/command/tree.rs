//! Command `clew tree`.

use std::collections::BTreeSet;

use clap::Args;
use clew_core::{CorpusName, ShardIndex, TreeNode, TreeNodeId};
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::{self, Output, one_line};

/// Arguments of `tree`.
#[derive(Debug, Args)]
pub struct TreeArgs {
    /// Name of the corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Number of levels to show from the top.
    #[arg(long, default_value_t = 3)]
    pub depth: u32,
    /// Maximum number of tree nodes to show.
    #[arg(long, default_value_t = 200)]
    pub most: usize,
}

/// Maximum width of a printed summary, in characters.
const SUMMARY: usize = 100;

/// Shows the tree of summaries of a corpus, from the top.
pub async fn run(global: &GlobalArgs, arguments: TreeArgs, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let shown = show(&connection, &arguments, output).await;
    connection.close().await?;
    shown
}

/// Tree node with its depth below the top.
struct Shown {
    depth: u32,
    node: TreeNode,
}

async fn show(
    connection: &Connection,
    arguments: &TreeArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let mut shown: Vec<Shown> = Vec::new();
    let tops = connection.client.read_tree(&arguments.corpus, None).await?;
    let mut missing: BTreeSet<ShardIndex> = tops.shards_missing.into_iter().collect();
    let mut todo = last_first(tops.found, 0);
    while let Some(next) = todo.pop() {
        if shown.len() == arguments.most {
            break;
        }
        if next.node.children > 0 && next.depth + 1 < arguments.depth {
            let id = Some(&next.node.id);
            let below = connection.client.read_tree(&arguments.corpus, id).await?;
            missing.extend(below.shards_missing);
            todo.extend(last_first(below.found, next.depth + 1));
        }
        shown.push(next);
    }
    let left_out = !todo.is_empty();
    let missing = output::shards(&missing);
    let document = json!({
        "nodes": shown.iter().map(as_json).collect::<Vec<_>>(),
        "is_cut": left_out,
        "shards_missing": missing,
    });
    output.print(&document, |_| {
        let mut text: String = shown.iter().map(line).collect();
        match (shown.is_empty(), left_out) {
            (true, _) => text.push_str("no document has a tree yet; see `clew status`\n"),
            (false, true) => text.push_str("(there are more; raise --most)\n"),
            (false, false) => {}
        }
        text + &output::missing(&missing)
    })
}

/// Returns tree nodes of one depth in reverse order, so that the first is popped first.
fn last_first(nodes: Vec<TreeNode>, depth: u32) -> Vec<Shown> {
    nodes.into_iter().rev().map(|node| Shown { depth, node }).collect()
}

fn covered(node: &TreeNode) -> String {
    let (first, last) = &node.documents;
    if first == last { first.to_string() } else { format!("{first} … {last}") }
}

fn line(shown: &Shown) -> String {
    let Shown { depth, node } = shown;
    let indent = "  ".repeat(*depth as usize);
    let name = match &node.id {
        TreeNodeId::Upper { .. } => covered(node),
        TreeNodeId::Document { .. } => node.id.to_string(),
    };
    let title =
        if node.title.is_empty() { String::new() } else { format!(" “{}”", node.title) };
    let summary = one_line(&node.summary, SUMMARY);
    format!("{indent}{name}{title} ({} bytes)\n{indent}  {summary}\n", node.bytes)
}

fn as_json(shown: &Shown) -> Value {
    let Shown { depth, node } = shown;
    let span = node.span.map(|span| json!({ "start": span.start, "end": span.end }));
    json!({
        "depth": depth,
        "node": node.id.to_string(),
        "title": node.title,
        "summary": node.summary,
        "span": span,
        "first_document": node.documents.0.as_str(),
        "last_document": node.documents.1.as_str(),
        "bytes": node.bytes,
        "children": node.children,
    })
}
