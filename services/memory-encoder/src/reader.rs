//! Reader of this process, on its devices: it finds the words of passages that answer a question.
//!
//! Loading it takes as long as loading the embedding model, which it is based on. So it is loaded
//! when the first question is read, or in the background of a server that has started
//! ([`OwnReader::prepare`]).

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Error, ErrorKind, NoReader, PassagesRead, Priority, ReadPassage, SpanReader};
use clew_model::{EncodedWindow, ModelOptions, ReaderModel, Scratch, WindowScore};
use clew_runtime::deadline::within;
use clew_runtime::tree::RunningPart;
use clew_telemetry::{Severity, Trouble, child};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tracing::Instrument;

use crate::EncoderConfig;
use crate::devices::{Computes, Devices, Names};

/// Maximum time that stopping waits for a reader that is being loaded.
const LOADING: Duration = Duration::from_secs(15);

/// Section `reader`: the model that finds the words of passages that answer a question, and tells
/// how probable it is that there are any. Answers without a language model use it. By default it is
/// there if `encoder.model` is the model that it is based on, all-MiniLM-L6-v2. Without it, answers
/// quote whole sentences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReaderConfig {
    /// Whether there may be a reader. If not, answers quote whole sentences.
    pub enabled: bool,
    /// Folder of all-MiniLM-L6-v2, for a reader beside another embedding model. It runs on
    /// `encoder.device`, with threads and a queue of its own, which have the same limits as those
    /// of `encoder`: `threads`, `batch_tokens`, `queue_tokens` and `question_wait_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// File of a reader that you trained, in place of the one that comes with Clew. The model that
    /// it is based on is that of `reader.model`, or else of `encoder.model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<PathBuf>,
}

impl Default for ReaderConfig {
    fn default() -> Self {
        Self { enabled: true, model: None, adapter: None }
    }
}

/// Reader of a process. Cheap to clone.
#[derive(Clone)]
pub enum OwnReader {
    /// No reader.
    None,
    /// On its own devices.
    Pool(Arc<ReaderPool>),
}

impl OwnReader {
    /// Returns the configured reader, on the devices that `encoder` names. If the configuration
    /// names neither its base nor an adapter, it is loaded later, over the embedding model in
    /// `folder`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the configuration names a base or an adapter that
    /// cannot be used, and [`ErrorKind::Internal`] if the actor system fails to start.
    pub async fn load(
        config: &ReaderConfig,
        folder: Option<&Path>,
        encoder: &EncoderConfig,
    ) -> Result<Self, Error> {
        let ReaderConfig { enabled, model, adapter } = config;
        let base = model.as_deref().or(folder).filter(|_| *enabled);
        let source = base.map(|folder| Source {
            folder: folder.to_owned(),
            adapter: adapter.clone(),
            encoder: encoder.clone(),
        });
        Ok(match source {
            None if *enabled && adapter.is_some() => {
                let problem =
                    "expected `reader.model` beside it, since no folder has the embedding model";
                return Err(Error::invalid("reader.adapter", problem));
            }
            None => Self::None,
            Some(source) if model.is_some() || adapter.is_some() => {
                Self::Pool(Arc::new(ReaderPool::load(source).await?))
            }
            Some(source) => Self::Pool(Arc::new(ReaderPool::new(source, State::default()))),
        })
    }

    /// Loads the reader in the background, so that no question waits for it.
    pub fn prepare(&self) {
        if let Self::Pool(pool) = self {
            drop(pool.begin_loading());
        }
    }

    /// Returns the reader, or [`NoReader`].
    pub fn seam(&self) -> Arc<dyn SpanReader> {
        match self {
            Self::None => Arc::new(NoReader),
            Self::Pool(pool) => Arc::clone(pool) as Arc<dyn SpanReader>,
        }
    }

