//! `memorag`: search with clues that a memory of the whole corpus drafts.

use std::collections::BTreeSet;

use async_trait::async_trait;
use clew_core::{
    Answer, Citation, Clues, Error, ErrorKind, Limits, MemoryPoint, MemoryUse, Query, Task,
};
use clew_text::{Term, terms};

use super::DEFAULT_K;
use crate::pool::Pool;
use crate::work::Work;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of drafted lines to search for. It covers all lines of one memory: two drafts of
/// 128 tokens have at most 50 lines of more than three words. Of several memories, the first lines
/// of each are used, so that no corpus needs more searches.
const MOST: usize = 64;
/// Weight of ranks in the ranking for a clue, relative to those for the question itself.
const CLUE_WEIGHT: f32 = 0.5;

/// Strategy after MemoRAG ("MemoRAG: Moving towards Next-Gen RAG via Memory-Inspired Knowledge
/// Discovery", sections 2.3 and 2.4). A memory of the whole corpus drafts clues and surrogate
/// queries or, for a summary, the points that it has to cover. Each line is searched for, and the
/// passages found are read with the question.
///
/// If the question asks for it, memories also answer by themselves ([`MemoryUse`]): as one more
/// query and a hint for the reader, or in place of the reader's answer.
///
/// In the paper the passages found are a set in the order of the documents. Here they are ranked by
/// how many searches found them and how high, because the room for reading is limited. The authors'
/// code returns a memory's own answer without any evidence. Here it is returned only if the cited
/// passages also say it.
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
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let k = question.k.unwrap_or(DEFAULT_K);
        let Question { text, task, memory_use, .. } = question;
        let near = work.search(work.query(text.clone(), k)).await?;
        let Clues { queries, clues, key_points, answers } = work.clues(&near, MOST).await?;
        let mut pool = Pool::default();
        // The words that ask for a summary are not those of its texts.
        pool.add(near, if *task == Task::Summarise { CLUE_WEIGHT } else { 1.0 });
        let weighed =
            |texts: Vec<String>, weight: f32| texts.into_iter().map(move |text| (text, weight));
        let sought = weighed(queries, 1.0).chain(weighed(key_points, 1.0));
        let sought = sought.chain(weighed(clues, CLUE_WEIGHT));
        let sought = sought.chain(weighed(answers.clone(), CLUE_WEIGHT));
        let sought: Vec<(Query, f32)> =
            sought.map(|(text, weight)| (work.query(text, k), weight)).collect();
        search_for_lines(&mut work, &sought, &mut pool).await?;
        let points: Vec<MemoryPoint> = answers.iter().map(|answer| hint(answer)).collect();
        let evidence = pool.best(k);
        let mut reading = work.read_with(&points, work.within_tokens(&evidence)).await?;
        if *memory_use == MemoryUse::Answer
            && let Some(answer) =
                answers.into_iter().find(|answer| is_said(answer, text, &reading.citations))
        {
            reading.text = answer;
        }
        Ok(work.conclude(reading))
    }
}

/// Searches for the drafted lines, and adds what each finds with its weight. If lines cannot be
/// searched for together at this time, searches for each by itself.
async fn search_for_lines(
    work: &mut Work<'_>,
    sought: &[(Query, f32)],
    pool: &mut Pool,
) -> Result<(), Error> {
    for lines in sought.chunks(Limits::default().searches) {
        let queries = lines.iter().map(|(query, _)| query.clone()).collect();
        match work.search_all(queries).await {
            Ok(found) => {
                for (found, (_, weight)) in found.into_iter().zip(lines) {
                    pool.add(found, *weight);
                }
                continue;
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        for (query, weight) in lines {
            match work.search(query.clone()).await {
                Ok(found) => pool.add(found, *weight),
                // One of dozens of lines may find nothing. The question itself was searched for.
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Returns whether a failed search may succeed at another time.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Exhausted | ErrorKind::Unavailable)
}

/// Returns the point that tells the reader of a memory's own answer.
fn hint(answer: &str) -> MemoryPoint {
    let text = format!("From memory, and not yet shown, the answer may be: {answer}");
    MemoryPoint { entities: Vec::new(), text }
}

/// Returns whether the citations hold most of the terms that an answer adds to the question's. An
/// answer that adds none cannot be compared, and counts as not said.
fn is_said(answer: &str, question: &str, citations: &[Citation]) -> bool {
    let asked: BTreeSet<Term> = terms(question).collect();
    let added: BTreeSet<Term> = terms(answer).filter(|term| !asked.contains(term)).collect();
    let cited: BTreeSet<Term> = citations.iter().flat_map(|it| terms(&it.quote)).collect();
    !added.is_empty() && 2 * added.intersection(&cited).count() > added.len()
}
