//! Estimates of what an ingestion would cost, before it runs.
//!
//! Typical documents are processed with the indexer's own functions: they are cut, summarised and
//! extracted by graph builders in rehearsal, and counted by the memory model's tokenizer. The
//! results are scaled to the whole ingestion: by bytes what grows with the text, by documents what
//! grows with their number.
//!
//! The estimate leaves out: model replies that are cached already; calls that are repeated because
//! a reply could not be read; the embedding of entity names; attributes and labels; space that
//! replaced documents free; versions of tables that are not pruned yet.

mod memories;
mod run;
mod sample;
mod storage;
mod structure;

use std::time::Instant;

use clew_auth::Caller;
use clew_core::{CorpusName, CorpusSettings, Counts, Error, ErrorKind, Limits};
use clew_proto::corpus::v1::CreateCorpusRequest;
use clew_proto::ingest::v1 as wire;
use clew_runtime::deadline::within;
use tonic::Request;

use self::run::Run;
use self::sample::{Cut, Samples};
use self::storage::{Amounts, Storage};
use self::structure::Structured;
use crate::Backends;

/// Maximum number of documents of an ingestion: more than a corpus holds.
const MOST_DOCUMENTS: u64 = 1_000_000_000_000;

pub(super) async fn estimate(
    backends: &Backends,
    request: Request<wire::EstimateIngestionRequest>,
) -> Result<wire::EstimateIngestionResponse, Error> {
    let caller = Caller::of(&request)?;
    let deadline = backends.config.deadline(&request);
    let request = request.into_inner();
    check_sizes(&request, &backends.limits)?;
    let (name, new_if_missing) = (request.corpus.parse()?, request.new_if_missing);
    let run = Run::of(&request);
    let given = sample::given(request, &backends.limits)?;
    let corpus = match backends.corpora.of(&caller).get(&name, deadline).await {
        Err(error) if new_if_missing && error.kind() == ErrorKind::NotFound => None,
        found => Some(found?),
    };
    let (settings, there) = match &corpus {
        Some(corpus) => (corpus.settings().clone(), corpus.counts(deadline).await?),
        None => (new_settings(backends, name)?, Counts::default()),
    };
    let samples = match (given, &corpus) {
        (Some(samples), _) => samples,
        (None, Some(corpus)) => sample::of_corpus(corpus, &run, deadline).await?,
        (None, None) => sample::english(&run)?,
    };
    let (basis, sizes) = (samples.basis, samples.sizes());
    let scale = Scale::of(&run, &samples);
    let memories = memories::estimate(backends, &settings, &samples, &run, deadline).await?;
    let cut = cut(backends, &settings, samples, deadline).await?;
    let builder = backends.graph_builders.rehearsal();
    let structured = structure::rehearse(builder.as_ref(), &settings, &cut, &run, deadline).await?;
    let made = Made { cut: &cut, structured: &structured, scale: &scale, run: &run };
    let stored = Storage::of(&settings, &made.amounts(), &there);
    let cost = made.cost();
    Ok(wire::EstimateIngestionResponse {
        tokens: scale.bytes(cut.tokens),
        chunks: made.chunks(),
        model_calls: cost.calls.ceil() as u64,
        prompt_tokens: cost.prompt_tokens.ceil() as u64,
        completion_tokens: cost.completion_tokens.ceil() as u64,
        nodes: made.nodes(),
        entities: scale.bytes(structured.entities),
        relations: scale.bytes(structured.relations),
        memories: memories.count,
        memory_tokens: memories.tokens,
        stored_bytes: stored.total().saturating_add(memories.bytes),
        document_bytes: stored.documents,
        chunk_bytes: stored.chunks,
        tree_bytes: stored.nodes,
        index_bytes: stored.indexes,
        memory_bytes: memories.bytes,
        basis: basis.into(),
        sampled_documents: sizes.len() as u64,
        sampled_bytes: sizes.iter().sum::<usize>() as u64,
        summary_tokens: made.summary_tokens(),
    })
}

/// Returns the settings of a corpus that is created now with nothing but a name.
fn new_settings(backends: &Backends, name: CorpusName) -> Result<CorpusSettings, Error> {
    let plain = CreateCorpusRequest { name: name.into(), ..CreateCorpusRequest::default() };
    backends.settings_of(plain.try_into()?)
}

