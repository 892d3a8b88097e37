//! `hyde`: search with a passage that could answer.

use async_trait::async_trait;
use clew_core::{Answer, Error, SearchMode};

use super::DEFAULT_K;
use crate::pool::Pool;
use crate::work::Work;
use crate::{Progress, Question, Seams, Strategy};

/// Passages shown to whoever imagines one.
const SHOWN: usize = 3;

/// Searches for what is like a passage that could answer the question ("Precise Zero-Shot Dense Retrieval
/// without Relevance Labels", section 3), and for the question, as one.
///
/// The paper imagines out of what a model knows. A memory is about what no model knows, so the best passages
/// for the question are shown as well. The passage is searched with and never read as evidence.
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
        progress: &dyn Progress,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let found = work.search(work.query(question.text.clone(), k)).await?;
        let near = &found[..found.len().min(SHOWN)];
        let imagined = seams.planner.imagine(&question.text, near, work.deadline()).await?;
        work.spend(imagined.cost);
        let mut pool = Pool::default();
        pool.add(found, 1.0);
        for passage in imagined.texts {
            let mut query = work.query(passage, k);
            query.mode = SearchMode::Dense;
            pool.add(work.search(query).await?, 1.0);
        }
        let reading = work.read(&pool.best(k)).await?;
        Ok(work.conclude(reading))
    }
}
