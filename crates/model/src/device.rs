//! Finds the device to compute on.

use burn::tensor::{DType, Device};

use crate::{DeviceChoice, Error, Precision, PrecisionChoice};

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

/// Returns the size in bytes that the largest tensor of a batch should have at most on a device. On
/// a processor nothing is that large.
pub(crate) fn largest_tensor(device: &Device) -> usize {
    #[cfg(feature = "gpu")]
    if let burn::backend::DispatchDevice::Cube(device) = device.as_dispatch() {
        let client = device.client();
        let memory = &client.properties().memory;
        // About eight tensors of the largest size are there at once. They get half of the memory;
        // weights and other models need the rest. Not every driver tells how much there is, but
        // each tells how large a tensor can be.
        let share = memory.max_memory().map_or(u64::MAX, |memory| memory / 16);
        return usize::try_from(share.min(memory.max_page_size)).unwrap_or(usize::MAX);
    }
    let _on_processor = device;
    usize::MAX
}

impl PrecisionChoice {
    /// Returns the number format of a decoder's weights on a device. [`Self::Auto`] is bfloat16 on
    /// a GPU with instructions for it. On a CPU it takes half the memory, but is not faster.
    pub fn of_decoder(self, device: DeviceChoice) -> Precision {
        match self {
            Self::Auto if device.is_gpu() && has_bfloat16(device) => Precision::BFloat16,
            Self::Auto | Self::Float32 => Precision::Float32,
            Self::BFloat16 => Precision::BFloat16,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoders_take_the_format_that_is_named_and_by_default_the_one_that_suits_the_device() {
        let gpu = DeviceChoice::Cuda { index: 0 };
        for device in [DeviceChoice::Cpu, gpu] {
            assert_eq!(PrecisionChoice::Float32.of_decoder(device), Precision::Float32);
            assert_eq!(PrecisionChoice::BFloat16.of_decoder(device), Precision::BFloat16);
        }
        assert_eq!(PrecisionChoice::Auto.of_decoder(DeviceChoice::Cpu), Precision::Float32);
    }
}
