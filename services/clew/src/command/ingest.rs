//! `clew ingest`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clew_core::{CorpusName, Document, ErrorKind};
use clew_formats::{Columns, Options, Unreadable};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::cli::{Ingest, Shared};
use crate::connection::Connection;
use crate::output::{Output, human};
use crate::progress::Progress;

/// Documents read ahead of what the server takes.
const READ_AHEAD: usize = 16;

/// What became of an ingestion.
#[derive(Debug, Default)]
pub struct Summary {
    /// Documents that were committed.
    pub accepted: u64,
    /// Documents that were there already.
    pub unchanged: u64,
    /// Documents the server refused, as JSON.
    pub refused: Vec<Value>,
    /// Files or rows that could not be read, as JSON.
    pub unreadable: Vec<Value>,
    /// Files of unknown format that were passed over.
    pub unknown_files: u64,
}

/// Takes files in and waits until they can be found.
pub async fn run(shared: &Shared, arguments: Ingest, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(shared).await?;
    let done = ingest(&connection, arguments, output).await;
    connection.close().await?;
    done
}

async fn ingest(connection: &Connection, arguments: Ingest, output: &Output) -> anyhow::Result<()> {
    let started = Instant::now();
    make_if_missing(connection, &arguments.corpus).await?;
    let options = Options {
        columns: Columns {
            text: arguments.text_column.clone(),
            id: arguments.id_column.clone(),
            ..Columns::default()
        },
        ..Options::default()
    };
    let before = connection.client.corpus(&arguments.corpus).await?.counts.unwrap_or_default();
    let summary =
        send(connection, &arguments.corpus, arguments.paths, arguments.stdin_format, options)
            .await?;
    let accepted_in = started.elapsed();
    if !arguments.no_wait {
        wait_until_found(connection, &arguments.corpus).await?;
    }
    let after = connection.client.corpus(&arguments.corpus).await?.counts.unwrap_or_default();
    let took = started.elapsed();
    let document = json!({
        "corpus": arguments.corpus,
        "accepted": summary.accepted,
        "unchanged": summary.unchanged,
        "refused": summary.refused,
        "unreadable": summary.unreadable,
        "unknown_files": summary.unknown_files,
        "documents": after.documents,
        "pending_documents": after.pending_documents,
        "failed_documents": after.failed_documents,
        "chunks": after.chunks,
        "tokens": after.tokens,
        "new_tokens": after.tokens.saturating_sub(before.tokens),
        "accepted_secs": accepted_in.as_secs_f64(),
        "took_secs": took.as_secs_f64(),
    });
    output.print(&document, |_| {
        let mut text = format!(
            "{} documents accepted, {} unchanged, {} refused, {} unreadable in {}\n",
            summary.accepted,
            summary.unchanged,
            summary.refused.len(),
            summary.unreadable.len(),
            human(took)
        );
        if summary.unknown_files > 0 {
            text.push_str(&format!(
                "{} files of unknown format passed over\n",
                summary.unknown_files
            ));
        }
        for problem in summary.refused.iter().chain(&summary.unreadable).take(20) {
            text.push_str(&format!("  {problem}\n"));
        }
        text.push_str(&format!(
            "corpus `{}`: {} documents, {} chunks, {} tokens\n",
            arguments.corpus, after.documents, after.chunks, after.tokens
        ));
        text
    })?;
    let problems = summary.refused.len() + summary.unreadable.len();
    if problems > 0 {
        bail!("{problems} documents were not taken in; the others were");
    }
    let newly_failed = after.failed_documents.saturating_sub(before.failed_documents);
    if !arguments.no_wait && newly_failed > 0 {
        bail!("{newly_failed} documents could not be indexed; `clew status` says why");
    }
    if summary.accepted + summary.unchanged == 0 {
        bail!("there was nothing to take in");
    }
    Ok(())
}

