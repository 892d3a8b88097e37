//! Kernel of GPUs that chooses tokens, so that a few bytes are read back from the device instead of
//! the logits of the whole vocabulary.
//!
//! Tokens are in order of their logits, and by id where these are equal. Each limit on them, and
//! the draw itself, is the shortest beginning of that order whose tokens weigh more than a bound:
//! top-k counts them, top-p and the draw add up their likelihoods. A group of threads finds that
//! beginning by bisection, without sorting.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{self, DType, Shape, Tensor, TensorData};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use super::TokenChoice;
use crate::decoder::kernels::{element, threads};

/// Maximum number of threads that choose for one row.
const MOST_THREADS: u32 = 1024;
/// Least number of tokens for each thread. With fewer the threads wait for each other most of the
/// time.
const TOKENS_OF_A_THREAD: usize = 32;
/// Numbers of rules for each row, and their places.
const RULES: usize = 5;
const TEMPERATURE: usize = 0;
const TOP_K: usize = 1;
const TOP_P: usize = 2;
const PENALTY: usize = 3;
const CHANCE: usize = 4;
/// Numbers found for each row: the key of the likeliest token, and the beginning of the order that
/// is left. To that belong all tokens with a greater key than the second number, and those with
/// this key whose ids are below the third.
const FOUND: usize = 3;
/// Bits of a key.
const KEY_BITS: u32 = 32;
/// Numbers at the beginning of the masks for each row: where its masks of allowed and of said
/// tokens begin, or -1.
const TABLES: usize = 2;
/// Key of a token that may not be chosen. Those of other tokens are in the order of their logits.
const EXCLUDED: u32 = 0;
const SIGN: u32 = 1 << 31;
const EXPONENT: u32 = 0x7f80_0000;

/// Limits on the tokens that are drawn from, and the draw itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Limit {
    TopK,
    TopP,
    Draw,
}

/// Choice of tokens.
#[backend_extension(Cube, Fusion)]
trait Choosing: Backend {
    /// Chooses a token for each row of `logits` `[rows, vocabulary]`, or -1 if none can be chosen:
    /// `[rows]`. `rules` is `[rows, RULES]`, and `masks` holds [`TABLES`] for each row and then the
    /// masks. If nothing `is_drawn`, it chooses the likeliest tokens.
    #[fusion(dtype = masks, shape = Shape::new([logits[0]]))]
    fn choose_tokens(
        logits: FloatTensor<Self>,
        rules: FloatTensor<Self>,
        masks: IntTensor<Self>,
        is_drawn: bool,
    ) -> IntTensor<Self>;
}

/// Chooses a token for each row of `logits` `[rows, vocabulary]`, or -1 if none can be chosen:
/// `[rows]`.
pub(super) fn chosen(logits: Tensor<2>, choices: &[TokenChoice]) -> Tensor<1, tensor::Int> {
    let [rows, vocabulary] = logits.dims();
    let device = logits.device();
    let rules: Vec<f32> = choices.iter().flat_map(|choice| rules(choice, vocabulary)).collect();
    let rules = TensorData::new(rules, [rows, RULES]);
    let rules = Tensor::<2>::from_data(rules, (&device, DType::F32));
    let masks = masks(choices, vocabulary);
    let count = masks.len();
    let masks = Tensor::<1, tensor::Int>::from_data(TensorData::new(masks, [count]), &device);
    let is_drawn = !choices.iter().all(TokenChoice::is_likeliest);
    Tensor::from_dispatch(Dispatch::choose_tokens(
        logits.into_dispatch(),
        rules.into_dispatch(),
        masks.into_dispatch(),
        is_drawn,
    ))
}

fn rules(choice: &TokenChoice, vocabulary: usize) -> [f32; RULES] {
    let sampling = &choice.sampling;
    let penalty = sampling.repetition_penalty;
    if choice.is_likeliest() {
        return [1.0, 1.0, 1.0, penalty, 0.0];
    }
    // 32-bit floats hold these counts exactly.
    let top_k = match sampling.top_k as usize {
        0 => vocabulary,
        top_k => top_k.min(vocabulary),
    };
    let below_one = 1.0 - f32::EPSILON / 2.0;
    let chance = (choice.chance as f32).min(below_one);
    [sampling.temperature, top_k as f32, sampling.top_p, penalty, chance]
}

