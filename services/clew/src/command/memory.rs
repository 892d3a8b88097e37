//! Command `clew memory`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use clew_core::CorpusName;
use clew_model::memory::MemoryShape;
use clew_proto::convert::timestamp_from_wire;
use clew_proto::memory::v1 as wire;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::{self, Output};

/// Arguments of `memory`.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    #[command(subcommand)]
    pub action: MemoryAction,
}

/// Queries about compressed memories.
#[derive(Debug, Subcommand)]
pub enum MemoryAction {
    /// List the memories of a corpus, and how many of its documents they cover.
    List {
        /// Name of the corpus.
        #[arg(long)]
        corpus: CorpusName,
        /// Wait at most this many seconds until all documents are covered.
        #[arg(long, value_name = "SECONDS")]
        wait_secs: Option<u64>,
    },
    /// Estimate what memories of a text would take: bytes, the least time, and whether they fit
    /// into a device.
    Estimate(EstimateArgs),
}

/// Arguments of `memory estimate`.
#[derive(Debug, Args)]
pub struct EstimateArgs {
    /// Folder of the memory model; its `config.json` is enough.
    #[arg(long = "memory-model", value_name = "DIR")]
    pub folder: PathBuf,
    /// Number of tokens of the texts.
    #[arg(long, required_unless_present = "corpus", conflicts_with = "corpus")]
    pub tokens: Option<u64>,
    /// Corpus whose texts to estimate instead of --tokens, at about four bytes per token.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
    /// Number of tokens for each one that is kept; 0 means no compression.
    #[arg(long, default_value_t = 4)]
    pub ratio: u64,
    /// Maximum number of tokens of one memory [default: one memory of all].
    #[arg(long)]
    pub segment_tokens: Option<u64>,
    /// Computing speed of the device in 10^12 operations per second. The default is an H200 in
    /// bfloat16, as measured.
    #[arg(long, default_value_t = 790.0)]
    pub teraflops: f64,
    /// Memory of the device in GiB.
    #[arg(long, default_value_t = 139.0)]
    pub device_gib: f64,
}

/// Approximate number of bytes per token.
const TOKEN_BYTES: u64 = 4;
/// Interval between two requests for the progress of memories.
const LOOK: Duration = Duration::from_millis(500);

/// Shows compressed memories, or what they would cost.
pub async fn run(
    global: &GlobalArgs,
    arguments: MemoryArgs,
    output: &Output,
) -> anyhow::Result<()> {
    match arguments.action {
        MemoryAction::Estimate(estimate) => {
            let tokens = match (&estimate.corpus, estimate.tokens) {
                (Some(corpus), _) => {
                    let connection = Connection::open(global).await?;
                    let told = connection.client.corpus(corpus).await;
                    connection.close().await?;
                    told?.counts.unwrap_or_default().text_bytes / TOKEN_BYTES
                }
                (None, tokens) => tokens.unwrap_or_default(),
            };
            print_estimate(&estimate, tokens, output)
        }
        MemoryAction::List { corpus, wait_secs } => {
            let connection = Connection::open(global).await?;
            let shown = async {
                let until = Instant::now() + Duration::from_secs(wait_secs.unwrap_or(0));
                loop {
                    let listed = connection.client.memories(&corpus).await?;
                    let is_whole = listed.shards_missing.is_empty();
                    let is_done = is_whole && listed.covered_documents >= listed.documents;
                    if is_done || Instant::now() >= until {
                        return list(&listed, output);
                    }
                    tokio::time::sleep(LOOK).await;
                }
            };
            let shown = shown.await;
            connection.close().await?;
            shown
        }
    }
}

