//! Cost of the exchange of slots between nodes that read a text together: bytes and seconds for
//! each slot, and for each token of a text at ratio 4.
//!
//! The model keeps as much of a token as Qwen2-7B does (28 layers, 4 heads of 128 numbers), in
//! 32-bit numbers, and is tiny otherwise. Slots are taken off the device as a node does it with its
//! own passes, sent to a real encoder service over loopback, and read there.
//!
//! ```sh
//! cargo run --release --package clew-memory-encoder --example exchange_cost
//! ```

#![allow(clippy::print_stdout, reason = "the figures are for a person")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{FormTask, MemoryEncoder, MemoryText};
use clew_memory_encoder::service::{EncoderEndpoint, OfferedModel};
use clew_memory_encoder::{EncoderConfig, EncoderPool, MemoryModelConfig, MemoryPool};
use clew_model::decoder::WantedLogits;
use clew_model::memory::{MemoryInput, MemoryModel, MemoryReader, MemorySnapshot, MemoryState};
use clew_model::{DeviceChoice, LanguageModelOptions, Precision};
use clew_proto::convert::encoder as convert;
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::encoder::v1::read_together_request::Payload;
use clew_testkit::{TinyTensor, WeightFormat, write_tensors};
use serde_json::json;
use tokio::net::TcpListener;

const LAYERS: usize = 28;
const KV_HEADS: usize = 4;
const WIDTH: usize = 128;
const HIDDEN: usize = 64;
const WINDOW: usize = 64;
/// Number of nodes, of which the last is measured: it takes in the slots of all others.
const NODES: usize = 16;
/// Bytes of a slot of Qwen2-7B in bfloat16, and tokens for each slot.
const SLOT_BYTES: f64 = 57_344.0;
const RATIO: f64 = 4.0;
/// Bytes that 100 Gbit/s carry in a second.
const FLOOR: f64 = 12.5e9;
const PATIENCE: Duration = Duration::from_secs(600);

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    write_model(folder.path())?;
    let config = MemoryModelConfig {
        folder: Some(folder.path().to_owned()),
        threads: 1,
        ..MemoryModelConfig::default()
    };
    let Some(pool) = MemoryPool::load(&config).await? else { return Err("no model".into()) };
    let snapshot = between_windows(&pool).await?;
    let options = LanguageModelOptions {
        folder: folder.path().to_owned(),
        tokenizer: None,
        name: None,
        device: DeviceChoice::Cpu,
        precision: Precision::Float32,
        threads: 1,
    };
    let reader = MemoryReader::load(&options, None)?;
    let model = reader.model();
    let tokens = vec![97; NODES * WINDOW];
    let slot_bytes = model.slot_bytes(1) as f64;

    let (before, last) = tokens.split_at((NODES - 1) * WINDOW);
    let mut behind = model.restore(MemorySnapshot::from_bytes(&snapshot)?)?;
    read(model, &mut behind, before, 1)?;
    let taking = median(5, || timed(|| take(model, &behind)))?;
    let taking = taking / behind.extent().slots() as f64 / slot_bytes;
    // What the measured node computes beside the exchange.
    let own = median(5, || timed(|| read(model, &mut behind.clone(), last, 1)))?;
    let address = serve(pool).await?;
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(send(&address, model, &snapshot, &tokens).await?);
    }
    sent.sort_by(f64::total_cmp);
    let taken = before.len() as f64;
    let sending = (sent[sent.len() / 2] - own) / taken / slot_bytes;

    let bytes = SLOT_BYTES / RATIO;
    println!("bytes a token: {bytes:.0} (Qwen2-7B, ratio 4, bfloat16)");
    for (what, seconds) in
        [("take off the device", taking), ("send and read", sending), ("100 Gbit/s", 1.0 / FLOOR)]
    {
        let (rate, each) = (1e-9 / seconds, seconds * bytes * 1e6);
        println!("{what}: {rate:.2} GB/s, {each:.2} microseconds a token");
    }
    Ok(())
}

/// Writes a memory model that keeps as much of a token as Qwen2-7B, over the files of a tiny one.
fn write_model(folder: &Path) -> Outcome<()> {
    clew_testkit::write_tiny_memory_model(folder, 1)?;
    let path = folder.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    for (name, value) in [
        ("hidden_size", HIDDEN),
        ("intermediate_size", HIDDEN),
        ("num_hidden_layers", LAYERS),
        ("num_attention_heads", KV_HEADS),
        ("num_key_value_heads", KV_HEADS),
        ("head_dim", WIDTH),
        ("beacon_window", WINDOW),
        ("beacon_ratio", 1),
    ] {
        config[name] = json!(value);
    }
    let vocabulary = config["vocab_size"].as_u64().and_then(|size| usize::try_from(size).ok());
    let vocabulary = vocabulary.ok_or("a vocabulary")?;
    std::fs::write(path, config.to_string())?;
    let mut random = numbers(7);
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let values = (0..shape.iter().product()).map(|_| random()).collect();
        tensors.push(TinyTensor { name, shape: shape.to_vec(), values });
    };
    add("model.embed_tokens.weight".to_owned(), &[vocabulary, HIDDEN]);
    let all_heads = KV_HEADS * WIDTH;
    for layer in 0..LAYERS {
        let root = format!("model.layers.{layer}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            add(format!("{root}.{norm}.weight"), &[HIDDEN]);
        }
        for part in ["q", "k", "v"] {
            add(format!("{root}.self_attn.{part}_proj.weight"), &[all_heads, HIDDEN]);
            add(format!("{root}.self_attn.{part}_proj.bias"), &[all_heads]);
        }
        add(format!("{root}.self_attn.o_proj.weight"), &[HIDDEN, all_heads]);
        for part in ["gate", "up", "down"] {
            add(format!("{root}.mlp.{part}_proj.weight"), &[HIDDEN, HIDDEN]);
        }
    }
    add("model.norm.weight".to_owned(), &[HIDDEN]);
    add("lm_head.weight".to_owned(), &[vocabulary, HIDDEN]);
    write_tensors(&folder.join("model.safetensors"), &tensors, WeightFormat::Float32)?;
    Ok(())
}

