//! `clew eval`: quality on public data sets, through the product's own ingestion and search.
//!
//! Each haystack becomes a corpus in a temporary directory; its units become documents, which are cut
//! into parts where they are longer than a chunk and reported whole.

mod answers;
mod judging;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clew_chat::{KeyDesign, Smoothing};
use clew_client::Question;
use clew_core::{CorpusName, Document, DocumentId, Grouping, Query, StructureSettings};
use clew_eval::{Format, Haystack, Places, Report, Run, Tally};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use clew_proto::query::v1::TraceEvent;
use clew_proto::query::v1::{answer_response::Event, trace_event::Step};
use futures::StreamExt;

use crate::cli::{Cutting, Eval, EvalAction, EvalRetrieval, Mode, Shared, SmoothingChoice};
use crate::command::ingest::{wait_until_found, wait_until_structured};
use crate::config::NodeConfig;
use crate::connection::Connection;
use crate::output::Output;
use crate::progress::Progress;

/// Questions that are searched at the same time.
const CONCURRENT_QUESTIONS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(600);
/// Units whose scores are smoothed: as many as a hybrid search takes of each ranking.
const SMOOTHED_UNITS: usize = 200;

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
    let searches = arguments.mode.iter().flat_map(|&mode| {
        arguments.smoothing.iter().map(move |&smoothing| Way::Search(mode, smoothing))
    });
    let ways: Vec<Way> = searches.chain(arguments.strategy.iter().cloned().map(Way::Ask)).collect();
    let mut tallies: Vec<(&KeyDesign, &Way, Tally)> = Vec::new();
    for keys in &arguments.keys {
        tallies.extend(ways.iter().map(|way| (keys, way, Tally::new(arguments.k.clone()))));
    }
    let mut progress = Progress::new("questions");
    let mut asked = 0;
    for (i, haystack) in haystacks.enumerate() {
        let haystack = haystack?;
        let total = asked + haystack.questions.len() as u64;
        for (j, of_keys) in tallies.chunk_by_mut(|a, b| std::ptr::eq(a.0, b.0)).enumerate() {
            let Some(&(keys, ..)) = of_keys.first() else { continue };
            let corpus: CorpusName = format!("haystack-{i}-{j}").parse()?;
            let name = format!("{} by {keys} keys", haystack.name);
            progress.set(asked, total, &format!("reading {name}"));
            let structure = (!arguments.strategy.is_empty()).then(StructureSettings::default);
            let keyed = haystack.with_keys(keys)?;
            fill(&connection, &corpus, &keyed, arguments.cutting, structure).await?;
            progress.set(asked, total, &format!("asking {name}"));
            for (_, way, tally) in of_keys {
                ask(&connection, &corpus, &keyed, way, arguments.k.depth(), tally).await?;
            }
            connection.client.delete_corpus(&corpus).await?;
        }
        asked = total;
    }
    progress.finish();
    connection.close().await?;
    let report = |(keys, way, tally): (&KeyDesign, &Way, Tally)| {
        let (mode, smoothing, strategy) = match way {
            Way::Search(mode, smoothing) => (*mode, *smoothing, "search"),
            Way::Ask(strategy) => (Mode::Hybrid, SmoothingChoice::None, strategy.as_str()),
        };
        let run = Run {
            format: arguments.format.clone(),
            unit: arguments.unit.unwrap_or_else(|| format.default_unit()),
            keys: keys.to_string(),
            mode: mode.as_str().to_owned(),
            smoothing: smoothing.as_str().to_owned(),
            strategy: strategy.to_owned(),
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
    let (name, retention_days) = (corpus.clone(), None);
    let new = NewCorpus { name, shards: 1, chunking, structure, retention_days };
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
    /// As a search finds them, with scores smoothed over sessions.
    Search(Mode, SmoothingChoice),
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
    let smoothing = match way {
        Way::Search(_, smoothing) => smoothing.weights(),
        Way::Ask(_) => None,
    };
    let smoothing = match smoothing {
        Some(weights) => Some((haystack.places()?, weights)),
        None => None,
    };
    let smoothing = smoothing.as_ref();
    let rankings = futures::stream::iter(&haystack.questions)
        .map(|question| async move {
            let ranking = match way {
                Way::Search(mode, _) => {
                    found(connection, corpus, &question.text, *mode, depth, smoothing).await
                }
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
    smoothing: Option<&(Places<'_>, Smoothing)>,
) -> anyhow::Result<Vec<DocumentId>> {
    let searched = if smoothing.is_some() { depth.max(SMOOTHED_UNITS) } else { depth };
    let mut query = Query::new(question, searched);
    query.mode = mode.into();
    query.grouping = Grouping::Documents;
    let found = connection.client.search(corpus, query).await?;
    let scored = found.evidence.iter().map(|item| {
        let document: DocumentId = item.document_id.parse()?;
        anyhow::Ok((document, item.score))
    });
    let scored: Vec<(DocumentId, f32)> = scored.collect::<anyhow::Result<_>>()?;
    let mut ranking = match smoothing {
        Some((places, weights)) => places.smoothed(&scored, weights),
        None => scored.into_iter().map(|(document, _)| document).collect(),
    };
    ranking.truncate(depth);
    Ok(ranking)
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