fn masks(choices: &[TokenChoice], vocabulary: usize) -> Vec<i32> {
    let words = vocabulary.div_ceil(32);
    let mut masks = vec![-1; choices.len() * TABLES];
    for (row, choice) in choices.iter().enumerate() {
        for (at, mask) in [&choice.allowed, &choice.said].into_iter().enumerate() {
            let Some(mask) = mask else { continue };
            masks[row * TABLES + at] = masks.len() as i32;
            let there = mask.iter().copied().chain(std::iter::repeat(0)).take(words);
            masks.extend(there.map(u32::cast_signed));
        }
    }
    masks
}

impl Choosing for CubeBackend {
    fn choose_tokens(
        logits: CubeTensor,
        rules: CubeTensor,
        masks: CubeTensor,
        is_drawn: bool,
    ) -> CubeTensor {
        let [logits, rules, masks] = [logits, rules, masks].map(into_contiguous);
        let (client, device) = (logits.client.clone(), logits.device.clone());
        let [rows, vocabulary] = [logits.meta.shape()[0], logits.meta.shape()[1]];
        let empty = |shape, dtype| {
            empty_device_contiguous_dtype(client.clone(), device.clone(), shape, dtype)
        };
        let keys = empty(Shape::new([rows, vocabulary]), DType::U32);
        let found = empty(Shape::new([rows, FOUND]), DType::U32);
        let chosen = empty(Shape::new([rows]), masks.dtype);
        let [of_logits, of_masks] = [element(&logits), element(&masks)];
        let most = client.properties().hardware.max_units_per_cube.min(MOST_THREADS);
        let threads = threads(vocabulary, TOKENS_OF_A_THREAD, most as usize);
        let (groups, cube) =
            (CubeCount::Static(rows as u32, 1, 1), CubeDim::new_1d(threads as u32));
        order::launch(
            &client,
            groups.clone(),
            cube,
            logits.into_buffer_arg(),
            rules.clone().into_buffer_arg(),
            masks.into_buffer_arg(),
            keys.clone().into_buffer_arg(),
            found.clone().into_buffer_arg(),
            chosen.clone().into_buffer_arg(),
            vocabulary,
            threads,
            [of_logits, of_masks],
        );
        let limits = [Limit::TopK, Limit::TopP, Limit::Draw];
        for limit in limits.into_iter().filter(|_| is_drawn) {
            narrow::launch(
                &client,
                groups.clone(),
                cube,
                keys.clone().into_buffer_arg(),
                rules.clone().into_buffer_arg(),
                found.clone().into_buffer_arg(),
                chosen.clone().into_buffer_arg(),
                vocabulary,
                limit,
                vocabulary.max(1).ilog2() + 1,
                threads,
                of_masks,
            );
        }
        chosen
    }
}

/// Returns whether a mask has a token, or `otherwise` if there is none. It begins at `from` of
/// `masks`, with 32 tokens a number; there is none if `from` is negative.
#[cube]
fn has<I: Int>(masks: &[I], from: i32, token: usize, otherwise: bool) -> bool {
    let mut has = otherwise;
    if from >= 0 {
        let word = i32::cast_from(masks[from as usize + token / 32]);
        has = (word >> (token as i32 % 32)) & 1 == 1;
    }
    has
}

/// Writes the key of each token, and chooses the likeliest: one group of threads for each row.
#[cube(launch)]
fn order<F: Float, I: Int>(
    logits: &[F],
    rules: &[f32],
    masks: &[I],
    keys: &mut [u32],
    found: &mut [u32],
    chosen: &mut [I],
    vocabulary: usize,
    #[comptime] threads: usize,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let row = CUBE_POS_X as usize;
    let unit = UNIT_POS as usize;
    let begin = row * vocabulary;
    let penalty = rules[row * RULES + PENALTY];
    let allowed = i32::cast_from(masks[row * TABLES]);
    let said = i32::cast_from(masks[row * TABLES + 1]);
    let mut best = EXCLUDED.runtime();
    let mut place = 0u32;
    let mut at = unit;
    while at < vocabulary {
        let mut logit = f32::cast_from(logits[begin + at]);
        let is_finite = u32::reinterpret(logit) & EXPONENT != EXPONENT;
        let is_allowed = is_finite && has::<I>(masks, allowed, at, true);
        if has::<I>(masks, said, at, false) {
            logit = select(logit > 0.0f32, logit / penalty, logit * penalty);
        }
        let bits = u32::reinterpret(logit);
        // A greater negative number has smaller bits.
        let ordered = select(bits < SIGN, bits | SIGN, bits ^ 0xffff_ffffu32);
        let key = select(is_allowed, ordered, EXCLUDED.runtime());
        keys[begin + at] = key;
        if key > best {
            best = key;
            place = at as u32;
        }
        at += threads;
    }
    let mut bests = Shared::<[u32]>::new_slice(threads);
    let mut places = Shared::<[u32]>::new_slice(threads);
    bests[unit] = best;
    places[unit] = place;
    sync_cube();
    let mut half = comptime!(threads / 2).runtime();
    while half > 0 {
        if unit < half {
            let other = bests[unit + half];
            let there = places[unit + half];
            if other > bests[unit] || (other == bests[unit] && there < places[unit]) {
                bests[unit] = other;
                places[unit] = there;
            }
        }
        sync_cube();
        half /= 2;
    }
    if unit == 0 {
        best = bests[0];
        found[row * FOUND] = best;
        found[row * FOUND + 1] = EXCLUDED.runtime();
        found[row * FOUND + 2] = vocabulary as u32;
        chosen[row] = select(best == EXCLUDED, I::cast_from(-1i32), I::cast_from(places[0]));
    }
}

