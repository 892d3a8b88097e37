//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clew_auth::Scope;
use clew_chat::{KeyDesign, Smoothing};
use clew_client::{Client, Credentials};
use clew_cluster::Role;
use clew_core::{
    AttributeName, ChatSettings, Chunking, CorpusName, DocumentId, Error, Filter, History, Label,
    Layout, MemorySettings, Merging, Notes, ReadingStrategy, SearchMode, SnapshotName,
    StructureSettings, TenantName, TimeRange, TimeUse, Timestamp, Value,
};
use clew_generator::config::DeviceChoice;
use clew_proto::convert::chat::Inference;
use clew_telemetry::LogFormat;
use clew_tls::ClientTls;

/// Long-term memory for language-model applications.
///
/// Every command but `serve` speaks to a running server with --endpoint, or opens a data directory in
/// its own process. One process at a time works on a data directory.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub shared: Shared,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Shared {
    /// Server to speak to, such as http://127.0.0.1:7421.
    #[arg(long, global = true, env = "CLEW_ENDPOINT", value_name = "ADDRESS")]
    pub endpoint: Option<String>,
    /// API key to show the server. A key on the command line is seen by whoever lists this machine's processes:
    /// rather set the variable.
    #[arg(long, global = true, env = "CLEW_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Certificate (PEM) of the authority that certifies a server at an address with https:// [default: those that
    /// this system trusts].
    #[arg(long, global = true, env = "CLEW_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate (PEM) to show a server that asks for one.
    #[arg(long, global = true, env = "CLEW_CLIENT_CERTIFICATE", value_name = "FILE")]
    pub client_certificate: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    #[arg(long, global = true, env = "CLEW_CLIENT_KEY", value_name = "FILE")]
    pub client_key: Option<PathBuf>,
    /// Data directory, a folder or s3://bucket/prefix, to open in this process when there is no
    /// endpoint [default: .clew].
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "endpoint")]
    pub data_dir: Option<PathBuf>,
    /// Where snapshots of corpora lie, a folder or s3://bucket/prefix, for a data directory that is opened in
    /// this process.
    #[arg(long, global = true, value_name = "PLACE", conflicts_with = "endpoint")]
    pub snapshots: Option<String>,
    /// Configuration file (TOML); `clew serve --print-config` shows all keys.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the embedding model; by default the one `make setup` installed.
    #[arg(long, global = true, env = "CLEW_MODEL_DIR", value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Which log lines to show: a level, or directives such as `info,clew_retriever=debug`.
    #[arg(long, global = true, env = "CLEW_LOG", value_name = "FILTER", default_value = "warn")]
    pub log: String,
    /// Log lines as JSON objects.
    #[arg(long, global = true)]
    pub log_json: bool,
}

impl Shared {
    /// A client of the server at `endpoint`, whose calls may take `patience`.
    ///
    /// # Errors
    /// Those of [`Client::connect_as`].
    pub async fn connect(&self, endpoint: &str, patience: Duration) -> Result<Client, Error> {
        let identity = match (self.client_certificate.clone(), self.client_key.clone()) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => {
                let problem = "expected both --client-certificate and --client-key, or neither";
                return Err(Error::invalid("client_key", problem));
            }
        };
        let tls = ClientTls { ca: self.ca.clone(), identity };
        let credentials = Credentials { api_key: self.api_key.clone(), tls };
        Client::connect_as(&credentials, endpoint, patience).await
    }

    /// How log lines look.
    pub fn log_format(&self) -> LogFormat {
        if self.log_json { LogFormat::Json } else { LogFormat::Text }
    }
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Args)]
pub struct Print {
    /// Print one JSON document on standard output; everything else goes to standard error.
    #[arg(long)]
    pub json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server, with all roles in this process.
    Serve(Serve),
    /// Make, list, delete, copy and restore corpora.
    Corpus(Corpus),
    /// Take documents into a corpus; returns when they can be found.
    Ingest(Ingest),
    /// Find evidence.
    Search(Search),
    /// Answer a question with citations.
    Ask(Ask),
    /// List the ways of answering, with what they need and cost.
    Strategies(Print),
    /// Show how a question was answered, out of what `clew ask --trace` wrote.
    Trace(Trace),
    /// Show the tree of summaries of a corpus.
    Tree(Tree),
    /// Show the compressed memories of a corpus, or what they would cost.
    Memory(Memory),
    /// Ask the graph of a corpus: entities, relations, paths, ranks.
    Graph(Graph),
    /// Show what a graph builder reads out of texts: summary, entities, relations.
    Outline(Outline),
    /// Remember conversations: append turns, recall, ask, list, forget.
    Chat(Chat),
    /// Have a language model reply, as it comes.
    Generate(Generate),
    /// Train the memory of a language model (--model), on this machine; goes on where it was stopped.
    TrainMemory(TrainMemory),
    /// Forget documents, down to the bytes on disk, and print the receipt.
    Forget(Forget),
    /// Show what a corpus holds and what waits or failed.
    Status(Status),
    /// Check that what is stored is what Clew promises; fails if something is not.
    Check(Check),
    /// Make an API key, and what is stored of it.
    Key(Key),
    /// Look at what a node needs on this machine, or at a server (--endpoint), and say what to do about what
    /// is missing; fails if something does not work.
    Doctor(Doctor),
    /// Show and steer a cluster, through any of its gateways (--endpoint).
    Cluster(Cluster),
    /// Measure quality on public data sets.
    Eval(Eval),
    /// Measure speed on this machine.
    Bench(Bench),
}

impl Command {
    /// Whether results are printed as JSON.
    pub fn prints_json(&self) -> bool {
        match self {
            Self::Serve(_) => false,
            Self::Corpus(arguments) => arguments.json,
            Self::Ingest(arguments) => arguments.print.json,
            Self::Search(arguments) => arguments.print.json,
            Self::Ask(arguments) => arguments.print.json,
            Self::Strategies(print) => print.json,
            Self::Chat(arguments) => arguments.json,
            Self::Trace(_) => false,
            Self::Tree(arguments) => arguments.print.json,
            Self::Memory(arguments) => arguments.json,
            Self::Graph(arguments) => arguments.json,
            Self::Outline(arguments) => arguments.print.json,
            Self::Generate(arguments) => arguments.print.json,
            Self::TrainMemory(arguments) => arguments.print.json,
            Self::Forget(arguments) => arguments.print.json,
            Self::Status(arguments) => arguments.print.json,
            Self::Check(arguments) => arguments.print.json,
            Self::Key(arguments) => arguments.print.json,
            Self::Doctor(arguments) => arguments.print.json,
            Self::Cluster(arguments) => arguments.json,
            Self::Eval(arguments) => match &arguments.action {
                EvalAction::Retrieval(_) => false,
                EvalAction::Answers(arguments) => arguments.print.json,
                EvalAction::Compare(arguments) => arguments.print.json,
            },
            Self::Bench(arguments) => arguments.json,
        }
    }
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    pub print: Print,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address to listen on [default: 127.0.0.1:7421]; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Roles of this node in a cluster, with commas between them: gateway, retriever, encoder,
    /// graph-builder, generator. The others are reached through the configured cluster (`cluster.redis` or
    /// `cluster.members`). Without it all roles run here and no cluster is needed.
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    pub roles: Vec<Role>,
    /// Print the effective configuration and end.
    #[arg(long)]
    pub print_config: bool,
}

