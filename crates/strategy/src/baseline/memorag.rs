//! `memorag`: clues out of a memory of the whole corpus steer the search.

use async_trait::async_trait;
use clew_core::{Answer, Clues, Error, Task};

use super::DEFAULT_K;
use crate::pool::Pool;
use crate::work::Work;
use crate::{Progress, Question, Seams, Strategy};

/// Most drafts that are searched for: all lines that a memory says, since two drafts of 128 tokens are at most 50 lines
/// of more than three words; and of several memories the first of each, so that no corpus takes more searches.
const MOST: usize = 64;
/// What the place in the ranking of a clue counts beside that of the question, which is what was asked.
const CLUE_WEIGHT: f32 = 0.5;

/// MemoRAG ("MemoRAG: Moving towards Next-Gen RAG via Memory-Inspired Knowledge Discovery", sections 2.3 and
/// 2.4): whoever knows the corpus at large drafts clues and surrogate queries, or for a summary the points that
/// it has to cover; each line of them is searched for, and what they find is read with the question.
///
/// In the paper what was found is a set in the order of the documents. Here passages are ranked by how many
/// searches found them, and how high, because what can be read is limited.
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
        let Question { text, task, .. } = question;
        let near = work.search(work.query(text.clone(), k)).await?;
        let Clues { queries, clues, key_points } = work.clues(&near, MOST).await?;
        let mut pool = Pool::default();
        // The words in which a summary is asked for are not those of its texts.
        pool.add(near, if *task == Task::Summarise { CLUE_WEIGHT } else { 1.0 });
        let weighed =
            |texts: Vec<String>, weight: f32| texts.into_iter().map(move |text| (text, weight));
        let sought = weighed(queries, 1.0).chain(weighed(key_points, 1.0));
        for (sought, weight) in sought.chain(weighed(clues, CLUE_WEIGHT)) {
            let found = work.search(work.query(sought, k)).await?;
            pool.add(found, weight);
        }
        let reading = work.read(&pool.best(k)).await?;
        Ok(work.conclude(reading))
    }
}
