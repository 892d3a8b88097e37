//! `clew ask`.

use std::time::{Duration, Instant};

use anyhow::Context;
use clew_client::Question;
use clew_proto::query::v1 as wire;
use clew_proto::query::v1::{answer_response::Event, trace_event::Step};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::cli::{Ask, Shared};
use crate::connection::Connection;
use crate::output::{self, Output, human, one_line};

/// Asks a question and prints the answer with its citations.
pub async fn run(shared: &Shared, arguments: Ask, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(shared).await?;
    let done = ask(&connection, arguments, output).await;
    connection.close().await?;
    done
}

async fn ask(connection: &Connection, arguments: Ask, output: &Output) -> anyhow::Result<()> {
    let question = Question {
        text: arguments.question,
        strategy: arguments.strategy,
        k: arguments.k,
        filter: arguments.filters.into(),
    };
    let started = Instant::now();
    let events = connection.client.answer(&arguments.corpus, question).await?;
    futures::pin_mut!(events);
    let mut trace = Vec::new();
    let mut answer = None;
    while let Some(event) = events.next().await {
        match event?.event {
            Some(Event::Trace(wire::TraceEvent { step: Some(step) })) => {
                if !output.is_json() {
                    eprintln!("  {}", step_line(&step));
                }
                trace.push(step_document(&step));
            }
            Some(Event::Answer(last)) => answer = Some(last),
            // The text comes whole with the answer.
            Some(Event::TextDelta(_) | Event::Trace(_)) | None => {}
        }
    }
    let answer = answer.context("the server ended the stream without an answer")?;
    let took = started.elapsed();
    let citations: Vec<Value> = answer.citations.iter().map(output::citation).collect();
    let document = json!({
        "outcome": outcome(answer.outcome()),
        "answer": answer.text,
        "citations": citations,
        "trace": trace,
        "cost": output::cost(answer.cost.as_ref()),
        "shards_missing": answer.shards_missing,
        "took_ms": took.as_secs_f64() * 1e3,
    });
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
        wire::Outcome::AnsweredWithShardsMissing => {
            text.push_str(&format!(
                "{}\n(shards {:?} did not answer)\n",
                answer.text, answer.shards_missing
            ));
        }
        wire::Outcome::Answered | wire::Outcome::Unspecified => {
            text.push_str(&format!("{}\n", answer.text));
        }
    }
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
        "  {}, {} tokens embedded, {} model calls\n",
        human(took),
        cost.embedded_tokens,
        cost.model_calls
    ));
    text
}

fn millis(duration: Option<clew_proto::Duration>) -> f64 {
    duration.map_or(0.0, |d| d.seconds as f64 * 1e3 + f64::from(d.nanos) / 1e6)
}

fn step_document(step: &Step) -> Value {
    match step {
        Step::Searched(step) => json!({
            "step": "searched",
            "query": step.query,
            "mode": step.mode().as_str_name().trim_start_matches("SEARCH_MODE_").to_lowercase(),
            "hits": step.hits,
            "best_dense_score": step.best_dense_score,
            "took_ms": millis(step.took),
        }),
        Step::Judged(step) => json!({
            "step": "judged",
            "confidence": step.confidence,
            "threshold": step.threshold,
            "rationale": step.rationale,
        }),
        Step::Read(step) => json!({
            "step": "read",
            "passages": step.passages,
            "sentences": step.sentences,
            "took_ms": millis(step.took),
        }),
    }
}

fn step_line(step: &Step) -> String {
    match step {
        Step::Searched(step) => {
            format!("searched: {} passages in {:.0} ms", step.hits, millis(step.took))
        }
        Step::Judged(step) => format!(
            "judged: confidence {:.2}, threshold {:.2} ({})",
            step.confidence, step.threshold, step.rationale
        ),
        Step::Read(step) => format!(
            "read: {} passages, {} sentences in {:.0} ms",
            step.passages,
            step.sentences,
            millis(step.took)
        ),
    }
}
