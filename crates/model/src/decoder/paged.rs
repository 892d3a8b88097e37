//! Keys and values of a decoder's sequences on a GPU, in pages of one pool for each layer.
//!
//! Kwon et al., "Efficient Memory Management for Large Language Model Serving with
//! PagedAttention", section 4.2: a sequence has a table of pages, so that sequences of any length
//! lie in one tensor without padding, and one kernel attends for all of them.

use std::sync::{Arc, Mutex, MutexGuard};

use burn::backend::Dispatch;
use burn::prelude::*;
use burn::tensor::DType;

use super::attention::{Heads, HiddenKeys, Sight, attend};
use super::cache::check_room;
use super::config::DecoderConfig;
use super::kernels::{Attending, ENTRY, FEW, FewAttention, HeadShape, PAGE};
use super::layers::RowHeads;
use crate::Error;

/// Minimum number of pages of a pool.
const LEAST_PAGES: usize = 16;

/// Pages of all sequences of a decoder.
#[derive(Debug)]
pub(super) struct Pool {
    shape: HeadShape,
    device: Device,
    dtype: DType,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Keys and values of each layer, `[pages, kv_heads, PAGE, width]` each. `None` before the
    /// first step, and while a layer is written.
    layers: Vec<Option<[Tensor<4>; 2]>>,
    /// Number of pages that the tensors have.
    pages: usize,
    free: Vec<usize>,
    /// Number of times that the device failed and all pages were lost.
    losses: u64,
}

impl State {
    /// Drops what a device that failed may have left in any state.
    fn lose(&mut self) {
        self.layers.fill(None);
        self.losses += 1;
    }
}

/// Pages of one sequence. They return to the pool with it.
#[derive(Debug)]
pub(super) struct Pages {
    pool: Arc<Pool>,
    pages: Vec<usize>,
    length: usize,
    capacity: usize,
    /// Losses of the pool before the sequence began.
    losses: u64,
}

/// New tokens of one sequence in a step.
pub(super) struct Growth<'a> {
    pub(super) pages: &'a mut Pages,
    pub(super) tokens: usize,
}

/// Run of consecutive rows that attend in the same way.
enum Run {
    /// Few tokens of each of several sequences, at once.
    Few { plan: Tensor<1, Int>, entries: usize, most_seen: usize },
    /// Many tokens of one sequence, from `row` on.
    Many { row: usize, tokens: usize, start: usize, pages: Tensor<1, Int> },
}

impl Pool {
    /// Creates an empty pool, or returns `None` if the kernels cannot attend with these heads.
    pub(super) fn new(config: &DecoderConfig, device: &Device, dtype: DType) -> Option<Arc<Self>> {
        let DecoderConfig { heads, kv_heads, head_width: width, layers, .. } = *config;
        let shape = HeadShape { heads, kv_heads, width };
        let state = State { layers: vec![None; layers], pages: 0, free: Vec::new(), losses: 0 };
        let pool = Self { shape, device: device.clone(), dtype, state: Mutex::new(state) };
        shape.fits().then(|| Arc::new(pool))
    }

    /// Returns an empty sequence of at most `capacity` tokens.
    pub(super) fn sequence(self: &Arc<Self>, capacity: usize) -> Pages {
        let (pool, losses) = (Arc::clone(self), self.lock().losses);
        Pages { pool, pages: Vec::new(), length: 0, capacity, losses }
    }

    /// Takes note that the device failed. Sequences that have begun can no longer be read.
    pub(super) fn lose(&self) {
        self.lock().lose();
    }

