//! Routes: the choice of code path, number format and batch size for a model.

use std::fmt;
use std::num::NonZeroUsize;

use clew_packed_bert::Kernel;

use crate::batch::{BatchBudget, BatchLayout};
use crate::{DeviceChoice, Error, ModelOptions, PathChoice, Precision, PrecisionChoice};

/// Tokens per step where the caller does not say. On a CPU any number from 256 to 2048 has the same
/// throughput of real tokens; a smaller number pads less and lets an interactive text in sooner. A
/// GPU needs many rows.
const PACKED_BATCH_TOKENS: usize = 512;
const BURN_CPU_BATCH_TOKENS: usize = 256;
const BURN_GPU_BATCH_TOKENS: usize = 65_536;

/// Sizes of the largest tensors of a model, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Widths {
    /// Numbers for each token.
    pub(crate) of_token: usize,
    /// Numbers for each pair of tokens that attend to each other.
    pub(crate) of_pair: usize,
}

/// Code path that will compute, and its number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Packed(Kernel),
    Burn(DeviceChoice, Precision),
}

impl Route {
    /// Returns the fastest route that honours `options`. `packed_obstacle` is the reason why the
    /// packed path cannot run this model, if there is one. `detect` finds the packed kernel of this
    /// CPU for a precision, and `has_bfloat16` tells whether a GPU computes in bfloat16.
    ///
    /// # Errors
    /// Returns [`Error::OptionUnavailable`] if no route honours the options.
    pub(crate) fn choose(
        options: &ModelOptions,
        packed_obstacle: Option<String>,
        detect: impl Fn(clew_packed_bert::KernelPrecision) -> Option<Kernel>,
        has_bfloat16: impl Fn(DeviceChoice) -> bool,
    ) -> Result<Self, Error> {
        let packed_wanted = match (options.device, options.path) {
            (DeviceChoice::Cpu, PathChoice::Auto | PathChoice::Packed) => true,
            (_, PathChoice::Packed) => return Err(unavailable("path", "burn on a GPU", "packed")),
            (_, PathChoice::Auto | PathChoice::Burn) => false,
        };
        if packed_wanted {
            match find_kernel(options.precision, packed_obstacle, detect) {
                Ok(kernel) => return Ok(Self::Packed(kernel)),
                Err(error) if options.path == PathChoice::Packed => return Err(error),
                Err(error) => tracing::info!(reason = %error, "the packed path is not used"),
            }
        }
        Ok(Self::Burn(options.device, burn_precision(options, has_bfloat16)?))
    }

    pub(crate) fn precision(self) -> Precision {
        match self {
            Self::Packed(kernel) => match kernel.precision() {
                clew_packed_bert::KernelPrecision::Float32 => Precision::Float32,
                clew_packed_bert::KernelPrecision::BFloat16 => Precision::BFloat16,
            },
            Self::Burn(_, precision) => precision,
        }
    }

    /// Returns the budget of a step for texts in `layout`, with which no tensor is larger than
    /// `room` bytes. `wanted` overrides the number of tokens, whatever room they take.
    pub(crate) fn budget(
        self,
        layout: BatchLayout,
        wanted: Option<NonZeroUsize>,
        Widths { of_token, of_pair }: Widths,
        room: usize,
    ) -> BatchBudget {
        if let Some(tokens) = wanted {
            return BatchBudget { tokens, pairs: usize::MAX, layout };
        }
        let most = match self {
            Self::Packed(_) => PACKED_BATCH_TOKENS,
            Self::Burn(DeviceChoice::Cpu, _) => BURN_CPU_BATCH_TOKENS,
            Self::Burn(_, _) => BURN_GPU_BATCH_TOKENS,
        };
        // Sums and weights are 32-bit numbers, whatever the format of the products.
        let within = |numbers: usize| room / (numbers.max(1) * size_of::<f32>());
        let tokens = NonZeroUsize::new(most.min(within(of_token))).unwrap_or(NonZeroUsize::MIN);
        BatchBudget { tokens, pairs: within(of_pair), layout }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packed(kernel) => write!(formatter, "packed {kernel}")?,
            Self::Burn(DeviceChoice::Cpu, _) => formatter.write_str("burn flex")?,
            Self::Burn(device, _) => write!(formatter, "burn {}", String::from(*device))?,
        }
        write!(formatter, " in {}", self.precision())
    }
}

fn find_kernel(
    precision: PrecisionChoice,
    packed_obstacle: Option<String>,
    detect: impl Fn(clew_packed_bert::KernelPrecision) -> Option<Kernel>,
) -> Result<Kernel, Error> {
    if let Some(obstacle) = packed_obstacle {
        return Err(unavailable("path", "burn for this model", &format!("packed ({obstacle})")));
    }
    let least = match precision {
        PrecisionChoice::Float32 => clew_packed_bert::KernelPrecision::Float32,
        PrecisionChoice::Auto | PrecisionChoice::BFloat16 => {
            clew_packed_bert::KernelPrecision::BFloat16
        }
    };
    let kernel = detect(least).ok_or_else(|| {
        unavailable("path", "burn on a processor without AVX2 or AVX-512", "packed")
    })?;
    if precision == PrecisionChoice::BFloat16 && kernel.precision() != least {
        let expected = "float32 on a processor without AVX512_BF16";
        return Err(unavailable("precision", expected, "bfloat16"));
    }
    Ok(kernel)
}

