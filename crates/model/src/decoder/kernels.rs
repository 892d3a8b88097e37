//! Kernels of GPUs for the attention of few tokens over many keys.
//!
//! A model that reads one token of each of several sequences is bound by the number of kernels that
//! the processor launches, not by what they compute. So one kernel rotates and stores the new keys
//! and values of all sequences, and one attends for all of them, each over its own keys.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use burn::tensor::{DType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::{Tensor as Slots, *};

/// Number of tokens whose keys and values lie together in a pool.
pub(super) const PAGE: usize = 64;
/// Maximum number of tokens of a sequence that these kernels attend with. More read the same keys
/// so often that products of matrices are faster.
pub(super) const FEW: usize = 16;
/// Number of threads that attend together for one head of one token.
const UNITS: usize = 128;
/// Number of groups of threads that fill a GPU.
const GROUPS: usize = 512;
/// Numbers of a plan for each token that attends: its row, the end (exclusive) of the keys that it
/// sees, and where the pages of its sequence begin in the plan.
pub(super) const ENTRY: usize = 3;
/// Lower than any score.
pub(super) const LOWEST: f32 = -1e30;

/// Shape of the heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadShape {
    /// Number of heads of queries.
    pub(super) heads: usize,
    /// Number of heads of keys, and of values.
    pub(super) kv_heads: usize,
    /// Numbers in a head, even.
    pub(super) width: usize,
}

impl HeadShape {
    /// Returns whether the kernels can attend with heads of this width.
    pub(super) fn fits(self) -> bool {
        (1..=UNITS).contains(&self.width)
    }

    fn all(self) -> usize {
        self.heads + 2 * self.kv_heads
    }
}

/// Tokens that attend over pages in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attending {
    /// Number of tokens: entries of the plan.
    pub(super) entries: usize,
    /// Largest number of keys that one of them sees.
    pub(super) most_seen: usize,
    /// Number of the last keys that a token sees, itself included.
    pub(super) window: usize,
    pub(super) shape: HeadShape,
}

/// Attention of few tokens.
#[backend_extension(Cube, Fusion)]
pub(super) trait FewAttention: Backend {
    /// Rotates the queries and keys of `projected` `[rows, heads + 2 kv_heads, width]` by
    /// `cosines` and `sines` `[rows, 1, width]`, and writes keys and values to `places` `[rows]` of
    /// `keys` and `values` `[pages, kv_heads, PAGE, width]`. Returns queries
    /// `[rows, heads, width]`, keys and values.
    #[fusion(meta = |projected, _, _, keys, values, _, shape| {
        let mut queries = projected.clone();
        queries.shape[1] = shape.heads;
        (queries, keys.clone(), values.clone())
    })]
    fn store_in_pages(
        projected: FloatTensor<Self>,
        cosines: FloatTensor<Self>,
        sines: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        places: IntTensor<Self>,
        shape: HeadShape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Attends with the rows of `queries` `[rows, heads, width]` that the entries of `plan` name,
    /// over `keys` and `values` `[pages, kv_heads, PAGE, width]`. Returns
    /// `[entries, heads * width]`.
    #[fusion(dtype = queries, shape = Shape::new([
        attending.entries, attending.shape.heads * attending.shape.width,
    ]))]
    fn attend_over_pages(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        plan: IntTensor<Self>,
        attending: Attending,
    ) -> FloatTensor<Self>;

    /// Attends with `queries` `[heads, tokens, width]` over all of `far_keys` and `far_values`
    /// `[kv_heads, far, width]`, and over those of `keys` and `values` `[kv_heads, near, width]`
    /// that each sees. `plan` has an entry for each token over the near keys, then one over the far
    /// keys, then one page. Returns `[tokens, heads * width]`.
    #[fusion(dtype = queries, shape = Shape::new([queries[1], queries[0] * queries[2]]))]
    fn attend_near_and_far(
        queries: FloatTensor<Self>,
        far_keys: FloatTensor<Self>,
        far_values: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        plan: IntTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Attends as [`FewAttention::attend_near_and_far`] does, where there are no far keys.
    #[fusion(dtype = queries, shape = Shape::new([queries[1], queries[0] * queries[2]]))]
    fn attend_near(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        plan: IntTensor<Self>,
    ) -> FloatTensor<Self>;
}