/// Arguments of `corpus`.
#[derive(Debug, Args)]
pub struct Corpus {
    /// Print one JSON document on standard output; everything else goes to standard error.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub action: CorpusAction,
}

/// What to do with corpora.
#[derive(Debug, Subcommand)]
pub enum CorpusAction {
    /// Make a corpus.
    Create {
        /// Its name: 1 to 63 of a-z, 0-9, `-`, `_`.
        name: CorpusName,
        /// Number of shards, 1 to 256; fixed from then on.
        #[arg(long, default_value_t = 1)]
        shards: u32,
        #[command(flatten)]
        cutting: Cutting,
        #[command(flatten)]
        structure: Structure,
        /// Forget documents so many days after what they tell of happened, or, where they have no event time,
        /// after they were accepted [default: never].
        #[arg(long, value_name = "DAYS")]
        retain_days: Option<u32>,
        #[command(flatten)]
        memory: CompressedMemory,
        #[command(flatten)]
        chat: Box<ChatDefaults>,
    },
    /// List the corpora.
    List,
    /// Delete a corpus with everything derived from its documents.
    Delete {
        /// Its name.
        name: CorpusName,
    },
    /// Copy a corpus to a snapshot, in the place that the server has for them, while it goes on being used.
    /// Run it again to go on where it was interrupted.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Snapshot {
        /// The corpus.
        #[arg(required = true)]
        name: Option<CorpusName>,
        /// Name of the snapshot: 1 to 63 of a-z, 0-9, `-`, `_`.
        #[arg(required = true)]
        snapshot: Option<SnapshotName>,
        #[command(subcommand)]
        action: Option<SnapshotAction>,
    },
    /// Write all that a corpus holds into a folder, a file for each table: documents, versions, chunks with
    /// their vectors, nodes, entities, relations, memories. `documents.jsonl` can be ingested again.
    Export {
        /// The corpus.
        name: CorpusName,
        /// jsonl or parquet.
        #[arg(long)]
        format: clew_formats::ExportFormat,
        /// Folder to write to: empty, or none yet.
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// List the whole snapshots of a corpus, also of one that is gone.
    Snapshots {
        /// The corpus.
        name: CorpusName,
    },
    /// Make a corpus out of a snapshot; nobody finds it before it is whole. Run it again to go on where it
    /// was interrupted.
    Restore {
        /// The corpus, by the name it had.
        name: CorpusName,
        /// The snapshot.
        snapshot: SnapshotName,
        /// File with ids of documents that are not to come back, one a line: those forgotten since.
        #[arg(long, value_name = "FILE")]
        leave_out: Option<PathBuf>,
    },
    /// Move a corpus to another embedding model, step by step, while it goes on being used.
    Reembed {
        #[command(subcommand)]
        action: ReembedAction,
    },
}

/// What else to do with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotAction {
    /// Delete snapshots of a corpus, which may be gone: those that are named, or the old ones. What holds forgotten
    /// documents still is gone with them.
    Delete(DeleteSnapshots),
}

/// Which snapshots to delete.
#[derive(Debug, Args)]
pub struct DeleteSnapshots {
    /// The corpus.
    pub name: CorpusName,
    /// The snapshots; one may be named that was begun and not finished.
    // Not by the name of the option that says where snapshots lie.
    #[arg(
        id = "named",
        value_name = "SNAPSHOTS",
        required_unless_present = "older_than",
        conflicts_with = "older_than"
    )]
    pub snapshots: Vec<SnapshotName>,
    /// Delete those that were finished longer ago than this, such as 30d: a number of s, m, h, d or w.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Of these, keep so many of the corpus' newest snapshots, however old.
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with = "named")]
    pub keep: u32,
    /// Tell only what would be deleted, and delete nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// The steps of a move to another embedding model. Each may be run again.
#[derive(Debug, Subcommand)]
pub enum ReembedAction {
    /// Begin to make vectors of another model, besides those that are searched.
    Start {
        /// The corpus.
        name: CorpusName,
        /// Name of the model, which the encoders must offer [default: the one that they offer besides that of the
        /// corpus].
        #[arg(long, value_name = "MODEL")]
        to: Option<String>,
        /// Wait until all documents have vectors of it.
        #[arg(long)]
        wait: bool,
    },
    /// Tell how far it is.
    Status {
        /// The corpus.
        name: CorpusName,
        /// Wait until all documents have the vectors that are wanted.
        #[arg(long)]
        wait: bool,
    },
    /// Search the vectors of the new model, once all documents have them. Those of the model before are kept, also of
    /// new documents.
    CutOver {
        /// The corpus.
        name: CorpusName,
    },
    /// Search the vectors of the model before again.
    Back {
        /// The corpus.
        name: CorpusName,
    },
    /// Remove the vectors of the model before. There is no way back then but another move.
    Confirm {
        /// The corpus.
        name: CorpusName,
    },
    /// Remove the vectors of the new model, before it was cut over.
    Abandon {
        /// The corpus.
        name: CorpusName,
    },
}

/// How compressed memories are formed.
#[derive(Clone, Copy, Debug, Args)]
pub struct CompressedMemory {
    /// Form compressed memories with the encoders' memory model, which keeps one token for so many, 1 to 128
    /// [default: none are formed].
    #[arg(long, value_name = "R")]
    pub memory_ratio: Option<u32>,
    /// About how many tokens one memory covers, 256 to 4,000,000; more documents make another.
    #[arg(long, value_name = "TOKENS", default_value_t = 100_000, requires = "memory_ratio")]
    pub memory_segment_tokens: u32,
}

impl CompressedMemory {
    /// The settings; `None`: no memories.
    pub fn settings(self) -> Option<MemorySettings> {
        let segment_tokens = self.memory_segment_tokens;
        self.memory_ratio.map(|ratio| MemorySettings { ratio, segment_tokens })
    }
}

