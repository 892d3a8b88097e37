//! Rerankers: cross-encoders that read a question and a passage together and score how well the
//! passage answers the question.
//!
//! Nogueira and Cho, "Passage Re-ranking with BERT", section 3: both texts in one sequence, and one
//! score from the state of its first token. Models published since have a layer with tanh in
//! between: BERT's pooler, or the first half of RoBERTa's classification head.

use std::path::Path;
use std::sync::Arc;

use clew_packed_bert::Kernel;
use clew_tokenizer::PairTokenizer;

use crate::batch::BatchBudget;
use crate::bert::{self, BertConfig, Family};
use crate::checkpoint::Checkpoint;
use crate::engine::{self, Engine, Tokens};
use crate::folder::reader::FolderReader;
use crate::folder::{TOKENIZER, check_vocabulary, read_bert};
use crate::pooling::Pooling;
use crate::route::Route;
use crate::trust::{Limits, Trust};
use crate::weights::{Parameter, Weights};
use crate::{EncodedPair, Error, ModelOptions, Scratch, device};

/// Cross-encoder in memory, shared by all threads that use it: a BERT or an XLM-RoBERTa with a
/// classification head of one label.
///
/// ```no_run
/// use clew_model::{ModelOptions, RerankerModel, Scratch};
///
/// let folder = std::path::Path::new("ms-marco-MiniLM-L-6-v2");
/// let reranker = RerankerModel::load(folder, &ModelOptions::default())?;
/// let passages = ["Vera moved to Lisbon in April.", "Lisbon lies on seven hills."];
/// let scores = reranker.score("who moved to Lisbon?", &passages, &mut Scratch::default())?;
/// assert!(scores[0] > scores[1]);
/// # Ok::<(), clew_model::Error>(())
/// ```
pub struct RerankerModel {
    vocabulary: usize,
    max_tokens: usize,
    budget: BatchBudget,
    tokenizer: PairTokenizer,
    engine: Engine,
    trust: Trust,
    head: Head,
}

/// Head that maps the state of the first token to the score: `score · tanh(dense · state)`, each
/// with a bias.
struct Head {
    /// `[hidden, hidden]`, one row per output.
    dense: Vec<f32>,
    /// `[hidden]`.
    dense_bias: Vec<f32>,
    /// `[hidden]`.
    score: Vec<f32>,
    score_bias: f32,
}

impl RerankerModel {
    /// Loads the model in `folder`: `config.json`, `tokenizer.json` and its weights. The name in
    /// `options` is not used.
    ///
    /// # Errors
    /// Returns an error if the folder is incomplete, broken, inconsistent or of another kind of
    /// model (including one with several labels), if this machine cannot honour the options, or if
    /// a GPU does not compute what the processor computes; see [`Error`].
    pub fn load(folder: &Path, options: &ModelOptions) -> Result<Arc<Self>, Error> {
        let folder = FolderReader::new(folder);
        let config = read_bert(&folder)?;
        let tokenizer_file = folder.read(TOKENIZER, "the model's tokenizer")?;
        let tokenizer = PairTokenizer::try_new(&folder.name(TOKENIZER), &tokenizer_file)?;
        check_vocabulary(&folder, tokenizer.largest_id(), config.vocabulary)?;
        if tokenizer.has_second_type() && config.token_types < 2 {
            return Err(Error::Inconsistent {
                file: folder.name(TOKENIZER),
                other: folder.name("config.json"),
                expected: "token type 0 for both texts, as `type_vocab_size` is 1".to_owned(),
                found: "type 1 for the second".to_owned(),
            });
        }
        let names = HeadNames::of(config.family);
        let mut parameters = config.parameters();
        parameters.extend(names.parameters(config.hidden));
        let weights = Checkpoint::open(&folder)?.relative_to(config.family.root())?;
        weights.check(&parameters, |name| match config.family {
            Family::Bert => bert::is_constant(name),
            Family::XlmRoberta => bert::is_ignored(name),
        })?;
        let obstacle = packed_obstacle(&config, &tokenizer);
        let route = Route::choose(options, obstacle, Kernel::detect, device::has_bfloat16)?;
        let load = |route| Engine::load_bert(route, &config, &weights);
        let engine = load(route)?;
        let limits = Limits {
            vocabulary: config.vocabulary,
            max_tokens: config.positions,
            has_types: config.token_types > 1,
        };
        let trust = Trust::earn(route, &engine, limits, load)?;
        tracing::info!(%route, "reranker loaded");
        Ok(Arc::new(Self {
            vocabulary: config.vocabulary,
            max_tokens: config.positions,
            budget: engine.budget(route, options.batch_tokens),
            tokenizer,
            engine,
            trust,
            head: Head::load(&names, &weights)?,
        }))
    }

    /// Returns the maximum number of tokens of a question and a passage together, special tokens
    /// included.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Encodes a question and a passage as tokens. If they do not fit together, only the passage is
    /// cut, and the result says so.
    ///
    /// # Errors
    /// Returns [`Error::TooLong`] if the question leaves no room for a passage.
    pub fn encode(&self, query: &str, passage: &str) -> Result<EncodedPair, Error> {
        self.tokenizer
            .encode(query, passage, self.max_tokens)
            .ok_or_else(|| Error::TooLong { tokens: self.max_tokens + 1, most: self.max_tokens })
    }

