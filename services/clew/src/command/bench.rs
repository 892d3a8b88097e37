//! Command `clew bench`: measures speed on this machine and prints JSON that also describes the
//! machine.

mod generate;
mod growth;
mod interactive;
mod memory;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use clew_core::{CorpusName, IfThere, Priority, Query, SearchMode, TextKind};
use clew_formats::{FileFormat, Naming, Options, Source};
use clew_generator::config::{DeviceChoice, LocalConfig, PrecisionChoice};
use clew_index::ObjectStoreSettings;
use clew_memory_encoder::OwnEncoder;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::command::generate::language_model;
use crate::command::ingest::{IngestReport, Inputs, Sending, send, wait_until_found};
use crate::config::ClewConfig;
use crate::connection::Connection;
use crate::node;
use crate::output::Output;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub action: BenchAction,
}

/// Measurements.
#[derive(Debug, Subcommand)]
pub enum BenchAction {
    /// Measure the tokens per second of the encoder, or how long one question takes.
    Embed {
        /// JSON Lines with a `text` field.
        #[arg(value_name = "FILE")]
        texts: PathBuf,
        /// Number of threads; 0 means one per core.
        #[arg(long, default_value_t = 0)]
        threads: usize,
        /// Number of rounds; the median is reported.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Embed the texts as questions, one after the other, and report how long each takes.
        #[arg(long)]
        interactive: bool,
    },
    /// Measure an ingestion from files to searchable: tokens per second, and the share of the
    /// encoder.
    Ingest {
        /// Files, folders or globs.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
    },
    /// Measure the tokens per second of a language model, alone and with several replies at once,
    /// beside the maximum that the machine can do.
    Generate {
        /// Folder of the tokenizer, if it is not the model's.
        #[arg(long, value_name = "DIR")]
        tokenizer: Option<PathBuf>,
        /// Device to compute on: `cpu`, or in builds for GPUs `cuda:0` or `vulkan:0`.
        #[arg(long, default_value = "cpu")]
        device: DeviceChoice,
        /// Compute in bfloat16. On a GPU that has it, that is the default.
        #[arg(long)]
        bf16: bool,
        /// Number of CPU threads; 0 means one per core.
        #[arg(long, default_value_t = 0)]
        threads: u32,
        /// Number of words of each prompt.
        #[arg(long, default_value_t = 400)]
        words: usize,
        /// Number of tokens of each reply.
        #[arg(long, default_value_t = 64)]
        tokens: u32,
        /// Numbers of simultaneous replies to measure.
        #[arg(long, value_delimiter = ',', default_value = "1,4,16")]
        streams: Vec<u32>,
    },
    /// Measure what work of fixed amount costs as a shard grows: writes, maintenance, forgetting,
    /// searches and their recall, snapshots, checks, memory. Vectors cost next to nothing.
    Growth {
        /// Numbers of chunks at which to measure, growing.
        #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
        sizes: Vec<u64>,
        /// Files, folders or globs whose texts fill the shard. They come again with other words if
        /// they are too few. Default: generated texts.
        #[arg(long, value_name = "PATH", num_args = 1..)]
        texts: Vec<String>,
        /// Empty or new folder for the shard, which stays there, or s3://bucket/prefix. For a
        /// bucket, disk is not measured and the snapshot goes to a temporary folder. Default: a
        /// temporary folder.
        #[arg(long, value_name = "DIR")]
        folder: Option<String>,
    },
    /// Measure the latency of searches in a corpus, and the recall of the approximate index against
    /// exact search.
    Search {
        /// Name of the corpus.
        #[arg(long)]
        corpus: CorpusName,
        /// Number of searches per mode.
        #[arg(long, default_value_t = 200)]
        queries: usize,
    },
}

