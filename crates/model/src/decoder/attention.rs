//! Attention of one sequence's tokens over its keys.

use std::collections::HashMap;
use std::ops::Range;

#[cfg(feature = "gpu")]
use burn::backend::Dispatch;
use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::softmax;

#[cfg(feature = "gpu")]
use super::few_rows::run_on;
#[cfg(feature = "gpu")]
use super::kernels::{ENTRY, FEW, FewAttention, HeadShape};
#[cfg(feature = "gpu")]
use super::weighing::{self, Seen};
use crate::device::is_gpu;

/// Maximum number of tokens of a sequence that attend at once on a processor, whose caches the
/// scores of more do not fit into.
const ATTENDING: usize = 512;
/// Maximum number of scores of all heads that are held at once: a GiB.
const MOST_SCORES: usize = 1 << 28;

/// One sequence's part of a layer's heads, rotated by their positions.
pub(crate) struct Heads {
    /// `[heads, tokens, width]`.
    pub(crate) queries: Tensor<3>,
    /// `[kv_heads, seen, width]`; the keys of the queries' own tokens come last.
    pub(crate) keys: Tensor<3>,
    /// `[kv_heads, seen, width]`.
    pub(crate) values: Tensor<3>,
}

/// Keys that a token attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sight {
    /// Its own key and those before it, within the window.
    Back {
        /// Number of tokens that a token attends to, itself included; `None` for all before it.
        window: Option<usize>,
    },
    /// All keys.
    All,
}

impl Sight {
    /// Returns the first position that the token at `position` attends to.
    pub(crate) fn first(self, position: usize) -> usize {
        match self {
            Self::Back { window: Some(window) } => (position + 1).saturating_sub(window),
            Self::Back { window: None } | Self::All => 0,
        }
    }

    /// Returns the end (exclusive) of the positions that the token before `end` attends to, in a
    /// sequence of `length`.
    fn end(self, end: usize, length: usize) -> usize {
        match self {
            Self::Back { .. } => end,
            Self::All => length,
        }
    }

    /// Returns which of `keys` the `queries` attend to.
    #[cfg(feature = "gpu")]
    fn seen(self, queries: Range<usize>, keys: Range<usize>) -> Seen {
        let (tokens, all) = (queries.len(), keys.len());
        match self {
            Self::Back { window } => {
                let first_end = queries.start + 1 - keys.start;
                Seen { tokens, first_end, step: 1, window: window.unwrap_or(all) }
            }
            Self::All => Seen { tokens, first_end: all, step: 0, window: all },
        }
    }

    /// Returns the mask `[1, 1, queries, keys]` of the keys that each query does not attend to, or
    /// `None` if every query attends to all keys. The device computes it, because a long text has
    /// more pairs than can be copied to it.
    fn hidden(
        self,
        queries: Range<usize>,
        keys: Range<usize>,
        device: &Device,
    ) -> Option<Tensor<4, Bool>> {
        let Self::Back { window } = self else { return None };
        let is_beyond = keys.end > queries.start + 1;
        let window = window.filter(|window| queries.end > keys.start + window);
        let shape = [1, 1, queries.len(), keys.len()];
        // Copied to the device, because a GPU counts one number after the other.
        let places = |places: Range<usize>, shape: [usize; 4]| {
            let places: Vec<i32> = places.map(|place| place as i32).collect();
            Tensor::<4, Int>::from_data(TensorData::new(places, shape), device)
        };
        let keys = places(keys, [1, 1, 1, shape[3]]).expand(shape);
        let queries = places(queries, [1, 1, shape[2], 1]).expand(shape);
        let beyond = is_beyond.then(|| keys.clone().greater(queries.clone()));
        let too_far = window.map(|window| keys.lower_equal(queries.sub_scalar(window as i64)));
        match (beyond, too_far) {
            (Some(beyond), Some(too_far)) => Some(beyond.bool_or(too_far)),
            (beyond, too_far) => beyond.or(too_far),
        }
    }
}

/// Keys and values that every query attends to, before those of [`Heads`]; rotated by their
/// positions.
pub(crate) struct Far {
    /// `[kv_heads, far, width]`.
    pub(crate) keys: Tensor<3>,
    /// `[kv_heads, far, width]`.
    pub(crate) values: Tensor<3>,
}

/// Scores of queries and keys, before they are scaled.
struct Scores {
    /// `[kv_heads, group * queries, near]`.
    near: Tensor<3>,
    /// `[kv_heads, group * queries, far]`, if there are far keys.
    far: Option<Tensor<3>>,
    scale: f64,
}

