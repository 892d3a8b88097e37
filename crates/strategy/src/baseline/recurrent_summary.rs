//! `recurrent-summary`: carry a summary through the text.

use async_trait::async_trait;
use clew_core::{Answer, Error, Evidence, SearchMode, SummaryLevel, SummaryTask, TraceEvent};

use super::DEFAULT_K;
use crate::work::{Work, order};
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of passages to go through.
const MOST_PASSAGES: usize = 1_000;
/// Maximum number of bytes of passages that are added to the summary at once: about 2,000 tokens.
const AT_ONCE: usize = 8_000;
/// Maximum number of bytes of the summary.
const SUMMARY_BYTES: usize = 1_500;

/// Strategy that goes through the documents from beginning to end and repeatedly summarises the
/// summary so far with the passages that come next (MemWalker, section 4, "recurrence").
///
/// The paper answers from the last summary. Here an answer cites what documents say. The strategy
/// therefore reads the admitted passages that are most similar to the last summary.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentSummary;

#[async_trait]
impl Strategy for RecurrentSummary {
    fn name(&self) -> &'static str {
        "recurrent-summary"
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        let mut work = Work::new(question, seams, progress);
        let mut passages = work.search(work.query(question.text.clone(), MOST_PASSAGES)).await?;
        passages.sort_by(|a, b| order(a).cmp(&order(b)));
        let (mut summary, mut bytes) = (String::new(), 0);
        for some in groups(&passages) {
            work.check_time("carrying a summary over the documents")?;
            let text: Vec<&str> = some.iter().map(|passage| passage.text.as_str()).collect();
            let parts = [std::mem::take(&mut summary), text.join("\n\n")];
            bytes += parts[1].len() as u64;
            let task = SummaryTask {
                level: SummaryLevel::Leaf,
                parts: parts.into_iter().filter(|part| !part.is_empty()).collect(),
                max_bytes: SUMMARY_BYTES,
            };
            let made = seams.graph_builder.summarise(vec![task], work.deadline()).await?.pop();
            let made = made.unwrap_or_default();
            work.spend(made.cost);
            summary = made.text;
        }
        work.trace(TraceEvent::Gathered { segments: passages.len(), dropped: 0, bytes });
        let mut query = work.query(summary, question.k.unwrap_or(DEFAULT_K));
        query.mode = SearchMode::Dense;
        let evidence = match query.text.trim().is_empty() {
            true => Vec::new(),
            false => work.search(query).await?,
        };
        let reading = work.read(&evidence).await?;
        Ok(work.conclude(reading))
    }
}

/// Groups passages in order, as many together as fit, at least one.
fn groups(passages: &[Evidence]) -> Vec<&[Evidence]> {
    let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, passage) in passages.iter().enumerate() {
        if at > start && bytes + passage.text.len() > AT_ONCE {
            groups.push(&passages[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += passage.text.len();
    }
    if start < passages.len() {
        groups.push(&passages[start..]);
    }
    groups
}
