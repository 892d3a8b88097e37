//! Command `clew eval reading`: measures the reader by itself, on passages that it is given.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use clew_core::{NoReader, ReadPassage, SpanReader};
use clew_eval::reading::{
    ReadingQuestion, ReadingRecord, ReadingReport, ReadingRun, SuggestedCalibration,
    read_questions, sample,
};
use clew_memory_encoder::OwnReader;
use futures::{StreamExt, TryStreamExt};

use super::haystack_corpus::CONCURRENT_QUESTIONS;
use super::{json_lines, measured_reader};
use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::node::model_folder;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Maximum time for one passage, that of waiting for others included.
const PATIENCE: Duration = Duration::from_secs(600);

/// Arguments of `eval reading`.
#[derive(Debug, Args)]
pub struct ReadingArgs {
    /// Files of questions with their passages: JSON Lines of `{id, source, title, context,
    /// question, answers: [{text}]}`, also packed with gzip, or SQuAD's own layout. Without
    /// answers, the passage does not answer.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Maximum number of questions of each file: a sample, which is the same each time.
    #[arg(long)]
    pub limit: Option<usize>,
    /// Probability that the passage answers from which on a question counts as answered.
    #[arg(long, value_name = "PROBABILITY", default_value_t = 0.5, value_parser = probability)]
    pub threshold: f64,
    /// Fit slope and intercept of the probability's logit, and choose the threshold at which
    /// --precision of the answers are right.
    #[arg(long)]
    pub calibrate: bool,
    /// Share of the answers given that should be right.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.9,
        value_parser = probability,
        requires = "calibrate"
    )]
    pub precision: f64,
    /// Write what was read wrongly to this file, as JSON Lines (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    pub misses: Option<PathBuf>,
}

fn probability(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| (0.0..=1.0).contains(number))
        .ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// Has the reader read the passages, and reports.
pub(super) async fn run(
    global: &GlobalArgs,
    arguments: &ReadingArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let questions = questions(arguments)?;
    let config = ClewConfig::load(global, None)?;
    let (reader, encoder) = (&config.roles.reader, &config.roles.encoder);
    let folder = model_folder(encoder).await?;
    let own = OwnReader::load(reader, folder.as_deref(), encoder).await?;
    let measured = async {
        let weights = measured_reader::loaded(&own, reader).await?;
        let Some(weights) = weights else { bail!(NoReader::refusal()) };
        let read = read_all(own.seam().as_ref(), &questions).await?;
        anyhow::Ok((weights, read))
    };
    let measured = measured.await;
    own.stop().await;
    let (weights, (reader, records)) = measured?;
    if let Some(file) = &arguments.misses {
        output::write(file, &misses(&questions, &records, arguments.threshold)?)?;
    }
    let run = ReadingRun { reader, weights, threshold: arguments.threshold };
    let suggested =
        arguments.calibrate.then(|| SuggestedCalibration::of(&records, arguments.precision));
    let report = ReadingReport::new(run, &records)?.with(suggested.flatten());
    output.print(&report, ToString::to_string)
}

/// Returns the questions of all files.
fn questions(arguments: &ReadingArgs) -> anyhow::Result<Vec<ReadingQuestion>> {
    let mut questions = Vec::new();
    for file in &arguments.files {
        let of_file = read_questions(file)?;
        questions.extend(sample(of_file, arguments.limit.unwrap_or(usize::MAX)));
    }
    if questions.is_empty() {
        bail!("expected a `--limit` of at least 1, got 0");
    }
    Ok(questions)
}

/// Has each question read, and returns the name of the reader and the results in the order of the
/// questions.
async fn read_all(
    reader: &dyn SpanReader,
    questions: &[ReadingQuestion],
) -> anyhow::Result<(String, Vec<ReadingRecord>)> {
    let name = reader.reader_model(Instant::now() + PATIENCE).await?;
    let name = name.ok_or_else(NoReader::refusal)?;
    let mut progress = Progress::new("questions");
    let total = questions.len() as u64;
    let reads = futures::stream::iter(questions)
        .map(|question| read(reader, question))
        .buffered(CONCURRENT_QUESTIONS);
    futures::pin_mut!(reads);
    let mut records = Vec::with_capacity(questions.len());
    while let Some(record) = reads.try_next().await? {
        progress.set(records.len() as u64 + 1, total, &record.source);
        records.push(record);
    }
    progress.finish();
    Ok((name, records))
}