async fn make_if_missing(connection: &Connection, corpus: &CorpusName) -> anyhow::Result<()> {
    match connection.client.corpus(corpus).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let new = NewCorpus { name: corpus.clone(), shards: 1, chunking: None };
            match connection.client.create_corpus(new).await {
                // Somebody else was first.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                made => made.map(|_| ()).map_err(Into::into),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads files and sends their documents until the server answered each.
pub async fn send(
    connection: &Connection,
    corpus: &CorpusName,
    paths: Vec<String>,
    standard_input: clew_formats::Format,
    options: Options,
) -> anyhow::Result<Summary> {
    let mut summary = Summary::default();
    let discovery =
        tokio::task::spawn_blocking(move || clew_formats::discover(&paths, standard_input))
            .await
            .context("looking for files panicked")?;
    summary.unknown_files = discovery.unknown;
    summary.unreadable.extend(discovery.problems.iter().map(unreadable));
    if discovery.files.is_empty() && summary.unreadable.is_empty() {
        return Ok(summary);
    }

    let files = discovery.files.len() as u64;
    let unread = Arc::new(Mutex::new(Vec::new()));
    let (documents, to_send) = mpsc::channel::<Document>(READ_AHEAD);
    let problems = Arc::clone(&unread);
    let reading = tokio::task::spawn_blocking(move || {
        for found in discovery.files {
            for document in clew_formats::read(found.source, found.format, &options) {
                let sent = match document {
                    Ok(document) => documents.blocking_send(document).is_ok(),
                    Err(problem) => {
                        let problem = unreadable(&problem);
                        problems.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
                        true
                    }
                };
                if !sent {
                    // The server is gone; the stream of responses says why.
                    return;
                }
            }
        }
    });
    let responses = connection.client.ingest(corpus, ReceiverStream::new(to_send)).await?;
    futures::pin_mut!(responses);
    let mut progress = Progress::new("accepted");
    while let Some(response) = responses.next().await {
        let response = response.context(
            "the stream broke off; run the same command again, what was accepted is kept",
        )?;
        match response.result {
            Some(Outcome::Accepted(accepted)) if accepted.unchanged => summary.unchanged += 1,
            Some(Outcome::Accepted(_)) => summary.accepted += 1,
            Some(Outcome::Refused(refused)) => summary.refused.push(json!({
                "document_id": response.document_id,
                "reason": refused.reason,
                "message": refused.message,
                "fields": refused.violations.iter().map(|v| v.field.as_str()).collect::<Vec<_>>(),
            })),
            None => bail!("the server's response says neither accepted nor refused"),
        }
        let done = summary.accepted + summary.unchanged;
        progress.set(done, files.max(done), "documents");
    }
    progress.finish();
    reading.await.context("reading files panicked")?;
    let unread = std::mem::take(&mut *unread.lock().unwrap_or_else(PoisonError::into_inner));
    summary.unreadable.extend(unread);
    Ok(summary)
}

fn unreadable(problem: &Unreadable) -> Value {
    json!({ "place": problem.place.to_string(), "problem": problem.to_string() })
}

/// Shows progress until nothing of the corpus is pending.
pub async fn wait_until_found(connection: &Connection, corpus: &CorpusName) -> anyhow::Result<()> {
    let mut progress = Progress::new("indexed");
    let mut interrupted = 0;
    loop {
        let reports = connection.client.watch_until_idle(corpus).await?;
        futures::pin_mut!(reports);
        let mut broken = None;
        while let Some(report) = reports.next().await {
            match report {
                Ok(report) => {
                    interrupted = 0;
                    progress.set(
                        report.indexed_documents,
                        report.documents,
                        &format!("documents, {} chunks", report.chunks),
                    );
                }
                Err(error) => broken = Some(error),
            }
        }
        match broken {
            None => break,
            // A shard that restarts is waited for, within bounds.
            Some(error) if error.is_retryable() && interrupted < 20 => {
                interrupted += 1;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Some(error) => return Err(error.into()),
        }
    }
    progress.finish();
    Ok(())
}
