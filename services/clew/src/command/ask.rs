//! Command `clew ask`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use clew_client::QuestionRequest;
use clew_core::{CorpusName, Error, Timestamp};
use clew_proto::query::v1 as wire;
use clew_proto::query::v1::answer_response::Event;
use clew_trace::{TracePoint, TracePointFate, TraceRange, TraceStep};
use futures::{Stream, StreamExt};
use serde_json::{Value, json};

use crate::args::filter::FilterArgs;
use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::{self, Output, human, one_line};

/// Arguments of `ask`.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Name of the corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Question to answer, or what to summarise.
    pub question: String,
    /// Result to produce: an answer or a summary.
    #[arg(long, value_enum, default_value_t = TaskChoice::Answer)]
    pub task: TaskChoice,
    /// Time at which the question is asked, such as 2024-05-20T10:00:00Z, if that matters for its
    /// meaning.
    #[arg(long, value_name = "TIME")]
    pub asked_at: Option<Timestamp>,
    /// Strategy of answering; `clew strategies` lists them.
    #[arg(long, default_value = "direct")]
    pub strategy: String,
    /// Write how the question was answered to this file, for `clew trace show`.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Maximum number of passages to read, 1 to 1000 [default: that of the strategy].
    #[arg(short)]
    pub k: Option<u32>,
    /// Maximum number of tokens of the passages to read.
    #[arg(long, value_name = "TOKENS")]
    pub evidence_tokens: Option<u32>,
    /// Use of compressed memories, for strategies that ask them (`memorag`): draft what to search
    /// for (`clues`), also tell the reasoner what the answer may be (`hint`), or answer themselves
    /// (`answer`).
    #[arg(long, value_enum, default_value_t = MemoryUseChoice::Clues)]
    pub memory_use: MemoryUseChoice,
    /// Let the configured reranker order this many of the best candidates of each search, at most
    /// 200.
    #[arg(long, value_name = "CANDIDATES")]
    pub rerank: Option<u32>,
    /// Show the attributes of the documents that are cited, in the JSON.
    #[arg(long)]
    pub attributes: bool,
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// Use of compressed memories for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryUseChoice {
    /// Memories draft what to search for.
    Clues,
    /// Memories also tell the reasoner what the answer may be.
    Hint,
    /// Memories answer themselves, as far as the cited passages support it.
    Answer,
}

impl From<MemoryUseChoice> for clew_core::MemoryUse {
    fn from(memory_use: MemoryUseChoice) -> Self {
        match memory_use {
            MemoryUseChoice::Clues => Self::Clues,
            MemoryUseChoice::Hint => Self::Hint,
            MemoryUseChoice::Answer => Self::Answer,
        }
    }
}

/// Kind of result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TaskChoice {
    /// Answer to a question.
    Answer,
    /// Summary.
    Summarise,
}

impl From<TaskChoice> for clew_core::Task {
    fn from(task: TaskChoice) -> Self {
        match task {
            TaskChoice::Answer => Self::Answer,
            TaskChoice::Summarise => Self::Summarise,
        }
    }
}

/// Asks a question and prints the answer with its citations.
pub async fn run(global: &GlobalArgs, arguments: AskArgs, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = ask(&connection, arguments, output).await;
    connection.close().await?;
    done
}

async fn ask(connection: &Connection, arguments: AskArgs, output: &Output) -> anyhow::Result<()> {
    let question = QuestionRequest {
        text: arguments.question.clone(),
        task: arguments.task.into(),
        asked_at: arguments.asked_at,
        strategy: arguments.strategy.clone(),
        k: arguments.k,
        evidence_tokens: arguments.evidence_tokens,
        rerank: arguments.rerank,
        filter: arguments.filters.into(),
        memory_use: arguments.memory_use.into(),
        with_attributes: arguments.attributes,
    };
    let asked = Asked {
        corpus: arguments.corpus.to_string(),
        question: arguments.question,
        strategy: arguments.strategy,
        trace: arguments.trace,
    };
    let events = connection.client.answer(&arguments.corpus, question).await?;
    show(events, asked, output).await
}

/// Question as it was asked, with where to write its trace.
pub struct Asked {
    pub corpus: String,
    pub question: String,
    pub strategy: String,
    /// File to write the trace to.
    pub trace: Option<PathBuf>,
}

/// Prints the steps of an answer as they come, then the answer with its citations.
pub async fn show(
    events: impl Stream<Item = Result<wire::AnswerResponse, Error>>,
    asked: Asked,
    output: &Output,
) -> anyhow::Result<()> {
    let started = Instant::now();
    futures::pin_mut!(events);
    let mut trace = Vec::new();
    let mut answer = None;
    while let Some(event) = events.next().await {
        match event?.event {
            Some(Event::Trace(wire::TraceEvent { step: Some(step) })) => {
                let step = step_of(step);
                if !output.is_json() {
                    eprintln!("  {}", step.line());
                }
                trace.push(step);
            }
            Some(Event::Answer(last)) => answer = Some(last),
            // The answer event holds the whole text.
            Some(Event::TextDelta(_) | Event::Trace(_)) | None => {}
        }
    }
    let answer = answer.context("the server ended the stream without an answer")?;
    let took = started.elapsed();
    let citations: Vec<Value> = answer.citations.iter().map(output::citation).collect();
    let document = json!({
        "question": asked.question,
        "strategy": asked.strategy,
        "corpus": asked.corpus,
        "outcome": outcome(answer.outcome()),
        "answer": answer.text,
        "citations": citations,
        "trace": trace,
        "cost": output::cost(answer.cost.as_ref()),
        "shards_missing": answer.shards_missing,
        "took_ms": took.as_secs_f64() * 1e3,
    });
    if let Some(file) = &asked.trace {
        let json = serde_json::to_string_pretty(&document)? + "\n";
        std::fs::write(file, json).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    output.print(&document, |_| text(&answer, took))
}

fn outcome(outcome: wire::Outcome) -> &'static str {
    match outcome {
        wire::Outcome::Unspecified => "unspecified",
        wire::Outcome::Answered => "answered",
        wire::Outcome::NotInMemory => "not_in_memory",
        wire::Outcome::AnsweredWithShardsMissing => "answered_with_shards_missing",
    }
}

