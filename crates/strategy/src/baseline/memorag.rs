//! `memorag`: clues out of a memory of the whole corpus steer the search.

use std::collections::BTreeSet;

use async_trait::async_trait;
use clew_core::{Answer, Citation, Clues, Error, ErrorKind, MemoryPoint, MemoryUse, Task};
use clew_text::{Term, terms};

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
/// Where the question wants it, memories answer by themselves as well ([`MemoryUse`]): as one more query and a hint for
/// the reader, or in place of the reader's answer.
///
/// In the paper what was found is a set in the order of the documents. Here passages are ranked by how many
/// searches found them, and how high, because what can be read is limited. A memory's own answer is told only where what
/// is cited says it, too, for the authors' code tells it without any evidence.
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
        let Question { text, task, memory_use, .. } = question;
        let near = work.search(work.query(text.clone(), k)).await?;
        let Clues { queries, clues, key_points, answers } = work.clues(&near, MOST).await?;
        let mut pool = Pool::default();
        // The words in which a summary is asked for are not those of its texts.
        pool.add(near, if *task == Task::Summarise { CLUE_WEIGHT } else { 1.0 });
        let weighed =
            |texts: Vec<String>, weight: f32| texts.into_iter().map(move |text| (text, weight));
        let sought = weighed(queries, 1.0).chain(weighed(key_points, 1.0));
        let sought = sought.chain(weighed(clues, CLUE_WEIGHT));
        for (sought, weight) in sought.chain(weighed(answers.clone(), CLUE_WEIGHT)) {
            match work.search(work.query(sought, k)).await {
                Ok(found) => pool.add(found, weight),
                // Of dozens of lines one finds nothing; the question itself was searched for.
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
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

/// Whether a search that failed could be done another time.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Exhausted | ErrorKind::Unavailable)
}

/// What the reader is told of a memory's own answer.
fn hint(answer: &str) -> MemoryPoint {
    let text = format!("From memory, and not yet shown, the answer may be: {answer}");
    MemoryPoint { entities: Vec::new(), text }
}

/// Whether most of what an answer adds to the question's words stands in what is cited. One that adds none cannot be
/// compared, and is not.
fn is_said(answer: &str, question: &str, citations: &[Citation]) -> bool {
    let asked: BTreeSet<Term> = terms(question).collect();
    let added: BTreeSet<Term> = terms(answer).filter(|term| !asked.contains(term)).collect();
    let cited: BTreeSet<Term> = citations.iter().flat_map(|it| terms(&it.quote)).collect();
    !added.is_empty() && 2 * added.intersection(&cited).count() > added.len()
}
