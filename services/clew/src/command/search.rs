//! `clew search`.

use std::time::Instant;

use clew_core::{Grouping, Query};
use serde_json::{Value, json};

use crate::cli::{Search, Shared};
use crate::connection::Connection;
use crate::output::{self, Output, human, one_line};

/// Finds evidence and prints it.
pub async fn run(shared: &Shared, arguments: Search, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(shared).await?;
    let done = search(&connection, arguments, output).await;
    connection.close().await?;
    done
}

async fn search(connection: &Connection, arguments: Search, output: &Output) -> anyhow::Result<()> {
    let mut query = Query::new(arguments.query, arguments.k);
    query.mode = arguments.mode.into();
    query.filter = arguments.filters.into();
    query.exact = arguments.exact;
    query.rerank = arguments.rerank;
    if arguments.by_document {
        query.grouping = Grouping::Documents;
    }
    let started = Instant::now();
    let found = connection.client.search(&arguments.corpus, query).await?;
    let took = started.elapsed();
    let evidence: Vec<Value> = found.evidence.iter().map(output::evidence).collect();
    let document = json!({
        "evidence": evidence,
        "shards_missing": found.shards_missing,
        "cost": output::cost(found.cost.as_ref()),
        "took_ms": took.as_secs_f64() * 1e3,
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
        }
        if found.evidence.is_empty() {
            text.push_str("nothing was found\n");
        }
        text.push_str(&output::missing(&found.shards_missing));
        text.push_str(&format!("{} items in {}\n", found.evidence.len(), human(took)));
        text
    })
}
