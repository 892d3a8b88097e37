//! `direct`: search once, judge, compose.

use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Answer, Cost, Error, Outcome, Query, TraceEvent};

use crate::{Progress, Question, Seams, Strategy};

/// One hybrid search for the words of the question, read once.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

/// Passages read where the caller does not say: enough that an answer that was found is among them,
/// few enough that reading stays within the time of a search.
const DEFAULT_K: usize = 10;

#[async_trait]
impl Strategy for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn Progress,
    ) -> Result<Answer, Error> {
        let mut query = Query::new(question.text.clone(), question.k.unwrap_or(DEFAULT_K));
        query.filter = question.filter.clone();
        let started = Instant::now();
        let found = seams.retriever.retrieve(&query, question.deadline).await?;
        progress.trace(TraceEvent::Searched {
            query: query.text,
            mode: query.mode,
            hits: found.evidence.len(),
            best_dense_score: found
                .evidence
                .iter()
                .filter_map(|evidence| evidence.dense_score)
                .max_by(f32::total_cmp),
            took: started.elapsed(),
        });
        let mut cost = Cost::default();
        cost += found.cost;

        let started = Instant::now();
        let reading =
            seams.reasoner.read(&question.text, &found.evidence, question.deadline).await?;
        cost += reading.cost;
        progress.trace(TraceEvent::Read {
            passages: found.evidence.len(),
            sentences: reading.sentences,
            took: started.elapsed(),
        });
        progress.trace(TraceEvent::Judged {
            confidence: reading.confidence,
            threshold: reading.threshold,
            rationale: reading.rationale,
        });
        let outcome = if reading.confidence < reading.threshold || reading.text.is_empty() {
            Outcome::NotInMemory
        } else if found.shards_missing.is_empty() {
            Outcome::Answered
        } else {
            Outcome::AnsweredWithShardsMissing(found.shards_missing)
        };
        if outcome == Outcome::NotInMemory {
            return Ok(Answer { outcome, text: String::new(), citations: Vec::new(), cost });
        }
        progress.text(&reading.text);
        Ok(Answer { outcome, text: reading.text, citations: reading.citations, cost })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use clew_core::{Evidence, Filter, Reasoner, Retrieved, Retriever, ShardIndex};

    use super::*;

    struct Finds {
        shards_missing: Vec<ShardIndex>,
    }

    #[async_trait]
    impl Retriever for Finds {
        async fn retrieve(&self, query: &Query, _: Instant) -> Result<Retrieved, Error> {
            assert_eq!(query.k, 3);
            let cost = Cost { embedded_tokens: 5, ..Cost::default() };
            Ok(Retrieved {
                evidence: Vec::new(),
                shards_missing: self.shards_missing.clone(),
                cost,
            })
        }
    }

    struct Reads {
        confidence: f32,
    }

    #[async_trait]
    impl Reasoner for Reads {
        async fn read(
            &self,
            _: &str,
            _: &[Evidence],
            _: Instant,
        ) -> Result<clew_core::Reading, Error> {
            Ok(clew_core::Reading {
                confidence: self.confidence,
                threshold: 0.5,
                rationale: String::new(),
                text: "a clew".to_owned(),
                citations: Vec::new(),
                sentences: 4,
                cost: Cost { embedded_tokens: 7, ..Cost::default() },
            })
        }
    }

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Progress for Seen {
        fn trace(&self, event: TraceEvent) {
            let name = match event {
                TraceEvent::Searched { .. } => "searched",
                TraceEvent::Read { .. } => "read",
                TraceEvent::Judged { .. } => "judged",
            };
            self.0.lock().unwrap().push(name.to_owned());
        }

        fn text(&self, delta: &str) {
            self.0.lock().unwrap().push(delta.to_owned());
        }
    }

    async fn ask(missing: Vec<ShardIndex>, confidence: f32) -> (Answer, Vec<String>) {
        let question = Question {
            text: "what?".to_owned(),
            k: Some(3),
            filter: Filter::default(),
            deadline: Instant::now() + Duration::from_secs(5),
        };
        let (finds, reads) = (Finds { shards_missing: missing }, Reads { confidence });
        let seams = Seams { retriever: &finds, reasoner: &reads };
        let seen = Seen::default();
        let answer = Direct.answer(&question, seams, &seen).await.unwrap();
        (answer, seen.0.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_supported_answer_shows_every_step_and_adds_up_its_cost() {
        let (answer, seen) = ask(Vec::new(), 0.9).await;
        assert_eq!(answer.outcome, Outcome::Answered);
        assert_eq!(answer.cost.embedded_tokens, 12);
        assert_eq!(seen, ["searched", "read", "judged", "a clew"]);
    }

    #[tokio::test]
    async fn what_is_not_supported_is_not_said() {
        let (answer, seen) = ask(Vec::new(), 0.4).await;
        assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::NotInMemory, ""));
        assert_eq!(seen, ["searched", "read", "judged"]);
    }

    #[tokio::test]
    async fn missing_shards_are_named_in_the_outcome() {
        let (answer, _) = ask(vec![ShardIndex(2)], 0.9).await;
        assert_eq!(answer.outcome, Outcome::AnsweredWithShardsMissing(vec![ShardIndex(2)]));
    }
}
