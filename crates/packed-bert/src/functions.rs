//! Exponential and GELU on vectors.

use crate::kernel::Lanes;

/// Coefficients of `2^f` on [-1/2, 1/2] from the constant term up: the polynomial through the Chebyshev nodes with the
/// constant term held at 1. Its relative error is 5.1e-9, a twelfth of the rounding of a 32-bit float.
const POWER_OF_TWO: [f32; 7] =
    [1.0, 6.931_472e-1, 2.402_265_1e-1, 5.550_357e-2, 9.618_083e-3, 1.339_086_3e-3, 1.545_316_3e-4];

/// Below this, `e^x` is taken to be `e^-87`, about 1.6e-38, the least that stays a normal number.
const SMALLEST_EXPONENT: f32 = -87.0;

/// `e^x` for `x` up to 0, which is all that softmax and GELU ask for; negative infinity gives about 1.6e-38.
///
/// `e^x = 2^n 2^f`, where `n` is the whole number nearest to `x log2(e)`.
#[inline(always)]
pub(crate) fn exponential<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    let x = lanes.maximum(x, lanes.splat(SMALLEST_EXPONENT));
    let log2_e = lanes.splat(std::f32::consts::LOG2_E);
    let whole = lanes.round(lanes.multiply(x, log2_e));
    // One rounding: the product enters the subtraction exactly.
    let fraction = lanes.multiply_add(x, log2_e, lanes.subtract(lanes.splat(0.0), whole));
    lanes.scale_by_power_of_two(polynomial(lanes, fraction, &POWER_OF_TWO), whole)
}

/// `t`'s factor and the polynomial's coefficients in Abramowitz and Stegun, "Handbook of Mathematical Functions",
/// 7.1.26: `erf(z) = 1 - t (a1 + a2 t + ... + a5 t^4) e^(-z^2) + e`, `t = 1 / (1 + p z)`, `z >= 0`, `|e| <= 1.5e-7`.
/// The coefficients are halved here, because the normal distribution's tail is `(1 - erf(z)) / 2`.
const ERF_P: f32 = 0.327_591_1;
const HALF_ERF_A: [f32; 5] = [
    0.5 * 0.254_829_592,
    0.5 * -0.284_496_736,
    0.5 * 1.421_413_741,
    0.5 * -1.453_152_027,
    0.5 * 1.061_405_429,
];

/// `x` times the normal distribution function at `x`: the GELU of Hendrycks and Gimpel, "Gaussian Error Linear Units",
/// section 2, in its exact form.
///
/// With `tail` the distribution function at `-|x|`, it is `max(x, 0) - |x| tail` on both sides of zero, which needs
/// neither a sign nor a difference of near-equal numbers for negative `x`.
#[inline(always)]
pub(crate) fn gelu<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    let magnitude = lanes.absolute(x);
    let scaled = lanes.splat(ERF_P * std::f32::consts::FRAC_1_SQRT_2);
    let one = lanes.splat(1.0);
    let t = lanes.divide(one, lanes.multiply_add(magnitude, scaled, one));
    let density = exponential(lanes, lanes.multiply(lanes.multiply(x, x), lanes.splat(-0.5)));
    let tail = lanes.multiply(lanes.multiply(polynomial(lanes, t, &HALF_ERF_A), t), density);
    let negative_magnitude = lanes.subtract(lanes.splat(0.0), magnitude);
    lanes.multiply_add(negative_magnitude, tail, lanes.maximum(x, lanes.splat(0.0)))
}

/// Horner's scheme; coefficients from the constant term up.
#[inline(always)]
fn polynomial<L: Lanes>(lanes: L, x: L::Vector, coefficients: &[f32]) -> L::Vector {
    let mut value = lanes.splat(0.0);
    for &coefficient in coefficients.iter().rev() {
        value = lanes.multiply_add(value, x, lanes.splat(coefficient));
    }
    value
}
