//! Command `clew ingest`.

mod estimate;
mod inputs;
mod report;
mod reporter;
mod sending;
mod source;
mod stream;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use clew_core::{
    AttributeName, AttributeValue, Attributes, CorpusName, DocumentId, Error, ErrorKind, IfThere,
    Label, Labels, Limits, PartStage, RunName, StructureSettings,
};
use clew_formats::{Columns, Discovery, Naming, Options, SourcePart};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::DocumentStage;
use futures::StreamExt;
use serde_json::json;

use self::estimate::estimate;
pub use self::inputs::Inputs;
use self::report::DocumentResult;
pub use self::report::IngestReport;
use self::reporter::RunReporter;
pub use self::sending::Sending;
use self::sending::{Sender, unreadable};
use self::source::{DeleteAtMost, KnownSource, SourceName};
use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::connection::Connection;
use crate::output::{Output, human};
use crate::patience::patiently;
use crate::progress::Progress;

/// Arguments of `ingest`.
#[derive(Debug, Args)]
pub struct IngestArgs {
    /// Name of the corpus; it is created with default settings if it does not exist.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Files, folders, globs, `s3://bucket/prefix`, or `-` for standard input.
    #[arg(required_unless_present = "paths_from", value_name = "PATH")]
    pub paths: Vec<String>,
    /// File with more paths, one per line.
    #[arg(long, value_name = "FILE")]
    pub paths_from: Option<PathBuf>,
    /// Folder from which files are named: the id of a file's document is its path below this
    /// folder. Files elsewhere are refused [default: the path as it is given]. Objects in a bucket
    /// are named by their keys below the prefix.
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
    #[command(flatten)]
    pub job: JobArgs,
}

/// Arguments of `ingest` for jobs that run again, or in several processes.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Name of the source: files that the corpus has from it as they are now are not read again.
    /// Documents get the attribute `source`.
    #[arg(long, value_name = "NAME", conflicts_with = "no_replace")]
    pub source: Option<SourceName>,
    /// Forget documents of the source whose files have vanished, once everything is sent. With
    /// several parts, the last of them does it.
    #[arg(long, requires = "source", conflicts_with = "estimate")]
    pub delete_missing: bool,
    /// Forget none if more of the source's documents than this have vanished: a number or a
    /// percentage.
    #[arg(long, requires = "delete_missing", default_value = "5%", value_name = "LIMIT")]
    pub delete_at_most: DeleteAtMost,
    /// Read files of the source again whose documents were refused or could not be indexed. Those
    /// documents are forgotten first.
    #[arg(long, requires = "source", conflicts_with = "estimate")]
    pub retry_failed: bool,
    /// Read only this part of the files, such as `0/4`: a hash of each file's name decides. Row
    /// groups of large Parquet files are divided as well.
    #[arg(long, value_name = "INDEX/COUNT", conflicts_with = "parts")]
    pub part: Option<SourcePart>,
    /// Number of parts of a Kubernetes Indexed Job: this process reads the part of the index that
    /// the job gives it in `JOB_COMPLETION_INDEX`.
    #[arg(long, value_name = "COUNT")]
    pub parts: Option<u32>,
    /// Name of the run that this process is a part of. `clew run wait` waits for all its parts.
    #[arg(long, value_name = "NAME", conflicts_with = "estimate")]
    pub run: Option<RunName>,
}

impl JobArgs {
    /// Returns the part that this process reads.
    ///
    /// # Errors
    /// Returns an error if the index of the job is not there, or is wrong.
    fn part(&self) -> anyhow::Result<SourcePart> {
        match (self.part, self.parts) {
            (Some(part), _) => Ok(part),
            (None, None) => Ok(SourcePart::WHOLE),
            (None, Some(count)) => {
                let index = std::env::var(JOB_INDEX).ok().and_then(|index| index.parse().ok());
                let index = index.with_context(|| {
                    format!("expected the index of the part in {JOB_INDEX}; or name it by --part")
                })?;
                Ok(SourcePart::try_new(index, count)?)
            }
        }
    }
}

/// Variable in which Kubernetes tells the pods of an Indexed Job their index.
const JOB_INDEX: &str = "JOB_COMPLETION_INDEX";
const LOOK_AGAIN: Duration = Duration::from_millis(250);

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
    let config = ClewConfig::load(global, None)?.roles;
    let document_bytes = config.gateway.max_document_bytes;
    let limits = Limits { document_bytes, ..Limits::default() };
    let mut paths = arguments.paths.clone();
    if let Some(list) = &arguments.paths_from {
        paths.extend(inputs::paths_of(list)?);
    }
    let inputs =
        Inputs { paths, naming, stdin_format: arguments.stdin_format, s3: config.ingest.s3 };
    let job = Job::of(&arguments, inputs)?;
    let connection = Connection::open(global).await?;
    let done = Box::pin(ingest(&connection, arguments, job, limits, output)).await;
    connection.close().await?;
    done
}