fn text(answer: &wire::Answer, took: Duration) -> String {
    let mut text = String::new();
    match answer.outcome() {
        wire::Outcome::NotInMemory => text.push_str("not in memory\n"),
        wire::Outcome::Answered
        | wire::Outcome::AnsweredWithShardsMissing
        | wire::Outcome::Unspecified => text.push_str(&format!("{}\n", answer.text)),
    }
    text.push_str(&output::missing(&answer.shards_missing));
    for (i, citation) in answer.citations.iter().enumerate() {
        let span = citation.span.unwrap_or_default();
        let quote = one_line(&citation.quote, 120);
        text.push_str(&format!(
            "  [{}] {} [{}..{}]: \"{quote}\"\n",
            i + 1,
            citation.document_id,
            span.start,
            span.end
        ));
    }
    let cost = answer.cost.unwrap_or_default();
    text.push_str(&format!(
        "  {}, {} tokens embedded{}, {} model calls{}\n",
        human(took),
        cost.embedded_tokens,
        match cost.reranked_tokens {
            0 => String::new(),
            tokens => format!(", {tokens} read with the question"),
        },
        cost.model_calls,
        if cost.out_of_budget { ", which is all that its budget allows" } else { "" }
    ));
    text
}

fn millis(duration: Option<clew_proto::Duration>) -> f64 {
    duration.map_or(0.0, |d| d.seconds as f64 * 1e3 + f64::from(d.nanos) / 1e6)
}

/// Converts a step from the wire to the one that is shown and stored.
fn step_of(step: wire::trace_event::Step) -> TraceStep {
    use wire::trace_event::Step as Wire;
    match step {
        Wire::Searched(step) => TraceStep::Searched {
            mode: step.mode().as_str_name().trim_start_matches("SEARCH_MODE_").to_lowercase(),
            query: step.query,
            hits: step.hits.into(),
            best_dense_score: step.best_dense_score,
            took_ms: millis(step.took),
        },
        Wire::Judged(wire::Judged { confidence, threshold, rationale }) => {
            TraceStep::Judged { confidence, threshold, rationale }
        }
        Wire::Read(step) => TraceStep::Read {
            passages: step.passages.into(),
            sentences: step.sentences.into(),
            took_ms: millis(step.took),
            places: step.places.into_iter().map(place).collect(),
        },
        Wire::Entered(wire::Entered { node, parent, summary, reason, score }) => {
            TraceStep::Entered { node, parent, summary, reason, score }
        }
        Wire::TurnedBack(wire::TurnedBack { node, reason }) => {
            TraceStep::TurnedBack { node, reason }
        }
        Wire::LeafRead(wire::LeafRead { node, answers, reason }) => {
            TraceStep::LeafRead { node, answers, reason }
        }
        Wire::Walked(wire::Walked { nodes, turns, bytes_read, bytes_total, ended }) => {
            let (nodes, turns) = (nodes.into(), turns.into());
            TraceStep::Walked { nodes, turns, bytes_read, bytes_total, ended }
        }
        Wire::EntitiesChosen(wire::EntitiesChosen { entities, reason }) => {
            TraceStep::EntitiesChosen { entities, reason }
        }
        Wire::EdgeFollowed(wire::EdgeFollowed { head, relation, tail, to, score, reason }) => {
            TraceStep::EdgeFollowed { head, relation, tail, to, score, reason }
        }
        Wire::Drafted(wire::Drafted { lines, answers, took }) => {
            TraceStep::Drafted { lines: lines.into(), answers, took_ms: millis(took) }
        }
        Wire::Evolved(wire::Evolved { step, points, brought }) => {
            let points = points.into_iter().map(point).collect();
            TraceStep::Evolved { number: step, points, brought }
        }
        Wire::Gathered(wire::Gathered { segments, dropped, bytes }) => {
            TraceStep::Gathered { segments: segments.into(), dropped: dropped.into(), bytes }
        }
        Wire::Reflected(wire::Reflected { suffices, reason, missing }) => {
            TraceStep::Reflected { suffices, reason, missing }
        }
    }
}

fn point(point: wire::Point) -> TracePoint {
    let fate = match point.fate() {
        wire::PointFate::Unspecified | wire::PointFate::Kept => TracePointFate::Kept,
        wire::PointFate::Updated => TracePointFate::Updated,
        wire::PointFate::Inserted => TracePointFate::Inserted,
        wire::PointFate::Merged => TracePointFate::Merged,
    };
    let wire::Point { number, fate: _, entities, text, merged_from, segments } = point;
    TracePoint { number, fate, entities, text, merged_from, segments }
}

fn place(place: wire::Place) -> TraceRange {
    let span = place.span.unwrap_or_default();
    let (start, end) = (span.start, span.end);
    TraceRange { document_id: place.document_id, version: place.version, start, end }
}
