//! Decoder-only language models: Qwen2 and Qwen2.5, Llama 2 and 3, Mistral.
//!
//! A layer normalises by the root mean square (Zhang and Sennrich, "Root Mean Square Layer
//! Normalization"), attends with rotary positions and grouped queries (Ainslie et al., "GQA"), and
//! runs a gated feed-forward part (Shazeer, "GLU Variants Improve Transformer").
//!
//! Sequences of a batch are not padded. The new tokens of all sequences are the rows of one matrix,
//! which the large products read. Only attention runs sequence by sequence, each over its own
//! cache. So a sequence's result does not depend on the others in the batch, and sequences join and
//! leave between two steps.

pub(crate) mod attention;
mod cache;
pub(crate) mod config;
pub(crate) mod cores;
pub(crate) mod layers;
mod rope;

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
use crate::{DeviceChoice, Error, Precision, device};

/// Decoder on one device.
pub struct Decoder {
    layers: Layers,
    /// Linear layer from states to `[rows, vocabulary]`; the embedding table if the head is tied.
    head: Linear,
}

/// Sequence that a decoder has read so far.
pub struct Sequence(KvCache);

impl Sequence {
    /// Returns the number of tokens read so far.
    pub fn length(&self) -> usize {
        self.0.length()
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
        Ok(Self { layers, head })
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
        Sequence(KvCache::new(self.layers.config.layers, tokens.min(self.layers.config.positions)))
    }

    /// Reads more of each sequence. Returns the logits `[vocabulary]` of the next token for each
    /// wanted token, in the order of the steps.
    ///
    /// # Errors
    /// Returns [`Error::ForeignTokens`] or [`Error::TooLong`] before it reads anything. Returns
    /// [`Error::Device`] if the device fails; the sequences are then unusable.
    pub fn step(&self, steps: &mut [DecoderStep<'_>]) -> Result<Vec<Vec<f32>>, Error> {
        self.check(steps)?;
        if steps.is_empty() {
            return Ok(Vec::new());
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
        let mut hidden: Vec<HiddenKeys> = pieces.iter().map(|_| HiddenKeys::default()).collect();
        let states = self.layers.forward(&pieces, &mut |place, heads| {
            let sight = Sight::Back { window: place.window };
            let Heads { queries, keys, values } = heads;
            let cache = &mut steps[place.piece].sequence.0;
            let (keys, values, first) = cache.write(place.layer, keys, values, sight);
            attend(Heads { queries, keys, values }, first, sight, &mut hidden[place.piece])
        });
        for step in &mut *steps {
            step.sequence.0.advance(step.tokens.len());
        }
        self.logits(states, steps)
    }

    fn check(&self, steps: &[DecoderStep<'_>]) -> Result<(), Error> {
        for step in steps {
            step.sequence.0.check_room(step.tokens.len())?;
            self.layers.config.check_tokens(step.tokens)?;
        }
        Ok(())
    }

    fn logits(&self, states: Tensor<2>, steps: &[DecoderStep<'_>]) -> Result<Vec<Vec<f32>>, Error> {
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
            return Ok(Vec::new());
        }
        let wanted =
            Tensor::<1, Int>::from_data(TensorData::new(wanted, [count]), &self.layers.device);
        let states = self.layers.normalised(states.select(0, wanted));
        let logits = self.head.forward(states).try_into_vec_as::<f32>();
        let logits = logits.map_err(|error| Error::Device { reason: error.to_string() })?;
        Ok(logits.chunks_exact(self.layers.config.vocabulary).map(<[f32]>::to_vec).collect())
    }
}
