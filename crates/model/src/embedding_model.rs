//! Embedding models: texts in, unit vectors out.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use clew_core::{Embedding, EncoderIdentity, Span, TextKind};
use clew_packed_bert::Kernel;
use clew_tokenizer::EncoderTokenizer;

use crate::batch::BatchBudget;
use crate::engine::{Engine, Tokens};
use crate::folder::{ModelFolder, Prompts, Transformer};
use crate::pooling::{Pooling, to_unit};
use crate::route::Route;
use crate::trust::{Limits, Trust};
use crate::{EncodedText, Error, ModelOptions, Precision, Scratch, device, engine};

/// Embedding model in memory, shared by all threads that use it.
///
/// ```no_run
/// use clew_core::TextKind;
/// use clew_model::{EmbeddingModel, ModelOptions, Scratch};
///
/// let folder = std::path::Path::new("all-MiniLM-L6-v2");
/// let model = EmbeddingModel::load(folder, &ModelOptions::default())?;
/// let texts = ["who moved to Lisbon?", "Vera moved to Lisbon in April."];
/// let embeddings = model.embed_texts(&texts, TextKind::Passage, &mut Scratch::default())?;
/// assert_eq!(embeddings[0].vector.len(), model.identity().dimension as usize);
/// # Ok::<(), clew_model::Error>(())
/// ```
pub struct EmbeddingModel {
    identity: EncoderIdentity,
    description: Description,
    vocabulary: usize,
    max_tokens: usize,
    budget: BatchBudget,
    pooling: Pooling,
    prompts: Prompts,
    tokenizer: EncoderTokenizer,
    /// Token id that stands for a text without tokens.
    blank: u32,
    tokenizer_json: Arc<[u8]>,
    engine: Engine,
    trust: Trust,
}

/// Way in which a loaded model runs. Prints as `packed avx512-bf16 in bfloat16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    route: Route,
}

impl Description {
    /// Returns the kernel of the packed path, or `None` if Burn computes.
    pub fn packed_kernel(&self) -> Option<Kernel> {
        match self.route {
            Route::Packed(kernel) => Some(kernel),
            Route::Burn(..) => None,
        }
    }

    /// Returns the number format of the factors of the large matrix products.
    pub fn precision(&self) -> Precision {
        self.route.precision()
    }
}

impl fmt::Display for Description {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.route.fmt(formatter)
    }
}

impl EmbeddingModel {
    /// Loads the model in `folder`. Reads the whole folder, on three threads at once: tokenizer,
    /// fingerprint and weights. Takes about a tenth of a second for 90 MB. On a GPU it takes
    /// longer, because the model first computes a few texts there and on the processor.
    ///
    /// # Errors
    /// Returns an error if the folder is incomplete, broken, inconsistent or of another kind of
    /// model, if this machine cannot honour the options, or if a GPU does not compute what the
    /// processor computes; see [`Error`].
    pub fn load(folder: &Path, options: &ModelOptions) -> Result<Arc<Self>, Error> {
        let folder = ModelFolder::open(folder)?;
        let obstacle = packed_obstacle(&folder.transformer);
        let route = Route::choose(options, obstacle, Kernel::detect, device::has_bfloat16);
        let (tokenizer, revision, engine) = thread::scope(|scope| {
            let tokenizer = scope.spawn(|| folder.read_tokenizer());
            let revision = scope.spawn(|| folder.revision());
            let engine = route.and_then(|route| {
                let engine = Engine::load(route, &folder)?;
                let limits = Limits {
                    vocabulary: folder.vocabulary,
                    max_tokens: folder.max_tokens,
                    has_types: false,
                };
                let load = |route| Engine::load(route, &folder);
                let trust = Trust::earn(route, &engine, limits, load)?;
                Ok((route, engine, trust))
            });
            (ended(tokenizer), ended(revision), engine)
        });
        let (tokenizer, revision, (route, engine, trust)) = (tokenizer?, revision?, engine?);
        let identity = EncoderIdentity {
            model: options.name.clone().unwrap_or_else(|| folder.name.clone()),
            revision,
            dimension: to_u32(folder.dimension),
            max_tokens: to_u32(folder.max_tokens),
        };
        tracing::info!(model = identity.model, revision = identity.revision, %route, "model loaded");
        Ok(Arc::new(Self {
            identity,
            description: Description { route },
            vocabulary: folder.vocabulary,
            max_tokens: folder.max_tokens,
            budget: engine.budget(route, options.batch_tokens),
            pooling: folder.pooling,
            prompts: folder.prompts,
            tokenizer,
            blank: folder.blank,
            tokenizer_json: folder.tokenizer_json,
            engine,
            trust,
        }))
    }

    /// Returns the identity of the model. Its revision is a fingerprint of weights, tokenizer,
    /// window, pooling and prompts. The precision is not part of it, because vectors of different
    /// precisions can be compared.
    pub fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    /// Returns the content of the model's `tokenizer.json`, for code elsewhere that chunks texts
    /// for this model.
    pub fn tokenizer_json(&self) -> &Arc<[u8]> {
        &self.tokenizer_json
    }

    /// Returns how the model runs on this machine.
    pub fn describe(&self) -> &Description {
        &self.description
    }

    /// Returns the number of tokens that one step computes, and whether padding counts.
    pub fn budget(&self) -> BatchBudget {
        self.budget
    }

