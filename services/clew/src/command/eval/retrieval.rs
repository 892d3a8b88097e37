//! Command `clew eval retrieval`: measures recall, NDCG and MRR.

use anyhow::Context;
use clew_client::QuestionRequest as Asked;
use clew_core::{CorpusName, DocumentId, Evidence, Grouping, Query, StructureSettings};
use clew_eval::{
    DatasetFormat, EvalQuestion, Finds, FoundUnit, Haystack, Lookup, RetrievalPlan,
    RetrievalReport, RetrievalVariant, Tally, summary,
};
use clew_proto::convert::query::evidence_from_wire;
use clew_proto::query::v1::TraceEvent;
use clew_proto::query::v1::answer_response::Event;
use clew_proto::query::v1::trace_event::Step;
use futures::{StreamExt, TryStreamExt};

use super::haystack_corpus::{CONCURRENT_QUESTIONS, fill};
use super::recalled;
use super::retrieval_args::RetrievalArgs;
use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::connection::Connection;
use crate::output::Output;
use crate::progress::Progress;

/// Measures, prints the reports and writes them to the report file.
pub(super) async fn run(
    global: &GlobalArgs,
    arguments: &RetrievalArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let reports = measure(global, arguments).await?;
    let document = match reports.as_slice() {
        [report] => serde_json::to_value(report)?,
        reports => serde_json::to_value(reports)?,
    };
    if let Some(file) = &arguments.report {
        let json = serde_json::to_string_pretty(&document)? + "\n";
        std::fs::write(file, json).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    output.print(&document, |_| {
        let tables: String = reports.iter().map(ToString::to_string).collect();
        if reports.len() > 1 { format!("{tables}\n{}", summary(&reports)) } else { tables }
    })
}

async fn measure(
    global: &GlobalArgs,
    arguments: &RetrievalArgs,
) -> anyhow::Result<Vec<RetrievalReport>> {
    let format = DatasetFormat::named(&arguments.format)?;
    format.check_retrieval()?;
    let units = match arguments.unit.as_slice() {
        [] => vec![format.default_unit()],
        units => units.to_vec(),
    };
    let split = arguments.split.as_deref();
    for unit in &units {
        format.check(*unit, split)?;
    }
    // Opening the first unit here reports problems of the data before a model is loaded. Each
    // further unit is opened when it is measured, because some formats hold a whole file in memory.
    let mut opened = Some(format.open(&arguments.data, units.first().copied(), split)?);
    let folder = tempfile::tempdir().context("no temporary directory could be made")?;
    let mut config = ClewConfig::load(global, None)?;
    config.roles.data_dir = folder.path().to_path_buf();
    let connection = Connection::embed(&config).await?;
    if arguments.as_turns {
        let reports = recalled::measure(&connection, format, &units, arguments).await;
        connection.close().await?;
        return reports;
    }
    let variants = arguments.settings().variants();
    let mut measurement = Measurement {
        connection: &connection,
        arguments,
        variants: &variants,
        progress: Progress::new("questions"),
        corpora: 0,
        asked: 0,
    };
    let mut reports = Vec::new();
    for unit in units {
        let haystacks = match opened.take() {
            Some(haystacks) => haystacks,
            None => format.open(&arguments.data, Some(unit), split)?,
        };
        let mut tallies: Vec<Tally> =
            variants.iter().map(|_| Tally::new(arguments.k.clone())).collect();
        for haystack in haystacks {
            measurement.measure(&haystack?, &mut tallies).await?;
        }
        for (variant, tally) in variants.iter().zip(tallies) {
            let mut run = variant.run(format.name, unit);
            if let Some(candidates) = arguments.rerank.filter(|_| variant.is_search()) {
                run.strategy = format!("{}, {candidates} reranked", run.strategy);
            }
            reports.push(tally.report(run)?);
        }
    }
    measurement.progress.finish();
    connection.close().await?;
    Ok(reports)
}

/// Measurement of one haystack after the other.
struct Measurement<'a> {
    connection: &'a Connection,
    arguments: &'a RetrievalArgs,
    variants: &'a [RetrievalVariant],
    progress: Progress,
    /// Number of corpora created so far, by which they are named.
    corpora: u64,
    /// Number of questions asked so far.
    asked: u64,
}

