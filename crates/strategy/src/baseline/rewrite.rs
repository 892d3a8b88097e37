//! `rewrite`, `rewrite-decompose`, `rewrite-disambiguate`: search with the question reworded.

use async_trait::async_trait;
use clew_core::{Answer, Error, Rewording};

use super::DEFAULT_K;
use crate::pool::Pool;
use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of wordings besides the question's own.
const MOST: usize = 3;

/// Strategy that refines a question in one of the three ways of RQ-RAG ("RQ-RAG: Learning to Refine
/// Queries for Retrieval Augmented Generation"). The original question is searched for as well, and
/// all rankings count alike.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    name: &'static str,
    how: Rewording,
}

impl Rewrite {
    /// Rewrites the question in words that suit a search better.
    pub const PLAIN: Self = Self { name: "rewrite", how: Rewording::Rewrite };
    /// Splits the question into simpler ones.
    pub const DECOMPOSE: Self = Self { name: "rewrite-decompose", how: Rewording::Decompose };
    /// Lists the questions that it may mean.
    pub const DISAMBIGUATE: Self =
        Self { name: "rewrite-disambiguate", how: Rewording::Disambiguate };
}

#[async_trait]
impl Strategy for Rewrite {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let deadline = work.deadline();
        let reworded = seams.planner.reword(&question.text, self.how, MOST, deadline).await?;
        work.spend(reworded.cost);
        let mut pool = Pool::default();
        let wordings = reworded.texts.into_iter().take(MOST);
        let texts = std::iter::once(question.text.clone()).chain(wordings);
        let queries = texts.map(|text| work.query(text, k)).collect();
        for found in work.search_all(queries).await? {
            pool.add(found, 1.0);
        }
        let reading = work.read(&pool.best(k)).await?;
        Ok(work.conclude(reading))
    }
}
