//! Finds the device to compute on.

use burn::tensor::{DType, Device};

use crate::{DeviceChoice, Error, Precision};

/// Opens the chosen device, for those who compute on it beside the models, such as a measurement.
///
/// # Errors
/// Returns [`Error::OptionUnavailable`] if this machine or this build does not have the GPU.
pub fn open(choice: DeviceChoice) -> Result<Device, Error> {
    match choice {
        DeviceChoice::Cpu => Ok(Device::flex()),
        DeviceChoice::Cuda { index } => open_cuda(index),
    }
}

/// Opens the chosen device, to compute in the number format `precision`.
///
/// # Errors
/// Returns [`Error::OptionUnavailable`] if the device or the number format is not available.
pub(crate) fn open_for(
    choice: DeviceChoice,
    precision: Precision,
) -> Result<(Device, DType), Error> {
    let device = open(choice)?;
    let dtype = precision.dtype();
    if !device.supports_dtype(dtype) {
        return Err(Error::OptionUnavailable {
            option: "precision",
            expected: "float32 on this device".to_owned(),
            found: precision.to_string(),
        });
    }
    Ok((device, dtype))
}

/// Returns whether a device computes in bfloat16. One that cannot be opened is refused later.
pub(crate) fn has_bfloat16(choice: DeviceChoice) -> bool {
    open(choice).map_or(true, |device| device.supports_dtype(DType::BF16))
}

/// Opens a GPU. Lists the devices first, because naming one that does not exist panics in Burn's
/// own threads.
#[cfg(feature = "cuda")]
fn open_cuda(index: usize) -> Result<Device, Error> {
    keep_kernels();
    let devices = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec();
    let count = devices.len();
    devices.into_iter().nth(index).ok_or_else(|| Error::OptionUnavailable {
        option: "device",
        expected: format!("one of the {count} CUDA devices of this machine, counted from 0"),
        found: format!("device {index}"),
    })
}

/// Makes this process keep on disk the kernels that it compiles for a GPU. Without them the first
/// batches of a model take seconds to a minute. They lie in the cache folder of the user
/// (`XDG_CACHE_HOME`), unless `cubecl.toml` names another.
#[cfg(feature = "cuda")]
fn keep_kernels() {
    use burn::cubecl::config::cache::CacheConfig;
    use burn::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

    let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
    config.compilation.cache = true;
    if matches!(config.environment.path, CacheConfig::Target) {
        config.environment.path = CacheConfig::Global;
    }
    // Only the first call decides.
    CubeClRuntimeConfig::try_set(config);
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(index: usize) -> Result<Device, Error> {
    Err(Error::OptionUnavailable {
        option: "device",
        expected: "the processor, as this build has no `cuda` feature".to_owned(),
        found: format!("CUDA device {index}"),
    })
}
