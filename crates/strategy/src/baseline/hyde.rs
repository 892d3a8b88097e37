//! `hyde`: search with an imagined passage that could answer.

use async_trait::async_trait;
use clew_core::{Answer, Error, Query, SearchMode};

use super::DEFAULT_K;
use crate::pool::Pool;
use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Number of passages shown to the planner that imagines one.
const SHOWN: usize = 3;

/// Strategy that searches for passages like an imagined one that could answer the question
/// ("Precise Zero-Shot Dense Retrieval without Relevance Labels", section 3), and for the question
/// itself, and fuses both rankings.
///
/// In the paper the model imagines from its own knowledge. A memory holds what no model knows, so
/// the model is also shown the best passages for the question. The imagined passage only serves as
/// a query and is never read as evidence.
#[derive(Clone, Copy, Debug)]
pub struct Hyde;

#[async_trait]
impl Strategy for Hyde {
    fn name(&self) -> &'static str {
        "hyde"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let found = work.search(work.query(question.text.clone(), k)).await?;
        let near = &found[..found.len().min(SHOWN)];
        let imagined = seams.planner.imagine(&question.text, near, work.deadline()).await?;
        work.spend(imagined.cost);
        let mut pool = Pool::default();
        pool.add(found, 1.0);
        let like = |passage| Query { mode: SearchMode::Dense, ..work.query(passage, k) };
        let queries = imagined.texts.into_iter().map(like).collect();
        for found in work.search_all(queries).await? {
            pool.add(found, 1.0);
        }
        let reading = work.read(&pool.best(k)).await?;
        Ok(work.conclude(reading))
    }
}
