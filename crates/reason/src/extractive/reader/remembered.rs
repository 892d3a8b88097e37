//! Reads no passage twice for one question: a strategy that judges what it has read, searches once
//! more and reads again meets mostly the same passages.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Error, PassageRead, PassagesRead, ReadPassage, SpanReader};
use quick_cache::sync::Cache;

use super::session::checked;

/// Maximum number of readings that are remembered: those of dozens of steps.
const MOST_REMEMBERED: usize = 1024;

/// Reader that remembers what it read, by hashes of questions and passages.
pub(in crate::extractive) struct Remembered {
    reader: Arc<dyn SpanReader>,
    known: Cache<[u8; 32], PassageRead>,
}

impl Remembered {
    pub(in crate::extractive) fn new(reader: Arc<dyn SpanReader>) -> Self {
        Self { reader, known: Cache::new(MOST_REMEMBERED) }
    }
}

#[async_trait]
impl SpanReader for Remembered {
    async fn reader_model(&self, deadline: Instant) -> Result<Option<String>, Error> {
        self.reader.reader_model(deadline).await
    }

    async fn read_spans(
        &self,
        question: &str,
        passages: Vec<ReadPassage>,
        deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        let keys: Vec<[u8; 32]> = passages.iter().map(|it| key(question, it)).collect();
        let mut read: Vec<Option<PassageRead>> =
            keys.iter().map(|key| self.known.get(key)).collect();
        let open: Vec<usize> = (0..keys.len()).filter(|&index| read[index].is_none()).collect();
        let mut passages: Vec<Option<ReadPassage>> = passages.into_iter().map(Some).collect();
        let unread = open.iter().filter_map(|&index| passages[index].take()).collect();
        let mut tokens = 0;
        // A reader is asked even if every passage is known only where there are none at all: it
        // then says whether it is there.
        if !open.is_empty() || keys.is_empty() {
            let found = self.reader.read_spans(question, unread, deadline).await?;
            tokens = found.tokens;
            for (&index, found) in open.iter().zip(checked(found.passages, open.len())?) {
                self.known.insert(keys[index], found.clone());
                read[index] = Some(found);
            }
        }
        Ok(PassagesRead { passages: read.into_iter().flatten().collect(), tokens })
    }
}

/// Returns what identifies a reading.
fn key(question: &str, passage: &ReadPassage) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in [question, &passage.heading, &passage.text] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::extractive::fixtures::ScriptedReader;

    #[tokio::test]
    async fn a_passage_is_read_once_for_a_question_and_costs_once() {
        let scripted =
            Arc::new(ScriptedReader::new(&[("who", "Ada", 0.9), ("where", "Tara", 0.8)]));
        let reader = Remembered::new(scripted.clone());
        let passage = |text: &str| ReadPassage { text: text.to_owned(), ..ReadPassage::default() };
        let (ada, tara) = (passage("It is by Ada."), passage("It is in Tara."));
        let soon = Instant::now() + Duration::from_secs(60);
        let first = reader.read_spans("who", vec![ada.clone()], soon).await.unwrap();
        assert!(first.tokens > 0);
        let again = reader.read_spans("who", vec![ada.clone()], soon).await.unwrap();
        assert_eq!((again.tokens, &again.passages), (0, &first.passages));
        let both = reader.read_spans("who", vec![tara.clone(), ada.clone()], soon).await.unwrap();
        assert_eq!(both.passages[1], first.passages[0]);
        assert!(both.passages[0].spans.is_empty());
        let other = reader.read_spans("where", vec![tara.clone(), ada], soon).await.unwrap();
        assert_eq!(other.passages[0].spans.len(), 1);
        let calls = scripted.calls.lock().unwrap();
        let read: Vec<usize> = calls.iter().map(|(_, passages)| passages.len()).collect();
        assert_eq!(read, [1, 1, 2]);
    }
}
