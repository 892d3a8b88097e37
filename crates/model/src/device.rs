//! Finds the device to compute on.

use burn::tensor::{DType, Device};

use crate::{DeviceChoice, Error, Precision};

/// Opens the chosen device.
///
/// # Errors
/// Returns [`Error::OptionUnavailable`] if this machine or this build does not have the GPU.
fn open(choice: DeviceChoice) -> Result<Device, Error> {
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

/// Opens a GPU. Lists the devices first, because naming one that does not exist panics in Burn's
/// own threads.
#[cfg(feature = "cuda")]
fn open_cuda(index: usize) -> Result<Device, Error> {
    let devices = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec();
    let count = devices.len();
    devices.into_iter().nth(index).ok_or_else(|| Error::OptionUnavailable {
        option: "device",
        expected: format!("one of the {count} CUDA devices of this machine, counted from 0"),
        found: format!("device {index}"),
    })
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(index: usize) -> Result<Device, Error> {
    Err(Error::OptionUnavailable {
        option: "device",
        expected: "the processor, as this build has no `cuda` feature".to_owned(),
        found: format!("CUDA device {index}"),
    })
}