    /// Returns a score for each of `pairs`, in order; the higher, the better the passage answers
    /// the question. Scores are logits of any size and sign. Compare them for the same question
    /// only. Blocks, and computes on the caller's thread only. Each thread needs its own `scratch`.
    ///
    /// # Errors
    /// Returns [`Error::ForeignTokens`] if this model's tokenizer cannot have encoded a pair, and
    /// [`Error::Device`] if the device fails.
    pub fn score_pairs(
        &self,
        pairs: &[EncodedPair],
        scratch: &mut Scratch,
    ) -> Result<Vec<f32>, Error> {
        for pair in pairs {
            self.check_tokens(pair)?;
        }
        let tokens: Vec<Tokens<'_>> = pairs
            .iter()
            .map(|pair| Tokens { ids: &pair.ids, second_type_from: pair.second_type_from })
            .collect();
        let states = engine::in_batches(&tokens, self.budget, |batch| {
            self.engine.pooled(batch, Pooling::Cls, scratch)
        })?;
        let scores: Vec<f32> = states.iter().map(|state| self.head.score(state)).collect();
        match scores.iter().all(|score| score.is_finite()) {
            true => Ok(scores),
            false => {
                Err(Error::Device { reason: "it returned a score that is no number".to_owned() })
            }
        }
    }

    /// Checks that a GPU still computes what the processor computed when the model was loaded.
    /// Blocks, for some milliseconds. Computes nothing on a processor, which is trusted.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the GPU computes something else or fails.
    pub fn check(&self) -> Result<(), Error> {
        self.trust.check(&self.engine)
    }

    /// Calls [`Self::encode`] and [`Self::score_pairs`]. Returns a score for each of `passages`, in
    /// order. A passage that does not fit is scored by its beginning.
    ///
    /// # Errors
    /// Returns [`Error::TooLong`] if the question leaves no room for a passage, and
    /// [`Error::Device`] if the device fails.
    pub fn score(
        &self,
        query: &str,
        passages: &[&str],
        scratch: &mut Scratch,
    ) -> Result<Vec<f32>, Error> {
        let pairs = passages.iter().map(|passage| self.encode(query, passage));
        self.score_pairs(&pairs.collect::<Result<Vec<_>, Error>>()?, scratch)
    }

    fn check_tokens(&self, pair: &EncodedPair) -> Result<(), Error> {
        let ids = &pair.ids;
        let second_tokens = ids.len().saturating_sub(pair.second_type_from);
        let unknown = ids.iter().find(|&&id| id as usize >= self.vocabulary);
        let found = match unknown {
            Some(id) => format!("token {id}"),
            None if !(1..=self.max_tokens).contains(&ids.len()) => format!("{} tokens", ids.len()),
            None if second_tokens > 0 && !self.tokenizer.has_second_type() => {
                format!("{second_tokens} tokens of type 1")
            }
            None => return Ok(()),
        };
        let (most, below) = (self.max_tokens, self.vocabulary);
        Err(Error::ForeignTokens { expected: format!("1 to {most} tokens below {below}"), found })
    }
}

fn packed_obstacle(config: &BertConfig, tokenizer: &PairTokenizer) -> Option<String> {
    if tokenizer.has_second_type() {
        return Some("tokens of two types".to_owned());
    }
    config.packed().check().err().map(|error| error.to_string())
}

/// Names of the parts of the head in checkpoints, relative to the root.
struct HeadNames {
    dense: &'static str,
    score: &'static str,
}

impl HeadNames {
    fn of(family: Family) -> Self {
        match family {
            Family::Bert => Self { dense: "pooler.dense", score: "classifier" },
            Family::XlmRoberta => Self { dense: "classifier.dense", score: "classifier.out_proj" },
        }
    }

    fn parameters(&self, hidden: usize) -> [Parameter; 4] {
        let parameter =
            |name: &str, part: &str, shape| Parameter { name: format!("{name}.{part}"), shape };
        [
            parameter(self.dense, "weight", vec![hidden, hidden]),
            parameter(self.dense, "bias", vec![hidden]),
            parameter(self.score, "weight", vec![1, hidden]),
            parameter(self.score, "bias", vec![1]),
        ]
    }
}

impl Head {
    fn load(names: &HeadNames, weights: &Checkpoint) -> Result<Self, Error> {
        let values = |name: &str, part: &str| weights.values(&format!("{name}.{part}"));
        Ok(Self {
            dense: values(names.dense, "weight")?,
            dense_bias: values(names.dense, "bias")?,
            score: values(names.score, "weight")?,
            score_bias: values(names.score, "bias")?.iter().sum(),
        })
    }

    /// Returns the score of a first token's state `[hidden]`. Sums are in 64-bit floats: this is
    /// one small product per pair, beside the millions of the encoder.
    fn score(&self, state: &[f32]) -> f32 {
        let dot = |row: &[f32], state: &[f32]| -> f64 {
            row.iter().zip(state).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let rows = self.dense.chunks_exact(state.len()).zip(&self.dense_bias);
        let inner = rows.map(|(row, bias)| (dot(row, state) + f64::from(*bias)).tanh());
        let products = inner.zip(&self.score).map(|(value, weight)| value * f64::from(*weight));
        (products.sum::<f64>() + f64::from(self.score_bias)) as f32
    }
}
