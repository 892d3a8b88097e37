//! `naive`, `naive-dense`, `naive-sparse`: one search, one reading.

use async_trait::async_trait;
use clew_core::{Answer, Error, SearchMode};

use crate::direct::search_once;
use crate::{AnswerObserver, Question, Seams, Strategy};

/// Plain retrieval-augmented generation, by vectors, by words or by both.
#[derive(Clone, Copy, Debug)]
pub struct Naive {
    name: &'static str,
    mode: SearchMode,
}

impl Naive {
    /// Searches by vectors and words, as `direct` does.
    pub const HYBRID: Self = Self { name: "naive", mode: SearchMode::Hybrid };
    /// Searches by vectors only.
    pub const DENSE: Self = Self { name: "naive-dense", mode: SearchMode::Dense };
    /// Searches by words only (BM25).
    pub const SPARSE: Self = Self { name: "naive-sparse", mode: SearchMode::Sparse };
}

#[async_trait]
impl Strategy for Naive {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn answer(
        &self,
        question: &Question,
        seams: Seams<'_>,
        progress: &dyn AnswerObserver,
    ) -> Result<Answer, Error> {
        search_once(self.mode, question, seams, progress).await
    }
}
