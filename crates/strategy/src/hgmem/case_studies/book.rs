//! A book with its graph from the user's folder, and a retriever over its passages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Embedding, Encoder, EncoderIdentity, Error, Evidence, GraphMemory, GraphQuery, Partial,
    Priority, Query, Retrieved, Retriever, SegmentId, Span, Subgraph, TextKind,
};
use clew_graph::{Graph, GraphDocument, GraphSegment};
use clew_text::{one_line, terms};

use crate::testing::{document, evidence, segment};

const NAME: &str = "gods-of-mars";

/// Document, divided as its graph divides it.
pub(super) struct Book {
    graph: Graph,
    chunks: Vec<Evidence>,
    /// Number of occurrences of each term in each chunk.
    counts: Vec<BTreeMap<String, f32>>,
}

impl Book {
    /// Opens "The Gods of Mars" in the folder that `CLEW_EVAL_DATA` names.
    pub(super) fn open() -> Self {
        let data = std::env::var("CLEW_EVAL_DATA").expect("CLEW_EVAL_DATA names a folder");
        let folder = PathBuf::from(data).join("longdoc/hgmem_gods_of_mars");
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let text = read("document.txt");
        let graph = clew_graph::from_graphml(&read("graph_chunk_entity_relation.graphml")).unwrap();
        let mut told: BTreeMap<String, _> =
            graph.passages.into_iter().map(|passage| (passage.name, passage.extraction)).collect();
        let (mut chunks, mut segments, mut from) = (Vec::new(), Vec::new(), 0);
        for (ordinal, line) in (0..).zip(read("chunks.jsonl").lines()) {
            let chunk: serde_json::Value = serde_json::from_str(line).unwrap();
            let of = |field: &str| chunk[field].as_str().unwrap().to_owned();
            let content = of("content");
            // Chunks overlap, so the next one begins within this one.
            let start = from + text[from..].find(&content).expect("chunks come in order");
            from = start;
            let span = Span::new(start, start + content.len());
            chunks.push(Evidence { text: content, ..evidence(NAME, span.start, span.end, 0.0) });
            let extraction = told.remove(&of("chunk_id")).unwrap_or_default();
            segments.push(GraphSegment { ordinal, span, extraction });
        }
        assert!(told.is_empty(), "the graph tells of chunks that the book does not have");
        let version = segment(NAME, 0).version;
        let (document_id, title) = (document(NAME), String::new());
        let mut graph = Graph::default();
        graph.insert(GraphDocument { document_id, version, title, segments });
        let counts = chunks.iter().map(|chunk| counts(&chunk.text)).collect();
        Self { graph, chunks, counts }
    }

    /// Returns the segments with these words, of which there is at least one.
    pub(super) fn saying(&self, words: &str) -> Vec<SegmentId> {
        let says = |(_, chunk): &(u32, &Evidence)| says(chunk, words);
        let saying =
            (0..).zip(&self.chunks).filter(says).map(|(ordinal, _)| segment(NAME, ordinal));
        let saying: Vec<SegmentId> = saying.collect();
        assert!(!saying.is_empty(), "the book does not say {words:?}");
        saying
    }

    /// Returns the BM25 score of each chunk, with the usual constants.
    fn scores(&self, asked: &str) -> Vec<f32> {
        let lengths: Vec<f32> = self.counts.iter().map(|counts| counts.values().sum()).collect();
        let (all, total) = (lengths.len() as f32, lengths.iter().sum::<f32>());
        let mut scores = vec![0.0; lengths.len()];
        for term in counts(asked).keys() {
            let having =
                self.counts.iter().filter(|counts| counts.contains_key(term)).count() as f32;
            let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
            for ((score, counts), length) in scores.iter_mut().zip(&self.counts).zip(&lengths) {
                let count = counts.get(term).copied().unwrap_or_default();
                let norm = 1.2 * (0.25 + 0.75 * length * all / total);
                *score += rarity * count * 2.2 / (count + norm);
            }
        }
        scores
    }
}

fn counts(text: &str) -> BTreeMap<String, f32> {
    let mut counts = BTreeMap::new();
    for term in terms(text) {
        *counts.entry(term.as_str().to_owned()).or_default() += 1.0;
    }
    counts
}

/// Returns whether a passage has these words, whatever its line breaks.
pub(super) fn says(passage: &Evidence, words: &str) -> bool {
    one_line(&passage.text).contains(words)
}

#[async_trait]
impl Retriever for Book {
    async fn retrieve(&self, query: &Query, _: Instant) -> Result<Retrieved, Error> {
        let scored = |(chunk, score): (&Evidence, f32)| Evidence {
            score,
            sparse_score: Some(score),
            ..chunk.clone()
        };
        let scores = self.scores(&query.text);
        let mut found: Vec<Evidence> = self.chunks.iter().zip(scores).map(scored).collect();
        found.retain(|chunk| chunk.score > 0.0);
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(query.k);
        Ok(Retrieved { evidence: found, ..Retrieved::default() })
    }
}

#[async_trait]
impl GraphMemory for Book {
    async fn subgraph(&self, query: &GraphQuery, _: Instant) -> Result<Partial<Subgraph>, Error> {
        Ok(Partial::whole(self.graph.subgraph(query)))
    }

    async fn segments(
        &self,
        ids: &[SegmentId],
        _: Instant,
    ) -> Result<Partial<Vec<(SegmentId, Evidence)>>, Error> {
        let text = |id: &SegmentId| (id.clone(), self.chunks[id.ordinal as usize].clone());
        Ok(Partial::whole(ids.iter().map(text).collect()))
    }
}

/// Encoder that hashes counts of a text's terms into a unit vector.
pub(super) struct BagOfTerms;

const DIMENSION: usize = 4096;

#[async_trait]
impl Encoder for BagOfTerms {
    fn identity(&self) -> &EncoderIdentity {
        unreachable!("no strategy asks which encoder it is")
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        clew_text::words(text).collect()
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        _: TextKind,
        _: Priority,
        _: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        Ok(texts.iter().map(|text| embedding(text)).collect())
    }
}

fn embedding(text: &str) -> Embedding {
    let mut vector = vec![0.0f32; DIMENSION];
    for term in terms(text) {
        // FNV-1a gives the same result on every machine.
        let hash = term.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        vector[(hash % DIMENSION as u64) as usize] += 1.0;
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    vector.iter_mut().for_each(|x| *x /= length);
    Embedding { vector, tokens: terms(text).count() as u32, truncated: false }
}
