//! `full-context`, `full-context-right`: read everything that fits, in the order of the documents.

use async_trait::async_trait;
use clew_core::{Answer, Error, Evidence, TraceEvent};

use crate::work::{Work, order};
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Maximum number of passages that a context is built from.
const MOST_PASSAGES: usize = 1_000;
/// Maximum number of bytes of a context: about 6,000 tokens, which with instructions and reply fit
/// a window of 8,192.
const WINDOW_BYTES: usize = 24_000;

/// Strategy that fills a window with the documents from their beginning or from their end
/// (MemWalker, section 4, "full context, keep left" and "keep right"). The trace counts the
/// passages that do not fit.
#[derive(Clone, Copy, Debug)]
pub struct FullContext {
    name: &'static str,
    keeps_right: bool,
}

impl FullContext {
    /// Keeps the beginning.
    pub const LEFT: Self = Self { name: "full-context", keeps_right: false };
    /// Keeps the end.
    pub const RIGHT: Self = Self { name: "full-context-right", keeps_right: true };
}

#[async_trait]
impl Strategy for FullContext {
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
        let query = work.query(question.text.clone(), MOST_PASSAGES);
        let mut passages = work.search(query).await?;
        passages.sort_by(|a, b| order(a).cmp(&order(b)));
        if self.keeps_right {
            passages.reverse();
        }
        let mut bytes = 0;
        let most = question.k.unwrap_or(usize::MAX);
        let fits = |passage: &&Evidence| {
            bytes += passage.text.len();
            bytes <= WINDOW_BYTES
        };
        let kept: Vec<Evidence> = passages.iter().take(most).take_while(fits).cloned().collect();
        let mut kept = work.within_tokens(&kept).to_vec();
        let dropped = passages.len() - kept.len();
        kept.sort_by(|a, b| order(a).cmp(&order(b)));
        work.trace(TraceEvent::Gathered {
            segments: kept.len(),
            dropped,
            bytes: kept.iter().map(|passage| passage.text.len() as u64).sum(),
        });
        let reading = work.read_with(&[], &kept).await?;
        Ok(work.conclude(reading))
    }
}
