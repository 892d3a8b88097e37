//! Readers: models that read a question and a passage together, find the words that answer, and
//! tell whether any do.
//!
//! ```text
//! question, heading, passage ─► windows of tokens ─► states ─► heads ─► spans, verdicts
//!                               encode              base + adapter      merged per passage
//! ```
//!
//! A reader is an embedding model whose layers an adapter changes, and two heads on the states of
//! its tokens. The span head tells for each token how well an answer begins and ends there, and the
//! first token stands for "no answer" (Devlin et al., "BERT", section 4.3, for SQuAD 2.0). The
//! verdict head tells, from the state of the first token, whether the passage answers the question
//! and whether it is about it.

mod adapter;
mod heads;
mod merging;
mod window;

use std::path::Path;
use std::sync::Arc;

use clew_core::{PassageRead, PassagesRead, ReadPassage};
use clew_packed_bert::Kernel;
use clew_tokenizer::EncoderTokenizer;

use crate::batch::BatchBudget;
use crate::bert::{self, BertConfig, Family};
use crate::checkpoint::Checkpoint;
use crate::engine::{self, Engine, Tokens};
use crate::folder::{ModelFolder, Transformer};
use crate::route::Route;
use crate::trust::{self, Trust};
use crate::{Error, ModelOptions, Scratch, device};
use adapter::{Adapted, Adapter};
pub use adapter::{ReaderCard, TrainingData};
use heads::{Heads, Logits};
use merging::Calibration;
pub use merging::{SpanScore, WindowScore};
pub use window::EncodedWindow;
use window::{Frame, Limits};

/// Maximum number of bytes of a question or a heading that are looked at: far more than the tokens
/// that are read of it take.
const LOOKED_AT_BYTES: usize = 4096;

/// Reader in memory, shared by all threads that use it.
///
/// ```no_run
/// use clew_core::ReadPassage;
/// use clew_model::{ModelOptions, ReaderModel, Scratch};
///
/// let base = std::path::Path::new("all-MiniLM-L6-v2");
/// let reader = ReaderModel::load(base, ReaderModel::packaged(), &ModelOptions::default())?;
/// let text = "Vera moved to Lisbon in April.".to_owned();
/// let passages = [ReadPassage { heading: String::new(), text }];
/// let read = reader.read("Where does Vera live?", &passages, &mut Scratch::default())?;
/// assert_eq!(read.passages[0].spans[0].span.of(&passages[0].text), Some("Lisbon"));
/// # Ok::<(), clew_model::Error>(())
/// ```
pub struct ReaderModel {
    card: ReaderCard,
    limits: Limits,
    calibration: Calibration,
    vocabulary: usize,
    budget: BatchBudget,
    tokenizer: EncoderTokenizer,
    frame: Frame,
    engine: Engine,
    trust: Trust,
    heads: Heads,
}

