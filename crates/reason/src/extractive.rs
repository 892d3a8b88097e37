//! Reading without a language model: answers consist of sentences of the evidence.

mod compared;
mod compose;
mod counting;
mod event;
#[cfg(test)]
pub(crate) mod fixtures;
mod judge;
mod leaning;
mod listener;
mod matter;
#[cfg(test)]
mod measured;
mod navigator;
mod phrase;
mod planner;
mod question;
mod reading;
mod reckoning;
mod score;
mod sentence;
mod step;
mod summary;
#[cfg(test)]
mod tests;
mod verb;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Assignment, Citation, Cost, Embedding, Encoder, Encoders, Error, Evidence, Priority, Reading,
    Reasoner, Task, TextKind,
};

pub use self::step::{propose_clues, raise_concerns};

use self::compared::{Compared, phrases};
use self::judge::THRESHOLD;
use self::leaning::Leaning;
use self::matter::Matter;
use self::question::Question;
use self::score::Weights;
pub(crate) use self::sentence::best_first;
use self::sentence::{Material, asks};
use self::verb::in_past;

/// A reader that judges by similarity and words, and answers with quotes.
///
/// It embeds the question and at most 48 sentences, in two calls of its encoder. The rest takes
/// about a millisecond for passages of the usual size, and is bounded for any.
#[derive(Clone)]
pub struct ExtractiveReasoner {
    encoders: Arc<dyn Encoders>,
}

impl ExtractiveReasoner {
    /// Creates a reader that compares by vectors of the current encoder of `encoders`, whichever
    /// encoder the evidence was found with.
    pub fn new(encoders: Arc<dyn Encoders>) -> Self {
        Self { encoders }
    }

    /// Returns the cosine similarities of the texts to the question, in order, and the cost.
    async fn similarities(
        &self,
        question: &str,
        texts: Vec<String>,
        deadline: Instant,
    ) -> Result<(Vec<f32>, Cost), Error> {
        let (cosines, cost) = self.compared(vec![question.to_owned()], texts, deadline).await?;
        Ok((cosines.into_iter().flatten().collect(), cost))
    }

    /// Returns the cosine similarities of the texts to each of the questions, in order, and the
    /// cost.
    async fn compared(
        &self,
        questions: Vec<String>,
        texts: Vec<String>,
        deadline: Instant,
    ) -> Result<(Vec<Vec<f32>>, Cost), Error> {
        // One encoder for both calls, even if another becomes the current one in between.
        let encoder = self.encoders.current();
        let asked = embed(&*encoder, questions, TextKind::Query, deadline).await?;
        let read = embed(&*encoder, texts, TextKind::Passage, deadline).await?;
        let tokens = asked.iter().chain(&read).map(|embedding| u64::from(embedding.tokens)).sum();
        let to_each = |question| read.iter().map(|text| cosine(question, text)).collect();
        let cosines = asked.iter().map(to_each).collect();
        Ok((cosines, Cost { embedded_tokens: tokens, ..Cost::default() }))
    }
}

/// Returns the evidence without turns in which the user asked the same question. Conversations keep
/// them. They resemble the question more than anything else, and answer nothing.
fn without_echoes<'a>(assignment: &Assignment<'a>) -> Cow<'a, [Evidence]> {
    let Assignment { question, evidence, .. } = *assignment;
    if !evidence.iter().any(|turn| asks(turn, question)) {
        return Cow::Borrowed(evidence);
    }
    Cow::Owned(evidence.iter().filter(|turn| !asks(turn, question)).cloned().collect())
}

async fn embed(
    encoder: &dyn Encoder,
    texts: Vec<String>,
    kind: TextKind,
    deadline: Instant,
) -> Result<Vec<Embedding>, Error> {
    let expected = texts.len();
    let embeddings = encoder.embed(texts, kind, Priority::Interactive, deadline).await?;
    if embeddings.len() == expected {
        return Ok(embeddings);
    }
    Err(Error::internal(format!(
        "expected {expected} embeddings from the encoder, got {}",
        embeddings.len()
    )))
}

#[async_trait]
impl Reasoner for ExtractiveReasoner {
    /// Judges and composes as the crate's documentation describes. A summary covers all evidence.
    /// The points of a working memory are not read, because they are derived from the evidence.
    ///
    /// # Errors
    /// Returns the errors of the encoder, and [`clew_core::ErrorKind::Internal`] if a passage's
    /// text is not as long as its span, because no quote could be located.
    async fn read(&self, assignment: &Assignment<'_>, deadline: Instant) -> Result<Reading, Error> {
        check_spans(assignment.evidence)?;
        if assignment.task == Task::Summarise {
            return Ok(summary::summarise(assignment.evidence));
        }
        let evidence = without_echoes(assignment);
        let assignment = &Assignment { evidence: &evidence, ..*assignment };
        let matter = Matter::of(assignment.question);
        let leaning = Leaning::of(assignment.question, &matter, assignment.asked_at);
        self.read_for(assignment, &matter, &leaning, deadline).await
    }
}

impl ExtractiveReasoner {
    /// Reads for what the question asks.
    async fn read_for(
        &self,
        assignment: &Assignment<'_>,
        matter: &Matter,
        leaning: &Leaning,
        deadline: Instant,
    ) -> Result<Reading, Error> {
        let topic = matter.topic(assignment.question);
        let asked = match matter {
            // Statements about the things counted are in the past tense.
            Matter::Counting(_) => Question::new(&in_past(&topic)),
            Matter::Reckoning(_) | Matter::Advice | Matter::Recollection | Matter::Fact => {
                Question::new(&topic)
            }
        };
        let material = Material::new(&asked, assignment.evidence);
        let weights = Weights::new(&asked, &material.sentences);
        let sentences = score::promising(&material, &weights, leaning);
        if sentences.is_empty() {
            return Ok(nothing_to_read());
        }
        let questions = [vec![topic], phrases(matter)].concat();
        let texts = sentences.iter().map(|sentence| sentence.text.to_owned()).collect();
        let (cosines, cost) = self.compared(questions, texts, deadline).await?;
        let compared = Compared {
            assignment,
            question: &asked,
            material: &material,
            weights: &weights,
            leaning,
            sentences: &sentences,
            cosines: &cosines,
            cost,
        };
        Ok(compared.reading(matter))
    }
}

/// Refuses passages whose texts do not fill their spans: quotes of them could not be located.
pub(crate) fn check_spans(evidence: &[Evidence]) -> Result<(), Error> {
    match evidence.iter().find(|passage| passage.span.len() != passage.text.len()) {
        None => Ok(()),
        Some(passage) => Err(Error::internal(format!(
            "{} spans {} bytes of its document but holds {}",
            passage.chunk_id,
            passage.span.len(),
            passage.text.len()
        ))),
    }
}

fn nothing_to_read() -> Reading {
    Reading {
        confidence: 0.0,
        threshold: THRESHOLD,
        rationale: "nothing was found to read".to_owned(),
        text: String::new(),
        citations: Vec::new(),
        sentences: 0,
        cost: Cost::default(),
    }
}

/// Returns the cosine similarity of unit vectors.
fn cosine(a: &Embedding, b: &Embedding) -> f32 {
    a.vector.iter().zip(&b.vector).map(|(a, b)| a * b).sum()
}

fn joined(citations: &[Citation]) -> String {
    citations.iter().map(|citation| citation.quote.as_str()).collect::<Vec<_>>().join(" ")
}
