//! Decoder-only language models: Qwen2 and Qwen2.5, Llama 2 and 3, Mistral.
//!
//! A layer normalises by the root mean square (Zhang and Sennrich, "Root Mean Square Layer
//! Normalization"), attends with rotary positions and grouped queries (Ainslie et al., "GQA"), and
//! runs a gated feed-forward part (Shazeer, "GLU Variants Improve Transformer").
//!
//! Sequences of a batch are not padded. The new tokens of all sequences are the rows of one matrix,
//! which the large products read. Each sequence attends over its own keys only: on a processor
//! sequence by sequence, on a GPU by one kernel for all that read a few tokens. So a sequence's
//! result does not depend on the others in the batch, and sequences join and leave between two
//! steps.

pub(crate) mod attention;
mod cache;
pub(crate) mod config;
pub(crate) mod cores;
#[cfg(feature = "gpu")]
mod few_rows;
#[cfg(feature = "gpu")]
pub(crate) mod kernels;
pub(crate) mod layers;
#[cfg(feature = "gpu")]
mod paged;
mod rope;
#[cfg(feature = "gpu")]
mod weighing;

use std::path::Path;

use burn::prelude::*;

use self::attention::{Heads, HiddenKeys, Sight, attend};
use self::cache::KvCache;
use self::config::DecoderConfig;
pub(crate) use self::config::Ends;
use self::cores::Cores;
use self::layers::{Layers, Linear, Loader, Piece};
use crate::checkpoint::Checkpoint;
use crate::folder::reader::FolderReader;
use crate::sampling::{self, TokenChoice};
use crate::{DeviceChoice, Error, Precision, device};

/// Decoder on one device.
pub struct Decoder {
    layers: Layers,
    /// Linear layer from states to `[rows, vocabulary]`; the embedding table if the head is tied.
    head: Linear,
    /// Keys and values of all sequences on a GPU.
    #[cfg(feature = "gpu")]
    pool: Option<std::sync::Arc<paged::Pool>>,
}

/// Sequence that a decoder has read so far.
pub struct Sequence(Kept);

/// Keys and values of a sequence.
enum Kept {
    /// In tensors of its own.
    Own(KvCache),
    /// In pages of the decoder's pool.
    #[cfg(feature = "gpu")]
    Paged(paged::Pages),
}

impl Sequence {
    /// Returns the number of tokens read so far.
    pub fn length(&self) -> usize {
        match &self.0 {
            Kept::Own(cache) => cache.length(),
            #[cfg(feature = "gpu")]
            Kept::Paged(pages) => pages.length(),
        }
    }

    /// Refuses more tokens than there is room for.
    fn check_room(&self, tokens: usize) -> Result<(), Error> {
        match &self.0 {
            Kept::Own(cache) => cache.check_room(tokens),
            #[cfg(feature = "gpu")]
            Kept::Paged(pages) => pages.check_room(tokens),
        }
    }

    /// Counts tokens that were stored in every layer.
    fn advance(&mut self, tokens: usize) {
        match &mut self.0 {
            Kept::Own(cache) => cache.advance(tokens),
            #[cfg(feature = "gpu")]
            Kept::Paged(pages) => pages.advance(tokens),
        }
    }
}

/// Work of a step on one sequence.
pub struct DecoderStep<'a> {
    /// The sequence.
    pub sequence: &'a mut Sequence,
    /// Tokens to read, at least one.
    pub tokens: &'a [u32],
    /// Tokens for which the step returns logits.
    pub wanted: WantedLogits,
}

/// Selection of the tokens of a step for which logits are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedLogits {
    /// None, because more of a prompt follows.
    Nothing,
    /// The last token.
    Last,
    /// Every token.
    All,
}