impl FewAttention for CubeBackend {
    fn store_in_pages(
        projected: CubeTensor,
        cosines: CubeTensor,
        sines: CubeTensor,
        keys: CubeTensor,
        values: CubeTensor,
        places: CubeTensor,
        shape: HeadShape,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let projected = into_contiguous(projected);
        let [cosines, sines, places] = [cosines, sines, places].map(into_contiguous);
        let [keys, values] = [keys, values].map(of_our_own);
        let rows = projected.meta.shape()[0];
        let queries = like(&projected, Shape::new([rows, shape.heads, shape.width]));
        let units = rows * shape.all() * shape.width;
        let dtypes = [element(&projected), element(&places)];
        let client = projected.client.clone();
        store::launch(
            &client,
            CubeCount::Static(units.div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            projected.into_buffer_arg(),
            cosines.into_buffer_arg(),
            sines.into_buffer_arg(),
            places.into_buffer_arg(),
            queries.clone().into_buffer_arg(),
            keys.clone().into_buffer_arg(),
            values.clone().into_buffer_arg(),
            units,
            shape.heads,
            shape.kv_heads,
            shape.width,
            dtypes,
        );
        (queries, keys, values)
    }

    fn attend_over_pages(
        queries: CubeTensor,
        keys: CubeTensor,
        values: CubeTensor,
        plan: CubeTensor,
        attending: Attending,
    ) -> CubeTensor {
        let Attending { entries, most_seen, window, shape } = attending;
        let HeadShape { heads, width, .. } = shape;
        let window = window.min(most_seen);
        let shares = Shares::new(entries, shape, &[window]);
        let row_and_head = [heads * width, width];
        let source = Source { keys, values, page: PAGE, first_entry: 0, window };
        attend_over(
            &into_contiguous(queries),
            row_and_head,
            &into_contiguous(plan),
            shares,
            [source],
        )
    }

    fn attend_near_and_far(
        queries: CubeTensor,
        far_keys: CubeTensor,
        far_values: CubeTensor,
        keys: CubeTensor,
        values: CubeTensor,
        plan: CubeTensor,
    ) -> CubeTensor {
        attend_over_slots(queries, plan, [(keys, values), (far_keys, far_values)])
    }

    fn attend_near(
        queries: CubeTensor,
        keys: CubeTensor,
        values: CubeTensor,
        plan: CubeTensor,
    ) -> CubeTensor {
        attend_over_slots(queries, plan, [(keys, values)])
    }
}

/// Attends with all of `queries` `[heads, tokens, width]` over keys and values
/// `[kv_heads, slots, width]`, as the next entries of `plan` say.
fn attend_over_slots<const SOURCES: usize>(
    queries: CubeTensor,
    plan: CubeTensor,
    slots: [(CubeTensor, CubeTensor); SOURCES],
) -> CubeTensor {
    let [heads, tokens, width] = dims(&queries);
    let [kv_heads, _, _] = dims(&slots[0].0);
    let mut first_entry = 0;
    let sources = slots.map(|(keys, values)| {
        let window = dims(&keys)[1];
        let page = steps_of_heads(&keys).filter(|step| steps_of_heads(&values) == Some(*step));
        let (keys, values) = match page {
            Some(_) => (keys, values),
            None => (into_contiguous(keys), into_contiguous(values)),
        };
        let page = page.unwrap_or(window);
        let source = Source { keys, values, page, first_entry, window };
        first_entry += tokens;
        source
    });
    let shape = HeadShape { heads, kv_heads, width };
    let shares = Shares::new(tokens, shape, &sources.each_ref().map(|source| source.window));
    let row_and_head = [width, tokens * width];
    attend_over(&into_contiguous(queries), row_and_head, &into_contiguous(plan), shares, sources)
}

/// Returns the number of slots from the beginning of a head of `[kv_heads, slots, width]` to the
/// next, if the slots of each head lie together. There are more than it has if there is room.
fn steps_of_heads(heads: &CubeTensor) -> Option<usize> {
    let [_, slots, width] = dims(heads);
    match &heads.meta.strides()[..] {
        [step, slot, 1] if *slot == width && step.is_multiple_of(width) => {
            // A single head may be said to begin again anywhere.
            Some(step / width).filter(|step| *step >= slots)
        }
        _ => None,
    }
}

/// Keys and values in pages, and the entries of the plan that attend over them.
struct Source {
    /// `[pages, kv_heads, page, width]`.
    keys: CubeTensor,
    values: CubeTensor,
    /// Number of tokens of a page.
    page: usize,
    /// Index of the first entry of the plan.
    first_entry: usize,
    window: usize,
}

/// Division of the keys of each source among groups of threads.
struct Shares {
    entries: usize,
    shape: HeadShape,
    /// Number of groups for each source, and of chunks of keys for each group.
    of_sources: Vec<[usize; 2]>,
}

impl Shares {
    fn new(entries: usize, shape: HeadShape, seen: &[usize]) -> Self {
        let of = |seen: &usize| {
            let chunks = seen.div_ceil(UNITS);
            let groups = GROUPS.div_ceil(entries * shape.heads).min(chunks);
            [groups, chunks.div_ceil(groups.max(1))]
        };
        Self { entries, shape, of_sources: seen.iter().map(of).collect() }
    }

