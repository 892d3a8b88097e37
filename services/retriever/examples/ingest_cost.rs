//! Cost of ingestion without the encoder: tokens per second from accepting documents to finding
//! them, with an encoder that tokenises its texts and then takes no time.
//!
//! The shards are real ones on disk. Documents come in by the call that the gateway makes for each
//! document of an `Ingest` stream, and each run waits until all of them can be found. Documents are
//! made of words of the model's vocabulary, or are pieces of the files of a folder.
//!
//! ```sh
//! cargo run --release --package clew-retriever --example ingest_cost -- --model DIR
//!     [--tokens MILLIONS] [--shards N,N] [--runs N] [--text DIR] [--json]
//! ```

#![allow(clippy::print_stdout, reason = "the figures are for a person")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Access, Account, Attributes, CandidateQuery, Corpora, Corpus, CorpusSettings, Document,
    Embedding, Encoder, EncoderIdentity, Extraction, ExtractionTask, Filter, GraphBuilder,
    GraphBuilders, Grouping, IfThere, Labels, MediaType, NoMemoryModel, OneEncoder, Priority,
    SearchMode, SearchedView, Span, Summary, SummaryTask, SystemClock, TextKind, Timestamp,
};
use clew_retriever::{LocalRetriever, RetrieverConfig, ShardSeams, StorageConfig};
use clew_telemetry::{Admin, AdminConfig, Health, LogFormat, Logging, Telemetry, TelemetryConfig};
use clew_tokenizer::EncoderTokenizer;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Tokens of a document, about.
const DOCUMENT_TOKENS: usize = 2_000;
/// Numbers in a vector, and tokens of a window, as all-MiniLM-L6-v2 has them.
const DIMENSION: usize = 384;
const WINDOW: u32 = 256;
/// Maximum number of documents that wait for their acknowledgement.
const UNACKNOWLEDGED: usize = 1_024;
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(600);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What is measured.
struct Wanted {
    model: PathBuf,
    tokens: usize,
    shards: Vec<u32>,
    runs: usize,
    text: Option<PathBuf>,
    is_json: bool,
}

impl Wanted {
    fn read(mut arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut wanted = Self {
            model: std::env::var_os("CLEW_MODEL_DIR").unwrap_or_default().into(),
            tokens: 5_000_000,
            shards: vec![1, 4],
            runs: 3,
            text: None,
            is_json: false,
        };
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("`{name}` lacks its value"));
            match name.as_str() {
                "--model" => wanted.model = value()?.into(),
                "--tokens" => wanted.tokens = (value()?.parse::<f64>()? * 1e6) as usize,
                "--shards" => {
                    wanted.shards =
                        value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--runs" => wanted.runs = value()?.parse()?,
                "--text" => wanted.text = Some(value()?.into()),
                "--json" => wanted.is_json = true,
                _ => {
                    return Err(
                        format!("expected an option of the first lines, got `{name}`").into()
                    );
                }
            }
        }
        Ok(wanted)
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let wanted = Wanted::read(std::env::args().skip(1))?;
    let logging = Logging { filter: "warn", format: LogFormat::Text };
    let telemetry = Telemetry::start(&TelemetryConfig::default(), "ingest_cost", logging)?;
    let admin = AdminConfig { listen: "127.0.0.1:0".to_owned() };
    let admin = Admin::start(&admin, &Health::default()).await?.ok_or("no admin port")?;
    let documents = match &wanted.text {
        Some(folder) => pieces(folder, wanted.tokens)?,
        None => Vocabulary::read(&wanted.model)?.documents(wanted.tokens),
    };
    for &shards in &wanted.shards {
        let mut runs = Vec::new();
        for _ in 0..wanted.runs.max(1) {
            runs.push(run(&wanted.model, shards, &documents, &admin).await?);
        }
        runs.sort_by(|a, b| a.tokens_per_second().total_cmp(&b.tokens_per_second()));
        let median = &runs[runs.len() / 2];
        match wanted.is_json {
            true => println!("{}", median.json(shards, runs.len())),
            false => median.print(shards, runs.len()),
        }
    }
    telemetry.stop().await;
    Ok(())
}