impl Decoder {
    /// Loads a model folder in Hugging Face layout, tensor by tensor. On a CPU the decoder computes
    /// on `threads` threads, or on one per core if that is 0. A GPU needs none.
    ///
    /// # Errors
    /// Returns any of the variants of [`Error`] about files, and [`Error::OptionUnavailable`] if
    /// the device or the number format is not available.
    pub fn load(
        folder: &Path,
        choice: DeviceChoice,
        precision: Precision,
        threads: usize,
    ) -> Result<Self, Error> {
        let reader = FolderReader::new(folder);
        let config = DecoderConfig::read(&reader)?;
        let checkpoint = Checkpoint::open(&reader)?;
        checkpoint.check(&config.parameters(), |name| config.ignores(name))?;
        let (device, dtype) = device::open_for(choice, precision)?;
        let cores = Cores::of(choice, threads)?;
        let loader = Loader { checkpoint: &checkpoint, device: &device, dtype, cores: &cores };
        let layers = Layers::load(config, &loader)?;
        let head = loader.head(&layers)?;
        #[cfg(feature = "gpu")]
        let pool = match choice.is_gpu() {
            true => paged::Pool::new(&layers.config, &device, dtype),
            false => None,
        };
        Ok(Self {
            layers,
            head,
            #[cfg(feature = "gpu")]
            pool,
        })
    }

    /// Returns the number of parameters. A tied head counts once.
    pub fn parameters(&self) -> usize {
        let sizes = self.layers.config.parameters();
        sizes.iter().map(|parameter| parameter.shape.iter().product::<usize>()).sum()
    }

    /// Returns the number of token ids.
    pub fn vocabulary(&self) -> usize {
        self.layers.config.vocabulary
    }

    /// Returns the maximum number of tokens in a sequence.
    pub fn positions(&self) -> usize {
        self.layers.config.positions
    }

    /// Returns the ids that end a text.
    pub fn ends(&self) -> &[u32] {
        &self.layers.config.ends
    }

    /// Returns the size in bytes of a sequence of `tokens` tokens on the device.
    pub fn sequence_bytes(&self, tokens: usize) -> usize {
        cache::bytes(&self.layers.config, self.layers.dtype, tokens)
    }

    /// Returns an empty sequence that may grow to `tokens`, at most to the number that the model
    /// reads.
    pub fn sequence(&self, tokens: usize) -> Sequence {
        let capacity = tokens.min(self.layers.config.positions);
        #[cfg(feature = "gpu")]
        if let Some(pool) = &self.pool {
            return Sequence(Kept::Paged(pool.sequence(capacity)));
        }
        Sequence(Kept::Own(KvCache::new(self.layers.config.layers, capacity)))
    }

