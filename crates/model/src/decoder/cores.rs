//! Large matrix products on several CPU cores.

use std::num::NonZeroUsize;
use std::sync::Arc;

use burn::prelude::*;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{DeviceChoice, Error};

/// Number of multiplications below which dividing a product takes longer than it saves.
const LEAST_WORK: usize = 1 << 20;

/// CPU cores of a decoder; only the caller's on a GPU.
///
/// Burn computes a product on the calling thread. Here each core computes part of the outputs, and
/// so reads its own part of the weights. Reading weights is the bottleneck of generation token by
/// token.
#[derive(Clone)]
pub(crate) struct Cores(Option<Arc<ThreadPool>>);

impl Cores {
    /// Returns the caller's core only.
    pub(crate) fn one() -> Self {
        Self(None)
    }

    /// Returns `threads` cores for a decoder on `device`; 0 means all of the machine.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the threads cannot be started.
    pub(crate) fn of(device: DeviceChoice, threads: usize) -> Result<Self, Error> {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = if threads == 0 { cores() } else { threads };
        if threads == 1 || device.is_gpu() {
            return Ok(Self::one());
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("decoder-{index}"))
            .build()
            .map_err(|error| Error::Device { reason: error.to_string() })?;
        Ok(Self(Some(Arc::new(pool))))
    }

    /// Returns the number of cores.
    pub(crate) fn count(&self) -> usize {
        self.0.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Multiplies `states` `[rows, input]` by the transpose of `weight` `[output, input]`. Returns
    /// `[rows, output]`.
    pub(crate) fn product(&self, states: Tensor<2>, weight: &Tensor<2>) -> Tensor<2> {
        let [rows, input] = states.dims();
        let [output, _] = weight.dims();
        let pool = self.0.as_ref().filter(|_| rows * input * output >= LEAST_WORK);
        let Some(pool) = pool else {
            return states.matmul(weight.clone().transpose());
        };
        let share = output.div_ceil(pool.current_num_threads()).max(1);
        let parts: Vec<Tensor<2>> = pool.install(|| {
            let begins: Vec<usize> = (0..output).step_by(share).collect();
            let part = |begin: usize| {
                let end = (begin + share).min(output);
                let weight = weight.clone().slice([begin..end, 0..input]);
                states.clone().matmul(weight.transpose())
            };
            begins.into_par_iter().map(part).collect()
        });
        Tensor::cat(parts, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_product_make_the_whole() {
        let device = Device::flex();
        let matrix = |rows: usize, columns: usize| {
            let values: Vec<f32> = (0..rows * columns).map(|i| (i as f32 * 0.37).sin()).collect();
            Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), &device)
        };
        for (rows, input, output) in [(1, 1024, 1031), (7, 512, 300), (3, 4, 5)] {
            let (states, weight) = (matrix(rows, input), matrix(output, input));
            let product = |cores: Cores| {
                cores.product(states.clone(), &weight).try_into_vec_as::<f32>().unwrap()
            };
            let (one, three) =
                (product(Cores::one()), product(Cores::of(DeviceChoice::Cpu, 3).unwrap()));
            let pairs = one.iter().zip(&three);
            let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // The sums of a thousand numbers below one differ by their order only.
            assert!(one.len() == three.len() && off < 1e-3, "off by {off}");
        }
    }
}
