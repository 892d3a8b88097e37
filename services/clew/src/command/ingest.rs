//! Command `clew ingest`.

mod estimate;
mod report;
mod stream;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use clew_core::{
    AttributeName, AttributeValue, Attributes, CorpusName, Document, Error, ErrorKind, IfThere,
    Label, Labels, Limits, StructureSettings,
};
use clew_formats::{Columns, Discovery, Naming, Options, Unreadable};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::DocumentStage;
use futures::StreamExt;
use futures::future::try_join_all;
use serde_json::json;
use tokio::sync::mpsc;

use self::estimate::estimate;
use self::report::DocumentResult;
pub use self::report::IngestReport;
use self::stream::SendingStream;
use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::connection::Connection;
use crate::output::{Output, human};
use crate::progress::Progress;

/// Arguments of `ingest`.
#[derive(Debug, Args)]
pub struct IngestArgs {
    /// Name of the corpus; it is created with default settings if it does not exist.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Files, folders, globs, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// Folder from which files are named: the id of a file's document is its path below this
    /// folder. Files elsewhere are refused [default: the path as it is given].
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    /// Refuse a document if one with the same id and other content exists, instead of replacing it.
    #[arg(long)]
    pub no_replace: bool,
    /// Format of standard input.
    #[arg(long, default_value = "jsonl", value_name = "FORMAT")]
    pub stdin_format: clew_formats::FileFormat,
    /// Column, or JSON field, that holds the text.
    #[arg(long, default_value = "text", value_name = "NAME")]
    pub text_column: String,
    /// Column, or JSON field, that holds the id.
    #[arg(long, default_value = "id", value_name = "NAME")]
    pub id_column: String,
    /// Column, or JSON field, with the number by which the source orders the states of a document.
    /// A document with a lower number than the stored one changes nothing.
    #[arg(long, default_value = "source_version", value_name = "NAME")]
    pub source_version_column: String,
    /// Access label that every document gets besides its own (column or field `labels`); may be
    /// repeated. Only callers who hold all labels of a document see it.
    #[arg(long = "label", value_name = "LABEL")]
    pub labels: Vec<Label>,
    /// Attribute that every document gets, unless it has one of that name; may be repeated. Values
    /// are read as those of `--where`: `year=2020` is an integer and `year="2020"` a text.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = attribute)]
    pub attributes: Vec<(AttributeName, AttributeValue)>,
    /// Number of streams that send documents at the same time. The versions of one document keep
    /// their order.
    #[arg(long, default_value_t = 4, value_name = "COUNT",
        value_parser = clap::value_parser!(u8).range(1..=64))]
    pub streams: u8,
    /// Write what became of each document to this file, one JSON object per line.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Only estimate what the ingestion would take, and change nothing. A corpus that does not
    /// exist is estimated with default settings.
    #[arg(long)]
    pub estimate: bool,
    /// Return when everything is accepted, without waiting until it can be found.
    #[arg(long, conflicts_with = "estimate")]
    pub no_wait: bool,
}

/// Number of documents that are read ahead for a stream.
const READ_AHEAD: usize = 16;
/// Number of retries of a request to a server that is away, and the pause between them.
const INTERRUPTIONS: usize = 60;
const INTERRUPTION: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Number of fates that may wait for the report.
const FATES: usize = 256;

/// Ingests files and waits until they can be found.
pub async fn run(
    global: &GlobalArgs,
    arguments: IngestArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let naming = match &arguments.root {
        None => Naming::as_given(),
        Some(root) => Naming::below(root)
            .with_context(|| format!("cannot name files from --root {}", root.display()))?,
    };
    let document_bytes = ClewConfig::load(global, None)?.roles.gateway.max_document_bytes;
    let limits = Limits { document_bytes, ..Limits::default() };
    let connection = Connection::open(global).await?;
    let done = ingest(&connection, arguments, (naming, limits), output).await;
    connection.close().await?;
    done
}