/// Masks of the keys that the new tokens of one sequence do not attend to. Each mask is computed in
/// the first layer that needs it.
#[derive(Default)]
pub(crate) struct HiddenKeys {
    known: HashMap<(usize, Sight), Option<Tensor<4, Bool>>>,
    /// Mask `[queries, keys]` of keys that no [`Sight`] describes.
    given: Option<Vec<bool>>,
    /// Plan of a kernel that attends with few tokens, with the numbers of far and of near keys that
    /// it is for.
    #[cfg(feature = "gpu")]
    plan: Option<([usize; 2], Tensor<1, Int>)>,
}

impl HiddenKeys {
    /// Creates a mask from `hidden` `[queries, keys]`, which is true for hidden keys. Use it with
    /// [`Sight::All`].
    pub(crate) fn given(hidden: Vec<bool>) -> Self {
        Self { given: Some(hidden), ..Self::default() }
    }

    /// Returns the mask `[1, 1, queries, keys]`, true for hidden keys, or `None` if every query
    /// attends to all keys.
    fn of(
        &mut self,
        queries: Range<usize>,
        keys: Range<usize>,
        sight: Sight,
        device: &Device,
    ) -> Option<Tensor<4, Bool>> {
        let Self { known, given, .. } = self;
        let hidden = known.entry((queries.start, sight)).or_insert_with(|| match given {
            // The queries are the last tokens of the keys.
            Some(given) => {
                let first = keys.end - given.len() / keys.len();
                let rows = queries.start - first..queries.end - first;
                let hidden = given[rows.start * keys.len()..rows.end * keys.len()].to_vec();
                let shape = [1, 1, queries.len(), keys.len()];
                Some(Tensor::from_data(TensorData::new(hidden, shape), device))
            }
            None => sight.hidden(queries, keys, device),
        });
        hidden.clone()
    }

    /// Turns the scores of `queries` into weights: scaled, without keys that a query does not
    /// attend to, by a softmax in 32-bit floats, as in the reference. `near` are those of `keys`,
    /// and `far` those of keys that every query attends to. Returns the weights of both, in the
    /// shapes of the scores. On a GPU one kernel does all of it.
    fn weights(
        &mut self,
        queries: Range<usize>,
        keys: Range<usize>,
        sight: Sight,
        Scores { near, far, scale }: Scores,
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let device = near.device();
        #[cfg(feature = "gpu")]
        if self.given.is_none() && run_on(&device) {
            let seen = sight.seen(queries, keys);
            let Some(far) = far else { return (weighing::near(near, scale, seen), None) };
            let [near, far] = weighing::near_and_far([near, far], scale, seen);
            return (near, Some(far));
        }
        let dtype = near.dtype();
        let scaled = |scores: Tensor<3>| scores.cast(DType::F32).mul_scalar(scale);
        let [kv_heads, rows, seen] = near.dims();
        let shape = [kv_heads, rows / queries.len(), queries.len(), seen];
        let mut near = scaled(near);
        if let Some(hidden) = self.of(queries, keys, sight, &device) {
            let masked: Tensor<4> = near.reshape(shape);
            near = masked.mask_fill(hidden.expand(shape), f32::MIN).reshape([kv_heads, rows, seen]);
        }
        let Some(far) = far else { return (softmax(near, 2).cast(dtype), None) };
        // One softmax over both, so that the weights sum to one.
        let [_, _, beyond] = far.dims();
        let weights = softmax(Tensor::cat(vec![scaled(far), near], 2), 2).cast(dtype);
        let of = |from, to| weights.clone().slice([0..kv_heads, 0..rows, from..to]);
        (of(beyond, beyond + seen), Some(of(0, beyond)))
    }

    /// Returns the plan for `tokens` tokens, the last of `near` keys, over these and `far` more.
    #[cfg(feature = "gpu")]
    fn plan(
        &mut self,
        tokens: usize,
        [far, near]: [usize; 2],
        sight: Sight,
        device: &Device,
    ) -> Tensor<1, Int> {
        if let Some((sizes, plan)) = &self.plan
            && *sizes == [far, near]
        {
            return plan.clone();
        }
        let page = 2 * tokens * ENTRY;
        let over_near = (0..tokens).flat_map(|row| {
            let end = sight.end(near - tokens + row + 1, near);
            [row, end, page]
        });
        let over_far = (0..tokens).flat_map(|row| [row, far, page]);
        let plan = over_near.chain(over_far).chain([0]).map(|number| number as i32);
        let plan: Vec<i32> = plan.collect();
        let count = plan.len();
        let plan = Tensor::from_data(TensorData::new(plan, [count]), device);
        self.plan = Some(([far, near], plan.clone()));
        plan
    }
}

