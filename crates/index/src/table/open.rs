//! Opens a table, and creates it if it does not exist.

use std::sync::Arc;

use futures::FutureExt;
use lance::dataset::{ReadParams, WriteParams};
use lance_table::io::commit::CommitHandler;
use lancedb::table::WriteOptions;
use lancedb::{Connection, Table};

use crate::error::{Error, Operation, Result};
use crate::storage::{Storage, durable, on_files};
use crate::table::engine::run;
use crate::table::fence::Fence;
use crate::table::kind::TableKind;
use crate::table::vectors::VectorColumn;
use crate::table::{Stored, schema};

impl Stored {
    /// Opens the table. Creates it if it does not exist.
    pub(crate) async fn open(
        connection: &Connection,
        shard: &Storage,
        kind: TableKind,
        vectors: &[VectorColumn],
    ) -> Result<Self> {
        let place = shard.join(&format!("{}.lance", kind.name()));
        heal(&place, kind).await?;
        let fence = Arc::new(Fence::default());
        let table = match find(connection, kind, &fence).await? {
            Some(table) => table,
            None => {
                if !exists(&place, kind).await? {
                    create(connection, kind, vectors, &fence).await?;
                }
                let gone = || Error::of_table(kind, Operation::Open, "it is not there".into());
                find(connection, kind, &fence).await?.ok_or_else(gone)?
            }
        };
        let stored = run(kind, Operation::Open, table.schema()).await?;
        schema::check(kind, &stored, vectors)?;
        let opened = Self { kind, table, fence, place, synced: None };
        opened.adopt().await?;
        Ok(opened)
    }
}

/// Opens the table if it exists. In a bucket, that is one listing and its newest manifest.
async fn find(
    connection: &Connection,
    kind: TableKind,
    fence: &Arc<Fence>,
) -> Result<Option<Table>> {
    let handler: Arc<dyn CommitHandler> = Arc::clone(fence) as _;
    let read = ReadParams { commit_handler: Some(handler), ..ReadParams::default() };
    let open = connection.open_table(kind.name()).lance_read_params(read).execute();
    let open = open.map(|opened| match opened {
        Err(lancedb::Error::TableNotFound { .. }) => Ok(None),
        opened => opened.map(Some),
    });
    run(kind, Operation::Open, open).await
}

async fn heal(table: &Storage, kind: TableKind) -> Result<()> {
    let Some(folder) = table.folder().map(ToOwned::to_owned) else { return Ok(()) };
    if on_files("look for torn commits", move || durable::remove_torn_commit(&folder)).await? {
        tracing::warn!(table = kind.name(), "removed an empty manifest that a power cut left");
    }
    Ok(())
}

/// Returns whether the table exists. A table with rows whose manifests are gone is an error and is
/// not created anew.
async fn exists(table: &Storage, kind: TableKind) -> Result<bool> {
    const DOING: &str = "look for the table";
    let has_manifest = || async {
        let names = table.join("_versions").names(DOING).await?;
        Ok(names.iter().any(|name| name.ends_with(".manifest")))
    };
    if has_manifest().await? {
        return Ok(true);
    }
    let has_rows = !table.join("data").names(DOING).await?.is_empty();
    // Another owner may have created it meanwhile: rows come after the first manifest.
    match has_manifest().await? {
        false if has_rows => {
            Err(Error::of_table(kind, Operation::Open, "there are rows but no manifest".into()))
        }
        found => Ok(found),
    }
}

/// Creates the table, unless another process does so at the same time.
async fn create(
    connection: &Connection,
    kind: TableKind,
    vectors: &[VectorColumn],
    fence: &Arc<Fence>,
) -> Result<()> {
    let write = WriteParams { commit_handler: Some(Arc::clone(fence) as _), ..Default::default() };
    let create = connection
        .create_empty_table(kind.name(), kind.schema(vectors))
        .write_options(WriteOptions { lance_write_params: Some(write) })
        .execute();
    let create = create.map(|created| match created {
        Err(lancedb::Error::TableAlreadyExists { .. }) => Ok(()),
        created => created.map(drop),
    });
    match run(kind, Operation::Create, create).await {
        // The fence found another owner's first version.
        Err(Error::LostRace { .. }) => Ok(()),
        created => created,
    }
}