async fn ingest(
    connection: &Connection,
    arguments: IngestArgs,
    (naming, limits): (Naming, Limits),
    output: &Output,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let IngestArgs { corpus, paths, stdin_format, .. } = &arguments;
    let options = Options {
        columns: Columns {
            text: arguments.text_column.clone(),
            id: arguments.id_column.clone(),
            source_version: arguments.source_version_column.clone(),
            ..Columns::default()
        },
        labels: Labels::new(arguments.labels.iter().cloned())?,
        attributes: each_once(&arguments.attributes)?,
        limits,
    };
    if !arguments.estimate {
        make_if_missing(connection, corpus, Some(StructureSettings::default())).await?;
    }
    let discovery = discover(paths.clone(), naming, *stdin_format).await?;
    let expected = estimate(connection, corpus, &discovery, &options).await;
    if arguments.estimate {
        let expected = expected?;
        return output.print(&expected.document(), |_| expected.table());
    }
    let mut report = IngestReport::into_file(arguments.report.as_deref()).await?;
    match &expected {
        Ok(expected) => eprintln!("{expected}"),
        // Ingestion begins anyway: accepted documents wait for graph builders and encoders that are
        // away.
        Err(error) => eprintln!("no estimate of what it takes: {error:#}"),
    }
    let before = connection.client.corpus(corpus).await?.counts.unwrap_or_default();
    let sending = Sending {
        streams: arguments.streams,
        if_there: if arguments.no_replace { IfThere::Refuse } else { IfThere::Replace },
    };
    let sent = send(connection, corpus, discovery, options, sending, &mut report).await;
    // The report holds what became of documents, even if sending failed.
    report.finish().await?;
    sent?;
    let accepted_in = started.elapsed();
    if !arguments.no_wait {
        wait_until_found(connection, corpus).await?;
        let failed = async || connection.client.documents(corpus, DocumentStage::Failed).await;
        for failed in patiently(failed).await? {
            report.add(&DocumentResult::Failed { id: failed.id, error: failed.last_error }).await?;
        }
        report.finish().await?;
        // A server continues by itself. This process would end with the work undone.
        if connection.node().is_some() {
            wait_until_structured(connection, corpus).await?;
        }
    }
    let summary = report.summary;
    let after = patiently(async || connection.client.corpus(corpus).await).await?;
    let after = after.counts.unwrap_or_default();
    let took = started.elapsed();
    let document = json!({
        "corpus": corpus,
        "estimate": expected.ok().map(|expected| expected.document()),
        "accepted": summary.accepted(),
        "new": summary.new,
        "replaced": summary.replaced,
        "unchanged": summary.unchanged,
        "refused": summary.refusals,
        "refused_total": summary.refused,
        "unreadable": summary.unread,
        "unreadable_total": summary.unreadable,
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
            "{} documents accepted ({} new, {} replaced), {} unchanged, {} refused, {} unreadable in {}\n",
            summary.accepted(),
            summary.new,
            summary.replaced,
            summary.unchanged,
            summary.refused,
            summary.unreadable,
            human(took)
        );
        if summary.unknown_files > 0 {
            text.push_str(&format!(
                "{} files of unknown format passed over\n",
                summary.unknown_files
            ));
        }
        for problem in summary.refusals.iter().chain(&summary.unread).take(20) {
            text.push_str(&format!("  {problem}\n"));
        }
        text.push_str(&format!(
            "corpus `{corpus}`: {} documents, {} chunks, {} tokens\n",
            after.documents, after.chunks, after.tokens
        ));
        text
    })?;
    let problems = summary.refused + summary.unreadable;
    if problems > 0 {
        bail!("{problems} documents were not taken in; the others were");
    }
    let newly_failed = after.failed_documents.saturating_sub(before.failed_documents);
    if !arguments.no_wait && newly_failed > 0 {
        bail!("{newly_failed} documents could not be indexed; `clew status` says why");
    }
    if summary.accepted() + summary.unchanged == 0 {
        bail!("there was nothing to take in");
    }
    Ok(())
}

/// Parses an attribute of the command line.
fn attribute(text: &str) -> Result<(AttributeName, AttributeValue), String> {
    let (name, value) =
        text.split_once('=').ok_or("expected NAME=VALUE, such as `lang=en`, got no `=`")?;
    let told = |error: Error| match error.violations() {
        [violation, ..] => violation.description.clone(),
        [] => error.to_string(),
    };
    Ok((name.to_owned().try_into().map_err(told)?, value.parse().map_err(told)?))
}

/// Returns attributes, none of which is given twice.
fn each_once(attributes: &[(AttributeName, AttributeValue)]) -> anyhow::Result<Attributes> {
    let mut named = Attributes::new();
    for (name, value) in attributes {
        if let Some(first) = named.insert(name.clone(), value.clone()) {
            bail!("expected each --attribute once, got `{name}={first}` and `{name}={value}`");
        }
    }
    Ok(named)
}