async fn read(
    reader: &dyn SpanReader,
    question: &ReadingQuestion,
) -> anyhow::Result<ReadingRecord> {
    let began = Instant::now();
    // Titles of encyclopedias are those of addresses, in which a blank is an underscore.
    let heading = question.title.replace('_', " ");
    let passage = ReadPassage { heading, text: question.context.clone() };
    let read = reader.read_spans(&question.question, vec![passage], began + PATIENCE).await;
    let read = read.with_context(|| format!("the question `{}` was not read", question.id))?;
    let [passage] = read.passages.as_slice() else {
        bail!("expected a result for one passage, got {}", read.passages.len());
    };
    Ok(ReadingRecord::new(question, passage, read.tokens, began.elapsed().as_secs_f64())?)
}

/// Returns what was read wrongly as JSON Lines, in the order of hashes of the ids, so that the
/// first lines are a sample of all.
fn misses(
    questions: &[ReadingQuestion],
    records: &[ReadingRecord],
    threshold: f64,
) -> anyhow::Result<String> {
    let read = questions.iter().zip(records);
    let mut misses: Vec<_> =
        read.filter_map(|(question, record)| record.miss(question, threshold)).collect();
    misses.sort_by_cached_key(|miss| clew_eval::fingerprint(miss.id.as_bytes()));
    json_lines::text(&misses)
}

#[cfg(test)]
mod tests {
    use clew_core::{Error, FoundSpan, PassageRead, Span};

    use super::*;

    fn question(id: &str, context: &str, answer: Option<&str>) -> ReadingQuestion {
        ReadingQuestion {
            id: id.to_owned(),
            source: String::new(),
            title: "Old_port".to_owned(),
            context: context.to_owned(),
            question: "Who?".to_owned(),
            answers: answer.map(str::to_owned).into_iter().collect(),
        }
    }

    #[test]
    fn what_is_read_wrongly_is_told_in_an_order_that_the_file_does_not_decide() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let questions: Vec<_> =
            names.iter().map(|id| question(id, "Leopold left.", Some("Genoa"))).collect();
        let spans = vec![FoundSpan { span: Span::new(0, 7), share: 0.5 }];
        let read = PassageRead { answers: 0.75, relevance: 0.5, spans };
        let record = |question| ReadingRecord::new(question, &read, 7, 0.25).unwrap();
        let records: Vec<_> = questions.iter().map(record).collect();
        let ids = |threshold: f64, turned: bool| {
            let (mut questions, mut records) = (questions.clone(), records.clone());
            if turned {
                questions.reverse();
                records.reverse();
            }
            let lines = misses(&questions, &records, threshold).unwrap();
            let lines = lines.lines().map(|line| {
                let miss: serde_json::Value = serde_json::from_str(line).unwrap();
                (miss["id"].to_string(), miss["kind"].to_string())
            });
            lines.collect::<Vec<_>>()
        };
        assert_eq!(ids(0.5, false), ids(0.5, true));
        assert_eq!(ids(0.5, false).len(), 6);
        assert!(ids(0.5, false).iter().all(|(_, kind)| kind == "\"wrong-span\""));
        assert!(ids(0.8, false).iter().all(|(_, kind)| kind == "\"refused-wrongly\""));
    }

    #[tokio::test]
    async fn no_reader_is_told_with_what_it_needs() {
        let error = read_all(&NoReader, &[question("q", "x", None)]).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Error>().unwrap().reason(), NoReader::REASON);
    }

    #[test]
    fn probabilities_are_from_0_to_1() {
        assert_eq!((probability("0"), probability("0.25")), (Ok(0.0), Ok(0.25)));
        for bad in ["", "-0.1", "1.5", "NaN", "half"] {
            assert!(probability(bad).is_err(), "{bad}");
        }
    }
}
