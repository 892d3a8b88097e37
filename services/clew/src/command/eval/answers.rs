//! Commands `clew eval answers` and `clew eval compare`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use clew_chat::KeyDesign;
use clew_client::QuestionRequest as Asked;
use clew_core::{CorpusName, DocumentId, Error, StructureSettings, Task};
use clew_eval::answers::{Metric, RecordedOutcome};
use clew_eval::{
    AnswerCost, AnswerLog, AnswerRecord, AnswerReport, DatasetFormat, EvalQuestion, RunIdentity,
    Scoring, UnitDocument,
};
use clew_proto::query::v1 as wire;
use clew_proto::query::v1::answer_response::Event;
use clew_proto::query::v1::trace_event::Step;
use clew_reason::prompted::Judge;
use futures::StreamExt;

use super::haystack_corpus::{CONCURRENT_QUESTIONS, fill};
use super::judging;
use crate::args::chunking::ChunkingArgs;
use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::connection::Connection;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Arguments of `eval answers`.
#[derive(Debug, Args)]
pub struct AnswersArgs {
    /// Data set: multihop, locomo, longmemeval, lihua, beam, quality, nocha, govreport or squality.
    #[arg(long)]
    pub format: String,
    /// Folder or file of the data set.
    #[arg(long, value_name = "PATH")]
    pub data: PathBuf,
    /// Unit that becomes a document, such as turn, round or session [default: the data set's usual
    /// unit].
    #[arg(long)]
    pub unit: Option<clew_eval::UnitKind>,
    /// Part of the data set, such as 100K of beam.
    #[arg(long)]
    pub split: Option<String>,
    /// Strategies of answering, with commas between them; `clew strategies` lists them.
    #[arg(long, value_delimiter = ',', default_value = "direct")]
    pub strategy: Vec<String>,
    /// Key by which units of a conversation are found: parts with `+` between them, as for `eval
    /// retrieval`. The key must contain a part that is read, such as `fact+value`.
    #[arg(long, default_value = "value")]
    pub keys: KeyDesign,
    /// Store each turn of the units as the chat service does, for the strategy `chat`.
    #[arg(long, conflicts_with = "keys")]
    pub as_turns: bool,
    /// Build neither trees nor a graph, for strategies that need none.
    #[arg(long)]
    pub no_structure: bool,
    /// Folder of the logs, one file for each strategy. Questions that a log answers already are not
    /// asked again.
    #[arg(long, value_name = "DIR")]
    pub logs: PathBuf,
    /// Maximum number of passages to read.
    #[arg(short, default_value_t = 10)]
    pub k: u32,
    /// Maximum number of tokens of the passages to read, to compare strategies at equal length.
    #[arg(long, value_name = "TOKENS")]
    pub evidence_tokens: Option<u32>,
    /// Maximum number of questions, taken from the start of the data set.
    #[arg(long)]
    pub limit: Option<u64>,
    #[command(flatten)]
    pub cutting: ChunkingArgs,
    /// Write the report as a page to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Arguments of `eval compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Logs of `eval answers` on the same data.
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Write the comparison as a page to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Time for which a question is asked again after retryable errors, and the default pause in
/// between.
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes per token where only bytes are known: about the average of English.
const BYTES_PER_TOKEN: u64 = 4;

/// Answers those questions of a data set that the log lacks, and reports.
pub async fn run(
    global: &GlobalArgs,
    arguments: AnswersArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let format = DatasetFormat::named(&arguments.format)?;
    let survey = format.survey(&arguments.data, arguments.unit, arguments.split.as_deref())?;
    let config = ClewConfig::load(global, None)?;
    std::fs::create_dir_all(&arguments.logs)
        .with_context(|| format!("cannot make `{}`", arguments.logs.display()))?;
    let mut logs = Vec::new();
    for strategy in &arguments.strategy {
        let identity = RunIdentity {
            format: arguments.format.clone(),
            data: survey.fingerprint.clone(),
            strategy: strategy.clone(),
            settings: settings(&arguments, &config),
        };
        let file = arguments.logs.join(format!("{}-{strategy}.jsonl", arguments.format));
        logs.push(AnswerLog::open(&file, identity)?);
    }
    answer(&arguments, format, config, survey.answerable as u64, &mut logs).await?;
    let report = |log: &AnswerLog| AnswerReport::new(log.run().clone(), log.records());
    let reports = logs.iter().map(report).collect::<Result<Vec<_>, _>>()?;
    show(&reports, arguments.html.as_deref(), output)
}

/// Compares finished runs.
pub fn compare(arguments: &CompareArgs, output: &Output) -> anyhow::Result<()> {
    let mut reports = Vec::new();
    for log in &arguments.logs {
        let (run, records) = AnswerLog::read(log)?;
        reports.push(AnswerReport::new(run, &records)?);
    }
    show(&reports, arguments.html.as_deref(), output)
}

fn show(reports: &[AnswerReport], html: Option<&Path>, output: &Output) -> anyhow::Result<()> {
    let comparison = clew_eval::compare(reports)?;
    if let Some(file) = html {
        let page = match reports {
            [report] => report.to_html(),
            _ => comparison.to_html(),
        };
        output::write(file, &page)?;
    }
    output.print(&reports, |reports| match reports {
        [report] => report.to_string(),
        _ => comparison.to_string(),
    })
}

/// Returns the settings, besides data and strategy, on which answers and their scores depend.
fn settings(arguments: &AnswersArgs, config: &ClewConfig) -> BTreeMap<String, String> {
    let model = config.roles.generator.endpoint.as_ref().map(|endpoint| endpoint.model.clone());
    let mut settings = BTreeMap::from([
        ("k".to_owned(), arguments.k.to_string()),
        ("chunking".to_owned(), format!("{:?}", arguments.cutting.chunking())),
    ]);
    let unit = arguments.unit.map(|unit| ("unit".to_owned(), unit.to_string()));
    let split = arguments.split.clone().map(|split| ("split".to_owned(), split));
    let tokens = arguments.evidence_tokens;
    let tokens = tokens.map(|tokens| ("evidence-tokens".to_owned(), tokens.to_string()));
    let keys = match arguments.as_turns {
        true => Some("as kept".to_owned()),
        false => Some(arguments.keys.to_string()).filter(|keys| keys != "value"),
    };
    let keys = keys.map(|keys| ("keys".to_owned(), keys));
    settings.extend(unit.into_iter().chain(split).chain(tokens).chain(keys));
    settings.extend(model.map(|model| ("model".to_owned(), model)));
    let judge = config.roles.judge.as_ref().map(|judge| ("judge".to_owned(), judge.model.clone()));
    settings.extend(judge);
    settings
}

/// Asks the questions that are not in the logs, haystack by haystack.
async fn answer(
    arguments: &AnswersArgs,
    format: &DatasetFormat,
    mut config: ClewConfig,
    answerable: u64,
    logs: &mut [AnswerLog],
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("no temporary directory could be made")?;
    config.roles.data_dir = folder.path().to_path_buf();
    let judge = judging::judge(&config)?;
    let connection = Connection::embed(&config).await?;
    let has_model =
        config.roles.generator.endpoint.is_some() || config.roles.generator.local.is_some();
    let mut progress = Progress::new("answers");
    let total = answerable.min(arguments.limit.unwrap_or(u64::MAX)) * logs.len() as u64;
    let mut finished: u64 = logs.iter().map(|log| log.records().len() as u64).sum();
    let mut left = arguments.limit.unwrap_or(u64::MAX) as usize;
    let haystacks = format.open(&arguments.data, arguments.unit, arguments.split.as_deref())?;
    for (at, haystack) in haystacks.enumerate() {
        let haystack = haystack?;
        let questions: Vec<&EvalQuestion> = haystack.answerable().take(left).collect();
        left -= questions.len();
        let is_finished = |id: &str| logs.iter().all(|log| log.is_finished(id));
        if questions.iter().all(|question| is_finished(&question.id)) {
            continue;
        }
        let corpus: CorpusName = format!("haystack-{at}").parse()?;
        progress.set(finished, total, &format!("reading {}", haystack.name));
        let structure = (!arguments.no_structure).then(StructureSettings::default);
        let documents = match arguments.as_turns {
            true => haystack.kept_turns()?,
            false => haystack.with_keys(&arguments.keys)?.documents(),
        };
        fill(&connection, &corpus, documents.clone(), arguments.cutting, structure).await?;
        let asking = Asking {
            connection: &connection,
            corpus: &corpus,
            documents: documents.iter().map(|of| (of.document.id.as_str(), of)).collect(),
            k: arguments.k,
            evidence_tokens: arguments.evidence_tokens,
            reads_options_apart: !has_model,
            judge: judge.as_ref(),
        };
        for log in &mut *logs {
            let strategy = log.run().strategy.clone();
            let due: Vec<&EvalQuestion> =
                questions.iter().filter(|q| !log.is_finished(&q.id)).copied().collect();
            let answers = futures::stream::iter(due)
                .map(|question| asking.ask(question, &strategy))
                .buffer_unordered(CONCURRENT_QUESTIONS);
            futures::pin_mut!(answers);
            while let Some(record) = answers.next().await {
                log.append(record?)?;
                finished += 1;
                progress.set(finished, total, &format!("{strategy}: {}", haystack.name));
            }
        }
        connection.client.delete_corpus(&corpus).await?;
        if left == 0 {
            break;
        }
    }
    progress.finish();
    connection.close().await
}

/// Context in which the questions of a haystack are asked.
struct Asking<'a> {
    connection: &'a Connection,
    corpus: &'a CorpusName,
    documents: HashMap<&'a str, &'a UnitDocument>,
    k: u32,
    evidence_tokens: Option<u32>,
    /// Whether each option of a multiple-choice question is asked about by itself, because no model
    /// here understands them as options.
    reads_options_apart: bool,
    judge: Option<&'a Judge>,
}