/// Number of streams of documents: the default of `clew ingest`.
const STREAMS: u8 = 4;
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs a measurement and prints its result.
pub async fn run(global: &GlobalArgs, arguments: BenchArgs, output: &Output) -> anyhow::Result<()> {
    let result = match arguments.action {
        BenchAction::Embed { texts, threads, rounds, interactive } => {
            let way = if interactive { Way::Interactive } else { Way::Bulk };
            embed(global, &texts, threads, rounds, way).await?
        }
        BenchAction::Ingest { paths } => Box::pin(ingest(global, paths)).await?,
        BenchAction::Generate { tokenizer, device, bf16, threads, words, tokens, streams } => {
            let local = LocalConfig {
                tokenizer,
                device,
                precision: if bf16 { PrecisionChoice::BFloat16 } else { PrecisionChoice::Auto },
                threads,
                ..LocalConfig::of(language_model(global)?)
            };
            generate::run(local, generate::Load { words, tokens, streams }).await?
        }
        BenchAction::Growth { sizes, texts, folder } => {
            let s3 = ClewConfig::load(global, None)?.roles.storage.s3;
            let plan = growth::Plan { sizes, texts, folder, s3 };
            let measured = Box::pin(growth::run(plan)).await?;
            return output.print(&measured, growth::Growth::table);
        }
        BenchAction::Search { corpus, queries } => search(global, &corpus, queries).await?,
    };
    output.print(&result, |result| {
        let fields = result.as_object().into_iter().flatten();
        fields.map(|(name, value)| format!("{name}: {value}\n")).collect()
    })
}

/// Returns the median of `values`.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(&values, 0.5)
}

/// Returns the value below which `share` of the sorted `values` lies.
fn percentile(values: &[f64], share: f64) -> f64 {
    let place = (values.len().saturating_sub(1)) as f64 * share;
    values.get(place.round() as usize).copied().unwrap_or(0.0)
}

/// Way in which texts are embedded.
#[derive(Clone, Copy)]
enum Way {
    /// All at once, as an ingestion does.
    Bulk,
    /// One after the other, as searches do.
    Interactive,
}

async fn embed(
    global: &GlobalArgs,
    texts: &Path,
    threads: usize,
    rounds: usize,
    way: Way,
) -> anyhow::Result<Value> {
    let mut config = ClewConfig::load(global, None)?;
    config.roles.encoder.threads = threads;
    let source = Source::file("texts", texts);
    let documents: Result<Vec<_>, _> =
        clew_formats::read(source, FileFormat::JsonLines, &Options::default()).collect();
    let texts: Vec<String> = documents?.into_iter().map(|document| document.text).collect();
    if texts.is_empty() || rounds == 0 {
        bail!("expected at least one text and one round");
    }
    let encoders = node::load_encoders(&config.roles.encoder).await?;
    let measured = match way {
        Way::Bulk => embed_in_bulk(encoders.first(), &texts, rounds).await,
        Way::Interactive => interactive::run(encoders.first(), &texts, rounds).await,
    };
    let path = encoders.first().description();
    encoders.stop().await;
    let mut result = json!({
        "path": path,
        "threads": config.roles.encoder.worker_threads(),
        "texts": texts.len(),
    });
    if let (Value::Object(all), Value::Object(measured)) = (&mut result, measured?) {
        all.extend(measured);
    }
    Ok(result)
}

async fn embed_in_bulk(own: &OwnEncoder, texts: &[String], rounds: usize) -> anyhow::Result<Value> {
    let encoder = own.encoder();
    let mut rates = Vec::with_capacity(rounds);
    let mut tokens = 0;
    // The first round warms up and is not counted.
    for round in 0..=rounds {
        let started = Instant::now();
        let deadline = started + PATIENCE;
        let embedded =
            encoder.embed(texts.to_vec(), TextKind::Passage, Priority::Bulk, deadline).await?;
        tokens = embedded.iter().map(|embedding| u64::from(embedding.tokens)).sum::<u64>();
        if round > 0 {
            rates.push(tokens as f64 / started.elapsed().as_secs_f64());
        }
    }
    Ok(json!({ "tokens": tokens, "tokens_per_second": median(rates) }))
}

