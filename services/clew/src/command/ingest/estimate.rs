//! Estimate of an ingestion, made before it begins.

use clew_core::{Attributes, CorpusName, Document, Labels, Limits, Violations};
use clew_formats::{Discovery, FoundFile, Options};
use clew_proto::convert::ingest::document_to_wire;
use clew_proto::ingest::v1 as wire;
use serde_json::json;

use crate::connection::Connection;

/// Maximum number of files that are read for an estimate, evenly spread over all.
const SAMPLED_FILES: usize = 32;
/// Number of bytes of text after which reading a sampled file with many documents stops.
const READ_BYTES: usize = 256 << 10;
/// Maximum number of bytes of text that are sent, in all and of one document: as much as the server
/// takes.
const SAMPLE_BYTES: usize = 1 << 20;
const DOCUMENT_BYTES: usize = 64 << 10;
/// Maximum number of documents that are sent in all: as many as the server takes.
const MOST_SENT: usize = 4096;

/// Estimate and the files that it rests on.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Number of files of known size.
    pub files: u64,
    /// Sum of their sizes in bytes.
    pub bytes: u64,
    /// Response of the server.
    pub expected: wire::EstimateIngestionResponse,
}

/// Result of reading some files.
#[derive(Default)]
struct Samples {
    /// Bytes of the files, as far as they were read.
    bytes: u64,
    /// Bytes of the texts in them.
    text_bytes: u64,
    documents: u64,
    files: u64,
    documents_sent: Vec<wire::Document>,
}

impl Samples {
    fn read(sampled: Vec<FoundFile>, options: &Options) -> Self {
        let mut samples = Self::default();
        let of_file = SAMPLE_BYTES / sampled.len().max(1);
        for found in sampled {
            let Some(bytes) = found.source.stored_bytes() else { continue };
            let (mut text_bytes, mut sent) = (0, 0);
            let mut is_whole = true;
            for document in clew_formats::read(found.source, found.format, options) {
                let Ok(document) = document else { continue };
                text_bytes += document.text.len();
                samples.documents += 1;
                if sent < of_file
                    && samples.documents_sent.len() < MOST_SENT
                    && let Some(sample) = sample(document, (of_file - sent).min(DOCUMENT_BYTES))
                {
                    sent += sample.text.len();
                    samples.documents_sent.push(sample);
                }
                if text_bytes > READ_BYTES {
                    is_whole = false;
                    break;
                }
            }
            samples.files += 1;
            samples.text_bytes += text_bytes as u64;
            // A file that was not read to its end counts as long as its texts.
            samples.bytes += if is_whole { bytes } else { bytes.min(text_bytes as u64) };
        }
        samples
    }
}

/// Returns the beginning of a document, with what decides how it is cut. Returns `None` if the
/// server would refuse the document.
fn sample(mut document: Document, bytes: usize) -> Option<wire::Document> {
    document.text.truncate(document.text.floor_char_boundary(bytes));
    let sample = Document { attributes: Attributes::new(), labels: Labels::default(), ..document };
    let mut violations = Violations::default();
    sample.check(&Limits::default(), &mut violations);
    violations.into_result().ok()?;
    Some(document_to_wire(sample))
}

/// Estimates what ingesting the discovered files would take, from their sizes and from what some of
/// them hold. Standard input cannot be estimated. Documents that the corpus holds already count as
/// if they were new. A corpus that does not exist is estimated with default settings.
pub async fn estimate(
    connection: &Connection,
    corpus: &CorpusName,
    discovery: &Discovery,
    options: &Options,
) -> anyhow::Result<Estimate> {
    let sized = discovery.files.iter().filter_map(|found| found.source.stored_bytes());
    let (files, bytes) = sized.fold((0, 0), |(files, sum), bytes| (files + 1, sum + bytes));
    let step = discovery.files.len().div_ceil(SAMPLED_FILES).max(1);
    let sampled: Vec<FoundFile> = discovery.files.iter().step_by(step).cloned().collect();
    let options = options.clone();
    let samples = tokio::task::spawn_blocking(move || Samples::read(sampled, &options)).await?;
    let share = |of: u64, all: u64| of as f64 / all.max(1) as f64;
    let request = wire::EstimateIngestionRequest {
        corpus: corpus.to_string(),
        documents: (files as f64 * share(samples.documents, samples.files)).ceil() as u64,
        text_bytes: (bytes as f64 * share(samples.text_bytes, samples.bytes)) as u64,
        samples: Vec::new(),
        sample_documents: samples.documents_sent,
        new_if_missing: true,
    };
    Ok(Estimate { files, bytes, expected: connection.client.estimate(request).await? })
}