fn burn_precision(
    options: &ModelOptions,
    has_bfloat16: impl Fn(DeviceChoice) -> bool,
) -> Result<Precision, Error> {
    match (options.device, options.precision) {
        (_, PrecisionChoice::Float32) | (DeviceChoice::Cpu, PrecisionChoice::Auto) => {
            Ok(Precision::Float32)
        }
        (device, PrecisionChoice::Auto) if !has_bfloat16(device) => Ok(Precision::Float32),
        // Burn's CPU backend would convert both factors to 32 bits at each product.
        (DeviceChoice::Cpu, PrecisionChoice::BFloat16) => {
            Err(unavailable("precision", "float32 for burn on a processor", "bfloat16"))
        }
        (_, _) => Ok(Precision::BFloat16),
    }
}

/// Returns the refusal of an option.
pub(crate) fn unavailable(option: &'static str, expected: &str, found: &str) -> Error {
    Error::OptionUnavailable { option, expected: expected.to_owned(), found: found.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUDA: DeviceChoice = DeviceChoice::Cuda { index: 1 };

    fn options(device: DeviceChoice, path: PathChoice, precision: PrecisionChoice) -> ModelOptions {
        ModelOptions { device, path, precision, ..ModelOptions::default() }
    }

    /// Returns a CPU with the given kernels, fastest first.
    fn processor(
        kernels: &[Kernel],
    ) -> impl Fn(clew_packed_bert::KernelPrecision) -> Option<Kernel> + '_ {
        move |least| {
            let rounds = least == clew_packed_bert::KernelPrecision::BFloat16;
            kernels.iter().copied().find(|kernel| rounds || kernel.precision() == least)
        }
    }

    #[test]
    fn a_gpu_computes_as_many_tokens_at_once_as_its_memory_has_room_for() {
        let route = Route::Burn(DeviceChoice::Cuda { index: 0 }, Precision::BFloat16);
        let widths = Widths { of_token: 1536, of_pair: 12 };
        let budget = |wanted, room| route.budget(BatchLayout::Padded, wanted, widths, room);
        let of = |room| {
            let BatchBudget { tokens, pairs, .. } = budget(None, room);
            (tokens.get(), pairs)
        };
        assert_eq!(of(5 << 30), (65_536, (5 << 30) / 48));
        assert_eq!(of(6144 * 1000), (1000, 128_000));
        assert_eq!(of(0), (1, 0), "one text at a time");
        let wanted = NonZeroUsize::new(200_000);
        assert_eq!(budget(wanted, 6144).tokens.get(), 200_000);
    }

    #[test]
    fn the_fastest_route_that_the_options_allow_is_taken() {
        use DeviceChoice::Cpu;
        use PathChoice as Path;
        use PrecisionChoice as In;
        let new = [Kernel::Avx512Bf16, Kernel::Avx512];
        let old = [Kernel::Avx2];
        let burn = Route::Burn(Cpu, Precision::Float32);
        for (device, path, precision, kernels, expected) in [
            (Cpu, Path::Auto, In::Auto, &new[..], Route::Packed(Kernel::Avx512Bf16)),
            (Cpu, Path::Auto, In::Float32, &new, Route::Packed(Kernel::Avx512)),
            (Cpu, Path::Packed, In::BFloat16, &new, Route::Packed(Kernel::Avx512Bf16)),
            (Cpu, Path::Auto, In::Auto, &old, Route::Packed(Kernel::Avx2)),
            (Cpu, Path::Auto, In::Auto, &[], burn),
            (Cpu, Path::Burn, In::Auto, &new, burn),
            (CUDA, Path::Auto, In::Auto, &new, Route::Burn(CUDA, Precision::BFloat16)),
            (CUDA, Path::Auto, In::Float32, &new, Route::Burn(CUDA, Precision::Float32)),
            (CUDA, Path::Burn, In::BFloat16, &new, Route::Burn(CUDA, Precision::BFloat16)),
        ] {
            let options = options(device, path, precision);
            let route = Route::choose(&options, None, processor(kernels), |_| true).unwrap();
            assert_eq!(route, expected, "{options:?}");
        }
        let old_gpu = options(CUDA, Path::Auto, In::Auto);
        let route = Route::choose(&old_gpu, None, processor(&new), |_| false).unwrap();
        assert_eq!(route, Route::Burn(CUDA, Precision::Float32));
    }

    #[test]
    fn options_that_contradict_the_machine_are_refused_by_name() {
        use DeviceChoice::Cpu;
        use PathChoice as Path;
        use PrecisionChoice as In;
        for (device, path, precision, kernels, expected) in [
            (CUDA, Path::Packed, In::Auto, &[Kernel::Avx512][..], "path"),
            (Cpu, Path::Packed, In::Auto, &[], "path"),
            (Cpu, Path::Packed, In::BFloat16, &[Kernel::Avx512], "precision"),
            (Cpu, Path::Auto, In::BFloat16, &[Kernel::Avx512], "precision"),
            (Cpu, Path::Burn, In::BFloat16, &[Kernel::Avx512Bf16], "precision"),
        ] {
            let options = options(device, path, precision);
            match Route::choose(&options, None, processor(kernels), |_| true) {
                Err(Error::OptionUnavailable { option, .. }) => assert_eq!(option, expected),
                other => panic!("{options:?} gave {other:?}"),
            }
        }
    }

    #[test]
    fn a_model_that_the_packed_path_cannot_run_runs_on_burn() {
        let obstacle = || Some("heads of 20".to_owned());
        let choose = |options: &ModelOptions| {
            Route::choose(options, obstacle(), processor(&Kernel::ALL), |_| true)
        };
        let route = choose(&ModelOptions::default());
        assert_eq!(route.unwrap(), Route::Burn(DeviceChoice::Cpu, Precision::Float32));
        let packed = options(DeviceChoice::Cpu, PathChoice::Packed, PrecisionChoice::Auto);
        assert!(choose(&packed).is_err());
    }
}