/// Computes the attention of the last tokens of one sequence over keys from position `first` on,
/// `[tokens, heads * width]`. `hidden` belongs to this sequence and step only.
pub(crate) fn attend(
    heads: Heads,
    first: usize,
    sight: Sight,
    hidden: &mut HiddenKeys,
) -> Tensor<2> {
    attend_beyond(None, heads, first, sight, hidden)
}

/// Computes [`attend`] over the keys and values of `far` as well, without copying them.
pub(crate) fn attend_beyond(
    far: Option<&Far>,
    heads: Heads,
    first: usize,
    sight: Sight,
    hidden: &mut HiddenKeys,
) -> Tensor<2> {
    #[cfg(feature = "gpu")]
    if are_few(&heads, first, sight, hidden) {
        return attend_at_once(far, heads, sight, hidden);
    }
    let Heads { queries, keys, values } = heads;
    let [heads, tokens, width] = queries.dims();
    let [kv_heads, at_hand, _] = keys.dims();
    let length = first + at_hand;
    let start = length - tokens;
    let group = heads / kv_heads;
    let queries = queries.reshape([kv_heads, group, tokens, width]);
    let far_keys = far.map_or(0, |far| far.keys.dims()[1]);
    let held = MOST_SCORES / (heads * (far_keys + at_hand));
    let at_once = if is_gpu(&queries.device()) { held } else { ATTENDING.min(held) }.max(1);
    let mut parts = Vec::with_capacity(tokens.div_ceil(at_once));
    for begin in (0..tokens).step_by(at_once) {
        let end = (begin + at_once).min(tokens);
        let seen = sight.first(start + begin)..sight.end(start + end, length);
        let of_seen = |all: &Tensor<3>| {
            all.clone().slice([0..kv_heads, seen.start - first..seen.end - first, 0..width])
        };
        let part = queries.clone().slice([0..kv_heads, 0..group, begin..end, 0..width]);
        let rows = start + begin..start + end;
        let weights = |scores| hidden.weights(rows, seen.clone(), sight, scores);
        parts.push(attend_part(part, far, of_seen(&keys), of_seen(&values), weights));
    }
    let attended = match parts.len() {
        1 => parts.swap_remove(0),
        _ => Tensor::cat(parts, 1),
    };
    attended.swap_dims(0, 1).reshape([tokens, heads * width])
}

/// Returns whether a kernel of a GPU can compute the attention of all these tokens at once.
#[cfg(feature = "gpu")]
fn are_few(
    Heads { queries, keys, .. }: &Heads,
    first: usize,
    sight: Sight,
    hidden: &HiddenKeys,
) -> bool {
    let [heads, tokens, width] = queries.dims();
    let [kv_heads, _, _] = keys.dims();
    let device = queries.device();
    tokens <= FEW
        && first == 0
        && matches!(sight, Sight::Back { window: None } | Sight::All)
        && hidden.given.is_none()
        && HeadShape { heads, kv_heads, width }.fits()
        && run_on(&device)
}

/// Computes [`attend_beyond`] for few tokens on a GPU.
#[cfg(feature = "gpu")]
fn attend_at_once(
    far: Option<&Far>,
    Heads { queries, keys, values }: Heads,
    sight: Sight,
    hidden: &mut HiddenKeys,
) -> Tensor<2> {
    let [_, tokens, _] = queries.dims();
    let [_, near, _] = keys.dims();
    let far_keys = far.map_or(0, |far| far.keys.dims()[1]);
    let plan = hidden.plan(tokens, [far_keys, near], sight, &queries.device());
    let plan = plan.into_dispatch();
    let queries = queries.into_dispatch();
    let [keys, values] = [keys, values].map(Tensor::into_dispatch);
    Tensor::from_dispatch(match far {
        Some(Far { keys: far_keys, values: far_values }) => {
            let [far_keys, far_values] =
                [far_keys, far_values].map(|far| far.clone().into_dispatch());
            Dispatch::attend_near_and_far(queries, far_keys, far_values, keys, values, plan)
        }
        None => Dispatch::attend_near(queries, keys, values, plan),
    })
}