    /// Reads more of each sequence. Returns the logits `[vocabulary]` of the next token for each
    /// wanted token, in the order of the steps.
    ///
    /// # Errors
    /// Returns [`Error::ForeignTokens`] or [`Error::TooLong`] before it reads anything. Returns
    /// [`Error::Device`] if the device fails; the sequences are then unusable.
    pub fn step(&self, steps: &mut [DecoderStep<'_>]) -> Result<Vec<Vec<f32>>, Error> {
        let Some(logits) = self.read(steps)? else { return Ok(Vec::new()) };
        let logits = logits.try_into_vec_as::<f32>().map_err(|error| {
            self.lose();
            Error::Device { reason: error.to_string() }
        })?;
        Ok(logits.chunks_exact(self.layers.config.vocabulary).map(<[f32]>::to_vec).collect())
    }

    /// Reads as [`Decoder::step`] does. Returns the next token for each wanted token, as
    /// `choices` says, or `None` if none can be chosen. It is called while the device reads.
    /// [`crate::sampling::choose`] says how the device chooses.
    ///
    /// # Errors
    /// Returns the errors of [`Decoder::step`].
    pub fn step_and_choose(
        &self,
        steps: &mut [DecoderStep<'_>],
        choices: impl FnOnce() -> Vec<TokenChoice>,
    ) -> Result<Vec<Option<u32>>, Error> {
        let logits = self.read(steps)?;
        let choices = choices();
        let Some(logits) = logits else { return Ok(Vec::new()) };
        sampling::chosen(logits, &choices).inspect_err(|_| self.lose())
    }

    /// Takes note that the device failed.
    fn lose(&self) {
        #[cfg(feature = "gpu")]
        if let Some(pool) = &self.pool {
            pool.lose();
        }
    }

    /// Reads more of each sequence. Returns the logits `[wanted, vocabulary]`, if any are wanted.
    fn read(&self, steps: &mut [DecoderStep<'_>]) -> Result<Option<Tensor<2>>, Error> {
        self.check(steps)?;
        if steps.is_empty() {
            return Ok(None);
        }
        let positions = steps.iter().map(|step| {
            let start = step.sequence.length();
            (start..start + step.tokens.len()).collect::<Vec<usize>>()
        });
        let positions: Vec<Vec<usize>> = positions.collect();
        let pieces: Vec<Piece<'_>> = steps
            .iter()
            .zip(&positions)
            .map(|(step, positions)| Piece { tokens: step.tokens, positions })
            .collect();
        let states = self.forward(&pieces, steps)?;
        for step in &mut *steps {
            step.sequence.advance(step.tokens.len());
        }
        Ok(self.logits(states, steps))
    }

    /// Returns the states of all new tokens, `[tokens, hidden]`.
    fn forward(
        &self,
        pieces: &[Piece<'_>],
        steps: &mut [DecoderStep<'_>],
    ) -> Result<Tensor<2>, Error> {
        #[cfg(feature = "gpu")]
        if let Some(pool) = &self.pool {
            let mut growths = Vec::with_capacity(steps.len());
            for step in &mut *steps {
                match &mut step.sequence.0 {
                    Kept::Paged(pages) if pages.are_of(pool) => {
                        growths.push(paged::Growth { pages, tokens: step.tokens.len() });
                    }
                    Kept::Paged(_) | Kept::Own(_) => return Err(foreign()),
                }
            }
            return Ok(self.layers.forward_rows(pieces, &mut pool.step(&mut growths)));
        }
        let mut caches = Vec::with_capacity(steps.len());
        for step in &mut *steps {
            match &mut step.sequence.0 {
                Kept::Own(cache) => caches.push(cache),
                #[cfg(feature = "gpu")]
                Kept::Paged(_) => return Err(foreign()),
            }
        }
        let mut hidden: Vec<HiddenKeys> = pieces.iter().map(|_| HiddenKeys::default()).collect();
        Ok(self.layers.forward(pieces, &mut |place, heads| {
            let sight = Sight::Back { window: place.window };
            let Heads { queries, keys, values } = heads;
            let cache = &mut caches[place.piece];
            let (keys, values, first) = cache.write(place.layer, keys, values, sight);
            attend(Heads { queries, keys, values }, first, sight, &mut hidden[place.piece])
        }))
    }

    fn check(&self, steps: &[DecoderStep<'_>]) -> Result<(), Error> {
        for step in steps {
            step.sequence.check_room(step.tokens.len())?;
            self.layers.config.check_tokens(step.tokens)?;
        }
        Ok(())
    }

    fn logits(&self, states: Tensor<2>, steps: &[DecoderStep<'_>]) -> Option<Tensor<2>> {
        let mut wanted: Vec<i64> = Vec::new();
        let mut row = 0;
        for step in steps {
            let end = row + step.tokens.len() as i64;
            match step.wanted {
                WantedLogits::Nothing => {}
                WantedLogits::Last => wanted.push(end - 1),
                WantedLogits::All => wanted.extend(row..end),
            }
            row = end;
        }
        let count = wanted.len();
        if count == 0 {
            return None;
        }
        let wanted =
            Tensor::<1, Int>::from_data(TensorData::new(wanted, [count]), &self.layers.device);
        let states = self.layers.normalised(states.select(0, wanted));
        Some(self.head.forward(states))
    }
}

/// Returns the refusal of a sequence that another decoder created.
#[cfg(feature = "gpu")]
fn foreign() -> Error {
    let reason = "a sequence belongs to another decoder".to_owned();
    Error::Device { reason }
}
