//! Command `clew search`.

use std::time::Instant;

use clap::Args;
use clew_client::SearchPage;
use clew_core::{CorpusName, Grouping, Query};
use serde_json::{Value, json};

use crate::args::filter::FilterArgs;
use crate::args::global::GlobalArgs;
use crate::args::search::ModeChoice;
use crate::connection::Connection;
use crate::output::{self, Output, human, one_line};

/// Arguments of `search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Name of the corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Query to search for.
    pub query: String,
    /// Maximum number of passages, 1 to 1000.
    #[arg(short, default_value_t = 10)]
    pub k: usize,
    /// Way of matching passages.
    #[arg(long, value_enum, default_value_t = ModeChoice::Hybrid)]
    pub mode: ModeChoice,
    /// Show each document once, by its best passage.
    #[arg(long)]
    pub by_document: bool,
    /// Compare with every vector instead of using the approximate index.
    #[arg(long)]
    pub exact: bool,
    /// Let the configured reranker order this many of the best candidates, from `-k` to 200.
    #[arg(long, value_name = "CANDIDATES")]
    pub rerank: Option<usize>,
    /// Show the attributes of the documents. Then `-k` is at most 200.
    #[arg(long)]
    pub attributes: bool,
    /// Show the passages that follow those of an earlier call with the same arguments: its
    /// `next_page_token`, which `--json` shows.
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true)]
    pub page_token: String,
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// Finds evidence and prints it.
pub async fn run(
    global: &GlobalArgs,
    arguments: SearchArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = search(&connection, arguments, output).await;
    connection.close().await?;
    done
}

async fn search(
    connection: &Connection,
    arguments: SearchArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let mut query = Query::new(arguments.query, arguments.k);
    query.mode = arguments.mode.into();
    query.filter = arguments.filters.into();
    query.exact = arguments.exact;
    query.rerank = arguments.rerank;
    if arguments.by_document {
        query.grouping = Grouping::Documents;
    }
    let started = Instant::now();
    let (client, corpus) = (&connection.client, &arguments.corpus);
    let (page_token, with_attributes) = (arguments.page_token, arguments.attributes);
    let page = SearchPage { page_token, with_attributes };
    let found = client.search_page(corpus, query, page).await?;
    let took = started.elapsed();
    let item = |item: &clew_proto::query::v1::Evidence| {
        let mut document = output::evidence(item);
        if arguments.attributes {
            document["attributes"] = output::attributes(&item.attributes);
        }
        document
    };
    let evidence: Vec<Value> = found.evidence.iter().map(item).collect();
    let document = json!({
        "evidence": evidence,
        "shards_missing": found.shards_missing,
        "cost": output::cost(found.cost.as_ref()),
        "took_ms": took.as_secs_f64() * 1e3,
        "next_page_token": found.next_page_token,
    });
    output.print(&document, |_| {
        let mut text = String::new();
        for (i, item) in found.evidence.iter().enumerate() {
            let span = item.span.unwrap_or_default();
            text.push_str(&format!(
                "{:>3}. {:.3}  {} [{}..{}]\n     {}\n",
                i + 1,
                item.score,
                item.document_id,
                span.start,
                span.end,
                one_line(&item.text, 160)
            ));
            text.push_str(&output::attribute_lines("", &item.attributes));
        }
        if found.evidence.is_empty() {
            text.push_str("nothing was found\n");
        }
        text.push_str(&output::missing(&found.shards_missing));
        text.push_str(&format!("{} items in {}\n", found.evidence.len(), human(took)));
        text
    })
}
