//! `full-context`, `full-context-right`: all that fits, in the order of the documents.

use async_trait::async_trait;
use clew_core::{Answer, Error, Evidence, TraceEvent};

use crate::work::{Work, order};
use crate::{Progress, Question, Seams, Strategy};

/// Most passages of which a context is put together.
const MOST_PASSAGES: usize = 1_000;
/// Bytes of a context: about 6,000 tokens, which with instructions and reply fit a window of 8,192.
const WINDOW_BYTES: usize = 24_000;

/// Reads the documents from their beginning, or to their end, as far as a window goes (MemWalker, section 4,
/// "full context, keep left" and "keep right"). What it leaves out is in the trace.
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
        progress: &dyn Progress,
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
