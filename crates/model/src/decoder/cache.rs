//! Key-value cache of one sequence.

use burn::prelude::*;
use burn::tensor::DType;

use super::attention::Sight;
use super::config::DecoderConfig;
use crate::Error;

/// Minimum number of tokens by which a cache grows, because growing copies it.
const GROWTH: usize = 256;

/// Keys, rotated by their positions, and values of one sequence's tokens, in every layer.
///
/// The cache grows in blocks that double, up to the capacity. A token's place never changes.
#[derive(Debug)]
pub(crate) struct KvCache {
    layers: Vec<LayerCache>,
    length: usize,
    capacity: usize,
}

/// Cache of one layer, `[kv_heads, room, head_width]` each. `None` before the first write, and
/// while it is written.
#[derive(Debug)]
struct LayerCache {
    keys: Option<Tensor<3>>,
    values: Option<Tensor<3>>,
}

impl KvCache {
    /// Creates an empty cache for at most `capacity` tokens.
    pub(crate) fn new(layers: usize, capacity: usize) -> Self {
        let empty = || LayerCache { keys: None, values: None };
        Self { layers: (0..layers).map(|_| empty()).collect(), length: 0, capacity }
    }

    /// Returns the number of tokens in the cache.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Refuses more tokens than there is room for.
    ///
    /// # Errors
    /// Returns [`Error::TooLong`] if they do not fit.
    pub(crate) fn check_room(&self, tokens: usize) -> Result<(), Error> {
        check_room(self.length, self.capacity, tokens)
    }

    /// Appends keys and values `[kv_heads, tokens, head_width]` to one layer. Returns all that the
    /// new tokens may attend to, with the position of the first.
    pub(crate) fn write(
        &mut self,
        layer: usize,
        keys: Tensor<3>,
        values: Tensor<3>,
        sight: Sight,
    ) -> (Tensor<3>, Tensor<3>, usize) {
        let [_, tokens, _] = keys.dims();
        let (start, end) = (self.length, self.length + tokens);
        let first = sight.first(start);
        let room = self.capacity;
        let layer = &mut self.layers[layer];
        let seen = |place: &mut Option<Tensor<3>>, new: Tensor<3>| {
            let all = write(place.take(), new, start, room);
            let [heads, _, width] = all.dims();
            let seen = all.clone().slice([0..heads, first..end, 0..width]);
            *place = Some(all);
            seen
        };
        (seen(&mut layer.keys, keys), seen(&mut layer.values, values), first)
    }

    /// Counts tokens that were written in every layer.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.length += tokens;
    }
}

fn write(all: Option<Tensor<3>>, new: Tensor<3>, start: usize, most: usize) -> Tensor<3> {
    let [heads, tokens, width] = new.dims();
    let room = all.as_ref().map_or(0, |all| all.dims()[1]);
    let end = start + tokens;
    let all = match all {
        Some(all) if end <= room => all,
        grown => {
            let wanted = end.max(room * 2).next_multiple_of(GROWTH).min(most);
            let larger = Tensor::zeros([heads, wanted, width], (&new.device(), new.dtype()));
            match grown {
                None => larger,
                Some(old) => {
                    let old = old.slice([0..heads, 0..start, 0..width]);
                    larger.slice_assign([0..heads, 0..start, 0..width], old)
                }
            }
        }
    };
    all.slice_assign([0..heads, start..end, 0..width], new)
}

/// Refuses `tokens` tokens more than a sequence of `length` tokens has room for.
///
/// # Errors
/// Returns [`Error::TooLong`] if they do not fit.
pub(crate) fn check_room(length: usize, capacity: usize, tokens: usize) -> Result<(), Error> {
    match capacity - length >= tokens {
        true => Ok(()),
        false => Err(Error::TooLong { tokens: length + tokens, most: capacity }),
    }
}

/// Returns the size in bytes of a cache of `tokens` tokens.
pub(crate) fn bytes(config: &DecoderConfig, dtype: DType, tokens: usize) -> usize {
    config.cache_bytes(dtype.size()) * tokens
}