    /// Locks the state. A step that panicked may have left a layer without its pages.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            state.lose();
            state
        })
    }

    /// Returns the function that stores and attends in each layer of a step.
    pub(super) fn step<'a>(
        &'a self,
        growths: &'a mut [Growth<'_>],
    ) -> impl FnMut(RowHeads<'_>) -> Tensor<2> + 'a {
        let mut state = self.lock();
        for Growth { pages, tokens } in &mut *growths {
            let wanted = (pages.length + *tokens).div_ceil(PAGE);
            while pages.pages.len() < wanted {
                pages.pages.push(self.page(&mut state));
            }
        }
        let of_row = growths.iter().flat_map(|Growth { pages, tokens }| {
            (pages.length..pages.length + tokens)
                .map(|at| pages.pages[at / PAGE] * PAGE + at % PAGE)
        });
        let places = self.numbers(of_row.collect());
        let runs = self.runs(growths);
        let mut hidden: Vec<HiddenKeys> = runs.iter().map(|_| HiddenKeys::default()).collect();
        move |RowHeads { layer, window, projected, cosines, sines }| {
            let [keys, values] = state.layers[layer]
                .take()
                .unwrap_or_else(|| [0; 2].map(|_| self.zeros(state.pages)));
            let (queries, keys, values) = Dispatch::store_in_pages(
                projected.into_dispatch(),
                cosines.clone().into_dispatch(),
                sines.clone().into_dispatch(),
                keys.into_dispatch(),
                values.into_dispatch(),
                places.clone().into_dispatch(),
                self.shape,
            );
            let queries = Tensor::<3>::from_dispatch(queries);
            let pools = [keys, values].map(Tensor::<4>::from_dispatch);
            let parts = runs.iter().zip(&mut hidden);
            let parts =
                parts.map(|(run, hidden)| self.attend(run, &queries, &pools, window, hidden));
            let mut parts: Vec<Tensor<2>> = parts.collect();
            state.layers[layer] = Some(pools);
            match parts.len() {
                1 => parts.swap_remove(0),
                _ => Tensor::cat(parts, 0),
            }
        }
    }

    /// Divides the rows of a step into runs.
    fn runs(&self, growths: &[Growth<'_>]) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut few: Vec<(usize, &Growth<'_>)> = Vec::new();
        let mut row = 0;
        for growth in growths {
            let Growth { pages, tokens } = growth;
            if *tokens <= FEW {
                few.push((row, growth));
            } else {
                runs.extend(self.few(&std::mem::take(&mut few)));
                let start = pages.length;
                let seen = (start + tokens).div_ceil(PAGE);
                let pages = self.numbers(pages.pages[..seen].to_vec());
                runs.push(Run::Many { row, tokens: *tokens, start, pages });
            }
            row += tokens;
        }
        runs.extend(self.few(&few));
        runs
    }

    /// Returns the run of sequences with few tokens, each with its first row.
    fn few(&self, growths: &[(usize, &Growth<'_>)]) -> Option<Run> {
        let entries: usize = growths.iter().map(|(_, growth)| growth.tokens).sum();
        let (mut plan, mut tables) = (Vec::with_capacity(entries * ENTRY), Vec::new());
        let mut most_seen = 0;
        for (row, Growth { pages, tokens }) in growths {
            for token in 0..*tokens {
                let end = pages.length + token + 1;
                plan.extend([row + token, end, entries * ENTRY + tables.len()]);
                most_seen = most_seen.max(end);
            }
            tables.extend_from_slice(&pages.pages);
        }
        plan.append(&mut tables);
        (entries > 0).then(|| Run::Few { plan: self.numbers(plan), entries, most_seen })
    }

    fn attend(
        &self,
        run: &Run,
        queries: &Tensor<3>,
        [keys, values]: &[Tensor<4>; 2],
        window: Option<usize>,
        hidden: &mut HiddenKeys,
    ) -> Tensor<2> {
        let HeadShape { heads, kv_heads, width } = self.shape;
        match run {
            Run::Few { plan, entries, most_seen } => {
                let (entries, most_seen) = (*entries, *most_seen);
                let window = window.unwrap_or(most_seen);
                Tensor::from_dispatch(Dispatch::attend_over_pages(
                    queries.clone().into_dispatch(),
                    keys.clone().into_dispatch(),
                    values.clone().into_dispatch(),
                    plan.clone().into_dispatch(),
                    Attending { entries, most_seen, window, shape: self.shape },
                ))
            }
            Run::Many { row, tokens, start, pages } => {
                let sight = Sight::Back { window };
                let first = sight.first(*start);
                let seen = |pool: &Tensor<4>| {
                    let gathered = pool.clone().select(0, pages.clone()).swap_dims(0, 1);
                    let [_, count, _, _] = gathered.dims();
                    let all: Tensor<3> = gathered.reshape([kv_heads, count * PAGE, width]);
                    all.slice([0..kv_heads, first..start + tokens, 0..width])
                };
                let queries = queries.clone().slice([*row..row + tokens, 0..heads, 0..width]);
                let queries = queries.swap_dims(0, 1);
                let heads = Heads { queries, keys: seen(keys), values: seen(values) };
                attend(heads, first, sight, hidden)
            }
        }
    }

    /// Takes a free page, of which the pool has as many as it needs.
    fn page(&self, state: &mut State) -> usize {
        if state.free.is_empty() {
            let (old, more) = (state.pages, (state.pages / 2).max(LEAST_PAGES));
            state.pages += more;
            state.free.extend((old..state.pages).rev());
            for pool in state.layers.iter_mut().flatten().flatten() {
                *pool = Tensor::cat(vec![pool.clone(), self.zeros(more)], 0);
            }
        }
        state.free.pop().unwrap_or_default()
    }

    fn zeros(&self, pages: usize) -> Tensor<4> {
        let HeadShape { kv_heads, width, .. } = self.shape;
        Tensor::zeros([pages, kv_heads, PAGE, width], (&self.device, self.dtype))
    }

    fn numbers(&self, numbers: Vec<usize>) -> Tensor<1, Int> {
        let numbers: Vec<i32> = numbers.into_iter().map(|number| number as i32).collect();
        let count = numbers.len();
        Tensor::from_data(TensorData::new(numbers, [count]), &self.device)
    }
}

impl Pages {
    /// Returns the number of tokens read so far.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Returns whether they are pages of this pool.
    pub(super) fn are_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// Refuses more tokens than there is room for.
    ///
    /// # Errors
    /// Returns [`Error::TooLong`] if they do not fit, and [`Error::Device`] if the device has
    /// failed since the sequence began.
    pub(super) fn check_room(&self, tokens: usize) -> Result<(), Error> {
        if self.pool.lock().losses != self.losses {
            let reason = "the keys of the sequence were lost when it failed".to_owned();
            return Err(Error::Device { reason });
        }
        check_room(self.length, self.capacity, tokens)
    }

    /// Counts tokens that a step has stored in every layer.
    pub(super) fn advance(&mut self, tokens: usize) {
        self.length += tokens;
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        self.pool.lock().free.extend(pages);
    }
}
