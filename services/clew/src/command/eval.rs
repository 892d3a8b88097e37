//! `clew eval`: quality on public data sets, through the product's own ingestion and search.
//!
//! Each haystack becomes a corpus in a temporary directory; its units become documents, which are cut
//! into parts where they are longer than a chunk and reported whole.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clew_core::{CorpusName, Document, DocumentId, Grouping, Query};
use clew_eval::{Format, Haystack, Report, Run, Tally};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use futures::StreamExt;

use crate::cli::{Cutting, Eval, EvalAction, EvalRetrieval, Mode, Shared};
use crate::command::ingest::wait_until_found;
use crate::config::NodeConfig;
use crate::connection::Connection;
use crate::output::Output;
use crate::progress::Progress;

/// Questions that are searched at the same time.
const CONCURRENT_QUESTIONS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures.
pub async fn run(shared: &Shared, arguments: Eval, output: &Output) -> anyhow::Result<()> {
    let EvalAction::Retrieval(arguments) = arguments.action;
    if shared.endpoint.is_some() {
        bail!("`clew eval` makes corpora of its own in this process; leave --endpoint out");
    }
    let reports = retrieval(shared, &arguments).await?;
    let tables = || reports.iter().map(ToString::to_string).collect::<String>();
    let document = match reports.as_slice() {
        [report] => serde_json::to_value(report)?,
        reports => serde_json::to_value(reports)?,
    };
    match &arguments.json {
        None => output.print(&document, |_| tables()),
        Some(file) => {
            let json = serde_json::to_string_pretty(&document)? + "\n";
            if file.as_os_str() == "-" {
                return output.print(&document, |_| json);
            }
            std::fs::write(file, json)
                .with_context(|| format!("cannot write `{}`", file.display()))?;
            eprint!("{}", tables());
            Ok(())
        }
    }
}

async fn retrieval(shared: &Shared, arguments: &EvalRetrieval) -> anyhow::Result<Vec<Report>> {
    let format = Format::named(&arguments.format)?;
    let haystacks = format.open(&arguments.data, arguments.unit, arguments.split.as_deref())?;
    let folder = tempfile::tempdir().context("no temporary directory could be made")?;
    let mut config = NodeConfig::load(shared, None)?;
    config.data_dir = folder.path().to_path_buf();
    let connection = Connection::embed(&config).await?;
    let mut tallies: Vec<(Mode, Tally)> =
        arguments.mode.iter().map(|&mode| (mode, Tally::new(arguments.k.clone()))).collect();
    let mut progress = Progress::new("questions");
    let mut asked = 0;
    for (i, haystack) in haystacks.enumerate() {
        let haystack = haystack?;
        let corpus: CorpusName = format!("haystack-{i}").parse()?;
        let total = asked + haystack.questions.len() as u64;
        progress.set(asked, total, &format!("reading {}", haystack.name));
        fill(&connection, &corpus, &haystack, arguments.cutting).await?;
        progress.set(asked, total, &format!("asking {}", haystack.name));
        for (mode, tally) in &mut tallies {
            ask(&connection, &corpus, &haystack, *mode, arguments.k.depth(), tally).await?;
        }
        asked = total;
        connection.client.delete_corpus(&corpus).await?;
    }
    progress.finish();
    connection.close().await?;
    let report = |(mode, tally): (Mode, Tally)| {
        let run = Run {
            format: arguments.format.clone(),
            unit: arguments.unit.unwrap_or_else(|| format.default_unit()),
            mode: mode.as_str().to_owned(),
            strategy: "search".to_owned(),
        };
        Ok(tally.report(run)?)
    };
    tallies.into_iter().map(report).collect()
}

/// Makes the corpus of a haystack, up to fresh indexes.
async fn fill(
    connection: &Connection,
    corpus: &CorpusName,
    haystack: &Haystack,
    cutting: Cutting,
) -> anyhow::Result<()> {
    let chunking = cutting.chunking();
    let new = NewCorpus { name: corpus.clone(), shards: 1, chunking };
    connection.client.create_corpus(new).await?;
    let documents: Vec<Document> = haystack.units.iter().cloned().map(Document::from).collect();
    let responses = connection.client.ingest(corpus, futures::stream::iter(documents)).await?;
    futures::pin_mut!(responses);
    while let Some(response) = responses.next().await {
        let response = response?;
        if let Some(Outcome::Refused(refused)) = response.result {
            bail!("unit `{}` was refused: {}", response.document_id, refused.message);
        }
    }
    wait_until_found(connection, corpus).await?;
    let node = connection.node().context("the node runs in this process")?;
    let deadline = Instant::now() + PATIENCE;
    for shard in node.backends.corpora.get(corpus, deadline).await?.shards() {
        shard.maintain(deadline).await?;
    }
    Ok(())
}

async fn ask(
    connection: &Connection,
    corpus: &CorpusName,
    haystack: &Haystack,
    mode: Mode,
    depth: usize,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let rankings = futures::stream::iter(&haystack.questions)
        .map(|question| async move {
            let mut query = Query::new(question.text.clone(), depth);
            query.mode = mode.into();
            query.grouping = Grouping::Documents;
            let found = connection.client.search(corpus, query).await?;
            let ranking: Result<Vec<DocumentId>, _> =
                found.evidence.iter().map(|item| item.document_id.parse()).collect();
            anyhow::Ok((question, ranking?))
        })
        .buffered(CONCURRENT_QUESTIONS);
    futures::pin_mut!(rankings);
    while let Some(ranked) = rankings.next().await {
        let (question, ranking) = ranked?;
        tally.add(question, &ranking);
    }
    Ok(())
}