async fn ingest(global: &GlobalArgs, paths: Vec<String>) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir().context("no temporary directory could be made")?;
    let mut config = ClewConfig::load(global, None)?;
    config.roles.data_dir = folder.path().to_path_buf();
    let connection = Connection::embed(&config).await?;
    let corpus: CorpusName = "bench".parse()?;
    let new = clew_proto::convert::corpus::NewCorpus {
        name: corpus.clone(),
        shards: 1,
        chunking: None,
        structure: None,
        retention_days: None,
        memory: None,
        chat: None,
    };
    connection.client.create_corpus(new).await?;
    let started = Instant::now();
    let mut report = IngestReport::default();
    let sending = Sending { streams: STREAMS, if_there: IfThere::Replace };
    let inputs = Inputs {
        paths,
        naming: Naming::as_given(),
        stdin_format: FileFormat::JsonLines,
        s3: ObjectStoreSettings::default(),
    };
    let discovery = inputs.discover().await?;
    send(&connection, &corpus, discovery, Options::default(), sending, &mut report).await?;
    let accepted = started.elapsed();
    wait_until_found(&connection, &corpus).await?;
    let took = started.elapsed();
    let counts = connection.client.corpus(&corpus).await?.counts.unwrap_or_default();
    let node = connection.node().context("the node runs in this process")?;
    let encoder = node.models.encoders.first();
    let embedded = encoder.embedded_tokens();
    let busy = encoder.busy();
    let threads = config.roles.encoder.worker_threads();
    let path = encoder.description();
    connection.close().await?;
    let wall = took.as_secs_f64();
    Ok(json!({
        "path": path,
        "threads": threads,
        "documents": report.summary.accepted(),
        "text_bytes": counts.text_bytes,
        "chunks": counts.chunks,
        "embedded_tokens": embedded,
        "accepted_secs": accepted.as_secs_f64(),
        "searchable_secs": wall,
        "tokens_per_second": embedded as f64 / wall,
        "encoder_share": busy.as_secs_f64() / (wall * threads as f64),
        "peak_memory_bytes": memory::peak_bytes(),
    }))
}

async fn search(global: &GlobalArgs, corpus: &CorpusName, queries: usize) -> anyhow::Result<Value> {
    let connection = Connection::open(global).await?;
    let (questions, mut reads) = sample_questions(&connection, corpus, queries).await?;
    reads.sort_by(f64::total_cmp);
    let mut modes = serde_json::Map::new();
    for mode in SearchMode::ALL {
        let mut latencies = Vec::with_capacity(questions.len());
        let mut recalls = Vec::new();
        for question in &questions {
            let mut query = Query::new(question.clone(), 10);
            query.mode = mode;
            let started = Instant::now();
            let found = connection.client.search(corpus, query.clone()).await?;
            latencies.push(started.elapsed().as_secs_f64() * 1e3);
            if mode.uses_embeddings() {
                query.exact = true;
                let exact = connection.client.search(corpus, query).await?;
                let kept = exact
                    .evidence
                    .iter()
                    .filter(|item| {
                        found.evidence.iter().any(|other| other.chunk_id == item.chunk_id)
                    })
                    .count();
                recalls.push(kept as f64 / exact.evidence.len().max(1) as f64);
            }
        }
        latencies.sort_by(f64::total_cmp);
        let mut result = json!({
            "p50_ms": percentile(&latencies, 0.5),
            "p99_ms": percentile(&latencies, 0.99),
        });
        if !recalls.is_empty() {
            result["recall@10"] = json!(recalls.iter().sum::<f64>() / recalls.len() as f64);
        }
        modes.insert(mode.as_str().to_owned(), result);
    }
    let counts = connection.client.corpus(corpus).await?.counts.unwrap_or_default();
    connection.close().await?;
    Ok(json!({
        "chunks": counts.chunks,
        "queries": questions.len(),
        "modes": modes,
        "read_document": {
            "p50_ms": percentile(&reads, 0.5),
            "p99_ms": percentile(&reads, 0.99),
        },
        "peak_memory_bytes": memory::peak_bytes(),
    }))
}

/// Samples questions of a realistic shape, which are words of random documents. Also returns how
/// many milliseconds it took to read each document.
async fn sample_questions(
    connection: &Connection,
    corpus: &CorpusName,
    count: usize,
) -> anyhow::Result<(Vec<String>, Vec<f64>)> {
    const WORDS: usize = 9;
    let stage = clew_proto::ingest::v1::DocumentStage::Indexed;
    let documents = connection.client.documents(corpus, stage).await?;
    if documents.is_empty() {
        bail!("the corpus holds no document that can be found");
    }
    // The same seed on the same corpus asks the same questions.
    let mut random = fastrand::Rng::with_seed(7);
    let (mut questions, mut reads) = (Vec::with_capacity(count), Vec::new());
    for _ in 0..count.saturating_mul(4) {
        if questions.len() == count {
            break;
        }
        let document = &documents[random.usize(..documents.len())];
        let started = Instant::now();
        let (stored, _) = connection.client.document(corpus, &document.id.parse()?).await?;
        reads.push(started.elapsed().as_secs_f64() * 1e3);
        let text = String::from_utf8_lossy(&stored.text).into_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() > WORDS {
            let start = random.usize(..words.len() - WORDS);
            questions.push(words[start..start + WORDS].join(" "));
        }
    }
    Ok((questions, reads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_list() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
