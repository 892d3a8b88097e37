//! Exponential and GELU on vectors.

use crate::kernel::Lanes;

/// Coefficients of `2^f` on [-1/2, 1/2] from the constant term up: the polynomial through the
/// Chebyshev nodes with the constant term fixed at 1. Its relative error is 5.1e-9, a twelfth of
/// the rounding error of a 32-bit float.
const POWER_OF_TWO: [f32; 7] =
    [1.0, 6.931_472e-1, 2.402_265e-1, 5.550_357e-2, 9.618_083e-3, 1.339_086_3e-3, 1.545_316_3e-4];

/// Lower bound of the exponent. Below it, `e^x` is computed as `e^-87`, about 1.6e-38, because
/// smaller results would no longer be normal numbers.
const SMALLEST_EXPONENT: f32 = -87.0;

/// Returns `e^x` for `x` up to 0, the range that softmax and GELU need. Negative infinity gives
/// about 1.6e-38.
///
/// `e^x = 2^n 2^f`, where `n` is the integer nearest to `x log2(e)`.
#[inline(always)]
pub(crate) fn exponential<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    let x = lanes.maximum(x, lanes.splat(SMALLEST_EXPONENT));
    let log2_e = lanes.splat(std::f32::consts::LOG2_E);
    let whole = lanes.round(lanes.multiply(x, log2_e));
    // Rounds once: the product enters the subtraction exactly.
    let fraction = lanes.multiply_add(x, log2_e, lanes.subtract(lanes.splat(0.0), whole));
    lanes.scale_by_power_of_two(polynomial(lanes, fraction, &POWER_OF_TWO), whole)
}

/// Factor `p` of the error function in Abramowitz and Stegun, "Handbook of Mathematical Functions",
/// 7.1.26: `erf(z) = 1 - t (a1 + a2 t + ... + a5 t^4) e^(-z^2) + e`, `t = 1 / (1 + p z)`, `z >= 0`,
/// `|e| <= 1.5e-7`. The coefficients `a1` to `a5` are halved below, because the tail of the normal
/// distribution is `(1 - erf(z)) / 2`.
const ERF_P: f32 = 0.327_591_1;
#[expect(clippy::excessive_precision, reason = "as printed in the handbook")]
const HALF_ERF_A: [f32; 5] = [
    0.5 * 0.254_829_592,
    0.5 * -0.284_496_736,
    0.5 * 1.421_413_741,
    0.5 * -1.453_152_027,
    0.5 * 1.061_405_429,
];

/// Returns `x` times the normal distribution function at `x`: the GELU of Hendrycks and Gimpel,
/// "Gaussian Error Linear Units", section 2, in its exact form.
///
/// With `tail` as the distribution function at `-|x|`, the result is `max(x, 0) - |x| tail` on both
/// sides of zero. This needs neither a sign nor, for negative `x`, a difference of nearly equal
/// numbers.
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

/// Evaluates a polynomial by Horner's scheme. Coefficients start with the constant term.
#[inline(always)]
fn polynomial<L: Lanes>(lanes: L, x: L::Vector, coefficients: &[f32]) -> L::Vector {
    let mut value = lanes.splat(0.0);
    for &coefficient in coefficients.iter().rev() {
        value = lanes.multiply_add(value, x, lanes.splat(coefficient));
    }
    value
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::kernel::avx2::Avx2;
    use crate::kernel::avx512::Avx512;

    /// Evaluates `function` in the first lane.
    fn first_lane<L: Lanes>(lanes: L, function: fn(L, L::Vector) -> L::Vector, x: f32) -> f64 {
        let mut values = vec![0.0; L::COUNT];
        lanes.store(function(lanes, lanes.splat(x)), &mut values);
        f64::from(values[0])
    }

    fn check<L: Lanes>(lanes: L) {
        for step in 0..=8700 {
            let x = -step as f32 / 100.0;
            let expected = f64::from(x).exp();
            let error = (first_lane(lanes, exponential, x) / expected - 1.0).abs();
            // The result is rounded to 24 bits a few times; `log2(e)` has 26 exact bits, and its
            // error is multiplied by `x`.
            let bound = 2e-7 + 4e-8 * f64::from(x.abs());
            assert!(error <= bound, "e^{x} is off by {error:.1e} of its size");
        }
        for step in -1000..=1000 {
            let x = step as f32 / 100.0;
            let error = (first_lane(lanes, gelu, x) - scalar_gelu(f64::from(x))).abs();
            // Relative to `x`: half of the formula's 1.5e-7, and a few roundings of terms up to
            // 0.7, each up to 3e-8.
            let bound = 3e-7 * f64::from(x.abs());
            assert!(error <= bound, "gelu({x}) is off by {error:.1e}");
        }
        assert!(first_lane(lanes, exponential, f32::NEG_INFINITY) < 2e-38);
        assert_eq!(first_lane(lanes, gelu, 1e4), 1e4);
        assert!(first_lane(lanes, gelu, -1e4).abs() < 1e-38);
        assert!(first_lane(lanes, gelu, f32::NAN).is_nan(), "a broken model must show");
    }

    /// Computes GELU with the error function from its power series of positive terms (Abramowitz
    /// and Stegun, 7.1.6).
    fn scalar_gelu(x: f64) -> f64 {
        let z = x * std::f64::consts::FRAC_1_SQRT_2;
        let (mut term, mut sum) = (z, 0.0);
        for n in 1..400 {
            sum += term;
            term *= 2.0 * z * z / f64::from(2 * n + 1);
        }
        0.5 * x * (1.0 + std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp() * sum)
    }

    #[test]
    fn functions_are_exact_to_the_stated_bounds() {
        match Avx2::detect() {
            Some(lanes) => check(lanes),
            None => eprintln!("AVX2 is not supported by this processor and was not tested"),
        }
        match Avx512::detect() {
            Some(lanes) => check(lanes),
            None => eprintln!("AVX-512 is not supported by this processor and was not tested"),
        }
    }
}