/// Refuses an ingestion that no corpus could hold.
fn check_sizes(request: &wire::EstimateIngestionRequest, limits: &Limits) -> Result<(), Error> {
    let wire::EstimateIngestionRequest { documents, text_bytes, .. } = *request;
    if documents > MOST_DOCUMENTS {
        let problem = format!("expected at most {MOST_DOCUMENTS}, got {documents}");
        return Err(Error::invalid("documents", problem));
    }
    let each = limits.document_bytes as u64;
    let most = documents.max(1).saturating_mul(each);
    if text_bytes > most {
        let problem =
            format!("expected at most {most}, {each} for each of the documents, got {text_bytes}");
        return Err(Error::invalid("text_bytes", problem));
    }
    Ok(())
}

/// Ratio of the whole ingestion to the samples.
struct Scale {
    by_bytes: f64,
    by_documents: f64,
}

impl Scale {
    fn of(run: &Run, samples: &Samples) -> Self {
        let sizes = samples.sizes();
        let bytes: usize = sizes.iter().sum();
        Self {
            by_bytes: run.text_bytes as f64 / bytes.max(1) as f64,
            by_documents: run.documents as f64 / sizes.len().max(1) as f64,
        }
    }

    fn bytes(&self, of_samples: u64) -> u64 {
        (of_samples as f64 * self.by_bytes).ceil() as u64
    }

    fn documents(&self, of_samples: u64) -> u64 {
        (of_samples as f64 * self.by_documents).ceil() as u64
    }
}

/// Cuts the samples with the tokenizer of the corpus' model.
async fn cut(
    backends: &Backends,
    settings: &CorpusSettings,
    samples: Samples,
    deadline: Instant,
) -> Result<Cut, Error> {
    let settings = settings.clone();
    // Another model counts about the same number of tokens.
    let encoder = backends.encoders.of_or_current(&settings.encoder, deadline).await;
    let cutting = async {
        tokio::task::spawn_blocking(move || samples.cut(&settings, encoder.as_ref()))
            .await
            .map_err(|panic| Error::internal("cutting the samples panicked").with_source(panic))
    };
    within(deadline, "cutting samples", cutting).await
}

/// Results for the samples, and the scale to apply to them.
struct Made<'a> {
    cut: &'a Cut,
    structured: &'a Structured,
    scale: &'a Scale,
    run: &'a Run,
}

impl Made<'_> {
    /// Returns the number of chunks; every document has at least one.
    fn chunks(&self) -> u64 {
        self.scale.bytes(self.cut.chunks).max(self.run.documents)
    }

    fn nodes(&self) -> u64 {
        let upper = &self.structured.upper;
        let above = self.run.share(upper.nodes, upper.documents);
        self.scale.bytes(self.structured.nodes).saturating_add(above)
    }

    fn summary_tokens(&self) -> u64 {
        let upper = &self.structured.upper;
        let above = self.run.documents as f64 / upper.documents.max(1) as f64;
        let of_documents = self.structured.summary_tokens * self.scale.by_bytes;
        (of_documents + upper.summary_tokens * above).ceil() as u64
    }

    fn cost(&self) -> structure::Calls {
        let upper = &self.structured.upper;
        let above = self.run.documents as f64 / upper.documents.max(1) as f64;
        self.structured.cost.times(self.scale.by_bytes) + upper.cost.times(above)
    }

    fn amounts(&self) -> Amounts {
        let Self { cut, structured, scale, run } = self;
        let upper = &structured.upper;
        Amounts {
            documents: run.documents,
            content_bytes: run.text_bytes.saturating_add(scale.documents(cut.title_bytes)),
            chunks: self.chunks(),
            passage_bytes: scale.bytes(cut.passage_bytes),
            key_bytes: scale.bytes(cut.key_bytes + cut.chunk_title_bytes),
            nodes: self.nodes(),
            summary_bytes: scale
                .bytes(structured.summary_bytes)
                .saturating_add(run.share(upper.summary_bytes, upper.documents)),
            extraction_bytes: scale.bytes(structured.extraction_bytes),
        }
    }
}
