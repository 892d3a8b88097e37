//! Memory models: decoders that read a text of any length once, and keep the keys and values of one
//! memory token for every few tokens of the text.
//!
//! Qian et al., "MemoRAG: Moving towards Next-Gen RAG Via Memory-Inspired Knowledge Discovery",
//! section 2.2. Details that the paper leaves open are as in the published models. A text is read
//! in windows. Memory tokens stand between its tokens and have query, key and value projections of
//! their own. When a window is complete, its memory tokens stay and its words are dropped. The
//! unfinished last window stays as it is. A slot's position is its index, which can change, so keys
//! are kept before rotation by positions.
//!
//! ```text
//! text     ─► w w w w m w w w w m │ w w w w m w w w w m │ w w w      r = 4, windows of 8
//! memory   ─►         m         m           m         m   w w w      what the next token sees
//! ```

mod cache;
mod cost;
mod exchange;
mod front;
mod layout;
mod prompts;
mod reader;
mod schedule;
mod settings;
mod slots;
mod snapshot;
pub mod training;

use std::ops::Range;
use std::path::Path;

use burn::prelude::*;

use self::cache::{Growing, LayerMemory, Window};
use self::layout::Rows;
use self::settings::BeginsAs;
use crate::checkpoint::Checkpoint;
use crate::decoder::WantedLogits;
use crate::decoder::attention::HiddenKeys;
use crate::decoder::config::{DecoderConfig, MemoryParts};
use crate::decoder::cores::Cores;
use crate::decoder::layers::{Layers, Linear, Loader, Piece};
use crate::folder::reader::FolderReader;
use crate::sampling::{self, TokenChoice};
use crate::{DeviceChoice, Error, Precision, device};

pub use cost::{MemoryCost, MemoryShape};
pub use exchange::{Exchange, PassSlots, Share};
pub use layout::{Extent, Uncompressed};
pub use prompts::{Draft, Prompts, drafted_lines};
pub use reader::{DraftRequest, Drafted, GoOn, MemoryReader, Together};
pub use schedule::{Mix, RatioSchedule, Ratios};
pub use settings::{MemoryModelSettings, Placement};
pub use snapshot::{LayerData, MemorySnapshot, SlotData, SnapshotFormat};

/// Number of rows that a pass computes at once by default. More windows side by side are not
/// faster.
pub const ROWS_AT_ONCE: usize = 4096;

/// Memory model on one device.
pub struct MemoryModel {
    layers: Layers,
    /// Linear layer from states to `[rows, vocabulary]`.
    head: Linear,
    settings: MemoryModelSettings,
    /// Hash of the configuration and all weights.
    fingerprint: String,
}

/// Memory of the texts that a model has read. Copies share tensors, and change independently.
#[derive(Clone, Debug)]
pub struct MemoryState {
    extent: Extent,
    layers: Vec<LayerMemory>,
}

impl MemoryState {
    /// Returns how far the memory has read, and what its slots are.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }
}

/// Tokens that a pass is to read into one memory.
pub struct MemoryInput<'a> {
    /// The memory.
    pub memory: &'a mut MemoryState,
    /// Tokens to read, at least one.
    pub tokens: &'a [u32],
    /// Tokens for which logits are returned.
    pub wanted: WantedLogits,
}

