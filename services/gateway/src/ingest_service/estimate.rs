//! What an ingestion would take, before it is run.

use clew_auth::Caller;
use clew_core::{Attributes, Document, Encoder, Error, Labels, MediaType};
use clew_proto::ingest::v1 as wire;
use tonic::Request;

use crate::Backends;

/// Bytes of English text per WordPiece token, where nothing better is known.
const BYTES_PER_TOKEN: f64 = 4.4;
/// Bytes stored of a chunk beside its texts and vector: ids, spans, attributes and index entries.
const CHUNK_OVERHEAD_BYTES: u64 = 200;
const SAMPLE_BYTES: usize = 1 << 20;

/// Tokens and chunks per byte of text.
struct Rates {
    tokens: f64,
    chunks: f64,
}

pub(super) async fn estimate(
    backends: &Backends,
    request: Request<wire::EstimateIngestionRequest>,
) -> Result<wire::EstimateIngestionResponse, Error> {
    let caller = Caller::of(&request)?;
    let deadline = backends.config.deadline(&request);
    let request = request.into_inner();
    let corpus = backends.corpora.of(&caller).get(&request.corpus.parse()?, deadline).await?;
    let samples = samples(request.samples)?;
    let chunking = corpus.settings().chunking;
    let encoder = backends.encoders.current();
    let dimension = u64::from(encoder.identity().dimension);
    let rates = if samples.is_empty() {
        let counts = corpus.counts(deadline).await?;
        let bytes = counts.bytes as f64;
        if counts.chunks > 0 && bytes > 0.0 {
            Rates { tokens: counts.tokens as f64 / bytes, chunks: counts.chunks as f64 / bytes }
        } else {
            let tokens = 1.0 / BYTES_PER_TOKEN;
            Rates { tokens, chunks: tokens / f64::from(chunking.max_tokens()) }
        }
    } else {
        let measure = move || measure(&samples, &chunking, encoder.as_ref());
        tokio::task::spawn_blocking(measure)
            .await
            .map_err(|panic| Error::internal("cutting the samples panicked").with_source(panic))?
    };
    let bytes = request.text_bytes as f64;
    let chunks = ((bytes * rates.chunks).ceil() as u64).max(request.documents);
    Ok(wire::EstimateIngestionResponse {
        tokens: (bytes * rates.tokens).ceil() as u64,
        chunks,
        model_calls: 0,
        // The text is stored with its document, as passage and as key.
        stored_bytes: request.text_bytes.saturating_mul(3)
            + chunks.saturating_mul(dimension * 4 + CHUNK_OVERHEAD_BYTES),
    })
}

fn samples(samples: Vec<impl AsRef<[u8]>>) -> Result<Vec<String>, Error> {
    let total: usize = samples.iter().map(|sample| sample.as_ref().len()).sum();
    if total > SAMPLE_BYTES {
        let problem = format!("expected at most {SAMPLE_BYTES} bytes in all, got {total}");
        return Err(Error::invalid("samples", problem));
    }
    let text = |(i, sample): (usize, &_)| {
        let bytes: &[u8] = AsRef::<[u8]>::as_ref(sample);
        String::from_utf8(bytes.to_vec())
            .map_err(|_| Error::invalid(format!("samples[{i}]"), "expected UTF-8"))
    };
    samples.iter().enumerate().map(text).collect()
}

fn measure(samples: &[String], chunking: &clew_core::Chunking, encoder: &dyn Encoder) -> Rates {
    let token_spans = |text: &str| encoder.token_spans(text);
    let window = encoder.identity().max_tokens as usize;
    let (mut bytes, mut tokens, mut chunks) = (0, 0, 0);
    for (i, sample) in samples.iter().enumerate() {
        let Ok(id) = format!("sample {i}").parse() else { continue };
        let document = Document {
            id,
            text: sample.clone(),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::default(),
        };
        let cut = clew_text::chunk(&document, chunking, &token_spans, window);
        bytes += sample.len();
        chunks += cut.len();
        tokens += cut.iter().map(|chunk| u64::from(chunk.tokens)).sum::<u64>();
    }
    let bytes = bytes.max(1) as f64;
    Rates { tokens: tokens as f64 / bytes, chunks: chunks as f64 / bytes }
}
