//! The device that the tests of this folder compute on.

#![allow(dead_code, reason = "not every file of tests needs all of it")]

use std::env;

use clew_model::DeviceChoice;

/// Returns the device that `CLEW_TEST_DEVICE` names, such as `cuda:0`; without it, the processor.
pub fn device() -> DeviceChoice {
    let named = env::var("CLEW_TEST_DEVICE");
    named.map_or(DeviceChoice::Cpu, |name| name.parse().expect("`cpu` or `cuda:0`"))
}

/// Returns the most that two correct computations differ by on the device, where `exact` is that
/// of sums in 32-bit floats. GPUs round the factors of their products to 11 bits of significand.
/// On an H100 states of encoders differed by up to 300 times as much, and logits by up to 920
/// times: 0.4 % of the largest. Wrong kernels differed by 30,000 times as much and more.
pub fn tolerance(exact: f32) -> f32 {
    match device() {
        DeviceChoice::Cpu => exact,
        DeviceChoice::Cuda { .. } => 2000.0 * exact,
    }
}