/// Answer with its cost and sources.
#[derive(Default)]
struct Answered {
    outcome: wire::Outcome,
    text: String,
    confidence: f32,
    cost: AnswerCost,
    /// Units from which something was read.
    read: HashSet<DocumentId>,
}

impl Asking<'_> {
    async fn ask(&self, question: &EvalQuestion, strategy: &str) -> anyhow::Result<AnswerRecord> {
        let answered = match &question.scoring {
            Scoring::Choice { stem, options, .. } if self.reads_options_apart => {
                let mut best = Answered::default();
                for option in options {
                    let asked = format!("{stem} {}", option.text);
                    let mut answered = self.answer(question, asked, strategy).await?;
                    // The best-supported option is chosen, even if no answer was found in memory.
                    answered.outcome = wire::Outcome::Answered;
                    answered.text = format!("({}) {}", option.letter, option.text);
                    best = best.or(answered);
                }
                best
            }
            _ => self.answer(question, question.text.clone(), strategy).await?,
        };
        let outcome = match answered.outcome {
            wire::Outcome::NotInMemory | wire::Outcome::Unspecified => RecordedOutcome::NotInMemory,
            wire::Outcome::Answered | wire::Outcome::AnsweredWithShardsMissing => {
                RecordedOutcome::Answered
            }
        };
        let Answered { text, cost, read, .. } = answered;
        let mut record = AnswerRecord::new(question, outcome, text, cost);
        record.scores.extend(question.recall(&read).map(|recall| (Metric::Recall, recall)));
        match self.judge {
            Some(judge) => judging::judged(judge, question, record).await,
            None => Ok(record),
        }
    }

    async fn answer(
        &self,
        question: &EvalQuestion,
        text: String,
        strategy: &str,
    ) -> anyhow::Result<Answered> {
        let wants_summary = matches!(question.scoring, Scoring::RougeL);
        let asked = Asked {
            text,
            task: if wants_summary { Task::Summarise } else { Task::Answer },
            asked_at: question.asked_at,
            strategy: strategy.to_owned(),
            k: Some(self.k),
            evidence_tokens: self.evidence_tokens,
            ..Asked::default()
        };
        let patient_until = Instant::now() + PATIENCE;
        loop {
            let error = match self.answer_once(asked.clone()).await {
                Ok(answered) => return Ok(answered),
                Err(error) => error,
            };
            // A machine that is busy with other questions is not the strategy's fault.
            let later = error.downcast_ref::<Error>().filter(|error| error.is_retryable());
            let Some(later) = later.filter(|_| Instant::now() < patient_until) else {
                return Err(error);
            };
            tokio::time::sleep(later.retry_after().unwrap_or(PAUSE)).await;
        }
    }

    async fn answer_once(&self, asked: Asked) -> anyhow::Result<Answered> {
        let began = Instant::now();
        let events = self.connection.client.answer(self.corpus, asked).await?;
        futures::pin_mut!(events);
        let (mut answered, mut last) = (Answered::default(), None);
        while let Some(event) = events.next().await {
            match event?.event {
                Some(Event::Trace(wire::TraceEvent { step: Some(step) })) => {
                    self.take_in(step, &mut answered)?;
                }
                Some(Event::Answer(answer)) => last = Some(answer),
                Some(Event::TextDelta(_) | Event::Trace(_)) | None => {}
            }
        }
        let answer = last.context("the server ended the stream without an answer")?;
        answered.outcome = answer.outcome();
        answered.text = answer.text;
        let cost = answer.cost.unwrap_or_default();
        answered.cost = AnswerCost {
            model_calls: cost.model_calls,
            prompt_tokens: cost.prompt_tokens,
            completion_tokens: cost.completion_tokens,
            embedded_tokens: cost.embedded_tokens,
            evidence_tokens: answered.cost.evidence_tokens,
            seconds: began.elapsed().as_secs_f64(),
        };
        Ok(answered)
    }

    fn take_in(&self, step: Step, answered: &mut Answered) -> anyhow::Result<()> {
        match step {
            // The answer was made from the last read.
            Step::Read(read) => {
                answered.cost.evidence_tokens = self.tokens(&read.places)?;
                let documents = read.places.iter();
                let known = documents.filter_map(|of| self.documents.get(of.document_id.as_str()));
                answered.read = known.map(|of| of.unit.clone()).collect();
            }
            // A walk also reads summaries.
            Step::Walked(walked) => {
                answered.cost.evidence_tokens = walked.bytes_read / BYTES_PER_TOKEN;
            }
            Step::Judged(judged) => answered.confidence = judged.confidence,
            _ => {}
        }
        Ok(())
    }

    /// Counts the tokens of places with the encoder of the corpus.
    fn tokens(&self, places: &[wire::Place]) -> anyhow::Result<u64> {
        let node = self.connection.node().context("the node runs in this process")?;
        let text = |place: &wire::Place| -> Option<&str> {
            let span = place.span.as_ref()?;
            let (start, end) = (usize::try_from(span.start), usize::try_from(span.end));
            let (start, end) = (start.ok()?, end.ok()?);
            self.documents.get(place.document_id.as_str())?.document.text.get(start..end)
        };
        let encoder = node.backends.encoders.current();
        let count = |text: &str| encoder.token_spans(text).len() as u64;
        Ok(places.iter().filter_map(text).map(count).sum())
    }
}

impl Answered {
    /// Returns the answer with the higher confidence, at the cost of both.
    fn or(self, other: Self) -> Self {
        let cost = sum(&self.cost, &other.cost);
        let is_better = other.confidence > self.confidence || self.text.is_empty();
        let best = if is_better { other } else { self };
        Self { cost, ..best }
    }
}

fn sum(a: &AnswerCost, b: &AnswerCost) -> AnswerCost {
    AnswerCost {
        model_calls: a.model_calls + b.model_calls,
        prompt_tokens: a.prompt_tokens + b.prompt_tokens,
        completion_tokens: a.completion_tokens + b.completion_tokens,
        embedded_tokens: a.embedded_tokens + b.embedded_tokens,
        evidence_tokens: a.evidence_tokens.max(b.evidence_tokens),
        seconds: a.seconds + b.seconds,
    }
}