fn list(listed: &wire::ListMemoriesResponse, output: &Output) -> anyhow::Result<()> {
    let part = |part: &wire::MemoryPart| json!({ "document_id": part.document_id, "version": part.version, "start": part.start, "end": part.end });
    let memory = |memory: &wire::CompressedMemory| {
        json!({
            "key": memory.key,
            "model": memory.model,
            "ratio": memory.ratio,
            "tokens": memory.tokens,
            "slots": memory.slots,
            "bytes": memory.bytes,
            "parts": memory.parts.iter().map(part).collect::<Vec<Value>>(),
        })
    };
    let failure = |failure: &wire::MemoryFailure| {
        json!({
            "document_ids": failure.document_ids,
            "attempts": failure.attempts,
            "message": failure.message,
            "next_try": next_try(failure),
        })
    };
    let model = listed.model.as_ref().map(|model| {
        json!({
            "model": model.model,
            "fingerprint": model.fingerprint,
            "window": model.window,
            "slot_bytes": model.slot_bytes,
            "prompts": model.prompts,
        })
    });
    let document = json!({
        "documents": listed.documents,
        "covered_documents": listed.covered_documents,
        "model": model,
        "memories": listed.memories.iter().map(memory).collect::<Vec<Value>>(),
        "failures": listed.failures.iter().map(failure).collect::<Vec<Value>>(),
        "shards_missing": listed.shards_missing,
    });
    output.print(&document, |_| {
        let mut text = format!(
            "{} of {} documents are covered by {} memories\n",
            listed.covered_documents,
            listed.documents,
            listed.memories.len()
        );
        match &listed.model {
            Some(model) => {
                text.push_str(&format!("formed by {} ({})\n", model.model, model.fingerprint))
            }
            None => text.push_str("no encoder has a memory model; see `memory_model.folder`\n"),
        }
        for memory in &listed.memories {
            text.push_str(&format!(
                "  {}  {} tokens as {} by ratio {}, {} bytes, {} parts of documents\n",
                memory.key,
                memory.tokens,
                memory.slots,
                memory.ratio,
                memory.bytes,
                memory.parts.len()
            ));
        }
        for failure in &listed.failures {
            let next = match next_try(failure) {
                Some(next) => format!("tried again at {next}"),
                None => "set aside".to_owned(),
            };
            text.push_str(&format!(
                "  {} documents are not covered, after {} attempts: {}; {next}\n",
                failure.document_ids.len(),
                failure.attempts,
                failure.message,
            ));
        }
        text + &output::missing(&listed.shards_missing)
    })
}

/// Returns the time of the next attempt, or `None` if there is none.
fn next_try(failure: &wire::MemoryFailure) -> Option<String> {
    let time = failure.next_try.as_ref()?;
    timestamp_from_wire("next_try", time).ok().map(|time| time.to_string())
}

fn print_estimate(asked: &EstimateArgs, tokens: u64, output: &Output) -> anyhow::Result<()> {
    let shape = MemoryShape::read(&asked.folder)?;
    let segment = asked.segment_tokens.unwrap_or(u64::MAX);
    let cost = shape.cost(tokens, asked.ratio, segment);
    let device = asked.device_gib * f64::from(1 << 30);
    let one = shape.cost(tokens.min(segment), asked.ratio, u64::MAX);
    // Keys are held twice while questions are asked: as they were, and rotated by their positions.
    let needed = shape.weight_bytes() as f64 + 1.5 * one.bytes as f64;
    let seconds = cost.floor_seconds(asked.teraflops * 1e12);
    let is_trained = one.slots <= shape.positions as u64;
    let document = json!({
        "tokens": tokens,
        "ratio": asked.ratio,
        "memories": cost.memories,
        "slots": cost.slots,
        "memory_bytes": cost.bytes,
        "slot_bytes": shape.slot_bytes,
        "parameters": shape.parameters,
        "weight_bytes": shape.weight_bytes(),
        "matrix_operations": cost.matrix_operations,
        "attention_operations": cost.attention_operations,
        "floor_seconds": seconds,
        "device_bytes_needed": needed,
        "fits": needed <= device,
        "within_trained_positions": is_trained,
    });
    output.print(&document, |_| {
        let gib = |bytes: f64| bytes / f64::from(1 << 30);
        let mut text = format!(
            "{tokens} tokens by ratio {}: {} slots, {:.2} GiB in {} memories\n\
             at least {seconds:.1} s at {} TFLOP/s ({:.0} % of it attention)\n\
             weights and the largest memory take {:.1} GiB: {} {} GiB\n",
            asked.ratio,
            cost.slots,
            gib(cost.bytes as f64),
            cost.memories,
            asked.teraflops,
            100.0 * cost.attention_operations
                / (cost.attention_operations + cost.matrix_operations).max(1.0),
            gib(needed),
            if needed <= device { "fits into" } else { "does not fit into" },
            asked.device_gib,
        );
        if !is_trained {
            text.push_str(&format!(
                "a memory of {} slots is beyond the {} that the model was trained on; take shorter segments or a \
                 larger ratio\n",
                one.slots, shape.positions
            ));
        }
        text
    })
}
