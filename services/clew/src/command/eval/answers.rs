//! Commands `clew eval answers` and `clew eval compare`.

mod asking;
mod misses;
mod options;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clew_core::{CorpusName, KeyDesign, StructureSettings};
use clew_eval::{AnswerLog, AnswerReport, DatasetFormat, EvalQuestion, RunIdentity};
use futures::StreamExt;

use self::asking::{Asking, AskingSettings};
use self::options::OptionChoice;
use super::haystack_corpus::{CONCURRENT_QUESTIONS, fill};
use super::{judging, measured_reader};
use crate::args::chunking::ChunkingArgs;
use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::connection::Connection;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Arguments of `eval answers`.
#[derive(Debug, Args)]
pub struct AnswersArgs {
    /// Data set: multihop, locomo, longmemeval, lihua, beam, quality, nocha, govreport, squality or
    /// squad.
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
    /// How an option of a multiple choice is chosen where no language model reads them.
    #[arg(long, value_enum, default_value_t = OptionChoice::Support)]
    pub options: OptionChoice,
    #[command(flatten)]
    pub cutting: ChunkingArgs,
    /// Write the report as a page to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the wrong answers to this file, as JSON Lines (`-`: standard output): question, right
    /// answers, answer, confidence, and which step went wrong. The first lines are a sample of all.
    #[arg(long, value_name = "FILE")]
    pub misses: Option<PathBuf>,
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

/// Answers those questions of a data set that the log lacks, and reports.
pub async fn run(
    global: &GlobalArgs,
    arguments: AnswersArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let format = DatasetFormat::named(&arguments.format)?;
    let survey = format.survey(&arguments.data, arguments.unit, arguments.split.as_deref())?;
    let mut config = ClewConfig::load(global, None)?;
    std::fs::create_dir_all(&arguments.logs)
        .with_context(|| format!("cannot make `{}`", arguments.logs.display()))?;
    let folder = tempfile::tempdir().context("no temporary directory could be made")?;
    config.roles.data_dir = folder.path().to_path_buf();
    let connection = Connection::embed(&config).await?;
    let settings = settings(&arguments, &config, &connection).await?;
    let mut logs = Vec::new();
    for strategy in &arguments.strategy {
        let identity = RunIdentity {
            format: arguments.format.clone(),
            data: survey.fingerprint.clone(),
            strategy: strategy.clone(),
            settings: settings.clone(),
        };
        let file = arguments.logs.join(format!("{}-{strategy}.jsonl", arguments.format));
        logs.push(AnswerLog::open(&file, identity)?);
    }
    let run = Run { arguments: &arguments, format, config: &config, connection: &connection };
    run.answer(survey.answerable as u64, &mut logs).await?;
    connection.close().await?;
    let report = |log: &AnswerLog| AnswerReport::new(log.run().clone(), log.records());
    let reports = logs.iter().map(report).collect::<Result<Vec<_>, _>>()?;
    if let Some(file) = &arguments.misses {
        let haystacks = format.open(&arguments.data, arguments.unit, arguments.split.as_deref())?;
        output::write(file, &misses::lines(haystacks, &logs)?)?;
    }
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
async fn settings(
    arguments: &AnswersArgs,
    config: &ClewConfig,
    connection: &Connection,
) -> anyhow::Result<BTreeMap<String, String>> {
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
    let node = connection.node().context("the node runs in this process")?;
    let reader = measured_reader::loaded(&node.models.reader, &config.roles.reader).await?;
    settings.extend(reader.map(|reader| ("reader".to_owned(), reader)));
    let options = arguments.options.setting().map(|options| ("options".to_owned(), options));
    settings.extend(options);
    Ok(settings)
}

/// Run of all strategies over a data set.
struct Run<'a> {
    arguments: &'a AnswersArgs,
    format: &'a DatasetFormat,
    config: &'a ClewConfig,
    connection: &'a Connection,
}

impl Run<'_> {
    /// Asks the questions that are not in the logs, haystack by haystack.
    async fn answer(&self, answerable: u64, logs: &mut [AnswerLog]) -> anyhow::Result<()> {
        let Self { arguments, format, config, connection } = *self;
        let judge = judging::judge(config)?;
        let generator = &config.roles.generator;
        let has_model = generator.endpoint.is_some() || generator.local.is_some();
        let settings = AskingSettings {
            k: arguments.k,
            evidence_tokens: arguments.evidence_tokens,
            options: (!has_model).then_some(arguments.options),
            judge: judge.as_ref(),
        };
        let mut progress = Progress::new("answers");
        let total = answerable.min(arguments.limit.unwrap_or(u64::MAX)) * logs.len() as u64;
        let mut finished: u64 = logs.iter().map(|log| log.records().len() as u64).sum();
        let mut left = arguments.limit.unwrap_or(u64::MAX) as usize;
        let split = arguments.split.as_deref();
        let haystacks = format.open(&arguments.data, arguments.unit, split)?;
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
            fill(connection, &corpus, documents.clone(), arguments.cutting, structure).await?;
            let asking = Asking::new(connection, &corpus, &documents, settings);
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
        Ok(())
    }
}
