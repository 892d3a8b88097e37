//! Command `clew check`.

use anyhow::bail;
use clap::Args;
use clew_core::CorpusName;
use clew_proto::corpus::v1 as wire;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::command::corpus;
use crate::connection::Connection;
use crate::output::Output;
use crate::progress::Progress;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Name of the corpus; without it, all corpora are checked.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
}

/// Maximum number of breaches that are listed one by one; further ones are only counted.
const TOLD: usize = 1_000;

/// Checks one corpus or all.
pub async fn run(global: &GlobalArgs, arguments: CheckArgs, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = check(&connection, arguments.corpus, output).await;
    connection.close().await?;
    done
}

async fn check(
    connection: &Connection,
    corpus: Option<CorpusName>,
    output: &Output,
) -> anyhow::Result<()> {
    let corpora = match corpus {
        Some(name) => vec![connection.client.corpus(&name).await?],
        None => connection.client.corpora().await?,
    };
    // A corpus that cannot be used does not keep the others from being checked.
    let (unusable, usable): (Vec<_>, Vec<_>) =
        corpora.iter().partition(|corpus| corpus.fault.is_some());
    let mut reports = Vec::with_capacity(usable.len());
    for corpus in usable {
        reports.push(check_corpus(connection, corpus).await?);
    }
    let documents: Vec<Value> = reports.iter().map(Report::document).collect();
    let unchecked: Vec<Value> = unusable.iter().map(|corpus| corpus::document(corpus)).collect();
    output.print(&json!({ "corpora": documents, "unusable": unchecked }), |_| {
        let unchecked = unusable.iter().map(|corpus| format!("{}\n", corpus::line(corpus)));
        reports.iter().map(Report::text).chain(unchecked).collect::<String>()
    })?;
    let breaches = reports.iter().map(|report| report.breaches).sum::<usize>();
    match (breaches, unusable.len()) {
        (0, 0) => Ok(()),
        (0, unusable) => bail!("{unusable} corpora cannot be used, and were not checked"),
        (breaches, _) => bail!("{breaches} promises about what is stored do not hold"),
    }
}

/// Result of checking a corpus.
struct Report {
    corpus: String,
    documents: u64,
    chunks: u64,
    breaches: usize,
    /// The first [`TOLD`] breaches.
    told: Vec<wire::Breach>,
}

async fn check_corpus(connection: &Connection, corpus: &wire::Corpus) -> anyhow::Result<Report> {
    let name: CorpusName = corpus.name.parse()?;
    let total = corpus.counts.unwrap_or_default().documents;
    let mut progress = Progress::new("checked");
    let (corpus, told) = (name.to_string(), Vec::new());
    let mut report = Report { corpus, documents: 0, chunks: 0, breaches: 0, told };
    let mut page_token = String::new();
    loop {
        let page = connection.client.check_page(&name, page_token).await?;
        report.documents += page.documents;
        report.chunks += page.chunks;
        report.breaches += page.breaches.len();
        let room = TOLD - report.told.len();
        report.told.extend(page.breaches.into_iter().take(room));
        progress.set(report.documents, total.max(report.documents), "documents");
        page_token = page.next_page_token;
        if page_token.is_empty() {
            progress.finish();
            return Ok(report);
        }
    }
}

impl Report {
    fn document(&self) -> Value {
        let breaches = self.told.iter().map(|breach| {
            json!({
                "invariant": invariant(breach),
                "document_id": breach.document_id,
                "detail": breach.detail,
            })
        });
        json!({
            "corpus": self.corpus,
            "documents": self.documents,
            "chunks": self.chunks,
            "breaches": self.breaches,
            "told": breaches.collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let Self { corpus, documents, chunks, breaches, told } = self;
        let mut text =
            format!("{corpus}: {documents} documents, {chunks} chunks, {breaches} breaches\n");
        for breach in told {
            let (id, detail) = (&breach.document_id, &breach.detail);
            text.push_str(&format!("  {} {id}: {detail}\n", invariant(breach)));
        }
        text
    }
}

fn invariant(breach: &wire::Breach) -> String {
    breach.invariant().as_str_name().trim_start_matches("INVARIANT_").to_lowercase()
}
