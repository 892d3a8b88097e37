//! Export of a corpus.

use std::path::Path;

use anyhow::Context;
use clew_core::{CorpusName, ExportedRows};
use clew_formats::{Export, ExportFormat};
use clew_proto::convert::export::rows_from_wire;
use clew_proto::corpus::v1::export_corpus_response::Payload;
use futures::StreamExt;
use serde_json::json;

use crate::connection::Connection;
use crate::output::Output;
use crate::progress::Progress;

/// Writes everything that a corpus holds into a folder.
pub async fn export(
    connection: &Connection,
    name: &CorpusName,
    format: ExportFormat,
    folder: &Path,
    output: &Output,
) -> anyhow::Result<()> {
    let corpus = connection.client.corpus(name).await?;
    let total = corpus.counts.unwrap_or_default().documents;
    let mut export = Export::begin(folder, format)?;
    let mut progress = Progress::new("exported");
    let mut messages = std::pin::pin!(connection.client.export_corpus(name).await?);
    // Rows whose bytes may continue in the next message.
    let mut pending: Option<ExportedRows> = None;
    while let Some(message) = messages.next().await {
        match message?.payload {
            Some(Payload::Rows(rows)) => {
                write(&mut export, pending.replace(rows_from_wire(rows)))?;
            }
            Some(Payload::More(more)) => {
                let rows = pending.as_mut().context("the server's rows begin in the middle")?;
                rows.arrow.extend_from_slice(&more);
            }
            Some(Payload::Documents(documents)) => {
                write(&mut export, pending.take())?;
                progress.set(documents, total.max(documents), "documents");
            }
            None => {}
        }
    }
    write(&mut export, pending)?;
    let rows = export.finish()?;
    progress.finish();
    let result = json!({ "corpus": name, "folder": folder, "rows": rows });
    output.print(&result, |_| {
        rows.iter().map(|(table, rows)| format!("{table}: {rows} rows\n")).collect()
    })
}

fn write(export: &mut Export, rows: Option<ExportedRows>) -> anyhow::Result<()> {
    let Some(ExportedRows { table, arrow }) = rows else { return Ok(()) };
    Ok(export.write(&table, &arrow)?)
}
