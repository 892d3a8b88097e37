//! The device that the tests of this folder compute on.

#![allow(dead_code, reason = "not every file of tests needs all of it")]

use std::env;

use burn::tensor::DType;
use clew_model::{DeviceChoice, open_device};

/// Returns the device that `CLEW_TEST_DEVICE` names, such as `cuda:0`; without it, the processor.
pub fn device() -> DeviceChoice {
    let named = env::var("CLEW_TEST_DEVICE");
    named.map_or(DeviceChoice::Cpu, |name| name.parse().expect("`cpu`, `cuda:0` or `vulkan:0`"))
}

/// Returns whether the device computes in bfloat16. A processor does so in 32-bit floats.
pub fn has_bfloat16() -> bool {
    open_device(device()).unwrap().supports_dtype(DType::BF16)
}

/// Returns the most that two correct computations differ by on the device, where `exact` is that
/// of sums in 32-bit floats. GPUs round the factors of their products to 11 bits of significand.
/// On an H100 states of encoders differed by up to 300 times as much, and logits by up to 920
/// times: 0.4 % of the largest. Wrong kernels differed by 30,000 times as much and more.
pub fn tolerance(exact: f32) -> f32 {
    match device() {
        DeviceChoice::Cpu => exact,
        DeviceChoice::Cuda { .. } => 2000.0 * exact,
        DeviceChoice::Vulkan { .. } => 20.0 * exact,
    }
}
