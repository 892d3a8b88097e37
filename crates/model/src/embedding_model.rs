//! The model as its callers see it: texts in, unit vectors out.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use clew_core::{Embedding, EncoderIdentity, Span, TextKind};
use clew_packed_bert::Kernel;
use clew_tokenizer::EncoderTokenizer;

use crate::batch::Budget;
use crate::engine::{Engine, Tokens};
use crate::folder::{ModelFolder, Prompts, Transformer};
use crate::pooling::{Pooling, to_unit};
use crate::route::Route;
use crate::{EncodedText, Error, ModelOptions, Precision, Scratch, engine};

/// An embedding model in memory, shared by all threads that use it.
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
    budget: Budget,
    pooling: Pooling,
    prompts: Prompts,
    tokenizer: EncoderTokenizer,
    /// What a text without any token is read as.
    blank: u32,
    tokenizer_json: Arc<[u8]>,
    engine: Engine,
}

/// How a loaded model runs; prints as `packed avx512-bf16 in bfloat16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    route: Route,
}

impl Description {
    /// Which kernel of the packed path computes, or `None` where Burn does.
    pub fn packed_kernel(&self) -> Option<Kernel> {
        match self.route {
            Route::Packed(kernel) => Some(kernel),
            Route::Burn(..) => None,
        }
    }

    /// In which number format the large matrix products read their factors.
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
    /// Loads the model in `folder`. Reads the whole folder and takes as long: below a second for
    /// 90 MB.
    ///
    /// # Errors
    /// A folder that is incomplete, broken, inconsistent or of another kind of model, and options
    /// that this machine cannot honour; see [`Error`].
    pub fn load(folder: &Path, options: &ModelOptions) -> Result<Arc<Self>, Error> {
        let folder = ModelFolder::open(folder)?;
        let route = Route::choose(options, packed_obstacle(&folder.transformer), Kernel::detect)?;
        let engine = Engine::load(route, &folder)?;
        let identity = EncoderIdentity {
            model: options.name.clone().unwrap_or_else(|| folder.name.clone()),
            revision: folder.revision.clone(),
            dimension: to_u32(folder.dimension),
            max_tokens: to_u32(folder.max_tokens),
        };
        tracing::info!(model = identity.model, revision = identity.revision, %route, "model loaded");
        Ok(Arc::new(Self {
            identity,
            description: Description { route },
            vocabulary: folder.vocabulary,
            max_tokens: folder.max_tokens,
            budget: route.budget(engine.layout(), options.batch_tokens),
            pooling: folder.pooling,
            prompts: folder.prompts,
            tokenizer: folder.tokenizer,
            blank: folder.blank,
            tokenizer_json: folder.tokenizer_json,
            engine,
        }))
    }

    /// Which model this is. Its revision is a fingerprint of weights, tokenizer, window, pooling and
    /// prompts; the precision is not part of it, as vectors of either can be compared.
    pub fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    /// The content of its `tokenizer.json`, for those who cut texts for it elsewhere.
    pub fn tokenizer_json(&self) -> &Arc<[u8]> {
        &self.tokenizer_json
    }

    /// How it runs here.
    pub fn describe(&self) -> &Description {
        &self.description
    }

    /// How many tokens one step computes, and whether padding counts.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The byte range of each token of `text`, special tokens left out, to its end, however long it
    /// is.
    ///
    /// Ranges lie between characters and do not run backwards; tokens that come from one character
    /// share its range. Costs about a microsecond a token.
    pub fn token_spans(&self, text: &str) -> Vec<Span> {
        self.tokenizer.spans(text)
    }

    /// Reads `text` into tokens, up to the model's window, with the prompt that the model wants
    /// before a text of `kind`. May run on any thread, and stops reading where the window is full.
    /// A text without tokens, for a model without special tokens, is read as the end of one.
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

    /// Embeds `texts`, in order, in batches within the budget. Blocks, on the caller's thread alone;
    /// give each thread its own `scratch`.
    ///
    /// # Errors
    /// [`Error::ForeignTokens`] for texts that this model's tokenizer cannot have encoded;
    /// [`Error::Device`].
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

    /// The vectors of `texts` `[dimension]`, in order, as the model's own steps leave them but for
    /// normalising: of any length. For models that compare vectors by dot product.
    ///
    /// # Errors
    /// As [`Self::embed`].
    pub fn pooled(
        &self,
        texts: &[EncodedText],
        scratch: &mut Scratch,
    ) -> Result<Vec<Vec<f32>>, Error> {
        self.in_batches(texts, |batch| self.engine.pooled(batch, self.pooling, scratch))
    }

    /// The states of the tokens of `texts`, in order, `[tokens, hidden]` for each, special tokens
    /// included: what is pooled.
    ///
    /// # Errors
    /// As [`Self::embed`].
    pub fn token_states(
        &self,
        texts: &[EncodedText],
        scratch: &mut Scratch,
    ) -> Result<Vec<Vec<f32>>, Error> {
        self.in_batches(texts, |batch| self.engine.states(batch, scratch))
    }

    /// What `compute` makes of batches within the budget, in the order of `texts`.
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

    /// [`Self::encode`] and [`Self::embed`] in one call.
    ///
    /// # Errors
    /// [`Error::Device`].
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

/// Why the packed path cannot run a model, if it cannot.
fn packed_obstacle(transformer: &Transformer) -> Option<String> {
    match transformer {
        Transformer::Bert { config, .. } => {
            config.packed().check().err().map(|error| error.to_string())
        }
        Transformer::Qwen2 { .. } => Some("a Qwen2".to_owned()),
    }
}

/// Sizes of a model are bounded far below when its configuration is read.
fn to_u32(size: usize) -> u32 {
    u32::try_from(size).expect("model sizes are bounded")
}
