//! Command `clew corpus`.

mod describe;
mod export;
mod reembed;
mod snapshots;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use clew_core::{CorpusName, SnapshotName};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::corpus::v1 as wire;
use serde_json::{Value, json};

pub use self::describe::{document, line};
use self::reembed::ReembedAction;
use self::snapshots::SnapshotAction;
use crate::args::chat::ChatDefaultsArgs;
use crate::args::chunking::ChunkingArgs;
use crate::args::global::GlobalArgs;
use crate::args::memory::MemoryFormArgs;
use crate::args::structure::StructureArgs;
use crate::connection::Connection;
use crate::output::Output;

/// Arguments of `corpus`.
#[derive(Debug, Args)]
pub struct CorpusArgs {
    #[command(subcommand)]
    pub action: CorpusAction,
}

/// Actions on corpora.
#[derive(Debug, Subcommand)]
pub enum CorpusAction {
    /// Create a corpus.
    Create {
        /// Name of the corpus: 1 to 63 of a-z, 0-9, `-`, `_`.
        name: CorpusName,
        /// Number of shards, 1 to 256; cannot be changed later.
        #[arg(long, default_value_t = 1)]
        shards: u32,
        #[command(flatten)]
        cutting: ChunkingArgs,
        #[command(flatten)]
        structure: StructureArgs,
        /// Forget each document this many days after its event time or, if it has none, after it
        /// was accepted [default: never].
        #[arg(long, value_name = "DAYS")]
        retain_days: Option<u32>,
        #[command(flatten)]
        memory: MemoryFormArgs,
        #[command(flatten)]
        chat: Box<ChatDefaultsArgs>,
    },
    /// List the corpora.
    List,
    /// Delete a corpus with everything derived from its documents.
    Delete {
        /// Name of the corpus.
        name: CorpusName,
    },
    /// Copy a corpus to a snapshot, in the server's place for snapshots, while the corpus is in
    /// use. Run the command again to continue after an interruption.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Snapshot {
        /// Name of the corpus.
        #[arg(required = true)]
        name: Option<CorpusName>,
        /// Name of the snapshot: 1 to 63 of a-z, 0-9, `-`, `_`.
        #[arg(required = true)]
        snapshot: Option<SnapshotName>,
        #[command(subcommand)]
        action: Option<SnapshotAction>,
    },
    /// Write everything that a corpus holds into a folder, one file for each table: documents,
    /// versions, chunks with their vectors, nodes, entities, relations, memories. `documents.jsonl`
    /// can be ingested again.
    Export {
        /// Name of the corpus.
        name: CorpusName,
        /// Format of the files: jsonl or parquet.
        #[arg(long)]
        format: clew_formats::ExportFormat,
        /// Folder to write to; must be empty or not exist.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// List the complete snapshots of a corpus, also of one that was deleted.
    Snapshots {
        /// Name of the corpus.
        name: CorpusName,
    },
    /// Create a corpus from a snapshot; it cannot be used before it is complete. Run the command
    /// again to continue after an interruption.
    Restore {
        /// Name that the corpus had.
        name: CorpusName,
        /// Name of the snapshot.
        snapshot: SnapshotName,
        /// File with the ids of documents that must not come back, one per line: those forgotten
        /// since.
        #[arg(long, value_name = "FILE")]
        leave_out: Option<PathBuf>,
    },
    /// Move a corpus to another embedding model, step by step, while it is in use.
    Reembed {
        #[command(subcommand)]
        action: ReembedAction,
    },
}

/// Performs an action on corpora.
pub async fn run(
    global: &GlobalArgs,
    arguments: CorpusArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = act(&connection, arguments.action, output).await;
    connection.close().await?;
    done
}

async fn act(connection: &Connection, action: CorpusAction, output: &Output) -> anyhow::Result<()> {
    match action {
        CorpusAction::Create { name, shards, cutting, structure, retain_days, memory, chat } => {
            let (chunking, structure) = (cutting.chunking(), structure.settings());
            let (retention_days, memory) = (retain_days, memory.settings());
            let chat = chat.settings();
            let new = NewCorpus { name, shards, chunking, structure, retention_days, memory, chat };
            let made = connection.client.create_corpus(new).await?;
            output.print(&document(&made), |_| format!("made corpus `{}`", made.name))
        }
        CorpusAction::List => {
            let corpora = connection.client.corpora().await?;
            let documents: Vec<Value> = corpora.iter().map(document).collect();
            output.print(&json!({ "corpora": documents }), |_| {
                corpora.iter().map(|corpus| format!("{}\n", line(corpus))).collect()
            })
        }
        CorpusAction::Delete { name } => {
            let wire::DeleteCorpusResponse { documents, snapshots } =
                connection.client.delete_corpus(&name).await?;
            let result = json!({ "deleted": name, "documents": documents, "snapshots": snapshots });
            output.print(&result, |_| {
                let kept = snapshots::kept(&name, snapshots);
                format!("deleted corpus `{name}` with {documents} documents{kept}")
            })
        }
        CorpusAction::Snapshot { action: Some(SnapshotAction::Delete(asked)), .. } => {
            snapshots::delete(connection, &asked, output).await
        }
        CorpusAction::Snapshot { name, snapshot, action: None } => {
            let (name, snapshot) = name.zip(snapshot).context("expected a corpus and a name")?;
            snapshots::take(connection, &name, &snapshot, output).await
        }
        CorpusAction::Export { name, format, out } => {
            export::export(connection, &name, format, &out, output).await
        }
        CorpusAction::Snapshots { name } => snapshots::list(connection, &name, output).await,
        CorpusAction::Restore { name, snapshot, leave_out } => {
            let left_out = leave_out.as_deref().map(snapshots::read_ids).transpose()?;
            let left_out = left_out.unwrap_or_default();
            snapshots::restore(connection, &name, &snapshot, &left_out, output).await
        }
        CorpusAction::Reembed { action } => reembed::run(connection, action, output).await,
    }
}
