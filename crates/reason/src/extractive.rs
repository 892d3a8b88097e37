//! Reading without a language model: answers consist of words or sentences of the evidence.

mod compared;
mod compose;
mod counting;
mod event;
#[cfg(test)]
pub(crate) mod fixtures;
mod judge;
mod judged;
mod leaning;
mod listener;
mod matter;
#[cfg(test)]
mod measured;
mod navigator;
mod phrase;
mod plain;
mod planner;
mod question;
mod reader;
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
    Assignment, Citation, Cost, Embedding, Encoder, Encoders, Error, Evidence, NoReader, Priority,
    Reading, Reasoner, SpanReader, Task, TextKind,
};

pub use self::step::{propose_clues, raise_concerns};

use self::compared::{Compared, phrases};
use self::judge::THRESHOLD;
use self::judged::{Judged, Ruled, Told};
use self::leaning::Leaning;
use self::matter::Matter;
use self::question::Question;
use self::reader::Remembered;
use self::score::Weights;
pub(crate) use self::sentence::best_first;
use self::sentence::{Material, asks};
use self::verb::in_past;

/// Whoever reads evidence without a language model: with a small reader, which finds the words that
/// answer, and by similarity and words, which choose sentences to quote.
///
/// The reader reads at most sixteen passages, in one call where a passage answers surely. Otherwise
/// it reads at most eight of them once more after a sentence that leads to them, and takes at most
/// six calls for questions of several steps or with options. It reads nothing twice. To quote, the
/// question and at most 48 sentences are embedded, in two calls of the encoder. The rest takes
/// about a millisecond for passages of the usual size, and is bounded for any.
#[derive(Clone)]
pub struct ExtractiveReasoner {
    encoders: Arc<dyn Encoders>,
    reader: Arc<dyn SpanReader>,
}

impl ExtractiveReasoner {
    /// Creates a reasoner without a reader: it quotes whole sentences, which it compares by vectors
    /// of the current encoder of `encoders`, whichever encoder the evidence was found with.
    pub fn new(encoders: Arc<dyn Encoders>) -> Self {
        Self::with_reader(encoders, Arc::new(NoReader))
    }

    /// Creates a reasoner that asks `reader` for the words that answer, and quotes where `reader`
    /// has no model or the question is in a language that it was not trained on. The reasoner is
    /// for one question: what `reader` read is remembered as long as it lives.
    pub fn with_reader(encoders: Arc<dyn Encoders>, reader: Arc<dyn SpanReader>) -> Self {
        Self { encoders, reader: Arc::new(Remembered::new(reader)) }
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
    /// Returns the errors of the encoder and the reader, and [`clew_core::ErrorKind::Internal`] if
    /// a passage's text is not as long as its span, because no quote could be located.
    async fn read(&self, assignment: &Assignment<'_>, deadline: Instant) -> Result<Reading, Error> {
        if assignment.task == Task::Summarise {
            check_spans(assignment.evidence)?;
            return Ok(summary::summarise(assignment.evidence));
        }
        Ok(self.judged(assignment, deadline).await?.reading)
    }
}

impl ExtractiveReasoner {
    /// Reads evidence for the answer to a question.
    async fn judged(
        &self,
        assignment: &Assignment<'_>,
        deadline: Instant,
    ) -> Result<Judged, Error> {
        check_spans(assignment.evidence)?;
        let evidence = without_echoes(assignment);
        let assignment = &Assignment { evidence: &evidence, ..*assignment };
        let matter = Matter::of(assignment.question);
        let leaning = Leaning::of(assignment.question, &matter, assignment.asked_at);
        self.read_for(assignment, &matter, &leaning, deadline).await
    }

    /// Reads for what the question asks: by the rules for its form, or else in the words that the
    /// reader finds, or else by quotes.
    async fn read_for(
        &self,
        assignment: &Assignment<'_>,
        matter: &Matter,
        leaning: &Leaning,
        deadline: Instant,
    ) -> Result<Judged, Error> {
        let mut by_rules = None;
        if *matter != Matter::Fact {
            let make =
                |compared: &Compared<'_, '_>| (compared.ruled(matter), compared.quoted(None));
            match self.compare(assignment, matter, leaning, make, deadline).await? {
                None => return Ok(Judged::of(nothing_to_read())),
                Some((Some(Ruled { reading, yields: false }), _)) => {
                    return Ok(Judged::of(reading));
                }
                found => by_rules = found,
            }
        }
        match self.words_for(assignment, matter, leaning, deadline).await? {
            Told::Read(judged) => Ok(match by_rules {
                None => judged,
                Some((ruled, quoted)) => {
                    let ruled = ruled.map(|ruled| ruled.reading);
                    either(judged, ruled, quoted.cost)
                }
            }),
            Told::Quotes { reason, cost } => {
                let mut reading = match by_rules {
                    Some((ruled, quoted)) => ruled.map_or(quoted, |ruled| ruled.reading),
                    None => {
                        let make = |compared: &Compared<'_, '_>| compared.quoted(None);
                        let quoted = self.compare(assignment, matter, leaning, make, deadline);
                        quoted.await?.unwrap_or_else(nothing_to_read)
                    }
                };
                reading.cost += cost;
                if !reason.is_empty() {
                    reading.rationale =
                        format!("read for quotes, because {reason}: {}", reading.rationale);
                }
                Ok(Judged::of(reading))
            }
        }
    }

    /// Compares the sentences of the evidence with the question, and returns what `make` makes of
    /// that; `None` if there are no sentences.
    async fn compare<T>(
        &self,
        assignment: &Assignment<'_>,
        matter: &Matter,
        leaning: &Leaning,
        make: impl FnOnce(&Compared<'_, '_>) -> T,
        deadline: Instant,
    ) -> Result<Option<T>, Error> {
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
            return Ok(None);
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
        Ok(Some(make(&compared)))
    }
}

/// Returns what the reader found, or if that is no answer, what the rules found. `compared` is the
/// cost of the rules, which comes to that of the reader.
fn either(mut judged: Judged, ruled: Option<Reading>, compared: Cost) -> Judged {
    match ruled {
        Some(mut ruled) if judged.reading.text.is_empty() && !ruled.text.is_empty() => {
            ruled.cost += judged.reading.cost;
            Judged::of(ruled)
        }
        _ => {
            judged.reading.cost += compared;
            judged
        }
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