/// Where a process finds its files, and which it reads.
struct Job {
    inputs: Inputs,
    part: SourcePart,
}

impl Job {
    fn of(arguments: &IngestArgs, inputs: Inputs) -> anyhow::Result<Self> {
        let part = arguments.job.part()?;
        let is_divided = part != SourcePart::WHOLE;
        if is_divided && inputs.paths.iter().any(|path| path == "-") {
            bail!("expected files or objects with parts, got standard input, which is one file");
        }
        if is_divided && arguments.job.delete_missing && arguments.job.run.is_none() {
            bail!("expected --run with --delete-missing and parts: it tells when all have listed");
        }
        Ok(Self { inputs, part })
    }
}

async fn ingest(
    connection: &Connection,
    arguments: IngestArgs,
    Job { inputs, part }: Job,
    limits: Limits,
    output: &Output,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let corpus = &arguments.corpus;
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
    let client = &connection.client;
    let source = arguments.job.source.clone();
    let source = source
        .map(|name| Arc::new(KnownSource::new(client.clone(), corpus.clone(), name, &options)));
    // An estimate leaves the report of an earlier ingestion alone.
    let file = arguments.report.as_deref().filter(|_| !arguments.estimate);
    let mut report = IngestReport::into_file(file).await?;
    let run = arguments.job.run.clone();
    let mut run = run.map(|run| RunReporter::new(client.clone(), corpus.clone(), run, part));
    if let Some(run) = &mut run {
        run.tell(PartStage::Listing, report.counts()).await?;
    }
    let work = Work {
        connection,
        arguments: &arguments,
        inputs: &inputs,
        part,
        options,
        source: source.as_ref(),
    };
    let accepted = Box::pin(work.accept(&mut report, run.as_mut(), output)).await;
    // The report holds what became of documents, even if sending failed.
    report.finish().await?;
    let accepted = match (accepted, &mut run) {
        (Err(error), Some(run)) => {
            run.fail(&error, report.counts()).await;
            return Err(error);
        }
        (accepted, _) => accepted?,
    };
    let Some(Before { expected, failed_documents, tokens }) = accepted else { return Ok(()) };
    if let Some(run) = &mut run {
        run.tell(PartStage::Accepted, report.counts()).await?;
    }
    let accepted_in = started.elapsed();
    if !arguments.no_wait {
        wait_until_found(connection, corpus).await?;
        let failed = async || client.documents(corpus, DocumentStage::Failed).await;
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
    let after = patiently(async || client.corpus(corpus).await).await?;
    let after = after.counts.unwrap_or_default();
    let took = started.elapsed();
    let requests = clew_index::StorageRequest::ALL
        .map(|kind| (kind.as_str().to_owned(), serde_json::Value::from(kind.sent())));
    let document = json!({
        "corpus": corpus,
        "estimate": expected.map(|expected| expected.document()),
        "files": summary.listed_files,
        "known_files": summary.known_files,
        "accepted": summary.accepted(),
        "new": summary.new,
        "replaced": summary.replaced,
        "unchanged": summary.unchanged,
        "forgotten": summary.forgotten,
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
        "new_tokens": after.tokens.saturating_sub(tokens),
        "storage_requests": serde_json::Map::from_iter(requests),
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
        if source.is_some() {
            text.push_str(&format!(
                "{} of {} files were known as they are; {} documents were forgotten\n",
                summary.known_files, summary.listed_files, summary.forgotten
            ));
        }
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
    let newly_failed = after.failed_documents.saturating_sub(failed_documents);
    if !arguments.no_wait && newly_failed > 0 {
        bail!("{newly_failed} documents could not be indexed; `clew status` says why");
    }
    // A part may have no files, and a source nothing new.
    let may_be_empty = part != SourcePart::WHOLE || source.is_some();
    if !may_be_empty && summary.accepted() + summary.unchanged == 0 {
        bail!("there was nothing to take in");
    }
    Ok(())
}

/// What was before the documents were sent.
struct Before {
    expected: Option<estimate::Estimate>,
    failed_documents: u64,
    tokens: u64,
}

/// The work of one process until everything is accepted.
struct Work<'a> {
    connection: &'a Connection,
    arguments: &'a IngestArgs,
    inputs: &'a Inputs,
    part: SourcePart,
    options: Options,
    source: Option<&'a Arc<KnownSource>>,
}

impl Work<'_> {
    /// Finds files and sends their documents. Returns `None` if only an estimate was wanted.
    async fn accept(
        &self,
        report: &mut IngestReport,
        mut run: Option<&mut RunReporter>,
        output: &Output,
    ) -> anyhow::Result<Option<Before>> {
        let Self { connection, arguments, source, .. } = self;
        let (client, corpus) = (&connection.client, &arguments.corpus);
        let mut discovery = self.inputs.discover().await?.divided(self.part);
        let is_whole = discovery.is_whole;
        report.summary.listed_files = discovery.files.len() as u64;
        report.summary.unknown_files = discovery.unknown;
        if let Some(source) = source {
            if arguments.job.retry_failed {
                report.summary.forgotten += source.forget_failed().await?;
            }
            let compared = source.compare(std::mem::take(&mut discovery.files)).await?;
            discovery.files = compared.changed;
            discovery.problems.extend(compared.problems);
            report.summary.known_files = compared.unchanged;
        }
        let expected = estimate(connection, corpus, &discovery, &self.options).await;
        if arguments.estimate {
            let expected = expected?;
            output.print(&expected.document(), |_| expected.table())?;
            return Ok(None);
        }
        match &expected {
            Ok(expected) => eprintln!("{expected}"),
            // Ingestion begins anyway: accepted documents wait for graph builders and encoders that
            // are away.
            Err(error) => eprintln!("no estimate of what it takes: {error:#}"),
        }
        let before = client.corpus(corpus).await?.counts.unwrap_or_default();
        let gone = {
            if let Some(run) = &mut run {
                run.tell(PartStage::Sending, report.counts()).await?;
            }
            for problem in &discovery.problems {
                report.add(&unreadable(problem)).await?;
            }
            let sending = Sending {
                streams: arguments.streams,
                if_there: if arguments.no_replace { IfThere::Refuse } else { IfThere::Replace },
            };
            let options = self.options.clone();
            let (client, corpus) = (client.clone(), corpus.clone());
            let (source, run) = (source.cloned(), run.as_deref_mut());
            let mut sender = Sender { client, corpus, options, sending, source, report, run };
            Box::pin(sender.send(discovery.files)).await?
        };
        if let Some(source) = source.filter(|_| arguments.job.delete_missing) {
            if !is_whole {
                bail!("the source could not be listed to its end, so nothing of it was forgotten");
            }
            let is_last = match &run {
                None => true,
                Some(run) => run.have_all_listed().await?,
            };
            report.summary.forgotten += self.forget_vanished(source, gone, is_last).await?;
        }
        Ok(Some(Before {
            expected: expected.ok(),
            failed_documents: before.failed_documents,
            tokens: before.tokens,
        }))
    }

    /// Forgets the documents of files that have vanished, if all parts have listed, and those that
    /// have `gone` from files that are there.
    async fn forget_vanished(
        &self,
        source: &KnownSource,
        gone: Vec<DocumentId>,
        is_last: bool,
    ) -> anyhow::Result<u64> {
        if !is_last && gone.is_empty() {
            return Ok(0);
        }
        // The documents are listed before the files, so none whose file has just come is missed.
        let documents = source.documents().await?;
        let listed = self.inputs.discover().await?;
        if !listed.is_whole {
            bail!("the source could not be listed to its end, so nothing of it was forgotten");
        }
        let files = listed.files.iter().map(|found| found.source.name());
        // A file that cannot be read has not vanished.
        let unread = listed.problems.iter().map(|problem| problem.place.file.as_str());
        let names: HashSet<&str> = files.chain(unread).collect();
        let vanished = match is_last {
            true => documents.vanished(&names, gone)?,
            false => documents.gone(gone),
        };
        source.forget_vanished(&vanished, self.arguments.job.delete_at_most).await
    }
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

/// Reads files and sends their documents, until the server has answered for each.
pub async fn send(
    connection: &Connection,
    corpus: &CorpusName,
    discovery: Discovery,
    options: Options,
    sending: Sending,
    report: &mut IngestReport,
) -> anyhow::Result<()> {
    report.summary.unknown_files = discovery.unknown;
    for problem in &discovery.problems {
        report.add(&unreadable(problem)).await?;
    }
    let (client, corpus) = (connection.client.clone(), corpus.clone());
    let mut sender = Sender { client, corpus, options, sending, source: None, report, run: None };
    Box::pin(sender.send(discovery.files)).await.map(drop)
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