impl MemoryModel {
    /// Loads a model folder in Hugging Face layout, to compute on `threads` CPU threads, or on one
    /// per core if that is 0.
    ///
    /// A checkpoint without parameters of memory tokens is a base model that is to be trained. Its
    /// memory tokens begin as copies.
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
        let (device, dtype) = device::open_for(choice, precision)?;
        Self::load_on(&FolderReader::new(folder), &device, dtype, &Cores::of(choice, threads)?)
    }

    fn load_on(
        reader: &FolderReader,
        device: &Device,
        dtype: burn::tensor::DType,
        cores: &Cores,
    ) -> Result<Self, Error> {
        let settings = MemoryModelSettings::read(reader)?;
        let mut config = DecoderConfig::read(reader)?;
        // The reference reads windows of the text, and ignores the base model's sliding windows.
        config.windows.fill(None);
        let checkpoint = Checkpoint::open(reader)?;
        let begins_as = match settings.begins_as {
            BeginsAs::Eos => config.ends.first().copied(),
            BeginsAs::Bos => config.begin,
        };
        let is_base = !checkpoint.has(|name| name.contains("beacon_"));
        let copied_from = match (is_base, begins_as) {
            (false, _) => None,
            (true, Some(id)) if (id as usize) < config.vocabulary => Some(id),
            (true, found) => {
                let expected =
                    "the id of a token that memory tokens begin as (`beacon_embed_init`)";
                return Err(reader.broken("config.json", expected, format!("{found:?}")));
            }
        };
        let projections = settings.projections.clone();
        config.memory = Some(MemoryParts { projections, copied_from });
        checkpoint.check(&config.parameters(), |name| config.ignores(name))?;
        let fingerprint = checkpoint.fingerprint(&(&config, &settings))?;
        let loader = Loader { checkpoint: &checkpoint, device, dtype, cores };
        let layers = Layers::load(config, &loader)?;
        let head = loader.head(&layers)?;
        Ok(Self { layers, head, settings, fingerprint })
    }

    /// Returns the layout of the model's memory tokens.
    pub fn settings(&self) -> &MemoryModelSettings {
        &self.settings
    }

    /// Returns a hash of the model's configuration and weights, which identifies the model.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Adds `what` to the fingerprint, for other inputs that have an influence on memories.
    pub(crate) fn also_tell_by(&mut self, what: &[u8]) {
        let mut hash = blake3::Hasher::new();
        hash.update(self.fingerprint.as_bytes()).update(what);
        self.fingerprint = hash.finalize().to_hex()[..32].to_owned();
    }

    /// Returns the number of token ids.
    pub fn vocabulary(&self) -> usize {
        self.layers.config.vocabulary
    }

    /// Returns the maximum number of slots of a memory that the model was trained to look back
    /// over.
    pub fn positions(&self) -> usize {
        self.layers.config.positions
    }

    /// Returns the ids that end a text.
    pub fn ends(&self) -> &[u32] {
        &self.layers.config.ends
    }

    /// Returns the number of layers, each of which keeps keys and values of every slot.
    pub fn layers(&self) -> usize {
        self.layers.config.layers
    }

    /// Returns the size in bytes of `slots` slots on the device.
    pub fn slot_bytes(&self, slots: usize) -> usize {
        self.layers.config.cache_bytes(self.layers.dtype.size()) * slots
    }

    /// Returns an empty memory that compresses by `schedule`.
    pub fn memory(&self, schedule: RatioSchedule) -> MemoryState {
        self.memory_beside(schedule, Uncompressed::default())
    }

    /// Returns an empty memory of a text of which some parts are kept uncompressed.
    pub fn memory_beside(
        &self,
        schedule: RatioSchedule,
        uncompressed: Uncompressed,
    ) -> MemoryState {
        let layers = vec![LayerMemory::default(); self.layers.config.layers];
        MemoryState { extent: Extent::new(schedule, uncompressed), layers }
    }

    /// Copies a memory off the device.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub fn save(&self, memory: &MemoryState) -> Result<MemorySnapshot, Error> {
        let layers = memory.layers.iter().map(LayerMemory::data).collect::<Result<_, Error>>()?;
        let fingerprint = self.fingerprint.clone();
        Ok(MemorySnapshot { fingerprint, extent: memory.extent.clone(), layers })
    }

    /// Restores a memory that was saved. Each layer leaves the processor's memory as soon as the
    /// device has it.
    ///
    /// # Errors
    /// Returns [`Error::Inconsistent`] if another model has read the memory, or if no reading can
    /// lead to it.
    pub fn restore(&self, snapshot: MemorySnapshot) -> Result<MemoryState, Error> {
        if snapshot.fingerprint != self.fingerprint {
            return Err(snapshot::inconsistent(
                format!("a memory of the model {}", self.fingerprint),
                format!("one of the model {}; form it anew", snapshot.fingerprint),
            ));
        }
        snapshot.check(&self.layers.config, &self.settings)?;
        let (device, dtype) = (&self.layers.device, self.layers.dtype);
        let layers = snapshot.layers.into_iter().map(|layer| LayerMemory::of(layer, device, dtype));
        Ok(MemoryState { extent: snapshot.extent, layers: layers.collect() })
    }

    /// Prepares a memory that is read repeatedly, by questions that are each answered over a copy
    /// of it. Reading prepares it as well. It then takes half as much again on the device.
    pub fn prepare(&self, memory: &mut MemoryState) {
        for layer in &mut memory.layers {
            layer.prepare(&self.layers);
        }
    }

    /// Reads more into each memory. As many windows as fit into a pass are computed side by side.
    /// Returns the logits `[vocabulary]` of the next token for each wanted token, in the order of
    /// the readings.
    ///
    /// The result does not depend on the pieces in which a text is read. The exception is a model
    /// with a sink, for which the first piece has to hold a whole window.
    ///
    /// # Errors
    /// Returns [`Error::ForeignTokens`], or [`Error::OptionUnavailable`] if the ratios do not
    /// divide the window, before it reads anything. Returns [`Error::Device`] if the device fails;
    /// the memories are then unusable.
    pub fn read(&self, readings: &mut [MemoryInput<'_>]) -> Result<Vec<Vec<f32>>, Error> {
        self.read_side_by_side(readings, ROWS_AT_ONCE)
    }

    /// Calls [`MemoryModel::read`] with passes of about `rows` rows, and at least one window of
    /// each memory.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryModel::read`].
    pub fn read_side_by_side(
        &self,
        readings: &mut [MemoryInput<'_>],
        rows: usize,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let mut answers: Vec<Vec<Vec<f32>>> = readings.iter().map(|_| Vec::new()).collect();
        self.read_by(readings, rows, &mut |logits, of| {
            let logits = logits.try_into_vec_as::<f32>();
            let logits = logits.map_err(|error| Error::Device { reason: error.to_string() })?;
            let rows = logits.chunks_exact(self.vocabulary()).map(<[f32]>::to_vec);
            of.iter().zip(rows).for_each(|(of, logits)| answers[*of].push(logits));
            Ok(())
        })?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Reads as [`MemoryModel::read`] does, where the last token of each reading is wanted. Returns
    /// the token that follows it, as its choice says, or `None` if none can be chosen. The device
    /// chooses, so that a few bytes are read back instead of logits.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryModel::read`].
    pub(crate) fn read_and_choose(
        &self,
        readings: &mut [MemoryInput<'_>],
        choices: Vec<TokenChoice>,
    ) -> Result<Vec<Option<u32>>, Error> {
        let mut tokens = vec![None; readings.len()];
        let mut choices: Vec<Option<TokenChoice>> = choices.into_iter().map(Some).collect();
        self.read_by(readings, ROWS_AT_ONCE, &mut |logits, of| {
            let own = of.iter().map(|of| choices[*of].take().unwrap_or_default());
            let chosen = sampling::chosen(logits, &own.collect::<Vec<_>>())?;
            of.iter().zip(chosen).for_each(|(of, token)| tokens[*of] = token);
            Ok(())
        })?;
        Ok(tokens)
    }

    /// Reads more into each memory, as [`MemoryModel::read_side_by_side`] does. Calls `answer` for
    /// each pass with wanted tokens.
    fn read_by(
        &self,
        readings: &mut [MemoryInput<'_>],
        rows: usize,
        answer: &mut Answer<'_>,
    ) -> Result<(), Error> {
        for reading in &*readings {
            self.check(reading)?;
        }
        let mut rest: Vec<&[u32]> = readings.iter().map(|reading| reading.tokens).collect();
        while rest.iter().any(|rest| !rest.is_empty()) {
            let each = rows / rest.iter().filter(|rest| !rest.is_empty()).count();
            let mut passes = Vec::new();
            for (at, (reading, rest)) in readings.iter_mut().zip(&mut rest).enumerate() {
                if rest.is_empty() {
                    continue;
                }
                let begin = reading.memory.extent.sink + reading.memory.extent.memory;
                let rows = self.next_pass(&mut reading.memory.extent, rest, each);
                let mut pass = Pass { of: at, begin, rows, wanted: reading.wanted };
                if pass.wanted == WantedLogits::Last && !rest.is_empty() {
                    pass.wanted = WantedLogits::Nothing;
                }
                passes.push(pass);
            }
            let growing = passes.iter().map(|pass| {
                let layers = readings[pass.of].memory.layers.iter_mut();
                let begun = layers.map(|layer| {
                    // Later passes read the same keys again.
                    layer.turn(&self.layers);
                    layer.begin(&self.layers)
                });
                begun.collect::<Vec<_>>()
            });
            let mut growing: Vec<Vec<Growing>> = growing.collect();
            let states = self.forward(&passes, &mut |pass, layer, window| {
                growing[pass][layer].attend(&self.layers, window)
            });
            for (pass, growing) in passes.iter().zip(growing) {
                let layers = readings[pass.of].memory.layers.iter_mut();
                layers.zip(growing).for_each(|(layer, growing)| layer.end(growing));
            }
            let (wanted, of): (Vec<i64>, Vec<usize>) = self.wanted(&passes).into_iter().unzip();
            if !wanted.is_empty() {
                answer(self.head_of(states, wanted), &of)?;
            }
        }
        Ok(())
    }

    /// Returns the part of `tokens` that completes windows of its own: from the end of the window
    /// that is open, or of the sink, to the end of the last window that they complete. The part is
    /// empty if there is no such window.
    pub fn whole_windows(&self, memory: &MemoryState, tokens: &[u32]) -> Range<usize> {
        let (mut extent, mut rest) = (memory.extent.clone(), tokens);
        let mut ends: Option<Range<usize>> = None;
        loop {
            let read = tokens.len() - rest.len();
            if extent.is_between_windows(&self.settings) {
                ends = Some(ends.map_or(read, |ends| ends.start)..read);
            }
            if rest.is_empty() {
                return ends.unwrap_or(read..read);
            }
            extent.read(&mut rest, self.memory_id(), &self.settings);
        }
    }

    /// Reads more into a memory, pass by pass. Calls `go_on` after each with its number of tokens,
    /// and returns whether it always returned true; if not, the rest is not read.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryModel::read`].
    pub(crate) fn read_by_passes(
        &self,
        memory: &mut MemoryState,
        tokens: &[u32],
        go_on: &mut GoOn<'_>,
    ) -> Result<bool, Error> {
        let mut rest = tokens;
        while !rest.is_empty() {
            let mut after = rest;
            self.next_pass(&mut memory.extent.clone(), &mut after, ROWS_AT_ONCE);
            let (tokens, _) = rest.split_at(rest.len() - after.len());
            let wanted = WantedLogits::Nothing;
            self.read(&mut [MemoryInput { memory, tokens, wanted }])?;
            // What is asked next must not wait behind all passes of a long text.
            memory.layers.last().map_or(Ok(()), LayerMemory::wait)?;
            if !go_on(tokens.len()) {
                return Ok(false);
            }
            rest = after;
        }
        Ok(true)
    }

    /// Lays out the next pass over `rest`: windows up to about `most` rows, and at least one.
    fn next_pass(&self, extent: &mut Extent, rest: &mut &[u32], most: usize) -> Vec<Rows> {
        let mut windows: Vec<Rows> = Vec::new();
        let mut count = 0;
        loop {
            let rows = extent.read(rest, self.memory_id(), &self.settings);
            count += rows.ids.len();
            let is_last = rows.ends_pass() || rest.is_empty() || count + rows.ids.len() > most;
            windows.push(rows);
            if is_last {
                return windows;
            }
        }
    }

    fn check(&self, MemoryInput { memory, tokens, .. }: &MemoryInput<'_>) -> Result<(), Error> {
        if !memory.extent.fits(self.settings.window) {
            return Err(Error::OptionUnavailable {
                option: "ratios",
                expected: format!("ratios that divide the window of {}", self.settings.window),
                found: "others".to_owned(),
            });
        }
        self.layers.config.check_tokens(tokens)
    }

    /// Returns the id of memory tokens, one past the embedding table. Configurations bound the
    /// vocabulary.
    fn memory_id(&self) -> u32 {
        self.vocabulary() as u32
    }

    /// Returns the states of all rows, one below the other, `[rows, hidden]`, not normalised. In
    /// each layer it calls `attend` for each window with the index of its pass, and the layer.
    fn forward(&self, passes: &[Pass], attend: &mut Attend<'_>) -> Tensor<2> {
        let all = passes.iter().enumerate();
        let all = all.flat_map(|(at, pass)| pass.rows.iter().map(move |rows| (at, rows)));
        let all: Vec<(usize, &Rows)> = all.collect();
        let pieces = all.iter().map(|(_, rows)| *rows);
        let pieces = pieces.map(|rows| Piece { tokens: &rows.ids, positions: &rows.positions });
        let pieces: Vec<Piece<'_>> = pieces.collect();
        let hidden = all.iter().map(|(pass, rows)| passes[*pass].hidden(rows));
        let mut hidden: Vec<HiddenKeys> = hidden.collect();
        self.layers.forward(&pieces, &mut |place, heads| {
            let (pass, rows) = all[place.piece];
            let (hidden, plain_keys) = (&mut hidden[place.piece], (place.plain_keys)());
            attend(pass, place.layer, Window { rows, hidden, heads, plain_keys })
        })
    }

    /// Returns the logits of `rows`, `[rows, vocabulary]`.
    fn head_of(&self, states: Tensor<2>, rows: Vec<i64>) -> Tensor<2> {
        let count = rows.len();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &self.layers.device);
        self.head.forward(self.layers.normalised(states.select(0, rows)))
    }

    /// Returns the rows of wanted words, each with the index of its reading.
    fn wanted(&self, passes: &[Pass]) -> Vec<(i64, usize)> {
        let mut wanted = Vec::new();
        let mut row = 0;
        for pass in passes {
            let ids = pass.rows.iter().flat_map(|rows| &rows.ids);
            let words = ids.enumerate().filter(|(_, id)| **id != self.memory_id());
            let words: Vec<i64> = words.map(|(at, _)| row + at as i64).collect();
            let taken = match pass.wanted {
                WantedLogits::Nothing => &[],
                WantedLogits::Last => &words[words.len().saturating_sub(1)..],
                WantedLogits::All => &words[..],
            };
            wanted.extend(taken.iter().map(|row| (*row, pass.of)));
            row += pass.rows.iter().map(|rows| rows.ids.len() as i64).sum::<i64>();
        }
        wanted
    }
}

/// Function that computes the attention of a window, `[rows, heads * width]`, given the index of
/// its pass and the layer.
type Attend<'a> = dyn FnMut(usize, usize, Window<'_>) -> Tensor<2> + 'a;

/// Function that takes logits `[wanted, vocabulary]`, and the index of each row's reading.
type Answer<'a> = dyn FnMut(Tensor<2>, &[usize]) -> Result<(), Error> + 'a;

/// Consecutive rows of one memory that are computed at once.
struct Pass {
    /// Index of the reading.
    of: usize,
    /// Number of slots of sink and memory before the pass.
    begin: usize,
    rows: Vec<Rows>,
    wanted: WantedLogits,
}

impl Pass {
    fn hidden(&self, rows: &Rows) -> HiddenKeys {
        let grown = rows.front - self.begin;
        match rows.hidden_beside(grown) {
            Some(hidden) => HiddenKeys::given(hidden),
            None => HiddenKeys::default(),
        }
    }
}