/// Computes the attention of queries `[kv_heads, group, tokens, width]` over all of `far` and over
/// keys and values `[kv_heads, seen, width]`: `[heads, tokens, width]`.
fn attend_part(
    queries: Tensor<4>,
    far: Option<&Far>,
    keys: Tensor<3>,
    values: Tensor<3>,
    weights: impl FnOnce(Scores) -> (Tensor<3>, Option<Tensor<3>>),
) -> Tensor<3> {
    let [kv_heads, group, tokens, width] = queries.dims();
    let queries = queries.reshape([kv_heads, group * tokens, width]);
    let scores = |keys: Tensor<3>| queries.clone().matmul(keys.swap_dims(1, 2));
    let (near, far_scores) = (scores(keys), far.map(|far| scores(far.keys.clone())));
    let scale = (width as f64).powf(-0.5);
    let (near, beyond) = weights(Scores { near, far: far_scores, scale });
    let mut attended = near.matmul(values);
    if let (Some(far), Some(beyond)) = (far, beyond) {
        // Two products, without a copy of the far values beside the near.
        attended = beyond.matmul(far.values.clone()) + attended;
    }
    attended.reshape([kv_heads * group, tokens, width])
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 2;

    fn hides(sight: Sight, query: usize, key: usize) -> bool {
        match sight {
            Sight::Back { window } => {
                key > query || window.is_some_and(|window| query - key >= window)
            }
            Sight::All => false,
        }
    }

    /// Computes the attention of the last of `tokens` tokens one by one in 64-bit floats, over
    /// one-head `states` `[length, WIDTH]` that are queries, keys and values.
    fn expected(states: &[f32], tokens: usize, sight: Sight) -> Vec<f32> {
        let rows: Vec<&[f32]> = states.chunks_exact(WIDTH).collect();
        let mut all = Vec::new();
        for query in rows.len() - tokens..rows.len() {
            let (mut total, mut sums) = (0.0, [0.0; WIDTH]);
            let seen = rows.iter().enumerate().filter(|(key, _)| !hides(sight, query, *key));
            for (_, row) in seen {
                let pairs = rows[query].iter().zip(*row);
                let score: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                let share = (score / (WIDTH as f64).sqrt()).exp();
                total += share;
                for (sum, value) in sums.iter_mut().zip(*row) {
                    *sum += share * f64::from(*value);
                }
            }
            all.extend(sums.iter().map(|sum| (sum / total) as f32));
        }
        all
    }

    #[test]
    fn masks_hide_what_is_out_of_sight_and_are_left_out_if_nothing_is() {
        let (device, windows) = (Device::flex(), [None, Some(1), Some(3), Some(9)]);
        let sights = windows.map(|window| Sight::Back { window });
        for sight in sights.into_iter().chain([Sight::All]) {
            for (queries, keys) in [(0..5, 0..5), (4..6, 1..6), (5..6, 0..6), (3..7, 3..7)] {
                let pairs =
                    queries.clone().flat_map(|query| keys.clone().map(move |key| (query, key)));
                let hidden: Vec<bool> =
                    pairs.map(|(query, key)| hides(sight, query, key)).collect();
                let expected = hidden.contains(&true).then_some(hidden);
                let mask = sight.hidden(queries.clone(), keys.clone(), &device);
                let mask = mask.map(|mask| mask.into_data().iter::<bool>().collect::<Vec<_>>());
                assert_eq!(mask, expected, "{sight:?}: {queries:?} over {keys:?}");
            }
        }
    }

    #[test]
    fn more_tokens_than_attend_at_once_see_what_they_should() {
        let length = 2 * ATTENDING + 70;
        let states: Vec<f32> = (0..length * WIDTH).map(|i| (i as f32 * 0.37).sin()).collect();
        let device = Device::flex();
        let all = Tensor::<1>::from_data(TensorData::new(states.clone(), [states.len()]), &device);
        let all = all.reshape([1, length, WIDTH]);
        for (tokens, sight) in [
            (length, Sight::All),
            (length, Sight::Back { window: None }),
            (length, Sight::Back { window: Some(100) }),
            (ATTENDING + 9, Sight::Back { window: None }),
        ] {
            let queries = all.clone().narrow(1, length - tokens, tokens);
            let heads = Heads { queries, keys: all.clone(), values: all.clone() };
            let attended = attend(heads, 0, sight, &mut HiddenKeys::default())
                .try_into_vec_as::<f32>()
                .unwrap();
            let expected = expected(&states, tokens, sight);
            let pairs = attended.iter().zip(&expected);
            let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // Means of a thousand numbers of up to 1, in 32-bit floats.
            assert!(attended.len() == expected.len() && off < 1e-5, "{sight:?}: off by {off}");
        }
    }
}