impl ReaderModel {
    /// Returns the content of the adapter that is packaged with this crate, 11 MB.
    pub fn packaged() -> &'static [u8] {
        // A static, because a constant would be in a program once for each place that uses it.
        static ADAPTER: &[u8] = include_bytes!("../reader/reader.safetensors");
        ADAPTER
    }

    /// Loads a reader like [`Self::load`] if `folder` holds the base that the adapter was trained
    /// on. Returns `None` if it holds another embedding model.
    ///
    /// # Errors
    /// Returns the errors of [`Self::load`], but for those of another base.
    pub fn load_if_base(
        folder: &Path,
        adapter: &[u8],
        options: &ModelOptions,
    ) -> Result<Option<Arc<Self>>, Error> {
        let adapter = Adapter::read(adapter)?;
        let folder = ModelFolder::open(folder)?;
        match &folder.transformer {
            // Larger models have gigabytes, which need not be read.
            Transformer::Bert { config, checkpoint }
                if adapter.is_as_wide_as(config)
                    && fingerprint(&folder, checkpoint)? == adapter.base_fingerprint =>
            {
                Self::over(&folder, adapter, options).map(Some)
            }
            Transformer::Bert { .. } | Transformer::Qwen2 { .. } => Ok(None),
        }
    }

    /// Loads the embedding model in `base`, as changed by `adapter`, the content of its file. The
    /// name in `options` is not used.
    ///
    /// # Errors
    /// Returns an error that names the adapter if it is cut short, of another format, for another
    /// base, or has other tensors than its base needs. Returns the errors of
    /// [`crate::EmbeddingModel::load`] if the folder holds no BERT, if this machine cannot honour
    /// the options, or if a GPU does not compute what the processor computes.
    pub fn load(base: &Path, adapter: &[u8], options: &ModelOptions) -> Result<Arc<Self>, Error> {
        let adapter = Adapter::read(adapter)?;
        let folder = ModelFolder::open(base)?;
        let (_, checkpoint) = bert_of(&folder)?;
        adapter.check_base(&fingerprint(&folder, checkpoint)?)?;
        Self::over(&folder, adapter, options)
    }

    /// Loads the reader over its base, whose fingerprint was checked.
    fn over(
        folder: &ModelFolder,
        adapter: Adapter<'_>,
        options: &ModelOptions,
    ) -> Result<Arc<Self>, Error> {
        let (config, checkpoint) = bert_of(folder)?;
        adapter.check(config)?;
        checkpoint.check(&config.parameters(), bert::is_ignored)?;
        let tokenizer = folder.read_tokenizer()?;
        let frame = Frame::of(&tokenizer)?;
        let obstacle = config.packed().check().err().map(|error| error.to_string());
        let route = Route::choose(options, obstacle, Kernel::detect, device::has_bfloat16)?;
        let weights = Adapted { base: checkpoint, adapter: &adapter };
        let load = |route| Engine::load_bert(route, config, &weights);
        let engine = load(route)?;
        let readable = trust::Limits {
            vocabulary: config.vocabulary,
            max_tokens: config.positions,
            has_types: false,
        };
        let trust = Trust::earn(route, &engine, readable, load)?;
        let heads = adapter.heads()?;
        let Adapter { card, limits, calibration, .. } = adapter;
        tracing::info!(model = card.name(), %route, "reader loaded");
        Ok(Arc::new(Self {
            card,
            limits,
            calibration,
            vocabulary: config.vocabulary,
            budget: engine.budget(route, options.batch_tokens),
            tokenizer,
            frame,
            engine,
            trust,
            heads,
        }))
    }

    /// Returns what the adapter tells of the model: its base, what it was trained on, how good it
    /// is.
    pub fn card(&self) -> &ReaderCard {
        &self.card
    }

    /// Returns the maximum number of tokens of a window, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.limits.window
    }

    /// Encodes a question and a passage as windows of tokens over the passage, in its order. There
    /// are none if the passage has no tokens, and at most 64: what is beyond them is not read. Only
    /// the beginning of a long question or heading is read. May run on any thread.
    pub fn encode(&self, question: &str, passage: &ReadPassage) -> Vec<EncodedWindow> {
        let beginning = |text: &str, most: usize| -> Vec<u32> {
            let looked_at = &text[..text.floor_char_boundary(LOOKED_AT_BYTES)];
            self.tokenizer.tokens(looked_at, most).into_iter().map(|token| token.id).collect()
        };
        let question = beginning(question, self.limits.question);
        let heading = beginning(&passage.heading, self.limits.heading);
        let head = self.frame.head(&question, &heading);
        let tokens = self.tokenizer.tokens(&passage.text, self.limits.most_read(head.len()));
        self.frame.windows(&head, &tokens, &self.limits)
    }

    /// Returns the scores of `windows`, in order, computed in batches within the budget. Blocks,
    /// and computes on the caller's thread only. Each thread needs its own `scratch`.
    ///
    /// # Errors
    /// Returns [`Error::ForeignTokens`] if another model encoded a window, and [`Error::Device`] if
    /// the device fails.
    pub fn score_windows(
        &self,
        windows: &[EncodedWindow],
        scratch: &mut Scratch,
    ) -> Result<Vec<WindowScore>, Error> {
        for window in windows {
            self.check_tokens(window)?;
        }
        let tokens: Vec<Tokens<'_>> =
            windows.iter().map(|window| Tokens::of_one(window.ids())).collect();
        let logits: Vec<Logits> = engine::in_batches(&tokens, self.budget, |batch| {
            self.engine.read_states(batch, scratch, |states| self.heads.logits(states))
        })?;
        if !logits.iter().all(Logits::are_finite) {
            return Err(Error::Device {
                reason: "it returned a logit that is no number".to_owned(),
            });
        }
        let scores = windows
            .iter()
            .zip(&logits)
            .map(|(window, logits)| WindowScore::of(window, logits, self.limits.longest_answer));
        Ok(scores.collect())
    }

    /// Checks that a GPU still computes what the processor computed when the reader was loaded.
    /// Blocks, for some milliseconds. Computes nothing on a processor, which is trusted.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the GPU computes something else or fails.
    pub fn check(&self) -> Result<(), Error> {
        self.trust.check(&self.engine)
    }

    /// Merges the scores of all windows of one passage.
    pub fn merge(&self, windows: &[WindowScore]) -> PassageRead {
        merging::merge(windows, &self.calibration)
    }

    /// Merges the scores of the windows of several passages, in order. `windows` has the number of
    /// windows of each passage, which together are those of `scores`.
    pub fn merge_all(&self, windows: &[usize], scores: &[WindowScore]) -> Vec<PassageRead> {
        let mut scores = scores;
        let passages = windows.iter().map(|&count| {
            let (own, rest) = scores.split_at(count.min(scores.len()));
            scores = rest;
            self.merge(own)
        });
        passages.collect()
    }

    /// Calls [`Self::encode`], [`Self::score_windows`] and [`Self::merge_all`].
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub fn read(
        &self,
        question: &str,
        passages: &[ReadPassage],
        scratch: &mut Scratch,
    ) -> Result<PassagesRead, Error> {
        let encoded: Vec<Vec<EncodedWindow>> =
            passages.iter().map(|passage| self.encode(question, passage)).collect();
        let counts: Vec<usize> = encoded.iter().map(Vec::len).collect();
        let windows: Vec<EncodedWindow> = encoded.into_iter().flatten().collect();
        let scores = self.score_windows(&windows, scratch)?;
        let tokens = windows.iter().map(|window| window.ids().len() as u64).sum();
        Ok(PassagesRead { passages: self.merge_all(&counts, &scores), tokens })
    }

    fn check_tokens(&self, window: &EncodedWindow) -> Result<(), Error> {
        let ids = window.ids();
        let unknown = ids.iter().find(|&&id| id as usize >= self.vocabulary);
        let found = match unknown {
            Some(id) => format!("token {id}"),
            None if ids.len() > self.limits.window => format!("{} tokens", ids.len()),
            None => return Ok(()),
        };
        let (most, below) = (self.limits.window, self.vocabulary);
        Err(Error::ForeignTokens { expected: format!("1 to {most} tokens below {below}"), found })
    }
}

/// Returns the transformer of a folder if it is a BERT.
fn bert_of(folder: &ModelFolder) -> Result<(&BertConfig, &Checkpoint), Error> {
    let found = match &folder.transformer {
        Transformer::Bert { config, checkpoint } if config.family == Family::Bert => {
            return Ok((config, checkpoint));
        }
        Transformer::Bert { .. } => "xlm-roberta",
        Transformer::Qwen2 { .. } => "qwen2",
    };
    Err(Error::Unsupported {
        file: "config.json".to_owned(),
        expected: "`model_type` bert, as readers have it".to_owned(),
        found: found.to_owned(),
    })
}

/// Returns the hash of the bytes of a base's tokenizer and, behind them, its weights, in 64
/// hexadecimal digits.
fn fingerprint(folder: &ModelFolder, checkpoint: &Checkpoint) -> Result<String, Error> {
    let mut hash = blake3::Hasher::new();
    hash.update(&folder.tokenizer_json);
    checkpoint.add_contents_to(&mut hash)?;
    Ok(hash.finalize().to_hex().to_string())
}
