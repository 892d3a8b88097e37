//! What an ingestion would take, told before it begins.

use clew_core::CorpusName;
use clew_formats::{Discovery, Found, Options};
use clew_proto::ingest::v1 as wire;

use crate::connection::Connection;

/// Files that are read for an estimate, evenly spread over all.
const SAMPLED_FILES: usize = 32;
/// Bytes of texts that are read of a sampled file of many documents.
const READ_BYTES: usize = 256 << 10;
/// Bytes of a sample that is sent.
const SAMPLE_BYTES: usize = 16 << 10;

/// An estimate and what it rests on.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Files of known size.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What the server makes of them.
    pub expected: wire::EstimateIngestionResponse,
}

/// What reading some files showed.
#[derive(Default)]
struct Samples {
    /// Bytes of the files, as far as they were read.
    bytes: u64,
    /// Bytes of the texts in them.
    text_bytes: u64,
    documents: u64,
    files: u64,
    texts: Vec<Vec<u8>>,
}

impl Samples {
    fn read(sampled: Vec<Found>, options: &Options) -> Self {
        let mut samples = Self::default();
        for found in sampled {
            let Some(bytes) = found.source.stored_bytes() else { continue };
            let mut text_bytes = 0;
            let mut is_whole = true;
            for document in clew_formats::read(found.source, found.format, options) {
                let Ok(document) = document else { continue };
                if text_bytes == 0 {
                    let end = document.text.floor_char_boundary(SAMPLE_BYTES);
                    samples.texts.push(document.text.as_bytes()[..end].to_vec());
                }
                text_bytes += document.text.len();
                samples.documents += 1;
                if text_bytes > READ_BYTES {
                    is_whole = false;
                    break;
                }
            }
            samples.files += 1;
            samples.text_bytes += text_bytes as u64;
            // Of a file that was not read to its end, as much as its texts are long.
            samples.bytes += if is_whole { bytes } else { bytes.min(text_bytes as u64) };
        }
        samples
    }
}

/// Estimates what taking in the files that were found would take: from their sizes, and from what some
/// of them hold. Standard input cannot be known before. What the corpus holds already counts as if it
/// were new.
pub async fn estimate(
    connection: &Connection,
    corpus: &CorpusName,
    discovery: &Discovery,
    options: &Options,
) -> anyhow::Result<Estimate> {
    let sized = discovery.files.iter().filter_map(|found| found.source.stored_bytes());
    let (files, bytes) = sized.fold((0, 0), |(files, sum), bytes| (files + 1, sum + bytes));
    let step = discovery.files.len().div_ceil(SAMPLED_FILES).max(1);
    let sampled: Vec<Found> = discovery.files.iter().step_by(step).cloned().collect();
    let options = options.clone();
    let samples = tokio::task::spawn_blocking(move || Samples::read(sampled, &options)).await?;
    let share = |of: u64, all: u64| of as f64 / all.max(1) as f64;
    let request = wire::EstimateIngestionRequest {
        corpus: corpus.to_string(),
        documents: (files as f64 * share(samples.documents, samples.files)) as u64,
        text_bytes: (bytes as f64 * share(samples.text_bytes, samples.bytes)) as u64,
        samples: samples.texts.into_iter().map(Into::into).collect(),
    };
    Ok(Estimate { files, bytes, expected: connection.client.estimate(request).await? })
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MIB: f64 = (1 << 20) as f64;
        let wire::EstimateIngestionResponse { tokens, chunks, model_calls, stored_bytes } =
            self.expected;
        let (read, stored) = (self.bytes as f64 / MIB, stored_bytes as f64 / MIB);
        write!(
            f,
            "{} files of {read:.1} MiB: about {tokens} tokens in {chunks} chunks to embed, \
             {model_calls} calls of language models, {stored:.1} MiB to store",
            self.files
        )
    }
}
