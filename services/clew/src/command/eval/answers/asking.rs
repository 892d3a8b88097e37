//! Questions that are asked of a strategy, and what is recorded of its answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clew_client::QuestionRequest as Asked;
use clew_core::{CorpusName, Encoder, Error, Query, Task};
use clew_eval::answers::{
    ChoiceOption, EvidenceReach, Metric, Needle, PassageOfUnit, RecordedOutcome,
};
use clew_eval::{AnswerCost, AnswerRecord, EvalQuestion, Scoring, UnitDocument};
use clew_proto::query::v1 as wire;
use clew_proto::query::v1::answer_response::Event;
use clew_proto::query::v1::trace_event::Step;
use clew_reason::prompted::Judge;
use futures::StreamExt;

use super::super::judging;
use super::options::{OptionChoice, most_like};
use crate::connection::Connection;

/// Time for which a question is asked again after retryable errors, and the default pause in
/// between.
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes per token where only bytes are known: about the average of English.
const BYTES_PER_TOKEN: u64 = 4;
/// Number of passages among which evidence counts as found: about as many as a reranker would
/// reorder.
const FOUND_AMONG: usize = 50;

/// Context in which the questions of a haystack are asked.
pub(super) struct Asking<'a> {
    connection: &'a Connection,
    corpus: &'a CorpusName,
    documents: &'a [UnitDocument],
    by_id: HashMap<&'a str, &'a UnitDocument>,
    settings: AskingSettings<'a>,
}

/// Settings of [`Asking`].
#[derive(Clone, Copy)]
pub(super) struct AskingSettings<'a> {
    /// Maximum number of passages to read.
    pub k: u32,
    /// Maximum number of tokens of these passages.
    pub evidence_tokens: Option<u32>,
    /// How an option is chosen, where no language model understands options.
    pub options: Option<OptionChoice>,
    /// Judge of the answers.
    pub judge: Option<&'a Judge>,
}

/// Answer with its cost and sources.
#[derive(Default)]
struct Answered {
    outcome: wire::Outcome,
    text: String,
    quotes: Vec<String>,
    confidence: Option<f32>,
    cost: AnswerCost,
    /// Places that were read.
    places: Vec<wire::Place>,
}

impl<'a> Asking<'a> {
    /// Creates the context of questions to a corpus that holds `documents`.
    pub(super) fn new(
        connection: &'a Connection,
        corpus: &'a CorpusName,
        documents: &'a [UnitDocument],
        settings: AskingSettings<'a>,
    ) -> Self {
        let by_id = documents.iter().map(|of| (of.document.id.as_str(), of)).collect();
        Self { connection, corpus, documents, by_id, settings }
    }

    /// Asks a question of a strategy, and returns what there is to record.
    ///
    /// # Errors
    /// Returns the errors of asking and of judging that do not pass.
    pub(super) async fn ask(
        &self,
        question: &EvalQuestion,
        strategy: &str,
    ) -> anyhow::Result<AnswerRecord> {
        let answered = match (&question.scoring, self.settings.options) {
            (Scoring::Choice { stem, options, .. }, Some(OptionChoice::Support)) => {
                self.best_supported(question, stem, options, strategy).await?
            }
            (Scoring::Choice { stem, options, .. }, Some(OptionChoice::Likeness)) => {
                let mut answered = self.answer(question, stem.clone(), strategy).await?;
                if !answered.text.is_empty() {
                    let encoder = self.encoder()?;
                    let option = most_like(&answered.text, options, encoder.as_ref()).await?;
                    answered.text = option.map(named).unwrap_or_default();
                }
                answered
            }
            _ => self.answer(question, question.text.clone(), strategy).await?,
        };
        let outcome = match answered.outcome {
            wire::Outcome::NotInMemory | wire::Outcome::Unspecified => RecordedOutcome::NotInMemory,
            wire::Outcome::Answered | wire::Outcome::AnsweredWithShardsMissing => {
                RecordedOutcome::Answered
            }
        };
        let evidence = self.reach(question, &answered.places).await?;
        let read = self.passages(&answered.places).map(|passage| passage.unit.clone()).collect();
        let Answered { text, cost, quotes, confidence, .. } = answered;
        let mut record = AnswerRecord::new(question, outcome, text, cost);
        record.scores.extend(question.recall(&read).map(|recall| (Metric::Recall, recall)));
        // Similarities may be above 1 by the rounding of the last digit.
        record.confidence = confidence.map(|confidence| f64::from(confidence.clamp(0.0, 1.0)));
        record.evidence = evidence;
        record.quotes = quotes;
        match self.settings.judge {
            Some(judge) => judging::judged(judge, question, record).await,
            None => Ok(record),
        }
    }