/// How conversations of a corpus are kept, and recalled and read where a question does not say otherwise.
#[derive(Clone, Debug, Args)]
pub struct ChatDefaults {
    /// By what turns of conversations are found, each key by itself: names with commas between them, such as
    /// `value,fact,date+fact+value`, made of value, user, date, fact, phrase, summary and event; one has to hold the value.
    /// A question chooses among them [default: one key of date, facts and value, and each fact besides].
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub chat_keys: Vec<String>,
    /// How what several keys find comes together [default: best].
    #[arg(long, value_enum)]
    pub chat_merging: Option<ChatMerging>,
    /// What is recalled as one [default: round].
    #[arg(long, value_enum)]
    pub chat_value: Option<ChatValue>,
    /// What is made of the time that a question asks about [default: boost].
    #[arg(long, value_enum)]
    pub chat_time: Option<ChatTime>,
    /// What is made of statements that later ones supersede [default: latest].
    #[arg(long, value_enum)]
    pub chat_history: Option<ChatHistory>,
    /// Whether a language model takes notes before it answers [default: chain].
    #[arg(long, value_enum)]
    pub chat_notes: Option<ChatNotes>,
    /// How passages are shown to a language model [default: json].
    #[arg(long, value_enum)]
    pub chat_layout: Option<ChatLayout>,
}

impl ChatDefaults {
    /// The settings; `None`: the defaults.
    pub fn settings(self) -> Option<ChatSettings> {
        let settings = ChatSettings {
            keys: self.chat_keys,
            merging: self.chat_merging.map(Into::into).unwrap_or_default(),
            value: self.chat_value.map(Into::into).unwrap_or_default(),
            time: self.chat_time.map(Into::into).unwrap_or_default(),
            history: self.chat_history.map(Into::into).unwrap_or_default(),
            reading: ReadingStrategy {
                notes: self.chat_notes.map(Into::into).unwrap_or_default(),
                layout: self.chat_layout.map(Into::into).unwrap_or_default(),
            },
        };
        (settings != ChatSettings::default()).then_some(settings)
    }
}

/// How documents are cut.
#[derive(Clone, Copy, Debug, Args)]
pub struct Cutting {
    /// How documents are cut; by default in sections, as suits the encoder.
    #[arg(long, value_enum, requires = "max_tokens")]
    pub chunking: Option<ChunkingWord>,
    /// Most tokens of a chunk, up to the encoder's window.
    #[arg(long)]
    pub max_tokens: Option<u32>,
    /// Tokens that neighbours share; only with `--chunking tokens`.
    #[arg(long, default_value_t = 0)]
    pub overlap_tokens: u32,
}

impl Cutting {
    /// What was asked for; `None` for what suits the encoder.
    pub fn chunking(self) -> Option<Chunking> {
        let Self { chunking, max_tokens, overlap_tokens } = self;
        max_tokens.map(|max_tokens| match chunking.unwrap_or(ChunkingWord::Sections) {
            ChunkingWord::Tokens => Chunking::Tokens { max_tokens, overlap_tokens },
            ChunkingWord::Sentences => Chunking::Sentences { max_tokens },
            ChunkingWord::Sections => Chunking::Sections { max_tokens },
        })
    }
}

/// How trees of summaries and the graph are made.
#[derive(Clone, Copy, Debug, Args)]
pub struct Structure {
    /// Make neither trees nor a graph: documents take less work, and the strategies that walk them cannot
    /// be used.
    #[arg(long)]
    pub no_structure: bool,
    /// Most tokens of a segment, the leaf of a tree [default: 600].
    #[arg(long, conflicts_with = "no_structure")]
    pub segment_tokens: Option<u32>,
    /// Most children of a node of a tree [default: 8].
    #[arg(long, conflicts_with = "no_structure")]
    pub max_children: Option<u32>,
    /// Most bytes of a summary [default: 800].
    #[arg(long, conflicts_with = "no_structure")]
    pub summary_bytes: Option<u32>,
}

impl Structure {
    /// What was asked for; `None` for neither trees nor a graph.
    pub fn settings(self) -> Option<StructureSettings> {
        let default = StructureSettings::default();
        (!self.no_structure).then(|| StructureSettings {
            segment_tokens: self.segment_tokens.unwrap_or(default.segment_tokens),
            max_children: self.max_children.unwrap_or(default.max_children),
            summary_bytes: self.summary_bytes.unwrap_or(default.summary_bytes),
        })
    }
}

/// The ways of cutting documents.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ChunkingWord {
    /// Windows of tokens with overlap.
    Tokens,
    /// Whole sentences.
    Sentences,
    /// Paragraphs and Markdown sections.
    Sections,
}

/// Arguments of `ingest`.
#[derive(Debug, Args)]
pub struct Ingest {
    #[command(flatten)]
    pub print: Print,
    /// Corpus; made with default settings if it does not exist.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Files, folders, globs, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// Folder from which files are named: the id of a file's document is its path below it. What lies elsewhere is
    /// refused [default: the path as it is given].
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    /// Refuse a document if one of its id is there with other content, instead of replacing that one.
    #[arg(long)]
    pub no_replace: bool,
    /// Format of standard input.
    #[arg(long, default_value = "jsonl", value_name = "FORMAT")]
    pub stdin_format: clew_formats::Format,
    /// Column (or JSON field) that holds the text.
    #[arg(long, default_value = "text", value_name = "NAME")]
    pub text_column: String,
    /// Column (or JSON field) that holds the id.
    #[arg(long, default_value = "id", value_name = "NAME")]
    pub id_column: String,
    /// Access label that every document gets besides those of its own (column or field `labels`); may be repeated.
    /// Only who holds all labels of a document sees it.
    #[arg(long = "label", value_name = "LABEL")]
    pub labels: Vec<Label>,
    /// Streams that send documents at the same time; one document's versions keep their order.
    #[arg(long, default_value_t = 4, value_name = "COUNT",
        value_parser = clap::value_parser!(u8).range(1..=64))]
    pub streams: u8,
    /// Write what became of each document to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Tell what it would take, and take nothing in.
    #[arg(long)]
    pub estimate: bool,
    /// Return once everything is accepted, without waiting until it can be found.
    #[arg(long, conflicts_with = "estimate")]
    pub no_wait: bool,
}

/// Which documents may be found.
#[derive(Clone, Debug, Default, Args)]
pub struct Filters {
    /// Only this document; may be repeated.
    #[arg(long = "document", value_name = "ID")]
    pub documents: Vec<DocumentId>,
    /// Only documents with this attribute; may be repeated.
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = attribute)]
    pub attributes: Vec<(AttributeName, String)>,
    /// Only documents of events at or after this time (RFC 3339 or YYYY-MM-DD).
    #[arg(long, value_name = "TIME")]
    pub from: Option<Timestamp>,
    /// Only documents of events before this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Timestamp>,
}

