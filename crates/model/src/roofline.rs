//! Roofline: upper bounds of a machine, to compare a model's speed with.

use std::time::{Duration, Instant};

use burn::prelude::*;
use burn::tensor::Distribution;

use crate::decoder::cores::Cores;
use crate::{DeviceChoice, Error, Precision, device};

/// Side of the square matrices whose product is timed on a CPU.
const SIDE: usize = 2048;
/// The same on a GPU, which smaller matrices do not fill.
const GPU_SIDE: usize = 8192;
/// Number of products between two waits for a GPU, because a wait takes time too.
const GPU_REPEATS: usize = 8;
/// Time after which a product of the small matrices shows that they fill a GPU.
const FILLED: Duration = Duration::from_millis(50);
/// Bytes that are read to time memory: more than any cache holds.
const READ_BYTES: usize = 256 << 20;
/// The same on a GPU, where a small copy takes less time than the wait for it.
const GPU_READ_BYTES: usize = 2 << 30;
/// The same with Vulkan, whose drivers need not have larger buffers than 128 MiB.
const VULKAN_READ_BYTES: usize = 96 << 20;
/// Number of runs of each measurement. The best counts, because nothing makes a machine faster than
/// it is.
const ROUNDS: usize = 5;

/// Two upper bounds of a device: no model multiplies faster than the first, or reads its weights
/// faster than the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Floating-point operations per second in products of large matrices, as a decoder computes
    /// them.
    pub flops: f64,
    /// Bytes per second that are read from memory.
    pub bytes_per_second: f64,
}

impl Roofline {
    /// Measures `device` with `threads` CPU threads, or one per core if that is 0. Takes seconds.
    ///
    /// # Errors
    /// Returns [`Error::OptionUnavailable`] if the device or the number format is not available,
    /// and [`Error::Device`] if the device fails.
    pub fn measure(
        device: DeviceChoice,
        precision: Precision,
        threads: usize,
    ) -> Result<Self, Error> {
        let cores = Cores::of(device, threads)?;
        let flops = flops(device, precision, &cores)?;
        let bytes_per_second = match device {
            DeviceChoice::Cpu => read_bytes(cores.count()),
            DeviceChoice::Cuda { .. } => copied_bytes(device, precision, GPU_READ_BYTES)?,
            DeviceChoice::Vulkan { .. } => copied_bytes(device, precision, VULKAN_READ_BYTES)?,
        };
        Ok(Self { flops, bytes_per_second })
    }
}

fn flops(choice: DeviceChoice, precision: Precision, cores: &Cores) -> Result<f64, Error> {
    let (device, dtype) = device::open_for(choice, precision)?;
    // Random numbers, because a GPU multiplies equal ones faster, and of a size that repeated
    // products keep.
    let numbers = |side: usize| {
        let spread = Distribution::Normal(0.0, (side as f64).powf(-0.5));
        Tensor::<2>::random([side, side], spread, (&device, dtype))
    };
    let rate = |side: usize, repeats: usize| {
        let numbers = numbers(side);
        let work = 2.0 * (side as f64).powi(3) * repeats as f64;
        let multiply = |product: Tensor<2>, _| cores.product(product, &numbers);
        best_rate(work, || wait((0..repeats).fold(numbers.clone(), multiply)))
    };
    let rate_of_small = rate(SIDE, 1)?;
    let seconds = 2.0 * (SIDE as f64).powi(3) / rate_of_small;
    match choice.is_gpu() && seconds < FILLED.as_secs_f64() {
        true => rate(GPU_SIDE, GPU_REPEATS),
        false => Ok(rate_of_small),
    }
}

fn copied_bytes(choice: DeviceChoice, precision: Precision, bytes: usize) -> Result<f64, Error> {
    let (device, dtype) = device::open_for(choice, precision)?;
    let rows = bytes / SIDE / dtype.size();
    let ones = Tensor::<2>::ones([rows, SIDE], (&device, dtype));
    best_rate(2.0 * bytes as f64, || wait(ones.clone().mul_scalar(3.0)))
}

/// Returns the rate at which the CPU reads memory. It compares two halves, because the C library's
/// comparison is limited by memory bandwidth only.
fn read_bytes(threads: usize) -> f64 {
    let half = vec![1u8; READ_BYTES / 2];
    let other = half.clone();
    let share = half.len().div_ceil(threads.max(1));
    let compare = || {
        std::thread::scope(|scope| {
            for (half, other) in half.chunks(share).zip(other.chunks(share)) {
                scope.spawn(move || assert_eq!(half, std::hint::black_box(other)));
            }
        });
        Ok(())
    };
    best_rate(READ_BYTES as f64, compare).unwrap_or(0.0)
}

/// Returns the best of several rates, where one call of `act` does `work`.
fn best_rate(work: f64, mut act: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    act()?;
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        act()?;
        best = best.max(work / began.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Waits until the device has computed `tensor`, by reading one of its numbers.
fn wait(tensor: Tensor<2>) -> Result<(), Error> {
    let one = tensor.slice([0..1, 0..1]).try_into_vec_as::<f32>();
    one.map(drop).map_err(|error| Error::Device { reason: error.to_string() })
}
