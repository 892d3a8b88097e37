//! `direct`: search once, judge, compose.

use async_trait::async_trait;
use clew_core::{Answer, Error, SearchMode};

use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Strategy that searches once for the words of the question and reads once.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

/// Number of passages read if the caller does not set `k`: enough that an answer found by the
/// search is among them, few enough that reading takes no longer than a search.
pub(crate) const DEFAULT_K: usize = 10;

#[async_trait]
impl Strategy for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        search_once(SearchMode::Hybrid, question, seams, progress).await
    }
}

/// Searches once in `mode` and reads once.
pub(crate) async fn search_once(
    mode: SearchMode,
    question: &Question,
    seams: Seams<'_>,
    progress: &dyn AnswerObserver,
) -> Result<Answer, Error> {
    let mut work = Work::new(question, seams, progress);
    let mut query = work.query(question.text.clone(), question.k.unwrap_or(DEFAULT_K));
    query.mode = mode;
    let evidence = work.search(query).await?;
    let reading = work.read(&evidence).await?;
    Ok(work.conclude(reading))
}

#[cfg(test)]
mod tests {
    use clew_core::{Cost, Outcome, ShardIndex};

    use super::*;
    use crate::testing::World;

    fn world(missing: Vec<ShardIndex>, confidence: f32) -> World {
        let mut world = World::default();
        world.question.k = Some(3);
        world.retriever.shards_missing = missing;
        world.retriever.cost = Cost { embedded_tokens: 5, ..Cost::default() };
        world.reasoner.confidence = confidence;
        world.reasoner.cost = Cost { embedded_tokens: 7, ..Cost::default() };
        world
    }

    #[tokio::test]
    async fn a_supported_answer_shows_every_step_and_adds_up_its_cost() {
        let world = world(Vec::new(), 0.9);
        let answer = world.ask(&Direct).await.unwrap();
        assert_eq!(answer.outcome, Outcome::Answered);
        assert_eq!(answer.cost.embedded_tokens, 12);
        assert_eq!(world.retriever.queries()[0].k, 3);
        assert_eq!(world.steps(), ["searched what? 0", "read 0", "judged 0.9", "text a clew"]);
    }

    #[tokio::test]
    async fn what_is_not_supported_is_not_said() {
        let world = world(Vec::new(), 0.4);
        let answer = world.ask(&Direct).await.unwrap();
        assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::NotInMemory, ""));
        assert_eq!(world.steps(), ["searched what? 0", "read 0", "judged 0.4"]);
    }

    #[tokio::test]
    async fn missing_shards_are_named_in_the_outcome() {
        let answer = world(vec![ShardIndex(2)], 0.9).ask(&Direct).await.unwrap();
        assert_eq!(answer.outcome, Outcome::AnsweredWithShardsMissing(vec![ShardIndex(2)]));
    }
}