impl From<Filters> for Filter {
    fn from(filters: Filters) -> Self {
        Self {
            documents: filters.documents,
            attributes: filters.attributes,
            event_time: TimeRange { from: filters.from, until: filters.until },
        }
    }
}

/// Which turns.
#[derive(Clone, Debug, Args)]
pub struct TurnFilters {
    /// Only turns with this attribute, of which `chat.role`, `chat.speaker` and `chat.session` are given; may be
    /// repeated.
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = attribute)]
    pub attributes: Vec<(AttributeName, String)>,
    /// Only what was said at or after this time (RFC 3339 or YYYY-MM-DD).
    #[arg(long, value_name = "TIME")]
    pub from: Option<Timestamp>,
    /// Only what was said before this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Timestamp>,
}

impl From<TurnFilters> for Filter {
    fn from(TurnFilters { attributes, from, until }: TurnFilters) -> Self {
        Self { attributes, event_time: TimeRange { from, until }, ..Self::default() }
    }
}

fn attribute(text: &str) -> Result<(AttributeName, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let name = AttributeName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    Ok((name, value.to_owned()))
}

fn age(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a number of s, m, h, d or w such as 30d, got `{text}`");
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(expected()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| expected())?;
    Ok(Duration::from_secs(u64::from(count) * seconds))
}

/// Arguments of `search`.
#[derive(Debug, Args)]
pub struct Search {
    #[command(flatten)]
    pub print: Print,
    /// Corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// What to look for.
    pub query: String,
    /// Most items, 1 to 1000.
    #[arg(short, default_value_t = 10)]
    pub k: usize,
    /// How passages are matched.
    #[arg(long, value_enum, default_value_t = Mode::Hybrid)]
    pub mode: Mode,
    /// Show each document once, by its best passage.
    #[arg(long)]
    pub by_document: bool,
    /// Compare with every vector instead of asking the approximate index.
    #[arg(long)]
    pub exact: bool,
    /// Have the configured reranker read so many of the best candidates with the query, `-k` to 200, and put them in
    /// order.
    #[arg(long, value_name = "CANDIDATES")]
    pub rerank: Option<usize>,
    #[command(flatten)]
    pub filters: Filters,
}

/// The search modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Embeddings.
    Dense,
    /// Words (BM25).
    Sparse,
    /// Both, fused.
    Hybrid,
}

impl From<Mode> for SearchMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Dense => Self::Dense,
            Mode::Sparse => Self::Sparse,
            Mode::Hybrid => Self::Hybrid,
        }
    }
}

/// Arguments of `ask`.
#[derive(Debug, Args)]
pub struct Ask {
    #[command(flatten)]
    pub print: Print,
    /// Corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// The question, or what to summarise.
    pub question: String,
    /// What is wanted: an answer or a summary.
    #[arg(long, value_enum, default_value_t = Task::Answer)]
    pub task: Task,
    /// When the question is asked, such as 2024-05-20T10:00:00Z, where that matters for what it says.
    #[arg(long, value_name = "TIME")]
    pub asked_at: Option<Timestamp>,
    /// Way of answering; `clew strategies` lists them.
    #[arg(long, default_value = "direct")]
    pub strategy: String,
    /// Write how it was answered to this file, for `clew trace show`.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Most passages read, 1 to 1000.
    #[arg(short)]
    pub k: Option<u32>,
    /// Most tokens of the passages that are read.
    #[arg(long, value_name = "TOKENS")]
    pub evidence_tokens: Option<u32>,
    /// What compressed memories do for an answer, where the strategy asks them (`memorag`): draft what to search for
    /// (`clues`), tell the reader besides what the answer may be (`hint`), or answer themselves (`answer`).
    #[arg(long, value_enum, default_value_t = MemoryUse::Clues)]
    pub memory_use: MemoryUse,
    /// Have the configured reranker read so many of the best candidates of each search, at most 200, and put them in
    /// order.
    #[arg(long, value_name = "CANDIDATES")]
    pub rerank: Option<u32>,
    #[command(flatten)]
    pub filters: Filters,
}

/// What compressed memories do for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryUse {
    /// They draft what to search for.
    Clues,
    /// They also say what the answer may be.
    Hint,
    /// They answer themselves, as far as what is cited says so.
    Answer,
}

impl From<MemoryUse> for clew_core::MemoryUse {
    fn from(memory_use: MemoryUse) -> Self {
        match memory_use {
            MemoryUse::Clues => Self::Clues,
            MemoryUse::Hint => Self::Hint,
            MemoryUse::Answer => Self::Answer,
        }
    }
}

/// What is wanted of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Task {
    /// The answer to a question.
    Answer,
    /// A summary.
    Summarise,
}

impl From<Task> for clew_core::Task {
    fn from(task: Task) -> Self {
        match task {
            Task::Answer => Self::Answer,
            Task::Summarise => Self::Summarise,
        }
    }
}

/// Arguments of `chat`.
#[derive(Debug, Args)]
pub struct Chat {
    /// Print one JSON document on standard output; everything else goes to standard error.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub action: ChatAction,
}

/// Whose memory of conversations.
#[derive(Debug, Args)]
pub struct OfUser {
    /// Corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Whose memory.
    #[arg(long)]
    pub user: String,
}