    /// Returns the byte range of each token of `text`, without special tokens. Reads the whole
    /// text, however long it is.
    ///
    /// Ranges lie on character boundaries and do not run backwards. Tokens of the same character
    /// share its range. Costs about a microsecond per token.
    pub fn token_spans(&self, text: &str) -> Vec<Span> {
        self.tokenizer.spans(text)
    }

    /// Encodes `text` as tokens, with the prompt that the model wants before a text of `kind`, up
    /// to the model's window. Stops reading where the window is full. May run on any thread. If a
    /// text has no tokens and the model no special tokens, the result is the model's end-of-text
    /// token.
    pub fn encode(&self, text: &str, kind: TextKind) -> EncodedText {
        let prompt = self.prompts.of(kind);
        let mut encoded = match prompt.is_empty() {
            true => self.tokenizer.encode(text, self.max_tokens),
            false => self.tokenizer.encode(&format!("{prompt}{text}"), self.max_tokens),
        };
        if encoded.ids.is_empty() {
            encoded.ids.push(self.blank);
        }
        encoded
    }

    /// Embeds `texts`, in order, in batches within the budget. Blocks, and computes on the caller's
    /// thread only. Each thread needs its own `scratch`.
    ///
    /// # Errors
    /// Returns [`Error::ForeignTokens`] if this model's tokenizer cannot have encoded a text, and
    /// [`Error::Device`] if the device fails.
    pub fn embed(
        &self,
        texts: &[EncodedText],
        scratch: &mut Scratch,
    ) -> Result<Vec<Embedding>, Error> {
        let vectors = self.pooled(texts, scratch)?;
        let embeddings = texts.iter().zip(vectors).map(|(text, vector)| {
            let vector = to_unit(vector).ok_or_else(|| Error::Device {
                reason: "it returned a vector without a direction".to_owned(),
            })?;
            Ok(Embedding { vector, tokens: to_u32(text.ids.len()), truncated: text.truncated })
        });
        embeddings.collect()
    }

    /// Returns the vectors `[dimension]` of `texts`, in order, pooled but not normalised. For
    /// models that compare vectors by dot product.
    ///
    /// # Errors
    /// Returns the errors of [`Self::embed`].
    pub fn pooled(
        &self,
        texts: &[EncodedText],
        scratch: &mut Scratch,
    ) -> Result<Vec<Vec<f32>>, Error> {
        self.in_batches(texts, |batch| self.engine.pooled(batch, self.pooling, scratch))
    }

    /// Returns the token states of `texts` before pooling, in order, `[tokens, hidden]` each,
    /// special tokens included.
    ///
    /// # Errors
    /// Returns the errors of [`Self::embed`].
    pub fn token_states(
        &self,
        texts: &[EncodedText],
        scratch: &mut Scratch,
    ) -> Result<Vec<Vec<f32>>, Error> {
        self.in_batches(texts, |batch| self.engine.states(batch, scratch))
    }

    /// Checks `texts`, calls `compute` on batches within the budget, and returns the results in the
    /// order of `texts`.
    fn in_batches(
        &self,
        texts: &[EncodedText],
        compute: impl FnMut(&[Tokens<'_>]) -> Result<Vec<Vec<f32>>, Error>,
    ) -> Result<Vec<Vec<f32>>, Error> {
        for text in texts {
            self.check_tokens(text)?;
        }
        let tokens: Vec<Tokens<'_>> = texts.iter().map(|text| Tokens::of_one(&text.ids)).collect();
        engine::in_batches(&tokens, self.budget, compute)
    }

    /// Checks that a GPU still computes what the processor computed when the model was loaded.
    /// Blocks, for some milliseconds. Computes nothing on a processor, which is trusted.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the GPU computes something else or fails.
    pub fn check(&self) -> Result<(), Error> {
        self.trust.check(&self.engine)
    }

    /// Calls [`Self::encode`] and [`Self::embed`].
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub fn embed_texts(
        &self,
        texts: &[&str],
        kind: TextKind,
        scratch: &mut Scratch,
    ) -> Result<Vec<Embedding>, Error> {
        let encoded: Vec<EncodedText> = texts.iter().map(|text| self.encode(text, kind)).collect();
        self.embed(&encoded, scratch)
    }

    fn check_tokens(&self, text: &EncodedText) -> Result<(), Error> {
        let ids = &text.ids;
        let unknown = ids.iter().find(|&&id| id as usize >= self.vocabulary);
        let found = match unknown {
            Some(id) => format!("token {id}"),
            None if !(1..=self.max_tokens).contains(&ids.len()) => format!("{} tokens", ids.len()),
            None => return Ok(()),
        };
        let (most, below) = (self.max_tokens, self.vocabulary);
        Err(Error::ForeignTokens { expected: format!("1 to {most} tokens below {below}"), found })
    }
}

/// Returns why the packed path cannot run a model, if it cannot.
fn packed_obstacle(transformer: &Transformer) -> Option<String> {
    match transformer {
        Transformer::Bert { config, .. } => {
            config.packed().check().err().map(|error| error.to_string())
        }
        Transformer::Qwen2 { .. } => Some("a Qwen2".to_owned()),
    }
}

/// Returns the result of a thread, and ends in a panic if the thread did.
fn ended<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Converts a model size. Configurations bound sizes far below the limit of `u32`.
fn to_u32(size: usize) -> u32 {
    u32::try_from(size).expect("model sizes are bounded")
}