impl Measurement<'_> {
    /// Adds the rankings of a haystack's questions to `tallies`, one for each variant.
    async fn measure(&mut self, haystack: &Haystack, tallies: &mut [Tally]) -> anyhow::Result<()> {
        if haystack.questions.is_empty() {
            return Ok(());
        }
        let plan = RetrievalPlan::try_new(haystack, self.variants, self.arguments.k.depth())?;
        let mut found: Vec<Vec<Finds>> = Vec::new();
        for index in 0..plan.indexes().len() {
            found.push(self.search_index(haystack, &plan, index, tallies).await?);
        }
        for (number, question) in haystack.questions.iter().enumerate() {
            let finds: Vec<&Finds> = found.iter().map(|of_index| &of_index[number]).collect();
            for (variant, tally) in tallies.iter_mut().enumerate() {
                if let Some(ranking) = plan.ranking(variant, question, &finds)? {
                    tally.add(question, &ranking);
                }
            }
        }
        self.asked += haystack.questions.len() as u64;
        Ok(())
    }

    /// Searches one of the plan's indexes, and returns the finds of each question. Adds what
    /// strategies read in this index to `tallies` at once.
    async fn search_index(
        &mut self,
        haystack: &Haystack,
        plan: &RetrievalPlan<'_>,
        index: usize,
        tallies: &mut [Tally],
    ) -> anyhow::Result<Vec<Finds>> {
        let keys = &plan.indexes()[index];
        let keyed = haystack.with_keys(keys)?;
        let strategies: Vec<(usize, &str)> = plan.strategies(index).collect();
        if keyed.units.is_empty() {
            // Nothing can be found if no unit has a key.
            for (variant, _) in strategies {
                for question in &haystack.questions {
                    tallies[variant].add(question, &[]);
                }
            }
            return Ok(haystack.questions.iter().map(|_| Finds::new()).collect());
        }
        let corpus: CorpusName = format!("haystack-{}", self.corpora).parse()?;
        self.corpora += 1;
        let total = self.asked + haystack.questions.len() as u64;
        let name = format!("{} by {keys} keys", haystack.name);
        self.progress.set(self.asked, total, &format!("reading {name}"));
        let structure = (!strategies.is_empty()).then(StructureSettings::default);
        let (connection, arguments) = (self.connection, self.arguments);
        fill(connection, &corpus, keyed.documents(), arguments.cutting, structure).await?;
        self.progress.set(self.asked, total, &format!("asking {name}"));
        let search = Search { connection, corpus: &corpus, rerank: arguments.rerank };
        let finds = search.all(&haystack.questions, plan, index).await?;
        for (variant, strategy) in strategies {
            let depth = arguments.k.depth();
            ask(connection, &corpus, haystack, strategy, depth, &mut tallies[variant]).await?;
        }
        connection.client.delete_corpus(&corpus).await?;
        Ok(finds)
    }
}

/// Searches in one corpus.
struct Search<'a> {
    connection: &'a Connection,
    corpus: &'a CorpusName,
    /// Number of candidates to order again.
    rerank: Option<usize>,
}

impl Search<'_> {
    /// Returns the finds for each question.
    async fn all(
        &self,
        questions: &[EvalQuestion],
        plan: &RetrievalPlan<'_>,
        index: usize,
    ) -> anyhow::Result<Vec<Finds>> {
        // Up to 200 candidates of one question fill much of a reader's queue.
        let at_once = if self.rerank.is_some() { 1 } else { CONCURRENT_QUESTIONS };
        futures::stream::iter(questions)
            .map(|question| async move {
                let mut finds = Finds::new();
                for lookup in plan.lookups(index, question) {
                    finds.push((lookup, self.found(&question.text, lookup).await?));
                }
                anyhow::Ok(finds)
            })
            .buffered(at_once)
            .try_collect()
            .await
    }

    /// Returns the documents that a search finds, best first.
    async fn found(&self, question: &str, lookup: Lookup) -> anyhow::Result<Vec<FoundUnit>> {
        let mut query = Query::new(question, lookup.k);
        query.mode = lookup.mode;
        query.grouping = Grouping::Documents;
        query.filter.event_time = lookup.range;
        query.rerank = self.rerank.map(|candidates| candidates.max(lookup.k));
        let response = self.connection.client.search(self.corpus, query).await?;
        let mut found = Vec::with_capacity(response.evidence.len());
        for evidence in response.evidence {
            let Evidence { document_id, score, event_time, .. } = evidence_from_wire(evidence)?;
            found.push(FoundUnit { unit: document_id, score, time: event_time });
        }
        Ok(found)
    }
}

/// Tallies what a strategy reads for each question.
async fn ask(
    connection: &Connection,
    corpus: &CorpusName,
    haystack: &Haystack,
    strategy: &str,
    depth: usize,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let rankings = futures::stream::iter(&haystack.questions)
        .map(|question| async move {
            let ranking = read(connection, corpus, &question.text, strategy, depth).await?;
            anyhow::Ok((question, ranking))
        })
        .buffered(CONCURRENT_QUESTIONS);
    futures::pin_mut!(rankings);
    while let Some(ranked) = rankings.next().await {
        let (question, ranking) = ranked?;
        tally.add(question, &ranking);
    }
    Ok(())
}

/// Returns the documents from which a strategy reads something, best first.
async fn read(
    connection: &Connection,
    corpus: &CorpusName,
    question: &str,
    strategy: &str,
    depth: usize,
) -> anyhow::Result<Vec<DocumentId>> {
    let question = Asked {
        text: question.to_owned(),
        strategy: strategy.to_owned(),
        k: Some(u32::try_from(depth)?),
        ..Asked::default()
    };
    let events = connection.client.answer(corpus, question).await?;
    futures::pin_mut!(events);
    let mut ranking: Vec<DocumentId> = Vec::new();
    while let Some(event) = events.next().await {
        let Some(Event::Trace(TraceEvent { step: Some(Step::Read(step)) })) = event?.event else {
            continue;
        };
        // The answer was made from the last read.
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