/// What to do with conversations.
#[derive(Debug, Subcommand)]
pub enum ChatAction {
    /// Append turns; those that are there already change nothing.
    Append {
        #[command(flatten)]
        of: OfUser,
        /// Session of turns that name none.
        #[arg(long)]
        session: Option<String>,
        /// Who finds what speakers state of themselves, by which turns are found.
        #[arg(long, value_enum, default_value_t = ChatInference::Rules)]
        infer: ChatInference,
        /// Access label that every turn gets besides those of its own; may be repeated. Only who holds all labels of
        /// a turn recalls it.
        #[arg(long = "label", value_name = "LABEL")]
        labels: Vec<Label>,
        /// JSON Lines with `text`, and as known `session`, `number` (from 0; by default the place in the
        /// file), `role` (user or assistant), `speaker`, `time` (RFC 3339), `attributes` (an object of texts),
        /// `labels` (an array of texts); `-`: standard input.
        file: PathBuf,
    },
    /// What a user's conversations hold of a question, in the order of time.
    Recall {
        #[command(flatten)]
        of: OfUser,
        /// The question.
        question: String,
        /// When it is asked, such as 2024-05-20T10:00:00Z: what "last week" is told by.
        #[arg(long, value_name = "TIME")]
        asked_at: Option<Timestamp>,
        /// Most items, 1 to 100.
        #[arg(short)]
        k: Option<u32>,
        #[command(flatten)]
        recalling: ChatRecalling,
        /// Who infers the time that the question asks about.
        #[arg(long, value_enum, default_value_t = ChatInference::Rules)]
        infer: ChatInference,
        #[command(flatten)]
        filters: TurnFilters,
    },
    /// Answer a question out of a user's conversations: `ask` with the strategy `chat`.
    Ask {
        #[command(flatten)]
        of: OfUser,
        /// The question.
        question: String,
        /// When it is asked.
        #[arg(long, value_name = "TIME")]
        asked_at: Option<Timestamp>,
        /// Most rounds read.
        #[arg(short)]
        k: Option<u32>,
        #[command(flatten)]
        recalling: ChatRecalling,
        /// Who infers the time that the question asks about.
        #[arg(long, value_enum, default_value_t = ChatInference::Rules)]
        infer: ChatInference,
        /// Whether a language model takes notes before it answers [default: as the corpus has it, else chain].
        #[arg(long, value_enum)]
        notes: Option<ChatNotes>,
        /// How passages are shown to a language model [default: as the corpus has it, else json].
        #[arg(long, value_enum)]
        layout: Option<ChatLayout>,
        /// Write how it was answered to this file, for `clew trace show`.
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        #[command(flatten)]
        filters: TurnFilters,
    },
    /// List turns as `append` takes them: all that is kept of a user.
    List {
        #[command(flatten)]
        of: OfUser,
        /// Only this session.
        #[arg(long)]
        session: Option<String>,
        #[command(flatten)]
        filters: TurnFilters,
    },
    /// Forget turns, down to the bytes on disk, and print the receipt.
    Forget {
        #[command(flatten)]
        of: OfUser,
        /// Only this session; without it all of the user.
        #[arg(long)]
        session: Option<String>,
        /// Only this turn of the session; may be repeated.
        #[arg(long = "number", value_name = "N", requires = "session")]
        numbers: Vec<u32>,
        /// Only the best K that a search for these words finds; look at the preview first, since a search
        /// finds something for any words.
        #[arg(long, value_name = "WORDS", requires = "k", conflicts_with = "numbers")]
        about: Option<String>,
        /// With --about: most turns, 1 to 100.
        #[arg(short, requires = "about")]
        k: Option<u32>,
        #[command(flatten)]
        filters: TurnFilters,
        /// Tell only what would be forgotten.
        #[arg(long)]
        preview: bool,
    },
}

/// How conversations are recalled for a question.
#[derive(Clone, Debug, Args)]
pub struct ChatRecalling {
    /// By which of the corpus' keys turns are found, with commas between them [default: all].
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    pub keys: Vec<String>,
    /// How what several keys find comes together [default: as the corpus has it, else best].
    #[arg(long, value_enum)]
    pub merging: Option<ChatMerging>,
    /// What is recalled as one [default: as the corpus has it, else round].
    #[arg(long, value_enum)]
    pub value: Option<ChatValue>,
    /// What is made of the time that the question asks about [default: as the corpus has it, else boost].
    #[arg(long, value_enum)]
    pub time: Option<ChatTime>,
    /// What is made of statements that later ones supersede [default: as the corpus has it, else latest].
    #[arg(long, value_enum)]
    pub history: Option<ChatHistory>,
}

/// How what several keys find comes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChatMerging {
    /// A turn is as good as the best of its keys.
    Best,
    /// Each key ranks turns by itself, and the rankings are fused.
    Rank,
}

impl From<ChatMerging> for Merging {
    fn from(merging: ChatMerging) -> Self {
        match merging {
            ChatMerging::Best => Self::Best,
            ChatMerging::Rank => Self::Rank,
        }
    }
}

/// Whether a language model takes notes before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChatNotes {
    /// It notes what each passage says, and answers out of the notes.
    Chain,
    /// It answers at once.
    Direct,
}

impl From<ChatNotes> for Notes {
    fn from(notes: ChatNotes) -> Self {
        match notes {
            ChatNotes::Chain => Self::Chain,
            ChatNotes::Direct => Self::Direct,
        }
    }
}

/// How passages are shown to a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChatLayout {
    /// As objects of JSON.
    Json,
    /// As texts under their numbers and days.
    Text,
}

impl From<ChatLayout> for Layout {
    fn from(layout: ChatLayout) -> Self {
        match layout {
            ChatLayout::Json => Self::Json,
            ChatLayout::Text => Self::Text,
        }
    }
}

impl From<ChatValue> for Value {
    fn from(value: ChatValue) -> Self {
        match value {
            ChatValue::Turn => Self::Turn,
            ChatValue::Round => Self::Round,
            ChatValue::Session => Self::Session,
            ChatValue::Facts => Self::Facts,
            ChatValue::Summary => Self::Summary,
        }
    }
}

impl From<ChatHistory> for History {
    fn from(history: ChatHistory) -> Self {
        match history {
            ChatHistory::Latest => Self::Latest,
            ChatHistory::All => Self::All,
        }
    }
}

/// What is recalled as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChatValue {
    /// A turn.
    Turn,
    /// What a user said with the replies.
    Round,
    /// A session.
    Session,
    /// What is stated in a round.
    Facts,
    /// The best sentences of a session.
    Summary,
}

/// What is made of the time that a question asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChatTime {
    /// What was said then comes first.
    Boost,
    /// Only what was said then is found.
    Filter,
    /// Nothing.
    Ignore,
}

impl From<ChatTime> for TimeUse {
    fn from(time: ChatTime) -> Self {
        match time {
            ChatTime::Boost => Self::Boost,
            ChatTime::Filter => Self::Filter,
            ChatTime::Ignore => Self::Ignore,
        }
    }
}

/// What is made of statements that later ones supersede.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChatHistory {
    /// The latest comes first.
    Latest,
    /// As well as they fit the question.
    All,
}

/// Who understands what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChatInference {
    /// Rules for English.
    Rules,
    /// The configured language model, where there is one.
    Model,
}

