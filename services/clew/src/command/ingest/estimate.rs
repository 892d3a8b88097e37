//! What an ingestion would take, told before it begins.

use clew_core::CorpusName;
use clew_formats::{Discovery, Options};
use clew_proto::ingest::v1 as wire;

use crate::connection::Connection;

/// Files that are read a little of, evenly spread over all.
const SAMPLED_FILES: usize = 16;
/// Bytes of a sample.
const SAMPLE_BYTES: usize = 32 << 10;

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

/// Estimates what taking in the files that were found would take: from their sizes, and from the
/// beginnings of some. Standard input cannot be known before. What the corpus holds already counts
/// as if it were new.
pub async fn estimate(
    connection: &Connection,
    corpus: &CorpusName,
    discovery: &Discovery,
    options: &Options,
) -> anyhow::Result<Estimate> {
    let sized = discovery.files.iter().filter_map(|found| found.source.stored_bytes());
    let (files, bytes) = sized.fold((0, 0), |(files, sum), bytes| (files + 1, sum + bytes));
    let step = discovery.files.len().div_ceil(SAMPLED_FILES).max(1);
    let sampled = discovery.files.iter().step_by(step);
    let sampled = sampled.filter(|found| found.source.stored_bytes().is_some());
    let sampled: Vec<_> = sampled.cloned().collect();
    let options = options.clone();
    let samples = tokio::task::spawn_blocking(move || {
        let first = |found: clew_formats::Found| {
            let document = clew_formats::read(found.source, found.format, &options).next();
            document.and_then(Result::ok).map(|document| {
                let end = document.text.floor_char_boundary(SAMPLE_BYTES);
                document.text.as_bytes()[..end].to_vec().into()
            })
        };
        sampled.into_iter().filter_map(first).collect()
    });
    let request = wire::EstimateIngestionRequest {
        corpus: corpus.to_string(),
        documents: files,
        text_bytes: bytes,
        samples: samples.await?,
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