/// Creates a corpus if none has that name.
pub async fn make_if_missing(
    connection: &Connection,
    corpus: &CorpusName,
    structure: Option<StructureSettings>,
) -> anyhow::Result<()> {
    match connection.client.corpus(corpus).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let (name, chunking, retention_days) = (corpus.clone(), None, None);
            let (memory, chat) = (None, None);
            let new =
                NewCorpus { name, shards: 1, chunking, structure, retention_days, memory, chat };
            match connection.client.create_corpus(new).await {
                // Another process created it in between.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                made => made.map(|_| ()).map_err(Into::into),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds the files that `paths` name. `naming` decides their ids.
pub async fn discover(
    paths: Vec<String>,
    naming: Naming,
    standard_input: clew_formats::FileFormat,
) -> anyhow::Result<Discovery> {
    tokio::task::spawn_blocking(move || clew_formats::discover(&paths, &naming, standard_input))
        .await
        .context("looking for files panicked")
}

/// Options for sending documents.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Number of streams.
    pub streams: u8,
    /// Treatment of a document whose id is taken.
    pub if_there: IfThere,
}

/// Reads files and sends their documents, until the server has answered for each.
pub async fn send(
    connection: &Connection,
    corpus: &CorpusName,
    discovery: Discovery,
    options: Options,
    Sending { streams, if_there }: Sending,
    report: &mut IngestReport,
) -> anyhow::Result<()> {
    report.summary.unknown_files = discovery.unknown;
    for problem in &discovery.problems {
        report.add(&unreadable(problem)).await?;
    }
    let files = discovery.files.len() as u64;
    let (fates, mut told) = mpsc::channel(FATES);
    let (queues, sources): (Vec<_>, Vec<_>) =
        (0..streams.max(1)).map(|_| mpsc::channel(READ_AHEAD)).unzip();
    let reading = {
        let fates = fates.clone();
        tokio::task::spawn_blocking(move || read(discovery, &options, &queues, &fates))
    };
    let sending = try_join_all(sources.into_iter().map(|source| {
        let (client, corpus) = (connection.client.clone(), corpus.clone());
        SendingStream::new(client, corpus, if_there, fates.clone()).run(source)
    }));
    drop(fates);
    let telling = async {
        let mut progress = Progress::new("accepted");
        while let Some(fate) = told.recv().await {
            report.add(&fate).await?;
            let done = report.summary.accepted() + report.summary.unchanged;
            progress.set(done, files.max(done), &report.summary.taken());
        }
        progress.finish();
        Ok(())
    };
    // If one stream fails, dropping the others ends the reading and the reporting.
    let (sent, told) = futures::join!(sending, telling);
    reading.await.context("reading files panicked")?;
    told.and(sent.map(drop))
}

/// Reads the documents of files into the queues of the streams, as fast as each stream takes them.
/// Documents with the same id go through the same queue.
fn read(
    discovery: Discovery,
    options: &Options,
    queues: &[mpsc::Sender<Document>],
    fates: &mpsc::Sender<DocumentResult>,
) {
    for found in discovery.files {
        for document in clew_formats::read(found.source, found.format, options) {
            let goes_on = match document {
                Ok(document) => {
                    let mut hasher = DefaultHasher::new();
                    document.id.hash(&mut hasher);
                    let queue = hasher.finish() % queues.len() as u64;
                    queues[queue as usize].blocking_send(document).is_ok()
                }
                Err(problem) => fates.blocking_send(unreadable(&problem)).is_ok(),
            };
            // A stream has failed, and its error says why.
            if !goes_on {
                return;
            }
        }
    }
}

fn unreadable(problem: &Unreadable) -> DocumentResult {
    DocumentResult::Unreadable { place: problem.place.to_string(), problem: problem.to_string() }
}

/// Retries a request until the server answers, within bounds, to wait for a server that restarts.
async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..INTERRUPTIONS {
        match ask().await {
            Err(error) if error.is_retryable() => {
                tracing::info!(error = error.chain(), "asked again");
                tokio::time::sleep(INTERRUPTION).await;
            }
            answered => return answered,
        }
    }
    ask().await
}

/// Shows progress until no document of the corpus is pending.
pub async fn wait_until_found(connection: &Connection, corpus: &CorpusName) -> anyhow::Result<()> {
    let mut progress = Progress::new("indexed");
    patiently(async || {
        let reports = connection.client.watch_until_idle(corpus).await?;
        futures::pin_mut!(reports);
        while let Some(report) = reports.next().await {
            let report = report?;
            let message = format!("documents, {} chunks", report.chunks);
            progress.set(report.indexed_documents, report.documents, &message);
        }
        Ok(())
    })
    .await?;
    progress.finish();
    Ok(())
}

/// Waits until the trees and the graph of the corpus are built, if it has any.
pub async fn wait_until_structured(
    connection: &Connection,
    corpus: &CorpusName,
) -> anyhow::Result<()> {
    let mut progress = Progress::new("trees and graph");
    loop {
        let described = connection.client.corpus(corpus).await?;
        let counts = described.counts.unwrap_or_default();
        if described.structure.is_none() || counts.unstructured_documents == 0 {
            break;
        }
        let total = counts.structured_documents + counts.unstructured_documents;
        progress.set(counts.structured_documents, total, &format!("{} nodes", counts.nodes));
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    progress.finish();
    Ok(())
}