impl Estimate {
    /// Returns the estimate as JSON.
    pub fn document(&self) -> serde_json::Value {
        let expected = &self.expected;
        json!({
            "files": self.files,
            "bytes": self.bytes,
            "tokens": expected.tokens,
            "chunks": expected.chunks,
            "model_calls": expected.model_calls,
            "prompt_tokens": expected.prompt_tokens,
            "completion_tokens": expected.completion_tokens,
            "nodes": expected.nodes,
            "entities": expected.entities,
            "relations": expected.relations,
            "memories": expected.memories,
            "memory_tokens": expected.memory_tokens,
            "summary_tokens": expected.summary_tokens,
            "stored_bytes": expected.stored_bytes,
            "document_bytes": expected.document_bytes,
            "chunk_bytes": expected.chunk_bytes,
            "tree_bytes": expected.tree_bytes,
            "index_bytes": expected.index_bytes,
            "memory_bytes": expected.memory_bytes,
            "basis": basis(expected.basis()),
            "sampled_documents": expected.sampled_documents,
            "sampled_bytes": expected.sampled_bytes,
        })
    }

    /// Returns the estimate as a table.
    pub fn table(&self) -> String {
        let expected = &self.expected;
        let rows = [
            ("files", self.files.to_string(), mebibytes(self.bytes)),
            ("chunks", expected.chunks.to_string(), mebibytes(expected.chunk_bytes)),
            ("documents", String::new(), mebibytes(expected.document_bytes)),
            (
                "nodes of trees and graph",
                expected.nodes.to_string(),
                mebibytes(expected.tree_bytes),
            ),
            ("indexes", String::new(), mebibytes(expected.index_bytes)),
            ("memories", expected.memories.to_string(), mebibytes(expected.memory_bytes)),
            ("stored in all", String::new(), mebibytes(expected.stored_bytes)),
            ("tokens of chunks embedded", expected.tokens.to_string(), String::new()),
            ("tokens of summaries", expected.summary_tokens.to_string(), String::new()),
            ("tokens read into memories", expected.memory_tokens.to_string(), String::new()),
            ("entities named", expected.entities.to_string(), String::new()),
            ("relations", expected.relations.to_string(), String::new()),
            ("calls of language models", expected.model_calls.to_string(), String::new()),
            ("tokens of their prompts", expected.prompt_tokens.to_string(), String::new()),
            ("tokens of their replies", expected.completion_tokens.to_string(), String::new()),
        ];
        let mut table = format!("{:26} {:>12} {:>12}\n", "", "number", "MiB");
        for (what, number, bytes) in rows {
            table.push_str(&format!("{what:26} {number:>12} {bytes:>12}\n"));
        }
        let (documents, bytes) = (expected.sampled_documents, mebibytes(expected.sampled_bytes));
        let from = basis(expected.basis());
        table.push_str(&format!("scaled from {documents} documents ({from}) of {bytes} MiB\n"));
        table
    }
}

fn basis(basis: wire::EstimateBasis) -> &'static str {
    match basis {
        wire::EstimateBasis::Unspecified => "unknown",
        wire::EstimateBasis::Request => "of these files",
        wire::EstimateBasis::Corpus => "of the corpus",
        wire::EstimateBasis::English => "a text in English",
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1 << 20) as f64)
}

/// One line of text, printed before the ingestion begins.
impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let expected = &self.expected;
        write!(
            f,
            "{} files of {} MiB: about {} tokens in {} chunks to embed, ",
            self.files,
            mebibytes(self.bytes),
            expected.tokens,
            expected.chunks
        )?;
        if expected.model_calls > 0 {
            let tokens = expected.prompt_tokens + expected.completion_tokens;
            let calls = expected.model_calls;
            write!(f, "{calls} calls of language models with {tokens} tokens, ")?;
        }
        write!(f, "{} MiB to store", mebibytes(expected.stored_bytes))
    }
}
