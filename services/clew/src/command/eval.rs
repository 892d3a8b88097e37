//! `clew eval`: quality on public data sets, through the product's own ingestion and search.
//!
//! Each haystack becomes a corpus in a temporary directory; its units become documents, which are cut
//! into parts where they are longer than a chunk and reported whole.

mod answers;
mod judging;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clew_client::Question;
use clew_core::{CorpusName, Document, DocumentId, Grouping, Query, StructureSettings};
use clew_eval::{Format, Haystack, Report, Run, Tally};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use clew_proto::query::v1::TraceEvent;
use clew_proto::query::v1::{answer_response::Event, trace_event::Step};
use futures::StreamExt;

use crate::cli::{Cutting, Eval, EvalAction, EvalRetrieval, Mode, Shared};
use crate::command::ingest::{wait_until_found, wait_until_structured};
use crate::config::NodeConfig;
use crate::connection::Connection;
use crate::output::Output;
use crate::progress::Progress;

/// Questions that are searched at the same time.
const CONCURRENT_QUESTIONS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures.
pub async fn run(shared: &Shared, arguments: Eval, output: &Output) -> anyhow::Result<()> {
    if shared.endpoint.is_some() {
        bail!("`clew eval` makes corpora of its own in this process; leave --endpoint out");
    }
    let arguments = match arguments.action {
        EvalAction::Retrieval(arguments) => arguments,
        EvalAction::Answers(arguments) => return answers::run(shared, arguments, output).await,
        EvalAction::Compare(arguments) => return answers::compare(&arguments, output),
    };
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
    format.check_retrieval()?;
    let haystacks = format.open(&arguments.data, arguments.unit, arguments.split.as_deref())?;
    let folder = tempfile::tempdir().context("no temporary directory could be made")?;
    let mut config = NodeConfig::load(shared, None)?;
    config.data_dir = folder.path().to_path_buf();
    let connection = Connection::embed(&config).await?;
    let searches = arguments.mode.iter().map(|&mode| Way::Search(mode));
    let ways = searches.chain(arguments.strategy.iter().cloned().map(Way::Ask));
    let mut tallies: Vec<(Way, Tally)> =
        ways.map(|way| (way, Tally::new(arguments.k.clone()))).collect();
    let mut progress = Progress::new("questions");
    let mut asked = 0;
    for (i, haystack) in haystacks.enumerate() {
        let haystack = haystack?;
        let corpus: CorpusName = format!("haystack-{i}").parse()?;
        let total = asked + haystack.questions.len() as u64;
        progress.set(asked, total, &format!("reading {}", haystack.name));
        let structure = (!arguments.strategy.is_empty()).then(StructureSettings::default);
        fill(&connection, &corpus, &haystack, arguments.cutting, structure).await?;
        progress.set(asked, total, &format!("asking {}", haystack.name));
        for (way, tally) in &mut tallies {
            ask(&connection, &corpus, &haystack, way, arguments.k.depth(), tally).await?;
        }
        asked = total;
        connection.client.delete_corpus(&corpus).await?;
    }
    progress.finish();
    connection.close().await?;
    let report = |(way, tally): (Way, Tally)| {
        let (mode, strategy) = match way {
            Way::Search(mode) => (mode.as_str().to_owned(), "search".to_owned()),
            Way::Ask(strategy) => ("hybrid".to_owned(), strategy),
        };
        let run = Run {
            format: arguments.format.clone(),
            unit: arguments.unit.unwrap_or_else(|| format.default_unit()),
            mode,
            strategy,
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
    structure: Option<StructureSettings>,
) -> anyhow::Result<()> {
    let chunking = cutting.chunking();
    let new = NewCorpus { name: corpus.clone(), shards: 1, chunking, structure };
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
    wait_until_structured(connection, corpus).await?;
    let node = connection.node().context("the node runs in this process")?;
    let deadline = Instant::now() + PATIENCE;
    for shard in node.backends.corpora.get(corpus, deadline).await?.shards() {
        shard.maintain(deadline).await?;
    }
    Ok(())
}

/// How units are ranked for a question.
enum Way {
    /// As a search finds them.
    Search(Mode),
    /// As a strategy of that name reads them.
    Ask(String),
}

async fn ask(
    connection: &Connection,
    corpus: &CorpusName,
    haystack: &Haystack,
    way: &Way,
    depth: usize,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let rankings = futures::stream::iter(&haystack.questions)
        .map(|question| async move {
            let ranking = match way {
                Way::Search(mode) => found(connection, corpus, &question.text, *mode, depth).await,
                Way::Ask(strategy) => {
                    read(connection, corpus, &question.text, strategy, depth).await
                }
            };
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

/// The documents that a search finds, best first.
async fn found(
    connection: &Connection,
    corpus: &CorpusName,
    question: &str,
    mode: Mode,
    depth: usize,
) -> anyhow::Result<Vec<DocumentId>> {
    let mut query = Query::new(question, depth);
    query.mode = mode.into();
    query.grouping = Grouping::Documents;
    let found = connection.client.search(corpus, query).await?;
    Ok(found.evidence.iter().map(|item| item.document_id.parse()).collect::<Result<_, _>>()?)
}

/// The documents of which a strategy reads something, best first.
async fn read(
    connection: &Connection,
    corpus: &CorpusName,
    question: &str,
    strategy: &str,
    depth: usize,
) -> anyhow::Result<Vec<DocumentId>> {
    let question = Question {
        text: question.to_owned(),
        strategy: strategy.to_owned(),
        k: Some(u32::try_from(depth)?),
        ..Question::default()
    };
    let events = connection.client.answer(corpus, question).await?;
    futures::pin_mut!(events);
    let mut ranking: Vec<DocumentId> = Vec::new();
    while let Some(event) = events.next().await {
        let Some(Event::Trace(TraceEvent { step: Some(Step::Read(step)) })) = event?.event else {
            continue;
        };
        // What was read last is what the answer was made of.
        ranking.clear();
        for place in step.places {
            let document: DocumentId = place.document_id.parse()?;
            if !ranking.contains(&document) {
                ranking.push(document);
            }
        }
    }
    Ok(ranking)
}
