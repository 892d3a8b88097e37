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
        DeviceChoice::Vulkan { index } => open_vulkan(index),
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

/// Returns whether a device is a GPU, with or without gradients.
pub(crate) fn is_gpu(device: &Device) -> bool {
    *device != Device::flex()
}

/// Returns whether a device computes in bfloat16. One that cannot be opened is refused later.
pub(crate) fn has_bfloat16(choice: DeviceChoice) -> bool {
    open(choice).map_or(true, |device| device.supports_dtype(DType::BF16))
}

#[cfg(feature = "cuda")]
fn open_cuda(index: usize) -> Result<Device, Error> {
    keep_kernels();
    open_gpu(burn::tensor::DeviceType::Cuda, "CUDA", index)
}

#[cfg(feature = "wgpu")]
fn open_vulkan(index: usize) -> Result<Device, Error> {
    open_gpu(burn::tensor::DeviceType::Wgpu, "Vulkan", index)
}

/// Opens a GPU. Lists the devices first, because naming one that does not exist panics in Burn's
/// own threads.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn open_gpu(kind: burn::tensor::DeviceType, name: &str, index: usize) -> Result<Device, Error> {
    let devices = Device::enumerate(kind).into_vec();
    let count = devices.len();
    devices.into_iter().nth(index).ok_or_else(|| Error::OptionUnavailable {
        option: "device",
        expected: format!("one of the {count} {name} devices of this machine, counted from 0"),
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
    Err(not_built("cuda", format!("cuda:{index}")))
}

#[cfg(not(feature = "wgpu"))]
fn open_vulkan(index: usize) -> Result<Device, Error> {
    Err(not_built("wgpu", format!("vulkan:{index}")))
}

#[cfg(not(all(feature = "cuda", feature = "wgpu")))]
fn not_built(feature: &str, found: String) -> Error {
    let expected = format!("the processor, as this build has no `{feature}` feature");
    Error::OptionUnavailable { option: "device", expected, found }
}