    /// Asks about each option by itself, and returns the one with the most support as the answer.
    async fn best_supported(
        &self,
        question: &EvalQuestion,
        stem: &str,
        options: &[ChoiceOption],
        strategy: &str,
    ) -> anyhow::Result<Answered> {
        let mut best = Answered::default();
        for option in options {
            let asked = format!("{stem} {}", option.text);
            let mut answered = self.answer(question, asked, strategy).await?;
            // The best-supported option is chosen, even if no answer was found in memory.
            answered.outcome = wire::Outcome::Answered;
            answered.text = named(option);
            best = best.or(answered);
        }
        Ok(best)
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
            k: Some(self.settings.k),
            evidence_tokens: self.settings.evidence_tokens,
            ..Asked::default()
        };
        patiently(async || self.answer_once(asked.clone()).await).await
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
        answered.quotes = answer.citations.into_iter().map(|citation| citation.quote).collect();
        let cost = answer.cost.unwrap_or_default();
        answered.cost = AnswerCost {
            model_calls: cost.model_calls,
            prompt_tokens: cost.prompt_tokens,
            completion_tokens: cost.completion_tokens,
            embedded_tokens: cost.embedded_tokens,
            reranked_tokens: cost.reranked_tokens,
            evidence_tokens: answered.cost.evidence_tokens,
            seconds: began.elapsed().as_secs_f64(),
        };
        Ok(answered)
    }

    fn take_in(&self, step: Step, answered: &mut Answered) -> anyhow::Result<()> {
        match step {
            // The answer was made from the last read.
            Step::Read(read) => {
                let encoder = self.encoder()?;
                let count =
                    |passage: PassageOfUnit<'_>| encoder.token_spans(passage.text).len() as u64;
                answered.cost.evidence_tokens = self.passages(&read.places).map(count).sum();
                answered.places = read.places;
            }
            // A walk also reads summaries.
            Step::Walked(walked) => {
                answered.cost.evidence_tokens = walked.bytes_read / BYTES_PER_TOKEN;
            }
            Step::Judged(judged) => answered.confidence = Some(judged.confidence),
            _ => {}
        }
        Ok(())
    }

    /// Returns how far the evidence for a question came, which was answered from `read`. Returns
    /// `None` if it is not known what the evidence is.
    async fn reach(
        &self,
        question: &EvalQuestion,
        read: &[wire::Place],
    ) -> anyhow::Result<Option<EvidenceReach>> {
        let Some(needle) = Needle::of(question, self.documents) else { return Ok(None) };
        if needle.is_in(self.passages(read)) {
            return Ok(Some(EvidenceReach::Read));
        }
        let search = async || {
            let query = Query::new(&question.text, FOUND_AMONG);
            Ok(self.connection.client.search(self.corpus, query).await?)
        };
        let found = patiently(search).await?.evidence;
        let passages = found.iter().filter_map(|evidence| {
            let of = self.by_id.get(evidence.document_id.as_str())?;
            Some(PassageOfUnit { unit: &of.unit, text: &evidence.text })
        });
        let is_found = needle.is_in(passages);
        Ok(Some(if is_found { EvidenceReach::Found } else { EvidenceReach::NotFound }))
    }

    /// Returns the passages at `places`.
    fn passages(&self, places: &[wire::Place]) -> impl Iterator<Item = PassageOfUnit<'_>> {
        places.iter().filter_map(|place| {
            let of = self.by_id.get(place.document_id.as_str())?;
            let span = place.span.as_ref()?;
            let (start, end) = (usize::try_from(span.start), usize::try_from(span.end));
            let text = of.document.text.get(start.ok()?..end.ok()?)?;
            Some(PassageOfUnit { unit: &of.unit, text })
        })
    }

    fn encoder(&self) -> anyhow::Result<Arc<dyn Encoder>> {
        let node = self.connection.node().context("the node runs in this process")?;
        Ok(node.backends.encoders.current())
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

/// Returns an answer that names an option.
fn named(option: &ChoiceOption) -> String {
    format!("({}) {}", option.letter, option.text)
}

/// Repeats `attempt` after retryable errors: a machine that is busy with other questions is not the
/// strategy's fault.
async fn patiently<T>(attempt: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let patient_until = Instant::now() + PATIENCE;
    loop {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let later = error.downcast_ref::<Error>().filter(|error| error.is_retryable());
        let Some(later) = later.filter(|_| Instant::now() < patient_until) else {
            return Err(error);
        };
        tokio::time::sleep(later.retry_after().unwrap_or(PAUSE)).await;
    }
}

fn sum(a: &AnswerCost, b: &AnswerCost) -> AnswerCost {
    AnswerCost {
        model_calls: a.model_calls + b.model_calls,
        prompt_tokens: a.prompt_tokens + b.prompt_tokens,
        completion_tokens: a.completion_tokens + b.completion_tokens,
        embedded_tokens: a.embedded_tokens + b.embedded_tokens,
        reranked_tokens: a.reranked_tokens + b.reranked_tokens,
        evidence_tokens: a.evidence_tokens.max(b.evidence_tokens),
        seconds: a.seconds + b.seconds,
    }
}