impl From<ChatInference> for Inference {
    fn from(inference: ChatInference) -> Self {
        match inference {
            ChatInference::Rules => Self::Rules,
            ChatInference::Model => Self::Model,
        }
    }
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub struct Trace {
    #[command(subcommand)]
    pub action: TraceAction,
}

/// What to do with traces.
#[derive(Debug, Subcommand)]
pub enum TraceAction {
    /// Show a trace as a tree on the terminal, or as a picture.
    Show {
        /// What `clew ask --trace` wrote; `-`: standard input.
        file: PathBuf,
        /// Draw it as SVG into this file instead (`-`: standard output).
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
}

/// Arguments of `tree`.
#[derive(Debug, Args)]
pub struct Tree {
    #[command(flatten)]
    pub print: Print,
    /// Corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Levels that are shown from the top.
    #[arg(long, default_value_t = 3)]
    pub depth: u32,
    /// Most nodes shown.
    #[arg(long, default_value_t = 200)]
    pub most: usize,
}

/// Arguments of `memory`.
#[derive(Debug, Args)]
pub struct Memory {
    /// Print one JSON document on standard output; everything else goes to standard error.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub action: MemoryAction,
}

/// What to ask of compressed memories.
#[derive(Debug, Subcommand)]
pub enum MemoryAction {
    /// List the memories of a corpus, and how many of its documents they cover.
    List {
        /// Corpus.
        #[arg(long)]
        corpus: CorpusName,
        /// Wait so many seconds at most until all documents are covered.
        #[arg(long, value_name = "SECONDS")]
        wait_secs: Option<u64>,
    },
    /// What memories of a corpus take: bytes, the least time, and whether they fit into a device.
    Estimate(Estimate),
}

/// Arguments of `memory estimate`.
#[derive(Debug, Args)]
pub struct Estimate {
    /// Folder of the memory model; its `config.json` is enough.
    #[arg(long = "memory-model", value_name = "DIR")]
    pub folder: PathBuf,
    /// Tokens of the texts.
    #[arg(long, required_unless_present = "corpus", conflicts_with = "corpus")]
    pub tokens: Option<u64>,
    /// Instead of --tokens: the texts of this corpus, of about four bytes a token.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
    /// Tokens for each one that is kept; 0 for no compression.
    #[arg(long, default_value_t = 4)]
    pub ratio: u64,
    /// Tokens of one memory at most [default: one memory of all].
    #[arg(long)]
    pub segment_tokens: Option<u64>,
    /// What the device computes, in 10^12 operations a second; by default an H200 in bfloat16, as measured.
    #[arg(long, default_value_t = 790.0)]
    pub teraflops: f64,
    /// Memory of the device in GiB.
    #[arg(long, default_value_t = 139.0)]
    pub device_gib: f64,
}

/// Arguments of `graph`.
#[derive(Debug, Args)]
pub struct Graph {
    /// Print one JSON document on standard output; everything else goes to standard error.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub action: GraphAction,
}

/// What to ask of a graph.
#[derive(Debug, Subcommand)]
pub enum GraphAction {
    /// The entities that a text names, and what is around them.
    Around {
        #[command(flatten)]
        of: GraphSource,
        /// A question, or the name of an entity.
        text: String,
        #[command(flatten)]
        extent: Extent,
        /// Draw it as SVG into this file instead (`-`: standard output).
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Ways between two entities, shortest first.
    Paths {
        #[command(flatten)]
        of: GraphSource,
        /// Name of the entity to begin at.
        from: String,
        /// Name of the entity to arrive at.
        to: String,
        /// Most edges of a path, up to 8.
        #[arg(long, default_value_t = 4)]
        hops: u32,
        /// Most paths.
        #[arg(short, default_value_t = 10)]
        k: u32,
    },
    /// Entities and segments by personalised PageRank from the entities that a text names.
    Rank {
        #[command(flatten)]
        of: GraphSource,
        /// A question, or the name of an entity.
        text: String,
        /// Most of each.
        #[arg(short, default_value_t = 10)]
        k: u32,
    },
    /// Write the part of the graph around a text, or of some documents, to a file.
    Export {
        #[command(flatten)]
        of: GraphSource,
        /// A question, or the name of an entity.
        text: String,
        #[command(flatten)]
        extent: Extent,
        /// How it is written.
        #[arg(long, value_enum, default_value = "graphml")]
        format: GraphFormat,
    },
}

/// Which graph.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct GraphSource {
    /// Corpus.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
    /// File of a graph that was made elsewhere: GraphML with the fields of LightRAG, or lines of JSON with
    /// `idx`, `title`, `entities` and `triples`, as HippoRAG keeps them. `-`: standard input.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// How much of a graph.
#[derive(Clone, Copy, Debug, Args)]
pub struct Extent {
    /// Edges beyond what is named, up to 8.
    #[arg(long, default_value_t = 1)]
    pub hops: u32,
    /// Most entities.
    #[arg(long, default_value_t = 40)]
    pub most: u32,
}

/// How a graph is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum GraphFormat {
    /// GraphML, with the fields that LightRAG writes.
    Graphml,
    /// JSON.
    Json,
}

/// Arguments of `outline`.
#[derive(Debug, Args)]
pub struct Outline {
    #[command(flatten)]
    pub print: Print,
    /// Files, folders, globs, or `-` for standard input.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// Format of standard input.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub stdin_format: clew_formats::Format,
    /// Most bytes of the summary, 1 to 16384.
    #[arg(long, default_value_t = 600, value_name = "BYTES")]
    pub summary_bytes: usize,
    /// Question in view of which the text is read; what it asks about counts as an entity.
    #[arg(long, default_value = "")]
    pub question: String,
    /// Entities, and relations, that are shown of each text; JSON has all.
    #[arg(short, default_value_t = 12)]
    pub k: usize,
}

/// Arguments of `generate`. --model names the folder of the language model here.
#[derive(Debug, Args)]
pub struct Generate {
    #[command(flatten)]
    pub print: Print,
    /// What is asked; `-` reads it from standard input.
    pub prompt: String,
    /// What the model is told before.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Folder of the tokenizer, if it is not the model's.
    #[arg(long, value_name = "DIR")]
    pub tokenizer: Option<PathBuf>,
    /// Where to compute: `cpu`, or `cuda:0` in builds for GPUs.
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Keep the model in bfloat16 instead of 32-bit floats.
    #[arg(long)]
    pub bf16: bool,
    /// Most tokens of the reply.
    #[arg(long, default_value_t = 256, value_name = "COUNT")]
    pub max_tokens: u32,
    /// 0 takes the likeliest token; more lets less likely ones through. At most 2.
    #[arg(long, default_value_t = 0.0)]
    pub temperature: f32,
    /// Only the likeliest tokens that together have this probability.
    #[arg(long, default_value_t = 1.0)]
    pub top_p: f32,
    /// Only so many of the likeliest tokens; 0: all.
    #[arg(long, default_value_t = 0)]
    pub top_k: u32,
    /// Divides the likelihood of what was said before.
    #[arg(long, default_value_t = 1.0)]
    pub repetition_penalty: f32,
    /// Makes chance repeatable.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Text that ends the reply; may be given up to four times.
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// One of the replies to choose from; may be given again.
    #[arg(long, value_name = "TEXT", conflicts_with = "schema")]
    pub choice: Vec<String>,
    /// File with a JSON schema that the reply has to fit.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
}

/// Arguments of `train-memory`. It takes the folder of a memory model or of a Qwen2 or Mistral, with its tokenizer, in
/// --model.
#[derive(Clone, Debug, Args)]
pub struct TrainMemory {
    #[command(flatten)]
    pub print: Print,
    /// Texts to learn from, which are cut, or files `.jsonl` of questions with `context`, `question` and `clues`, of
    /// which the clues are learnt; may be repeated.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub data: Vec<PathBuf>,
    /// Folder for checkpoints, each a whole model folder, and for the loss curve.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Steps in all.
    #[arg(long, value_name = "COUNT")]
    pub steps: usize,
    /// Highest learning rate.
    #[arg(long, default_value_t = 5e-5)]
    pub rate: f64,
    /// Raw tokens for each memory token, with commas between them; one is drawn for each window [default: those of
    /// the model, or 2,4,8].
    #[arg(long, value_delimiter = ',')]
    pub ratios: Vec<usize>,
    /// Tokens of a window [default: as the model has it, or 2048].
    #[arg(long, value_name = "TOKENS")]
    pub window: Option<usize>,
    /// Projections that memory tokens have of their own, some of qkvo [default: as the model has it, or qkv].
    #[arg(long, value_name = "LETTERS")]
    pub projections: Option<String>,
    /// What is trained.
    #[arg(long, value_enum, default_value = "memory")]
    pub train: TrainedChoice,
    /// Most tokens of a sequence: longer texts are cut, longer questions left out. Decides how much memory is needed.
    #[arg(long, default_value_t = 8192, value_name = "TOKENS")]
    pub max_tokens: usize,
    /// Sequences of a step.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub batch: usize,
    /// Steps in which the learning rate rises [default: a twentieth].
    #[arg(long, value_name = "STEPS")]
    pub warm_up: Option<usize>,
    /// Share of matrices that is taken away in a step at the learning rate 1.
    #[arg(long, default_value_t = 0.0)]
    pub decay: f64,
    /// Largest norm of gradients; 0: any.
    #[arg(long, default_value_t = 1.0)]
    pub clip: f64,
    /// Words and memory tokens among which gradients flow; fewer take less memory [default: all of a sequence].
    #[arg(long, value_name = "COUNT")]
    pub gradient_rows: Option<usize>,
    /// Steps between checkpoints; 0: one at the end.
    #[arg(long, default_value_t = 500, value_name = "STEPS")]
    pub checkpoint_every: usize,
    /// Checkpoints that are kept, the latest.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub checkpoints_kept: usize,
    /// Decides the order of sequences, and ratios.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// File that says how questions are written out: a text with {{context}}, {{question}} and {{clues}}.
    #[arg(long, value_name = "FILE")]
    pub form: Option<PathBuf>,
    /// Where to compute: `cpu`, or `cuda:0` in builds for GPUs.
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub device: DeviceChoice,
}

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrainedChoice {
    /// The parameters of memory tokens; everything else stays as it is.
    Memory,
    /// The base model, without a memory: to make a small one from scratch.
    All,
}

/// Arguments of `forget`.
#[derive(Debug, Args)]
pub struct Forget {
    #[command(flatten)]
    pub print: Print,
    /// Corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Document to forget; may be repeated.
    #[arg(long = "document", value_name = "ID", required = true)]
    pub documents: Vec<DocumentId>,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub print: Print,
    /// Corpus; without one, all are shown.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
    /// Show this document's state.
    #[arg(long, value_name = "ID", requires = "corpus")]
    pub document: Option<DocumentId>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub print: Print,
    /// Corpus; without one, all are checked.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
}

/// Arguments of `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    #[command(subcommand)]
    pub action: EvalAction,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum EvalAction {
    /// Recall, NDCG and MRR of retrieval.
    Retrieval(EvalRetrieval),
    /// Answers against reference answers; goes on where an interrupted run stopped. A language model
    /// judges them too if the configuration has a section `judge`.
    Answers(EvalAnswers),
    /// Finished runs of `eval answers` side by side.
    Compare(EvalCompare),
}

/// Arguments of `eval answers`.
#[derive(Debug, Args)]
pub struct EvalAnswers {
    #[command(flatten)]
    pub print: Print,
    /// Data set: multihop, locomo, longmemeval, lihua, beam, quality, nocha, govreport or squality.
    #[arg(long)]
    pub format: String,
    /// Folder or file of the data set.
    #[arg(long, value_name = "PATH")]
    pub data: PathBuf,
    /// What documents are made of, such as turn, round or session; by default the data set's usual unit.
    #[arg(long)]
    pub unit: Option<clew_eval::UnitKind>,
    /// Part of the data set, such as 100K of beam.
    #[arg(long)]
    pub split: Option<String>,
    /// Ways of answering, several with commas between them; `clew strategies` lists them.
    #[arg(long, value_delimiter = ',', default_value = "direct")]
    pub strategy: Vec<String>,
    /// By what conversations are found: parts of what is said with `+` between them, as `eval retrieval`
    /// takes them; it names one that holds what is read, such as `fact+value`.
    #[arg(long, default_value = "value")]
    pub keys: KeyDesign,
    /// Keep each turn of the units as the service for conversations does, for the strategy `chat`.
    #[arg(long, conflicts_with = "keys")]
    pub as_turns: bool,
    /// Make neither trees nor a graph, for strategies that need none.
    #[arg(long)]
    pub no_structure: bool,
    /// Folder of the logs, a file for each strategy. What is in them is not asked again.
    #[arg(long, value_name = "DIR")]
    pub logs: PathBuf,
    /// Most passages read.
    #[arg(short, default_value_t = 10)]
    pub k: u32,
    /// Most tokens of the passages that are read, so that strategies are compared at equal length.
    #[arg(long, value_name = "TOKENS")]
    pub evidence_tokens: Option<u32>,
    /// Most questions, the first of the data set.
    #[arg(long)]
    pub limit: Option<u64>,
    #[command(flatten)]
    pub cutting: Cutting,
    /// Write the report as a page to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Arguments of `eval compare`.
#[derive(Debug, Args)]
pub struct EvalCompare {
    #[command(flatten)]
    pub print: Print,
    /// Logs of `eval answers`, of the same data.
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Write the comparison as a page to this file (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Arguments of `cluster`.
#[derive(Debug, Args)]
pub struct Cluster {
    /// Print one JSON document on standard output; everything else goes to standard error.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub action: ClusterAction,
}

/// What to see or do.
#[derive(Debug, Subcommand)]
pub enum ClusterAction {
    /// What runs on each node: supervisors, pools, peers and queues, with restarts.
    Tree,
    /// The members, and the shards with their owners.
    Topology,
    /// Have a node hand over its work and take none.
    Drain {
        /// Name of the node.
        node: String,
    },
}

/// How scores are smoothed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SmoothingChoice {
    /// Scores stay as they are.
    None,
    /// As is best for single turns.
    Turns,
}

impl SmoothingChoice {
    /// The weights; `None` where scores stay as they are.
    pub fn weights(self) -> Option<Smoothing> {
        match self {
            Self::None => None,
            Self::Turns => Some(Smoothing::TURNS),
        }
    }
}

/// Arguments of `eval retrieval`.
#[derive(Debug, Args)]
pub struct EvalRetrieval {
    /// Data set: multihop, locomo, longmemeval, lihua or beam.
    #[arg(long)]
    pub format: String,
    /// Folder or file of the data set.
    #[arg(long, value_name = "PATH")]
    pub data: PathBuf,
    /// What is retrieved, such as turn, round or session; by default the data set's usual unit. Several, with
    /// commas between them, are each ingested and measured.
    #[arg(long, value_delimiter = ',')]
    pub unit: Vec<clew_eval::UnitKind>,
    /// Part of the data set, such as 100K of beam.
    #[arg(long)]
    pub split: Option<String>,
    /// How passages are matched; several, with commas between them, are measured on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "hybrid")]
    pub mode: Vec<Mode>,
    /// By what units of a conversation are found: value (all that is said), user (but by assistants), date,
    /// previous (the turn before), fact, phrase, summary, event, some of these with + between them, or default,
    /// which is date+previous+fact+value; several, with commas between them, are each ingested and measured.
    #[arg(long, value_delimiter = ',', default_value = "value")]
    pub keys: Vec<KeyDesign>,
    /// How the parts of keys come together: key (in one text) or rank (each is indexed apart, and the rankings
    /// are fused by reciprocal ranks), or both with a comma between them. A key of one part is measured once.
    #[arg(long, value_delimiter = ',', default_value = "key")]
    pub merging: Vec<clew_eval::Merging>,
    /// Keep turns and recall units as the service for conversations does, instead of searching.
    #[arg(long, conflicts_with_all = ["mode", "keys", "merging", "smoothing", "strategy"])]
    pub as_turns: bool,
    /// How scores of units are smoothed over their session; several, with commas between them, are measured
    /// on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none")]
    pub smoothing: Vec<SmoothingChoice>,
    /// What is made of the time that a question asks about, where it is known when it was asked; several, with
    /// commas between them, are measured on one ingestion.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "ignore")]
    pub time: Vec<ChatTime>,
    /// Ways of answering, besides the searches; several with commas between them. What is ranked is what
    /// each reads.
    #[arg(long, value_delimiter = ',')]
    pub strategy: Vec<String>,
    /// Cut-offs.
    #[arg(long, default_value = "2,5,10")]
    pub k: clew_eval::Cutoffs,
    #[command(flatten)]
    pub cutting: Cutting,
    /// Write the report as JSON to this file (`-`: standard output) besides the table; where several
    /// things are measured an array of reports, and a summary below their tables.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl EvalRetrieval {
    /// What is measured in all combinations.
    pub fn settings(&self) -> clew_eval::Settings {
        clew_eval::Settings {
            keys: self.keys.clone(),
            merging: self.merging.clone(),
            mode: self.mode.iter().map(|mode| (*mode).into()).collect(),
            smoothing: self.smoothing.iter().map(|choice| choice.weights()).collect(),
            time: self.time.iter().map(|time| (*time).into()).collect(),
            strategies: self.strategy.clone(),
        }
    }
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// Print one JSON document on standard output; everything else goes to standard error.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub action: BenchAction,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchAction {
    /// Tokens per second of the encoder.
    Embed {
        /// JSON Lines with a `text` field.
        #[arg(value_name = "FILE")]
        texts: PathBuf,
        /// Threads; 0 means one per core.
        #[arg(long, default_value_t = 0)]
        threads: usize,
        /// Rounds; the median is reported.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Tokens per second of an ingestion from files to searchable, and the encoder's share.
    Ingest {
        /// Files, folders or globs.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
    },
    /// Tokens per second of a language model, alone and with several replies at once, beside what the machine
    /// can do at most.
    Generate {
        /// Folder of its tokenizer, if it is another.
        #[arg(long, value_name = "DIR")]
        tokenizer: Option<PathBuf>,
        /// `cpu`, or `cuda:0` in builds with the feature `cuda`.
        #[arg(long, default_value = "cpu")]
        device: DeviceChoice,
        /// Compute in bfloat16.
        #[arg(long)]
        bf16: bool,
        /// Threads of the processor; 0 means one per core.
        #[arg(long, default_value_t = 0)]
        threads: u32,
        /// Words of each prompt.
        #[arg(long, default_value_t = 400)]
        words: usize,
        /// Tokens of each reply.
        #[arg(long, default_value_t = 64)]
        tokens: u32,
        /// Numbers of replies at once.
        #[arg(long, value_delimiter = ',', default_value = "1,4,16")]
        streams: Vec<u32>,
    },
    /// Latency of searches in a corpus, and recall of the approximate index against exact search.
    Search {
        /// Corpus.
        #[arg(long)]
        corpus: CorpusName,
        /// Searches per mode.
        #[arg(long, default_value_t = 200)]
        queries: usize,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn ages_are_numbers_with_a_unit() {
        for (text, seconds) in [("0s", 0), ("90m", 5_400), ("30d", 2_592_000), ("2w", 1_209_600)] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "d", "30", "-1d", "1.5d", "3 d", "30days", "5é"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn snapshots_are_taken_by_two_words_and_deleted_by_name_or_by_age() {
        let parse = |words: &str| {
            Cli::try_parse_from(["clew", "corpus", "snapshot"].into_iter().chain(words.split(' ')))
        };
        for good in [
            "notes nightly",
            "delete notes nightly weekly",
            "delete notes nightly --dry-run",
            "delete notes --older-than 30d",
            "delete notes --older-than 30d --keep 7 --dry-run",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good).err());
        }
        for bad in [
            "notes",
            "delete notes",
            "delete notes nightly --older-than 30d",
            "delete notes nightly --keep 3",
            "delete notes --keep 3",
            "delete notes --older-than soon",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

/// Arguments of `clew key`.
#[derive(Debug, Args)]
pub struct Key {
    /// What the key is called in logs.
    pub name: String,
    /// Whose corpora it opens; without it those of all tenants, and the cluster itself.
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<TenantName>,
    /// What it opens, several with commas: read (searching, asking, and seeing what is stored), write (bringing
    /// documents and turns, and forgetting them), admin (making and deleting corpora).
    #[arg(long = "scope", value_delimiter = ',', default_value = "read", value_name = "SCOPES")]
    pub scopes: Vec<Scope>,
    /// An access label that its bearer holds, or `*` for all; may be repeated.
    #[arg(long = "holds", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// When it ends, such as 2030-01-31T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub expires: Option<Timestamp>,
    #[command(flatten)]
    pub print: Print,
}
