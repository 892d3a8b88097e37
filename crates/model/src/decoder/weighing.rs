//! Kernel of GPUs for the attention of many tokens: turns scores into weights.
//!
//! Two products of matrices, which a GPU has units for, give the scores and add up the values. What
//! lies between is bound by memory: scaling, hiding, and the softmax over far and near keys
//! together. One kernel does all of it in place. It reads each score twice and writes it once, in
//! the format of the products, and needs no mask.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use super::kernels::{LOWEST, element, like, of_our_own, threads};

/// Maximum number of threads that weigh the keys of one token for one head.
const MOST_UNITS: usize = 256;
/// Least number of keys for each thread. With fewer the threads wait for each other most of the
/// time.
const KEYS_OF_A_THREAD: usize = 8;

/// Which near keys tokens see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Number of tokens.
    pub(super) tokens: usize,
    /// End (exclusive) of the near keys that the first token sees.
    pub(super) first_end: usize,
    /// Number of keys by which that end moves from token to token: 0 or 1.
    pub(super) step: usize,
    /// Maximum number of near keys that a token sees.
    pub(super) window: usize,
}

/// Weights of keys.
#[backend_extension(Cube, Fusion)]
trait Weighing: Backend {
    /// Turns `scores` `[kv_heads, group * tokens, near]` into weights. The weights of each row sum
    /// to one, and those of keys that its token does not see are 0.
    #[fusion(dtype = scores, shape = scores)]
    fn weigh_near(scores: FloatTensor<Self>, scale: f32, seen: Seen) -> FloatTensor<Self>;

    /// Does the same with near and far keys together, `[kv_heads, group * tokens, far]`, of which
    /// every token sees all. Returns the weights of near and of far keys.
    #[fusion(meta = |near, far, _, _| (near.clone(), far.clone()))]
    fn weigh_near_and_far(
        near: FloatTensor<Self>,
        far: FloatTensor<Self>,
        scale: f32,
        seen: Seen,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// Turns scores of near keys `[kv_heads, group * tokens, near]` into weights, in place.
pub(super) fn near(scores: Tensor<3>, scale: f64, seen: Seen) -> Tensor<3> {
    Tensor::from_dispatch(Dispatch::weigh_near(scores.into_dispatch(), scale as f32, seen))
}

/// Turns scores of near and far keys into weights of both, in place.
pub(super) fn near_and_far([near, far]: [Tensor<3>; 2], scale: f64, seen: Seen) -> [Tensor<3>; 2] {
    let (near, far) = (near.into_dispatch(), far.into_dispatch());
    let (near, far) = Dispatch::weigh_near_and_far(near, far, scale as f32, seen);
    [near, far].map(Tensor::from_dispatch)
}

impl Weighing for CubeBackend {
    fn weigh_near(scores: CubeTensor, scale: f32, seen: Seen) -> CubeTensor {
        let near = of_our_own(into_contiguous(scores));
        launch(&near, None, scale, seen);
        near
    }

    fn weigh_near_and_far(
        near: CubeTensor,
        far: CubeTensor,
        scale: f32,
        seen: Seen,
    ) -> (CubeTensor, CubeTensor) {
        let [near, far] = [near, far].map(into_contiguous).map(of_our_own);
        launch(&near, Some(&far), scale, seen);
        (near, far)
    }
}

fn launch(near: &CubeTensor, far: Option<&CubeTensor>, scale: f32, seen: Seen) {
    let [kv_heads, rows, near_count] = [0, 1, 2].map(|dim| near.meta.shape()[dim]);
    let Seen { tokens, first_end, step, window } = seen;
    let group = rows / tokens.max(1);
    let far_count = far.map_or(0, |far| far.meta.shape()[2]);
    // A kernel needs some buffer in the place of one that there is not.
    let far = far.cloned().unwrap_or_else(|| like(near, Shape::new([1])));
    let units = threads(near_count + far_count, KEYS_OF_A_THREAD, MOST_UNITS);
    let (client, dtype) = (near.client.clone(), element(near));
    weigh::launch(
        &client,
        CubeCount::Static(tokens as u32, group as u32, kv_heads as u32),
        CubeDim::new_1d(units as u32),
        near.clone().into_buffer_arg(),
        far.into_buffer_arg(),
        near_count,
        far_count,
        tokens,
        first_end,
        step,
        window.min(near_count),
        scale,
        group,
        units,
        dtype,
    );
}

/// One group of threads for each token and head. It keeps the largest score so far, and the sum of
/// the weights beside it (Milakov and Gimelshein, "Online normalizer calculation for softmax",
/// section 3).
#[cube(launch)]
fn weigh<F: Float>(
    near: &mut [F],
    far: &mut [F],
    near_count: usize,
    far_count: usize,
    tokens: usize,
    first_end: usize,
    step: usize,
    window: usize,
    scale: f32,
    #[comptime] group: usize,
    #[comptime] units: usize,
    #[define(F)] _dtype: ElemType,
) {
    let unit = UNIT_POS as usize;
    let token = CUBE_POS_X as usize;
    let head = CUBE_POS_Z as usize * group + CUBE_POS_Y as usize;
    let row = head * tokens + token;
    let (to_near, to_far) = (row * near_count, row * far_count);
    let end = min(first_end + token * step, near_count);
    let begin = end - min(window, end);
    let mut top = f32::cast_from(LOWEST);
    let mut sum = f32::cast_from(0.0f32);
    let mut at = unit;
    while at < far_count {
        let score = f32::cast_from(far[to_far + at]) * scale;
        let higher = max(top, score);
        sum = sum * (top - higher).exp() + (score - higher).exp();
        top = higher;
        at += units;
    }
    at = begin + unit;
    while at < end {
        let score = f32::cast_from(near[to_near + at]) * scale;
        let higher = max(top, score);
        sum = sum * (top - higher).exp() + (score - higher).exp();
        top = higher;
        at += units;
    }
    let mut tops = Shared::<[f32]>::new_slice(units);
    let mut sums = Shared::<[f32]>::new_slice(units);
    tops[unit] = top;
    sums[unit] = sum;
    sync_cube();
    let mut half = comptime!(units / 2).runtime();
    while half > 0 {
        if unit < half {
            let (here, there) = (tops[unit], tops[unit + half]);
            let higher = max(here, there);
            let share = sums[unit + half] * (there - higher).exp();
            sums[unit] = sums[unit] * (here - higher).exp() + share;
            tops[unit] = higher;
        }
        sync_cube();
        half /= 2;
    }
    top = tops[0];
    sum = sums[0];
    at = unit;
    while at < far_count {
        let score = f32::cast_from(far[to_far + at]) * scale;
        far[to_far + at] = F::cast_from((score - top).exp() / sum);
        at += units;
    }
    at = unit;
    while at < near_count {
        let mut weight = f32::cast_from(0.0f32);
        if at >= begin && at < end {
            let score = f32::cast_from(near[to_near + at]) * scale;
            weight = (score - top).exp() / sum;
        }
        near[to_near + at] = F::cast_from(weight);
        at += units;
    }
}
