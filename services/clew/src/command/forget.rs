//! Command `clew forget`.

use anyhow::bail;
use clap::Args;
use clew_core::{CorpusName, DocumentId};
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::command::receipt as told;
use crate::connection::Connection;
use crate::output::{Output, timestamp};

/// Arguments of `forget`.
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// Name of the corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Id of a document to forget; may be repeated.
    #[arg(long = "document", value_name = "ID", required = true)]
    pub documents: Vec<DocumentId>,
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
    let receipt = connection.client.forget(&arguments.corpus, &arguments.documents).await?;
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
    let result = json!({
        "documents": documents,
        "verified": receipt.verified,
        "scan": told::scan(receipt.scan.as_ref()),
        "snapshots": told::snapshots(&receipt.snapshots),
        "forgotten_at": receipt.forgotten_at.as_ref().map(timestamp),
    });
    output.print(&result, |_| {
        let line = |document: &clew_proto::ingest::v1::ForgottenDocument| match document.found {
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
