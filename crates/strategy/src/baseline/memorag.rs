//! `memorag`: clues out of a memory of the whole corpus steer the search.

use async_trait::async_trait;
use clew_core::{Answer, Error};

use super::DEFAULT_K;
use crate::pool::Pool;
use crate::work::Work;
use crate::{Progress, Question, Seams, Strategy};

/// Most queries, and most clues, that are searched for.
const MOST: usize = 4;
/// Bytes of the outline that stands for the memory: about 3,000 tokens.
const OUTLINE_BYTES: usize = 12_000;
/// What the place in the ranking of a clue counts beside that of the question, which is what was asked.
const CLUE_WEIGHT: f32 = 0.5;

/// MemoRAG ("MemoRAG: Moving towards Next-Gen RAG via Memory-Inspired Knowledge Discovery", sections 2.3 and
/// 2.4): whoever knows the corpus at large drafts clues and surrogate queries; each is searched for, and what
/// they find is read with the question.
///
/// The memory is the top of the summary tree, which a model or rules read; a compressed memory takes its
/// place where one was made.
#[derive(Clone, Copy, Debug)]
pub struct MemoRag;

#[async_trait]
impl Strategy for MemoRag {
    fn name(&self) -> &'static str {
        "memorag"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn Progress,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let (text, deadline) = (&question.text, work.deadline());
        let outline = outline(&work).await?;
        let (clues, cost) = seams.planner.clues(text, &outline, MOST, deadline).await?;
        work.spend(cost);
        let mut pool = Pool::default();
        pool.add(work.search(work.query(text.clone(), k)).await?, 1.0);
        let queries = clues.queries.into_iter().take(MOST).map(|query| (query, 1.0));
        let clues = clues.clues.into_iter().take(MOST).map(|clue| (clue, CLUE_WEIGHT));
        for (sought, weight) in queries.chain(clues) {
            let found = work.search(work.query(sought, k)).await?;
            pool.add(found, weight);
        }
        let reading = work.read(&pool.best(k)).await?;
        Ok(work.conclude(reading))
    }
}

/// The summaries at the top of the tree, as many as fit.
async fn outline(work: &Work<'_>) -> Result<String, Error> {
    let question = work.question;
    let tops = work.seams.tree.tops(&question.text, &question.filter, work.deadline()).await?;
    let mut outline = String::new();
    for node in tops {
        let line = match node.title.as_str() {
            "" => node.summary,
            title => format!("{title}: {}", node.summary),
        };
        if outline.len() + line.len() >= OUTLINE_BYTES {
            break;
        }
        outline.push_str(&line);
        outline.push('\n');
    }
    Ok(outline)
}