/// What one run took.
struct Run {
    /// Tokens of the chunks, special tokens included.
    tokens: u64,
    documents: u64,
    chunks: u64,
    /// Time until all documents were accepted, until all could be found, and until the indexes held
    /// them.
    accepted: Duration,
    found: Duration,
    indexed: Duration,
    /// Processor time until all could be found, and until the indexes held them.
    processor: Duration,
    processor_indexed: Duration,
    /// Count and time of the pieces of work of each stage. They overlap.
    stages: BTreeMap<String, (f64, Duration)>,
}

impl Run {
    fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.found.as_secs_f64()
    }

    /// Returns the processors that were busy on average until all documents could be found.
    fn busy(&self) -> f64 {
        self.processor.as_secs_f64() / self.found.as_secs_f64()
    }

    /// Returns microseconds of a time for each token.
    fn each(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.tokens as f64
    }

    fn print(&self, shards: u32, runs: usize) {
        let Self { tokens, documents, chunks, .. } = self;
        println!("{shards} shards: {documents} documents, {chunks} chunks, {tokens} tokens");
        let [accepted, found, indexed] =
            [self.accepted, self.found, self.indexed].map(|time| time.as_secs_f64());
        println!(
            "  accepted after {accepted:.2} s, found after {found:.2} s, indexed after {indexed:.2} s"
        );
        let (rate, busy) = (self.tokens_per_second(), self.busy());
        let [own, all] = [self.processor, self.processor_indexed].map(|time| self.each(time));
        println!("  {rate:.0} tokens/s (median of {runs}), {busy:.2} processors busy");
        println!("  {own:.2} microseconds of a processor a token, {all:.2} with the indexes");
        for (stage, (count, time)) in &self.stages {
            let each = self.each(*time);
            println!(
                "  {stage}: {count:.0} times, {:.2} s, {each:.2} microseconds a token",
                time.as_secs_f64()
            );
        }
    }

    fn json(&self, shards: u32, runs: usize) -> Value {
        let stages = self.stages.iter().map(|(stage, (count, time))| {
            (stage.clone(), json!({ "count": count, "seconds": time.as_secs_f64() }))
        });
        json!({
            "shards": shards,
            "runs": runs,
            "documents": self.documents,
            "chunks": self.chunks,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second(),
            "seconds": {
                "accepted": self.accepted.as_secs_f64(),
                "found": self.found.as_secs_f64(),
                "indexed": self.indexed.as_secs_f64(),
            },
            "processor_seconds": {
                "found": self.processor.as_secs_f64(),
                "indexed": self.processor_indexed.as_secs_f64(),
            },
            "stages": stages.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Ingests documents into a new corpus.
async fn run(model: &Path, shards: u32, documents: &[String], admin: &Admin) -> Outcome<Run> {
    let folder = tempfile::tempdir()?;
    let encoder = Arc::new(TimelessEncoder::load(model)?);
    let corpus = CorpusSettings::plain(
        "measured".parse()?,
        shards,
        clew_core::Chunking::default_for(&encoder.identity),
        encoder.identity.clone(),
        Timestamp::from_micros(0),
    );
    let storage = StorageConfig::default();
    let seams = ShardSeams {
        encoders: Arc::new(OneEncoder(Arc::clone(&encoder) as Arc<dyn Encoder>)),
        graph_builders: Arc::new(NoStructure),
        memory_encoder: Arc::new(NoMemoryModel),
        clock: Arc::new(SystemClock),
        snapshots: None,
    };
    let tried = storage.try_out(&folder.path().to_string_lossy()).await?;
    let retriever = LocalRetriever::start(&tried, seams, RetrieverConfig::default()).await?;
    let deadline = Instant::now() + PATIENCE;
    let corpus = retriever.create(corpus, &Access::all(), deadline).await?;
    // Shards open with the first call.
    corpus.counts(deadline).await?;

    let stages_before = stages(admin).await?;
    let (began, processor_before) = (Instant::now(), processor_time()?);
    accept(&corpus, documents, deadline).await?;
    let accepted = began.elapsed();
    let counts = loop {
        let counts = corpus.counts(deadline).await?;
        if counts.retrying + counts.set_aside > 0 || Instant::now() > deadline {
            return Err(format!("not all documents could be indexed: {counts:?}").into());
        }
        if counts.documents == documents.len() as u64 && counts.pending == 0 {
            break counts;
        }
        tokio::time::sleep(LOOK).await;
    };
    let (found, processor) = (began.elapsed(), processor_time()?.saturating_sub(processor_before));
    find(&corpus, documents, deadline).await?;
    for shard in corpus.shards() {
        shard.maintain(deadline).await?;
    }
    let (indexed, processor_indexed) =
        (began.elapsed(), processor_time()?.saturating_sub(processor_before));
    let mut stages = stages(admin).await?;
    for (stage, (count, time)) in stages_before {
        if let Some(after) = stages.get_mut(&stage) {
            *after = (after.0 - count, after.1.saturating_sub(time));
        }
    }
    let [cut, embed] = [&encoder.cutting, &encoder.embedding].map(Tokenised::time);
    stages.insert("chunk, of it tokenising".to_owned(), cut);
    stages.insert("embed, of it tokenising".to_owned(), embed);
    stages.retain(|_, (count, _)| *count > 0.0);
    retriever.stop(PATIENCE).await?;
    Ok(Run {
        tokens: counts.tokens,
        documents: counts.documents,
        chunks: counts.chunks,
        accepted,
        found,
        indexed,
        processor,
        processor_indexed,
        stages,
    })
}

/// Sends all documents, and waits until they are committed and synced.
async fn accept(corpus: &Corpus, documents: &[String], deadline: Instant) -> Outcome<()> {
    let mut acknowledged = stream::iter(documents.iter().enumerate())
        .map(async |(number, text)| -> Outcome<()> {
            let document = Document {
                id: format!("document-{number:09}").parse()?,
                text: text.clone(),
                media_type: MediaType::Plain,
                title: format!("Document {number}"),
                attributes: Attributes::new(),
                event_time: None,
                labels: Labels::default(),
                source_version: None,
            };
            let shard = corpus.shard_of(&document.id);
            shard.accept(document, IfThere::Replace, deadline).await?.await?;
            Ok(())
        })
        .buffered(UNACKNOWLEDGED);
    while let Some(accepted) = acknowledged.next().await {
        accepted?;
    }
    Ok(())
}

/// Searches the words of the last document in each shard.
async fn find(corpus: &Corpus, documents: &[String], deadline: Instant) -> Outcome<()> {
    let words: Vec<&str> =
        documents.last().map_or("", String::as_str).split_whitespace().take(12).collect();
    let query = CandidateQuery {
        text: words.join(" "),
        vector: Some(unit_vector(1)),
        encoder: String::new(),
        mode: SearchMode::Hybrid,
        filter: Filter::default(),
        grouping: Grouping::Chunks,
        limit: 10,
        exact: false,
        with_texts: true,
        view: SearchedView::Newest,
    };
    for shard in corpus.shards() {
        let found = shard.candidates(&query, deadline).await?;
        if found.dense.is_empty() || found.sparse.is_empty() {
            return Err("a shard finds nothing".into());
        }
    }
    Ok(())
}

/// Encoder that tokenises as a real one does, and whose device takes no time.
struct TimelessEncoder {
    identity: EncoderIdentity,
    tokenizer: Arc<EncoderTokenizer>,
    cutting: Tokenised,
    embedding: Arc<Tokenised>,
}

/// Number and time of calls of a tokenizer.
#[derive(Default)]
struct Tokenised {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Tokenised {
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
        done
    }

    fn time(&self) -> (f64, Duration) {
        let nanoseconds = self.nanoseconds.load(Ordering::Relaxed);
        (self.calls.load(Ordering::Relaxed) as f64, Duration::from_nanos(nanoseconds))
    }
}

impl TimelessEncoder {
    fn load(folder: &Path) -> Outcome<Self> {
        let file = folder.join("tokenizer.json");
        let bytes = std::fs::read(&file)
            .map_err(|error| format!("expected a model's folder in --model: {file:?}: {error}"))?;
        Ok(Self {
            identity: EncoderIdentity {
                model: "timeless".to_owned(),
                revision: "1".to_owned(),
                dimension: DIMENSION as u32,
                max_tokens: WINDOW,
            },
            tokenizer: Arc::new(EncoderTokenizer::try_new("tokenizer.json", &bytes)?),
            cutting: Tokenised::default(),
            embedding: Arc::default(),
        })
    }
}

#[async_trait]
impl Encoder for TimelessEncoder {
    fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    fn token_spans(&self, text: &str) -> Vec<Span> {
        self.cutting.timed(|| self.tokenizer.spans(text))
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        _kind: TextKind,
        _priority: Priority,
        _deadline: Instant,
    ) -> Result<Vec<Embedding>, clew_core::Error> {
        let (tokenizer, embedding) = (Arc::clone(&self.tokenizer), Arc::clone(&self.embedding));
        let encode = move || {
            let encoded: Vec<_> = embedding.timed(|| {
                texts.iter().map(|text| tokenizer.encode(text, WINDOW as usize)).collect()
            });
            let embed = |text: clew_tokenizer::EncodedText| Embedding {
                vector: unit_vector(text.ids.iter().map(|&id| u64::from(id)).sum()),
                tokens: text.ids.len() as u32,
                truncated: text.truncated,
            };
            encoded.into_iter().map(embed).collect()
        };
        tokio::task::spawn_blocking(encode)
            .await
            .map_err(|error| clew_core::Error::internal("tokenising panicked").with_source(error))
    }
}

/// Returns the vector `[DIMENSION]` of a seed. Its length is 1.
fn unit_vector(seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    let numbers: Vec<f32> = (0..DIMENSION).map(|_| random.share() as f32 - 0.5).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    numbers.iter().map(|number| number / length).collect()
}

/// Graph builders of a corpus without trees and graphs, which asks for nothing.
struct NoStructure;

impl GraphBuilders for NoStructure {
    fn on(&self, _account: &Account) -> Arc<dyn GraphBuilder> {
        Arc::new(Self)
    }

    fn rehearsal(&self) -> Arc<dyn GraphBuilder> {
        Arc::new(Self)
    }
}

#[async_trait]
impl GraphBuilder for NoStructure {
    async fn summarise(
        &self,
        _tasks: Vec<SummaryTask>,
        _deadline: Instant,
    ) -> Result<Vec<Summary>, clew_core::Error> {
        Ok(Vec::new())
    }

    async fn extract(
        &self,
        _tasks: Vec<ExtractionTask>,
        _deadline: Instant,
    ) -> Result<Vec<Extraction>, clew_core::Error> {
        Ok(Vec::new())
    }
}

/// Source of random numbers. The same seed gives the same numbers.
struct Random(u64);

impl Random {
    /// Returns a number of at least 0 and below 1.
    fn share(&mut self) -> f64 {
        // The constants of Knuth's MMIX.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `count`.
    fn below(&mut self, count: usize) -> usize {
        (self.share() * count as f64) as usize
    }
}

/// Words of a model's vocabulary, the commonest first, and endings that follow words.
struct Vocabulary {
    words: Vec<String>,
    endings: Vec<String>,
}

impl Vocabulary {
    fn read(model: &Path) -> Outcome<Self> {
        let tokenizer: Value =
            serde_json::from_slice(&std::fs::read(model.join("tokenizer.json"))?)?;
        let ids =
            tokenizer["model"]["vocab"].as_object().ok_or("expected a WordPiece vocabulary")?;
        let mut tokens: Vec<(u64, &str)> = ids
            .iter()
            .map(|(token, id)| (id.as_u64().unwrap_or(u64::MAX), token.as_str()))
            .collect();
        tokens.sort_unstable();
        let is_word = |text: &str| text.len() > 1 && text.bytes().all(|it| it.is_ascii_lowercase());
        let tokens = || tokens.iter().map(|(_, token)| *token);
        let words: Vec<String> = tokens().filter(|it| is_word(it)).map(str::to_owned).collect();
        let endings = tokens().filter_map(|token| token.strip_prefix("##"));
        let endings: Vec<String> = endings.filter(|it| is_word(it)).map(str::to_owned).collect();
        match words.is_empty() || endings.is_empty() {
            true => Err("expected a vocabulary with English words and endings".into()),
            false => Ok(Self { words, endings }),
        }
    }

    /// Returns documents of about `tokens` tokens in all.
    fn documents(&self, tokens: usize) -> Vec<String> {
        (0..tokens.div_ceil(DOCUMENT_TOKENS)).map(|number| self.document(number as u64)).collect()
    }

    /// Returns a text of paragraphs of five sentences. Words come by Zipf's law, and one of ten has
    /// an ending, so that it is two tokens.
    fn document(&self, number: u64) -> String {
        let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut text, mut tokens, mut sentences) = (String::new(), 0, 0);
        while tokens < DOCUMENT_TOKENS {
            let length = 8 + random.below(16);
            for place in 0..length {
                let rank = (self.words.len() as f64).powf(random.share()) as usize - 1;
                let begin = text.len();
                text.push_str(&self.words[rank]);
                if random.below(10) == 0 {
                    text.push_str(&self.endings[random.below(self.endings.len())]);
                    tokens += 1;
                }
                if place == 0 {
                    text[begin..=begin].make_ascii_uppercase();
                }
                if place + 1 < length {
                    text.push_str(if random.below(12) == 0 { ", " } else { " " });
                }
            }
            tokens += length + 1;
            sentences += 1;
            text.push_str(if sentences % 5 == 0 { ".\n\n" } else { ". " });
        }
        text
    }
}

/// Returns pieces of the files of a folder, of about `tokens` tokens in all.
fn pieces(folder: &Path, tokens: usize) -> Outcome<Vec<String>> {
    /// Bytes of a token of English, about.
    const TOKEN_BYTES: usize = 4;
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut pieces = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        let text = std::fs::read_to_string(file)?;
        let mut rest = text.trim();
        while !rest.is_empty() && pieces.len() * DOCUMENT_TOKENS < tokens {
            let end = rest.floor_char_boundary(DOCUMENT_TOKENS * TOKEN_BYTES);
            let (piece, others) = rest.split_at(end);
            pieces.push(piece.to_owned());
            rest = others.trim_start();
        }
    }
    match pieces.is_empty() {
        true => Err(format!("expected text files in {folder:?}").into()),
        false => Ok(pieces),
    }
}

/// Returns the processor time of this process.
fn processor_time() -> Outcome<Duration> {
    // Ticks of Linux, in which user and system time are the 14th and 15th field.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').ok_or("expected the name of the process")?.1;
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks = fields.map(str::parse::<u32>).sum::<Result<u32, std::num::ParseIntError>>()?;
    Ok(TICK * ticks)
}

/// Returns how often the work of each stage was done, and how long it took in all.
async fn stages(admin: &Admin) -> Outcome<BTreeMap<String, (f64, Duration)>> {
    let mut connection = TcpStream::connect(admin.address()).await?;
    connection.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let mut stages: BTreeMap<String, (f64, Duration)> = BTreeMap::new();
    for line in answer.lines() {
        let Some((metric, rest)) = line.split_once("{stage=\"") else { continue };
        let Some((stage, value)) = rest.split_once("\"} ") else { continue };
        let of_stage = stages.entry(stage.to_owned()).or_default();
        match metric {
            "clew_stage_duration_seconds_count" => of_stage.0 = value.parse()?,
            "clew_stage_duration_seconds_sum" => {
                of_stage.1 = Duration::from_secs_f64(value.parse()?);
            }
            _ => {}
        }
    }
    Ok(stages)
}
