//! Keys and values of one sequence.

use burn::prelude::*;
use burn::tensor::DType;

use super::attention::Sight;
use super::config::DecoderConfig;
use crate::Error;

/// Tokens by which a cache grows at least: growing copies it.
const GROWTH: usize = 256;

/// The keys, already turned by their positions, and values of one sequence's tokens, in every layer.
///
/// Room is made in blocks that double, up to the capacity; a token's place never changes.
#[derive(Debug)]
pub(crate) struct KvCache {
    layers: Vec<LayerCache>,
    length: usize,
    capacity: usize,
}

/// Of one layer, `[kv_heads, room, head_width]` each. `None` only while it is written.
#[derive(Debug)]
struct LayerCache {
    keys: Option<Tensor<3>>,
    values: Option<Tensor<3>>,
}

impl KvCache {
    /// An empty cache for at most `capacity` tokens.
    pub(crate) fn new(layers: usize, capacity: usize) -> Self {
        let empty = || LayerCache { keys: None, values: None };
        Self { layers: (0..layers).map(|_| empty()).collect(), length: 0, capacity }
    }

    /// Tokens in it.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Refuses more tokens than there is room for.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub(crate) fn check_room(&self, tokens: usize) -> Result<(), Error> {
        match self.capacity - self.length >= tokens {
            true => Ok(()),
            false => Err(Error::TooLong { tokens: self.length + tokens, most: self.capacity }),
        }
    }

    /// Writes keys and values `[kv_heads, tokens, head_width]` of one layer behind those that are there,
    /// and returns all that the new tokens may see, with the position of the first.
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

/// Bytes that the cache of `tokens` tokens takes.
pub(crate) fn bytes(config: &DecoderConfig, dtype: DType, tokens: usize) -> usize {
    config.cache_bytes(dtype.size()) * tokens
}