    fn groups(&self) -> usize {
        self.of_sources.iter().map(|[groups, _]| groups).sum()
    }
}

/// Attends with queries whose rows and heads lie `row_and_head` numbers apart.
fn attend_over<const SOURCES: usize>(
    queries: &CubeTensor,
    [row, head]: [usize; 2],
    plan: &CubeTensor,
    shares: Shares,
    sources: [Source; SOURCES],
) -> CubeTensor {
    let HeadShape { heads, kv_heads, width } = shares.shape;
    let (entries, groups) = (shares.entries, shares.groups());
    let (client, device) = (queries.client.clone(), queries.device.clone());
    let float = |shape: Shape| {
        empty_device_contiguous_dtype(client.clone(), device.clone(), shape, DType::F32)
    };
    let sums = float(Shape::new([entries, heads, groups, width]));
    let states = float(Shape::new([entries, heads, groups, 2]));
    let attended = like(queries, Shape::new([entries, heads * width]));
    let dtypes = [element(queries), element(plan)];
    let cube_dim = CubeDim::new_1d(UNITS as u32);
    let mut first_group = 0;
    for (source, [own, chunks]) in sources.into_iter().zip(shares.of_sources) {
        if own == 0 {
            continue;
        }
        attend::launch(
            &client,
            CubeCount::Static(heads as u32, entries as u32, own as u32),
            cube_dim,
            queries.clone().into_buffer_arg(),
            source.keys.into_tensor_arg(),
            source.values.into_tensor_arg(),
            plan.clone().into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            states.clone().into_buffer_arg(),
            chunks,
            first_group,
            groups,
            source.first_entry,
            source.page,
            source.window,
            row,
            head,
            (width as f32).powf(-0.5),
            heads,
            kv_heads,
            width,
            dtypes,
        );
        first_group += own;
    }
    let units = entries * heads * width;
    join::launch(
        &client,
        CubeCount::Static(units.div_ceil(UNITS) as u32, 1, 1),
        cube_dim,
        sums.into_buffer_arg(),
        states.into_buffer_arg(),
        attended.clone().into_buffer_arg(),
        units,
        groups,
        width,
        dtypes[0],
    );
    attended
}

fn dims(tensor: &CubeTensor) -> [usize; 3] {
    let shape = tensor.meta.shape();
    [shape[0], shape[1], shape[2]]
}

/// Returns an uninitialised tensor of the device and the format of another.
pub(super) fn like(tensor: &CubeTensor, shape: Shape) -> CubeTensor {
    let (client, device) = (tensor.client.clone(), tensor.device.clone());
    empty_device_contiguous_dtype(client, device, shape, tensor.dtype)
}

/// Returns a tensor with the same numbers that nothing else reads.
pub(super) fn of_our_own(tensor: CubeTensor) -> CubeTensor {
    match tensor.can_mut() {
        true => tensor,
        false => tensor.copy(),
    }
}

/// Returns the number of threads that go through `numbers` together, with at least `each` for one
/// of them: a power of two, so that the halves that add up each other's results are equal.
pub(crate) fn threads(numbers: usize, each: usize, most: usize) -> usize {
    1 << (numbers / each).clamp(1, most.max(1)).ilog2()
}

/// Returns the number format of a tensor, for kernels.
pub(crate) fn element(tensor: &CubeTensor) -> ElemType {
    burn::backend::cubecl::dtype_to_storage_type(tensor.dtype)
}

/// One thread for each number of each head of each row.
#[cube(launch)]
fn store<F: Float, I: Int>(
    projected: &[F],
    cosines: &[F],
    sines: &[F],
    places: &[I],
    queries: &mut [F],
    keys: &mut [F],
    values: &mut [F],
    units: usize,
    #[comptime] heads: usize,
    #[comptime] kv_heads: usize,
    #[comptime] width: usize,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let unit = ABSOLUTE_POS;
    if unit >= units {
        terminate!();
    }
    let all = comptime!(heads + 2 * kv_heads);
    let half = comptime!(width / 2);
    let at = unit % width;
    let head = (unit / width) % all;
    let row = unit / (width * all);
    let here = projected[unit];
    let place = usize::cast_from(places[row]);
    let page = place / PAGE * kv_heads;
    if head >= heads + kv_heads {
        let to = (page + head - heads - kv_heads) * PAGE + place % PAGE;
        values[to * width + at] = here;
    } else {
        // A number turns with the one that is half a head away.
        let other = select(at < half, unit + half, unit - half);
        let sign = select(at < half, f32::cast_from(-1.0f32), f32::cast_from(1.0f32));
        let across = sign * f32::cast_from(projected[other]);
        let angle = row * width + at;
        let turned = f32::cast_from(here) * f32::cast_from(cosines[angle])
            + across * f32::cast_from(sines[angle]);
        if head < heads {
            queries[(row * heads + head) * width + at] = F::cast_from(turned);
        } else {
            let to = (page + head - heads) * PAGE + place % PAGE;
            keys[to * width + at] = F::cast_from(turned);
        }
    }
}

/// One group of threads for each head, entry of the plan, and share of its keys. A group goes
/// through its share in chunks of one key for each thread, and keeps the largest score so far
/// (Milakov and Gimelshein, "Online normalizer calculation for softmax", section 3).
#[cube(launch)]
fn attend<F: Float, I: Int>(
    queries: &[F],
    keys: &Slots<F>,
    values: &Slots<F>,
    plan: &[I],
    sums: &mut [f32],
    states: &mut [f32],
    chunks: usize,
    first_group: usize,
    groups: usize,
    first_entry: usize,
    page: usize,
    window: usize,
    query_row: usize,
    query_head: usize,
    scale: f32,
    #[comptime] heads: usize,
    #[comptime] kv_heads: usize,
    #[comptime] width: usize,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let head = CUBE_POS_X as usize;
    let entry = CUBE_POS_Y as usize;
    let share = CUBE_POS_Z as usize;
    let unit = UNIT_POS as usize;
    let kv_head = head / comptime!(heads / kv_heads);
    let told = (first_entry + entry) * ENTRY;
    let row = usize::cast_from(plan[told]);
    let end = usize::cast_from(plan[told + 1]);
    let pages = usize::cast_from(plan[told + 2]);

    let mut query = Shared::<[f32]>::new_slice(width);
    let mut scores = Shared::<[f32]>::new_slice(UNITS);
    let mut bases = Shared::<[u32]>::new_slice(UNITS);
    if unit < width {
        query[unit] = f32::cast_from(queries[row * query_row + head * query_head + unit]) * scale;
    }
    sync_cube();

    // Threads in lanes share the keys of a chunk, each thread of a lane with a number of its own.
    let lanes = comptime!(UNITS / width);
    let lane = unit / width;
    let at = unit % width;
    let begin = end - min(end, window) + share * chunks * UNITS;
    let mut top = f32::cast_from(LOWEST);
    let mut sum = f32::cast_from(0.0f32);
    let mut total = f32::cast_from(0.0f32);
    // The number of chunks is the same for all groups, because a barrier must be reached by all
    // threads of a group. A chunk beyond the end has no weight.
    for chunk in 0..chunks {
        let first = begin + chunk * UNITS;
        let key = first + unit;
        let mut score = f32::cast_from(LOWEST);
        let mut base = 0u32;
        if key < end {
            let at_page = usize::cast_from(plan[pages + key / page]);
            let from = ((at_page * kv_heads + kv_head) * page + key % page) * width;
            score = f32::cast_from(0.0f32);
            for i in 0..width {
                score += query[i] * f32::cast_from(keys[from + i]);
            }
            base = from as u32;
        }
        scores[unit] = score;
        bases[unit] = base;
        sync_cube();
        let count = min(UNITS, end - min(end, first));
        let mut higher = top;
        for i in 0..count {
            higher = max(higher, scores[i]);
        }
        sync_cube();
        let mut weight = f32::cast_from(0.0f32);
        if key < end {
            weight = (score - higher).exp();
        }
        scores[unit] = weight;
        sync_cube();
        let shrunk = (top - higher).exp();
        sum *= shrunk;
        total *= shrunk;
        top = higher;
        if lane < lanes {
            let mut i = lane;
            while i < count {
                let weight = scores[i];
                sum += weight * f32::cast_from(values[bases[i] as usize + at]);
                total += weight;
                i += lanes;
            }
        }
        sync_cube();
    }

    let mut totals = Shared::<[f32]>::new_slice(UNITS);
    scores[unit] = sum;
    totals[unit] = total;
    sync_cube();
    let to = (entry * heads + head) * groups + first_group + share;
    if unit < width {
        let mut sum = f32::cast_from(0.0f32);
        let mut total = f32::cast_from(0.0f32);
        for lane in 0..lanes {
            sum += scores[lane * width + unit];
            total += totals[lane * width + unit];
        }
        sums[to * width + unit] = sum;
        if unit == 0 {
            states[to * 2] = top;
            states[to * 2 + 1] = total;
        }
    }
}

/// One thread for each number that comes out: joins the shares of the keys.
#[cube(launch)]
fn join<F: Float>(
    sums: &[f32],
    states: &[f32],
    attended: &mut [F],
    units: usize,
    groups: usize,
    #[comptime] width: usize,
    #[define(F)] _dtype: ElemType,
) {
    let unit = ABSOLUTE_POS;
    if unit >= units {
        terminate!();
    }
    let from = unit / width * groups;
    let at = unit % width;
    let mut top = f32::cast_from(LOWEST);
    for group in 0..groups {
        top = max(top, states[(from + group) * 2]);
    }
    let mut sum = f32::cast_from(0.0f32);
    let mut total = f32::cast_from(0.0f32);
    for group in 0..groups {
        let weight = (states[(from + group) * 2] - top).exp();
        sum += weight * sums[(from + group) * width + at];
        total += weight * states[(from + group) * 2 + 1];
    }
    attended[unit] = F::cast_from(sum / total);
}
