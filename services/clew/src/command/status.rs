//! Command `clew status`.

use clap::Args;
use clew_core::{CorpusName, DocumentId};
use clew_proto::ingest::v1 as wire;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::command::corpus;
use crate::connection::Connection;
use crate::output::{Output, timestamp};

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Name of the corpus; without it, all corpora are shown.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
    /// Show the state of this document.
    #[arg(long, value_name = "ID", requires = "corpus")]
    pub document: Option<DocumentId>,
}

/// Shows corpora, one corpus, or one document.
pub async fn run(
    global: &GlobalArgs,
    arguments: StatusArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = status(&connection, arguments, output).await;
    connection.close().await?;
    done
}

async fn status(
    connection: &Connection,
    arguments: StatusArgs,
    output: &Output,
) -> anyhow::Result<()> {
    match (arguments.corpus, arguments.document) {
        (Some(name), Some(id)) => one_document(connection, &name, &id, output).await,
        (Some(name), None) => {
            let described = connection.client.corpus(&name).await?;
            let failed = connection.client.documents(&name, wire::DocumentStage::Failed).await?;
            let mut document = corpus::document(&described);
            document["failed"] = failed.iter().map(state_document).collect();
            output.print(&document, |_| {
                let mut text = format!("{}\n", corpus::line(&described));
                for state in &failed {
                    text.push_str(&format!("  failed {}\n", state_line(state)));
                }
                text
            })
        }
        (None, _) => {
            let corpora = connection.client.corpora().await?;
            let documents: Vec<Value> = corpora.iter().map(corpus::document).collect();
            output.print(&json!({ "corpora": documents }), |_| match corpora.is_empty() {
                true => "there is no corpus; make one with `clew corpus create NAME`".to_owned(),
                false => corpora.iter().map(|c| format!("{}\n", corpus::line(c))).collect(),
            })
        }
    }
}

async fn one_document(
    connection: &Connection,
    corpus: &CorpusName,
    id: &DocumentId,
    output: &Output,
) -> anyhow::Result<()> {
    let (_, state) = connection.client.document(corpus, id).await?;
    output.print(&state_document(&state), |_| state_line(&state))
}

fn stage(state: &wire::DocumentState) -> String {
    state.stage().as_str_name().trim_start_matches("DOCUMENT_STAGE_").to_lowercase()
}

/// Returns the state of a document as JSON.
pub fn state_document(state: &wire::DocumentState) -> Value {
    json!({
        "document_id": state.id,
        "log_tag": log_tag(state),
        "stage": stage(state),
        "version": state.version,
        "live_version": state.live_version,
        "attempts": state.attempts,
        "last_error": state.last_error,
        "waits_for": state.waits_for,
        "text_bytes": state.text_bytes,
        "chunks": state.chunks,
        "labels": state.labels,
        "source_version": state.source_version,
        "accepted_at": state.accepted_at.as_ref().map(timestamp),
    })
}

/// Returns the name of the document in the server's logs.
fn log_tag(state: &wire::DocumentState) -> Option<String> {
    state.id.parse::<DocumentId>().ok().map(|id| id.log_tag())
}

/// Describes the state of a document in one line.
pub fn state_line(state: &wire::DocumentState) -> String {
    let mut line = format!("{}: {}, {} chunks", state.id, stage(state), state.chunks);
    if !state.last_error.is_empty() {
        line.push_str(&format!(", {} attempts, last error: {}", state.attempts, state.last_error));
        if let Some(tag) = log_tag(state) {
            line.push_str(&format!(", in logs {tag}"));
        }
    }
    if !state.labels.is_empty() {
        line.push_str(&format!(", needs the labels {}", state.labels.join(", ")));
    }
    if !state.waits_for.is_empty() {
        line.push_str(&format!(", waits for {}", state.waits_for));
    }
    line
}