    /// Returns a readable description, after the reader was loaded if it is the first time. Returns
    /// `None` if there is no reader.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] if it cannot be loaded, and
    /// [`ErrorKind::DeadlineExceeded`] if that takes longer.
    pub async fn description(&self, deadline: Instant) -> Result<Option<String>, Error> {
        let Self::Pool(pool) = self else { return Ok(None) };
        match pool.running(deadline).await {
            Ok(running) => Ok(Some(format!("`{}`, in this process", running.reader.name))),
            Err(_) if matches!(pool.state.get(), Some(Loaded::OtherBase)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the troubles of the devices, and that the reader could not be loaded.
    pub fn troubles(&self) -> Vec<Trouble> {
        let Self::Pool(pool) = self else { return Vec::new() };
        match pool.state.get() {
            Some(Loaded::Running(running)) => running.devices.troubles(),
            Some(Loaded::Broken(problem)) => vec![Trouble {
                part: Reader::NAMES.part.to_owned(),
                problem: broken(problem),
                severity: Severity::Degraded,
            }],
            Some(Loaded::OtherBase | Loaded::Stopped) | None => Vec::new(),
        }
    }

    /// Returns the devices' nodes for the tree of running parts.
    pub fn nodes(&self) -> Vec<RunningPart> {
        let Self::Pool(pool) = self else { return Vec::new() };
        match pool.state.get() {
            Some(Loaded::Running(running)) => vec![running.devices.node()],
            Some(Loaded::OtherBase | Loaded::Broken(_) | Loaded::Stopped) | None => Vec::new(),
        }
    }

    /// Stops the workers, once they are there if the reader is being loaded.
    pub async fn stop(&self) {
        let Self::Pool(pool) = self else { return };
        // Nobody begins to load it from now on.
        let settled = pool.state.get_or_init(async || Loaded::Stopped);
        if let Ok(Loaded::Running(running)) = tokio::time::timeout(LOADING, settled).await {
            running.devices.stop().await;
        }
    }
}

/// Reader on this machine's devices.
pub struct ReaderPool {
    source: Arc<Source>,
    state: State,
}

/// State of a reader, which is empty until it was loaded once.
type State = Arc<OnceCell<Loaded>>;

/// Result of loading a reader.
enum Loaded {
    Running(Running),
    /// The folder holds another model than the reader's base.
    OtherBase,
    /// It could not be loaded, for this reason. It is not tried again.
    Broken(String),
    /// It was stopped before it was needed.
    Stopped,
}

struct Running {
    reader: Arc<Reader>,
    devices: Devices<Reader>,
}

struct Reader {
    name: String,
    model: Arc<ReaderModel>,
}

/// Everything that a reader is made of.
struct Source {
    /// Folder of the base.
    folder: PathBuf,
    /// File of the adapter, if it is not the packaged one.
    adapter: Option<PathBuf>,
    /// Configuration that names the devices.
    encoder: EncoderConfig,
}

impl Computes for Reader {
    type Text = EncodedWindow;
    type Result = WindowScore;

    const NAMES: Names = Names {
        part: "reader",
        queue: "the reader's queue",
        doing: "reading for answers",
        stage: "read.compute",
        span: |windows| tracing::info_span!("read.compute", windows),
        severity: Severity::Degraded,
    };

    fn name(&self) -> &str {
        &self.name
    }

    fn tokens(window: &EncodedWindow) -> usize {
        window.ids().len()
    }

    fn compute(
        &self,
        windows: &[EncodedWindow],
        scratch: &mut Scratch,
    ) -> Result<Vec<WindowScore>, clew_model::Error> {
        self.model.score_windows(windows, scratch)
    }

    fn check(&self) -> Result<(), clew_model::Error> {
        self.model.check()
    }
}

impl Source {
    /// Loads the model and starts its workers. Returns `None` if the folder holds another model
    /// than the base.
    async fn load(&self) -> Result<Option<Running>, Error> {
        let (folder, adapter) = (self.folder.clone(), self.adapter.clone());
        // A path that suits the encoder may be impossible for a reader.
        let device = self.encoder.model_options()?.device;
        let options = ModelOptions { device, ..ModelOptions::default() };
        let load = move || -> Result<_, Error> {
            let adapter = match adapter {
                None => Cow::Borrowed(ReaderModel::packaged()),
                Some(file) => Cow::Owned(std::fs::read(&file).map_err(|error| {
                    let problem = format!("expected a file that can be read, got: {error}");
                    Error::invalid("reader.adapter", problem)
                })?),
            };
            Ok(ReaderModel::load_if_base(&folder, &adapter, &options)?)
        };
        let loaded = tokio::task::spawn_blocking(load)
            .await
            .map_err(|panic| Error::internal("loading the reader panicked").with_source(panic))?;
        let Some(model) = loaded? else { return Ok(None) };
        let reader = Arc::new(Reader { name: model.card().name(), model });
        let devices = Devices::start(Arc::clone(&reader), &self.encoder).await?;
        Ok(Some(Running { reader, devices }))
    }

    /// Loads the model, and reports if there is none.
    async fn load_or_report(&self) -> Loaded {
        match self.load().await {
            Ok(Some(running)) => Loaded::Running(running),
            Ok(None) => {
                tracing::info!("no reader: the embedding model is not the one that it is based on");
                Loaded::OtherBase
            }
            Err(error) => {
                tracing::warn!(error = error.chain(), "the reader could not be loaded");
                Loaded::Broken(error.message().to_owned())
            }
        }
    }
}

impl ReaderPool {
    fn new(source: Source, state: State) -> Self {
        Self { source: Arc::new(source), state }
    }

    /// Loads the reader and starts its workers.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the folder holds another model than the reader's
    /// base, or if it or the adapter cannot be used, and [`ErrorKind::Internal`] if the actor
    /// system fails to start.
    async fn load(source: Source) -> Result<Self, Error> {
        let running = source.load().await?.ok_or_else(|| {
            let problem = "expected the folder of the model that the reader is based on, got another one; name its \
                           folder, or leave out the keys of `reader`";
            Error::invalid("reader.model", problem)
        })?;
        let state = OnceCell::new_with(Some(Loaded::Running(running)));
        Ok(Self::new(source, Arc::new(state)))
    }

    /// Begins to load the reader, unless somebody did before. Whoever began it may leave: it is
    /// loaded to the end, for those who come later.
    fn begin_loading(&self) -> tokio::task::JoinHandle<()> {
        let (source, state) = (Arc::clone(&self.source), Arc::clone(&self.state));
        tokio::spawn(async move {
            state.get_or_init(|| source.load_or_report()).await;
        })
    }

    /// Returns the reader's devices, after it was loaded if it is the first time.
    async fn running(&self, deadline: Instant) -> Result<&Running, Error> {
        if self.state.get().is_none() {
            let loading = self.begin_loading();
            let loading = async {
                loading.await.map_err(|panic| {
                    Error::internal("loading the reader panicked").with_source(panic)
                })
            };
            within(deadline, "loading the reader", loading).await?;
        }
        match self.state.get() {
            Some(Loaded::Running(running)) => Ok(running),
            Some(Loaded::OtherBase) => Err(NoReader::refusal()),
            Some(Loaded::Broken(problem)) => {
                Err(Error::new(ErrorKind::WrongState, NoReader::REASON, broken(problem)))
            }
            Some(Loaded::Stopped) | None => {
                let message = "the reader is shutting down; retry";
                Err(Error::new(ErrorKind::Unavailable, "UNAVAILABLE", message))
            }
        }
    }
}

impl Running {
    async fn read(
        &self,
        question: String,
        passages: Vec<ReadPassage>,
        deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        let arrived = Instant::now();
        let model = Arc::clone(&self.reader.model);
        let encode = move || -> Vec<Vec<EncodedWindow>> {
            passages.iter().map(|passage| model.encode(&question, passage)).collect()
        };
        let encoding = async {
            let encoded = tokio::task::spawn_blocking(encode).await;
            encoded.map_err(|panic| Error::internal("the tokenizer panicked").with_source(panic))
        };
        let encoded = within(deadline, "reading for answers", encoding).await?;
        let counts: Vec<usize> = encoded.iter().map(Vec::len).collect();
        let windows: Vec<EncodedWindow> = encoded.into_iter().flatten().collect();
        let tokens = windows.iter().map(|window| window.ids().len() as u64).sum();
        let person = Priority::Interactive;
        let scores = self.devices.compute(windows, person, arrived, deadline).await?;
        Ok(PassagesRead { passages: self.reader.model.merge_all(&counts, &scores), tokens })
    }
}

#[async_trait]
impl SpanReader for ReaderPool {
    async fn reader_model(&self, deadline: Instant) -> Result<Option<String>, Error> {
        match self.running(deadline).await {
            Ok(running) => Ok(Some(running.reader.name.clone())),
            Err(error) if error.reason() == NoReader::REASON => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn read_spans(
        &self,
        question: &str,
        passages: Vec<ReadPassage>,
        deadline: Instant,
    ) -> Result<PassagesRead, Error> {
        let span = child(|| tracing::info_span!("read.spans", passages = passages.len()));
        let reading = async {
            self.running(deadline).await?.read(question.to_owned(), passages, deadline).await
        };
        reading.instrument(span).await
    }
}

/// Returns the message that the reader could not be loaded because of `problem`.
fn broken(problem: &str) -> String {
    format!("the reader could not be loaded: {problem}")
}
