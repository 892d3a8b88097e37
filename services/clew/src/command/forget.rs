//! Command `clew forget`.

use anyhow::bail;
use clap::{ArgGroup, Args};
use clew_core::{CorpusName, DocumentId, Filter};
use clew_proto::convert::query::filter_to_wire;
use clew_proto::ingest::v1 as wire;
use serde_json::{Value, json};

use crate::args::filter::AttributeFilterArgs;
use crate::args::global::GlobalArgs;
use crate::command::receipt as told;
use crate::connection::Connection;
use crate::output::{Output, timestamp};

/// Arguments that select documents.
const SELECTING: [&str; 4] = ["prefix", "conditions", "from", "until"];

/// Arguments of `forget`: documents by name, or what selects them.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("which").required(true).multiple(true).args(["documents"]).args(SELECTING)
))]
pub struct ForgetArgs {
    /// Name of the corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Id of a document to forget; may be repeated.
    #[arg(long = "document", value_name = "ID", conflicts_with_all = SELECTING)]
    pub documents: Vec<DocumentId>,
    /// Forget the documents whose ids begin with this.
    #[arg(long, value_name = "ID")]
    pub prefix: Option<String>,
    /// Only show what would be forgotten.
    #[arg(long)]
    pub preview: bool,
    #[command(flatten)]
    pub filters: AttributeFilterArgs,
}

/// Forgets documents and prints the receipt.
pub async fn run(
    global: &GlobalArgs,
    arguments: ForgetArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = forget(&connection, arguments, output).await;
    connection.close().await?;
    done
}

async fn forget(
    connection: &Connection,
    arguments: ForgetArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let filter = Filter::from(arguments.filters);
    let request = wire::ForgetDocumentsRequest {
        corpus: arguments.corpus.to_string(),
        document_ids: arguments.documents.iter().map(ToString::to_string).collect(),
        filter: (!filter.is_empty()).then(|| filter_to_wire(filter)),
        id_prefix: arguments.prefix.unwrap_or_default(),
        preview: arguments.preview,
    };
    let receipt = connection.client.forget_selected(request).await?;
    if arguments.preview {
        return preview(&receipt, output);
    }
    let documents: Vec<Value> = receipt
        .documents
        .iter()
        .map(|document| {
            json!({
                "document_id": document.document_id,
                "found": document.found,
                "versions": document.versions,
                "chunks": document.chunks,
                "nodes": document.nodes,
                "memories": document.memories,
                "failures": document.failures,
                "text_bytes": document.text_bytes,
            })
        })
        .collect();
    let left = receipt.selected.saturating_sub(receipt.documents.len() as u64);
    let result = json!({
        "selected": receipt.selected,
        "documents": documents,
        "verified": receipt.verified,
        "scan": clew_client::receipt::scan(receipt.scan.as_ref()),
        "snapshots": clew_client::receipt::snapshots(&receipt.snapshots),
        "forgotten_at": receipt.forgotten_at.as_ref().map(timestamp),
    });
    output.print(&result, |_| {
        let line = |document: &wire::ForgottenDocument| match document.found {
            true => format!(
                "forgot `{}`: {} versions ({} bytes of text), {} chunks, {} tree nodes, {} \
                 compressed memories, {} failure records\n",
                document.document_id,
                document.versions,
                document.text_bytes,
                document.chunks,
                document.nodes,
                document.memories,
                document.failures
            ),
            false => format!("`{}` is not in the corpus\n", document.document_id),
        };
        let mut text: String = receipt.documents.iter().map(line).collect();
        text += &told::in_words(receipt.scan.as_ref(), &receipt.snapshots);
        if left > 0 {
            text += &format!("{left} more are selected; run the command again for the next ones\n");
        }
        text
    })?;
    if !receipt.verified {
        bail!(
            "something of the documents may still be stored; forget them again, and see the server's log"
        );
    }
    let absent = receipt.documents.iter().filter(|document| !document.found).count();
    if absent > 0 {
        bail!("{absent} of {} documents were not in the corpus", receipt.documents.len());
    }
    Ok(())
}

/// Shows what would be forgotten.
fn preview(receipt: &wire::ForgetDocumentsResponse, output: &Output) -> anyhow::Result<()> {
    let found = || receipt.documents.iter().filter(|document| document.found);
    let ids: Vec<&str> = found().map(|document| document.document_id.as_str()).collect();
    output.print(&json!({ "selected": receipt.selected, "document_ids": ids }), |_| {
        let mut text: String = ids.iter().map(|id| format!("would forget `{id}`\n")).collect();
        let more = receipt.selected.saturating_sub(receipt.documents.len() as u64);
        match (ids.is_empty(), more) {
            (true, _) => text += "would forget nothing\n",
            (false, 0) => {}
            (false, more) => text += &format!("and {more} more\n"),
        }
        text
    })
}
