//! Cuts a document into its chunks, one after the other.

use std::ops::Deref;
use std::sync::Arc;
use std::vec;

use clew_core::{Chunk, CorpusSettings, Document, Encoder, Error};
use clew_text::Chunks;

/// Chunks of a document: of its text, of the statements that a turn makes, or of the keys by which
/// its corpus finds turns. Each is cut when it is its turn, which blocks.
pub(super) struct Cutting<D> {
    encoder: Arc<dyn Encoder>,
    window: usize,
    /// Chunks of the text. `None` if there are no more.
    text: Option<Chunks<D>>,
    /// Number of chunks of the text so far.
    count: usize,
    /// Chunks that follow those of the text.
    others: vec::IntoIter<Chunk>,
}

impl<D: Deref<Target = Document>> Cutting<D> {
    /// Begins to cut a document. Blocks for as long as tokenising the text takes.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the corpus names an unknown key.
    pub(super) fn of(
        document: D,
        encoder: &Arc<dyn Encoder>,
        settings: &CorpusSettings,
    ) -> Result<Self, Error> {
        let window = encoder.identity().max_tokens as usize;
        let spans = |text: &str| encoder.token_spans(text);
        let (keys, chunking) = (settings.chat_keys(), &settings.chunking);
        let of_keys = clew_chat::key_chunks(&document, keys, chunking, &spans, window)?;
        let text = match of_keys {
            Some(_) => None,
            None => Some(Chunks::of(document, chunking, &spans, window)),
        };
        let others = of_keys.unwrap_or_default().into_iter();
        Ok(Self { encoder: Arc::clone(encoder), window, text, count: 0, others })
    }

    /// Returns the next chunks until their key texts and vectors, of `vector_bytes` each, have
    /// `bytes`. There are none after the last one.
    pub(super) fn part(&mut self, bytes: usize, vector_bytes: usize) -> Vec<Chunk> {
        let mut size = 0;
        let mut part = Vec::new();
        while size < bytes
            && let Some(chunk) = self.next()
        {
            size += chunk.key_text.len() + vector_bytes;
            part.push(chunk);
        }
        part
    }
}

impl<D: Deref<Target = Document>> Iterator for Cutting<D> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let spans = |text: &str| self.encoder.token_spans(text);
        if let Some(text) = &mut self.text {
            if let Some(chunk) = text.next(&spans) {
                self.count += 1;
                return Some(chunk);
            }
            let document = text.document();
            let statements = clew_chat::statement_chunks(document, self.count, &spans, self.window);
            self.others = statements.into_iter();
            self.text = None;
        }
        self.others.next()
    }
}
