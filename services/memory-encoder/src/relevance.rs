//! Reranking by the reader: how relevant it holds a passage is the passage's score.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Error, NoReader, NoReranker, ReadPassage, Reranker, Scored, SpanReader};

/// Reranker that is there if the reader is.
pub(crate) struct Relevance {
    reader: Arc<dyn SpanReader>,
}

impl Relevance {
    /// Creates a reranker by the relevance that `reader` reads.
    pub fn by(reader: Arc<dyn SpanReader>) -> Self {
        Self { reader }
    }
}

#[async_trait]
impl Reranker for Relevance {
    async fn reranker_model(&self, deadline: Instant) -> Result<Option<String>, Error> {
        self.reader.reader_model(deadline).await
    }

    async fn score(
        &self,
        query: &str,
        passages: Vec<String>,
        deadline: Instant,
    ) -> Result<Scored, Error> {
        let passage = |text| ReadPassage { heading: String::new(), text };
        let passages = passages.into_iter().map(passage).collect();
        let read = match self.reader.read_spans(query, passages, deadline).await {
            Err(error) if error.reason() == NoReader::REASON => Err(NoReranker::refusal()),
            read => read,
        }?;
        let scores = read.passages.iter().map(|read| read.relevance).collect();
        Ok(Scored { scores, tokens: read.tokens })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clew_core::{PassageRead, PassagesRead};

    use super::*;

    /// Reader that holds a passage the more relevant, the longer it is.
    struct Longer;

    #[async_trait]
    impl SpanReader for Longer {
        async fn reader_model(&self, _: Instant) -> Result<Option<String>, Error> {
            Ok(Some("longer".to_owned()))
        }

        async fn read_spans(
            &self,
            _: &str,
            passages: Vec<ReadPassage>,
            _: Instant,
        ) -> Result<PassagesRead, Error> {
            let read = |passage: &ReadPassage| PassageRead {
                relevance: passage.text.len() as f32 / 10.0,
                ..PassageRead::default()
            };
            let tokens = 4 * passages.len() as u64;
            Ok(PassagesRead { passages: passages.iter().map(read).collect(), tokens })
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[tokio::test]
    async fn passages_are_scored_by_their_relevance_and_the_tokens_count() {
        let reranker = Relevance::by(Arc::new(Longer));
        let passages = ["abc", "", "abcdef"].map(str::to_owned).to_vec();
        let scored = reranker.score("which?", passages, soon()).await.unwrap();
        assert_eq!(scored, Scored { scores: vec![0.3, 0.0, 0.6], tokens: 12 });
        assert_eq!(reranker.reranker_model(soon()).await.unwrap().as_deref(), Some("longer"));
    }

    #[tokio::test]
    async fn without_a_reader_there_is_no_reranker() {
        let reranker = Relevance::by(Arc::new(NoReader));
        assert_eq!(reranker.reranker_model(soon()).await.unwrap(), None);
        let error = reranker.score("which?", vec!["abc".to_owned()], soon()).await.unwrap_err();
        assert_eq!(error.reason(), "NO_RERANKER");
    }
}
