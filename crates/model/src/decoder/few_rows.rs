//! Kernels of GPUs for few rows of states: products with the large matrices of a model, and
//! normalisation.
//!
//! With few rows a product takes as long as it takes to read the matrix. A tiled product gives each
//! group of threads a tile of both, which leaves most of a GPU idle where there are few rows. Here
//! a group reads some rows of the matrix, whatever the number of states.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Device, Shape, Tensor};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::{Tensor as Matrix, *};

use super::kernels::{element, like};
use crate::device::is_gpu;

/// Maximum number of rows of states. More are faster in tiles.
const MOST_ROWS: usize = 16;
/// Maximum number of rows that are normalised at once: groups of threads in one dimension.
const MOST_NORMALISED: usize = 65_535;
/// Number of threads of a group that multiplies.
const THREADS: usize = 64;
/// Number of outputs that a group computes for each row of states.
const OUTPUTS: usize = 4;
/// Number of threads that normalise a row.
const UNITS: usize = 128;

/// Operations on few rows.
#[backend_extension(Cube, Fusion)]
trait FewRows: Backend {
    /// Multiplies `states` `[rows, input]` by the transpose of `weight` `[output, input]`. Returns
    /// `[rows, output]`.
    #[fusion(dtype = states, shape = Shape::new([states[0], weight[0]]))]
    fn multiply_few(states: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Divides each row of `states` `[rows, width]` by the root of the mean of its squares and
    /// `epsilon`, and multiplies it by `weight` `[width]`.
    #[fusion(dtype = states, shape = states)]
    fn normalise_rows(
        states: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self>;
}

/// Returns whether kernels of ours run on a device: on a GPU, unless gradients are wanted.
pub(super) fn run_on(device: &Device) -> bool {
    is_gpu(device) && !device.is_autodiff()
}

/// Multiplies `states` `[rows, input]` by the transpose of `weight` `[output, input]`, if there are
/// few rows on a GPU.
pub(super) fn product(states: &Tensor<2>, weight: &Tensor<2>) -> Option<Tensor<2>> {
    let [rows, _] = states.dims();
    if rows > MOST_ROWS || !run_on(&states.device()) {
        return None;
    }
    let [states, weight] = [states, weight].map(|factor| factor.clone().into_dispatch());
    Some(Tensor::from_dispatch(Dispatch::multiply_few(states, weight)))
}

/// Normalises `states` `[rows, width]`, if they are on a GPU.
pub(super) fn normalised(
    states: &Tensor<2>,
    weight: &Tensor<1>,
    epsilon: f64,
) -> Option<Tensor<2>> {
    let [rows, _] = states.dims();
    if rows > MOST_NORMALISED || !run_on(&states.device()) {
        return None;
    }
    let (states, weight) = (states.clone().into_dispatch(), weight.clone().into_dispatch());
    Some(Tensor::from_dispatch(Dispatch::normalise_rows(states, weight, epsilon as f32)))
}

impl FewRows for CubeBackend {
    fn multiply_few(states: CubeTensor, weight: CubeTensor) -> CubeTensor {
        let [states, weight] = [states, weight].map(rows_in_a_piece);
        let (rows, input) = (states.meta.shape()[0], states.meta.shape()[1]);
        let steps = [&states, &weight].map(|factor| factor.meta.strides()[0]);
        let outputs = weight.meta.shape()[0];
        let client = states.client.clone();
        let products = like(&states, Shape::new([rows, outputs]));
        let sizes = client.io_optimized_vector_sizes(states.dtype.size());
        let fits =
            |size: &usize| [input, steps[0], steps[1]].iter().all(|n| n.is_multiple_of(*size));
        let size = sizes.filter(fits).max().unwrap_or(1);
        let dtype = element(&states);
        multiply::launch(
            &client,
            CubeCount::Static(outputs.div_ceil(OUTPUTS) as u32, 1, 1),
            CubeDim::new_1d(THREADS as u32),
            size,
            states.into_tensor_arg(),
            weight.into_tensor_arg(),
            products.clone().into_buffer_arg(),
            input / size,
            steps[0] / size,
            steps[1] / size,
            outputs,
            rows,
            // Few different numbers, because each is a kernel of its own.
            rows.next_power_of_two(),
            dtype,
        );
        products
    }

    fn normalise_rows(states: CubeTensor, weight: CubeTensor, epsilon: f32) -> CubeTensor {
        let (states, weight) = (rows_in_a_piece(states), into_contiguous(weight));
        let step = states.meta.strides()[0];
        let shape = Shape::new([states.meta.shape()[0], states.meta.shape()[1]]);
        let [rows, width] = [shape[0], shape[1]];
        let client = states.client.clone();
        let normal = like(&states, shape);
        let dtype = element(&states);
        normalise::launch(
            &client,
            CubeCount::Static(rows as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            states.into_tensor_arg(),
            weight.into_buffer_arg(),
            normal.clone().into_buffer_arg(),
            width,
            step,
            epsilon,
            dtype,
        );
        normal
    }
}

/// Returns a matrix whose rows each lie in a piece. A device may leave gaps between rows; a copy
/// without them would cost as much as a product of few rows. Kernels must take such a matrix as a
/// tensor: a buffer ends where the numbers would without gaps, and what lies beyond reads as 0.
fn rows_in_a_piece(matrix: CubeTensor) -> CubeTensor {
    match matrix.meta.strides()[1] {
        1 => matrix,
        _ => into_contiguous(matrix),
    }
}

/// One group of threads for some outputs. Each thread multiplies its share of the numbers of a row.
/// Rows of states and of the matrix lie `states_step` and `weight_step` vectors apart.
#[cube(launch)]
fn multiply<F: Float, N: Size>(
    states: &Matrix<Vector<F, N>>,
    weight: &Matrix<Vector<F, N>>,
    products: &mut [F],
    input: usize,
    states_step: usize,
    weight_step: usize,
    outputs: usize,
    rows: usize,
    #[comptime] padded_rows: usize,
    #[define(F)] _dtype: ElemType,
) {
    let unit = UNIT_POS as usize;
    let first = CUBE_POS_X as usize * OUTPUTS;
    let count = comptime!(padded_rows * OUTPUTS);
    let mut sums = Array::<f32>::new(count);
    #[unroll]
    for i in 0..count {
        sums[i] = f32::cast_from(0.0f32);
    }
    let mut at = unit;
    while at < input {
        #[unroll]
        for output in 0..OUTPUTS {
            // What is read twice at the end is not stored.
            let from = min(first + output, outputs - 1) * weight_step + at;
            let weights = Vector::<f32, N>::cast_from(weight[from]);
            #[unroll]
            for row in 0..padded_rows {
                let from = min(row, rows - 1) * states_step + at;
                let shares = weights * Vector::<f32, N>::cast_from(states[from]);
                #[unroll]
                for k in 0..N::value() {
                    sums[row * OUTPUTS + output] += shares.extract(k);
                }
            }
        }
        at += THREADS;
    }
    // One number more in each row of the table, so that threads that write do not wait for each
    // other.
    let stride = comptime!(padded_rows * OUTPUTS + 1);
    let mut table = Shared::<[f32]>::new_slice(comptime!(THREADS * (padded_rows * OUTPUTS + 1)));
    #[unroll]
    for i in 0..count {
        table[unit * stride + i] = sums[i];
    }
    sync_cube();
    if unit < count {
        let mut sum = f32::cast_from(0.0f32);
        for thread in 0..THREADS {
            sum += table[thread * stride + unit];
        }
        let row = unit / OUTPUTS;
        let output = first + unit % OUTPUTS;
        if row < rows && output < outputs {
            products[row * outputs + output] = F::cast_from(sum);
        }
    }
}

/// One group of threads for each row. Rows of states lie `step` numbers apart.
#[cube(launch)]
fn normalise<F: Float>(
    states: &Matrix<F>,
    weight: &[F],
    normal: &mut [F],
    width: usize,
    step: usize,
    epsilon: f32,
    #[define(F)] _dtype: ElemType,
) {
    let unit = UNIT_POS as usize;
    let (begin, to) = (CUBE_POS_X as usize * step, CUBE_POS_X as usize * width);
    let mut squares = Shared::<[f32]>::new_slice(UNITS);
    let mut own = f32::cast_from(0.0f32);
    let mut at = unit;
    while at < width {
        let number = f32::cast_from(states[begin + at]);
        own += number * number;
        at += UNITS;
    }
    squares[unit] = own;
    sync_cube();
    let mut sum = f32::cast_from(0.0f32);
    for i in 0..UNITS {
        sum += squares[i];
    }
    let root = (sum / f32::cast_from(width) + epsilon).sqrt();
    let mut at = unit;
    while at < width {
        let number = F::cast_from(f32::cast_from(states[begin + at]) / root);
        normal[to + at] = number * weight[at];
        at += UNITS;
    }
}