/// Returns a source of numbers between -0.1 and 0.1.
fn numbers(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        // The constants of Knuth's MMIX.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 * 0.2 - 0.1
    }
}

/// Returns the bytes of a memory that ends with a window.
async fn between_windows(pool: &MemoryPool) -> Outcome<Vec<u8>> {
    for letters in 1..=WINDOW {
        let texts = vec![MemoryText { title: String::new(), text: "a".repeat(letters) }];
        let task = FormTask { ratio: 1, begun: None, texts };
        let formed = pool.form(task, Instant::now() + PATIENCE).await?;
        if formed.tokens.is_multiple_of(WINDOW as u64) {
            return Ok(formed.snapshot);
        }
    }
    Err("no text of up to a window ends with one".into())
}

fn read(
    model: &MemoryModel,
    memory: &mut MemoryState,
    tokens: &[u32],
    rows: usize,
) -> Result<(), clew_model::Error> {
    let wanted = WantedLogits::Nothing;
    model.read_side_by_side(&mut [MemoryInput { memory, tokens, wanted }], rows)?;
    Ok(())
}

/// Takes all slots off the device, as a node takes those of its passes.
fn take(model: &MemoryModel, memory: &MemoryState) -> Result<(), clew_model::Error> {
    let layers = model.save(memory)?.layers;
    for slots in layers.iter().filter_map(|layer| layer.front.as_ref()) {
        std::hint::black_box([slots.keys.as_bytes(), slots.values.as_bytes()].concat());
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<(), clew_model::Error>) -> Result<f64, clew_model::Error> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64())
}

fn median(
    runs: usize,
    mut measure: impl FnMut() -> Result<f64, clew_model::Error>,
) -> Result<f64, clew_model::Error> {
    let mut seconds = (0..runs).map(|_| measure()).collect::<Result<Vec<f64>, _>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[runs / 2])
}

/// Serves the memory model of `pool` on loopback, and returns the address.
async fn serve(pool: Arc<MemoryPool>) -> Outcome<String> {
    let folder = tempfile::tempdir()?;
    clew_testkit::write_tiny_bert(folder.path(), 3)?;
    let config = EncoderConfig { threads: 1, ..EncoderConfig::default() };
    let embedding = Arc::new(EncoderPool::load(folder.path().to_owned(), &config).await?);
    let endpoint =
        EncoderEndpoint::new(vec![OfferedModel::of_pool(&embedding)], 32).with_memory(Some(pool));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { endpoint.serve(listener, std::future::pending()).await });
    Ok(address)
}

/// Has the service compute the last pass, and returns the seconds from the first slots of the
/// passes before it to the end.
async fn send(address: &str, model: &MemoryModel, snapshot: &[u8], tokens: &[u32]) -> Outcome<f64> {
    let begin = wire::BeginReading {
        model: model.fingerprint().to_owned(),
        slot_bytes: model.slot_bytes(1) as u64,
        own: NODES as u32 - 1,
        nodes: NODES as u32,
        pass_rows: 1,
        snapshot_bytes: snapshot.len() as u64,
        tokens: tokens.len() as u64,
    };
    let parts = convert::snapshot_parts(Arc::new(snapshot.to_vec())).map(Payload::SnapshotPart);
    let text = convert::tokens_to_wire(tokens).map(Payload::Tokens);
    let before: Vec<Payload> =
        std::iter::once(Payload::Begin(begin)).chain(parts).chain(text).collect();
    let bytes = bytes::Bytes::from(vec![0; model.slot_bytes(WINDOW) / LAYERS]);
    let places =
        (0..NODES as u64 - 1).flat_map(|pass| (0..LAYERS as u32).map(move |layer| (pass, layer)));
    let slots = places.flat_map(move |(pass, layer)| {
        let slots = convert::LayerSlots { pass, layer, bytes: bytes.clone() };
        convert::slots_to_wire(slots).map(Payload::Slots).collect::<Vec<_>>()
    });
    let payloads = before.into_iter().chain(slots);
    let requests = payloads.map(|payload| wire::ReadTogetherRequest { payload: Some(payload) });
    let mut client = EncoderServiceClient::connect(address.to_owned()).await?;
    let began = Instant::now();
    let mut answers = client.read_together(futures::stream::iter(requests)).await?.into_inner();
    while answers.message().await?.is_some() {}
    Ok(began.elapsed().as_secs_f64())
}
