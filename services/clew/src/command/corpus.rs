//! `clew corpus`.

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

/// What to do with corpora.
#[derive(Debug, Subcommand)]
pub enum CorpusAction {
    /// Make a corpus.
    Create {
        /// Its name: 1 to 63 of a-z, 0-9, `-`, `_`.
        name: CorpusName,
        /// Number of shards, 1 to 256; fixed from then on.
        #[arg(long, default_value_t = 1)]
        shards: u32,
        #[command(flatten)]
        cutting: ChunkingArgs,
        #[command(flatten)]
        structure: StructureArgs,
        /// Forget documents so many days after what they tell of happened, or, where they have no event time,
        /// after they were accepted [default: never].
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
        /// Its name.
        name: CorpusName,
    },
    /// Copy a corpus to a snapshot, in the place that the server has for them, while it goes on being used.
    /// Run it again to go on where it was interrupted.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Snapshot {
        /// The corpus.
        #[arg(required = true)]
        name: Option<CorpusName>,
        /// Name of the snapshot: 1 to 63 of a-z, 0-9, `-`, `_`.
        #[arg(required = true)]
        snapshot: Option<SnapshotName>,
        #[command(subcommand)]
        action: Option<SnapshotAction>,
    },
    /// Write all that a corpus holds into a folder, a file for each table: documents, versions, chunks with
    /// their vectors, nodes, entities, relations, memories. `documents.jsonl` can be ingested again.
    Export {
        /// The corpus.
        name: CorpusName,
        /// jsonl or parquet.
        #[arg(long)]
        format: clew_formats::ExportFormat,
        /// Folder to write to: empty, or none yet.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// List the whole snapshots of a corpus, also of one that is gone.
    Snapshots {
        /// The corpus.
        name: CorpusName,
    },
    /// Make a corpus out of a snapshot; nobody finds it before it is whole. Run it again to go on where it
    /// was interrupted.
    Restore {
        /// The corpus, by the name it had.
        name: CorpusName,
        /// The snapshot.
        snapshot: SnapshotName,
        /// File with ids of documents that are not to come back, one a line: those forgotten since.
        #[arg(long, value_name = "FILE")]
        leave_out: Option<PathBuf>,
    },
    /// Move a corpus to another embedding model, step by step, while it goes on being used.
    Reembed {
        #[command(subcommand)]
        action: ReembedAction,
    },
}

/// Makes, lists or deletes corpora.
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