/// Narrows the beginning of the order that `found` describes: one group of threads for each row.
/// It becomes the shortest whose tokens weigh more than the limit's bound, or stays as it is if no
/// beginning weighs more. For a draw, the last token of the beginning is chosen.
#[cube(launch)]
fn narrow<I: Int>(
    keys: &[u32],
    rules: &[f32],
    found: &mut [u32],
    chosen: &mut [I],
    vocabulary: usize,
    #[comptime] limit: Limit,
    #[comptime] place_bits: u32,
    #[comptime] threads: usize,
    #[define(I)] _dtype: ElemType,
) {
    let row = CUBE_POS_X as usize;
    let unit = UNIT_POS as usize;
    let begin = row * vocabulary;
    let temperature = rules[row * RULES + TEMPERATURE];
    let best = found[row * FOUND];
    let last = found[row * FOUND + 1];
    let end = found[row * FOUND + 2];
    let counts = comptime!(limit == Limit::TopK);
    let mut bound = rules[row * RULES + TOP_K] - 0.5f32;
    let mut sums = Shared::<[f32]>::new_slice(threads);
    // First all tokens are weighed, then the key of the last token is found bit by bit, then its
    // place among the tokens with that key.
    let mut key = EXCLUDED.runtime();
    let mut place = 0u32;
    for step in 0..comptime!(1 + KEY_BITS + place_bits) {
        let mut tried = key;
        let mut below = vocabulary as u32;
        if step > KEY_BITS {
            below = place + (1u32 << (KEY_BITS + place_bits - step));
        } else if step > 0 {
            tried = key | (1u32 << (KEY_BITS - step));
        }
        let mut own = f32::cast_from(0.0f32);
        let mut at = unit;
        while at < vocabulary {
            let here = keys[begin + at];
            let place = at as u32;
            let is_left = here > last || (here == last && place < end);
            let is_tried = here > tried || (here == tried && place < below);
            if here != EXCLUDED && is_left && is_tried {
                if counts {
                    own += 1.0f32;
                } else {
                    own += ((logit_of(here) - logit_of(best)) / temperature).exp();
                }
            }
            at += threads;
        }
        sums[unit] = own;
        sync_cube();
        let mut half = comptime!(threads / 2).runtime();
        while half > 0 {
            if unit < half {
                let other = sums[unit + half];
                sums[unit] += other;
            }
            sync_cube();
            half /= 2;
        }
        let weight = sums[0];
        sync_cube();
        if step > KEY_BITS {
            if weight <= bound {
                place = below;
            }
        } else if step > 0 {
            if weight > bound {
                key = tried;
            }
        } else if comptime!(limit == Limit::TopP) {
            bound = weight * rules[row * RULES + TOP_P];
        } else if comptime!(limit == Limit::Draw) {
            bound = weight * rules[row * RULES + CHANCE];
        }
    }
    if unit == 0 && key != EXCLUDED {
        found[row * FOUND + 1] = key;
        found[row * FOUND + 2] = place + 1;
        if comptime!(limit == Limit::Draw) {
            chosen[row] = I::cast_from(place);
        }
    }
}

/// Returns the logit whose key this is.
#[cube]
fn logit_of(key: u32) -> f32 {
    f32::reinterpret(select(key < SIGN, key ^ 0xffff_ffffu32, key ^ SIGN))
}
