//! AVX2 with fused multiply-add in 32-bit floats: 8 lanes, a tile of 6 rows by 16 columns in 12 of
//! the 16 registers.

use std::arch::x86_64::*;

use super::{Instructions, Lanes, Routine};

/// Proof that the processor has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }

    /// Returns the lower and the upper four lanes.
    #[inline(always)]
    fn halves(self, vector: __m256) -> [__m128; 2] {
        // SAFETY: the intrinsics touch registers only and need AVX, which AVX2 contains and `self`
        // proves.
        unsafe { [_mm256_castps256_ps128(vector), _mm256_extractf128_ps::<1>(vector)] }
    }
}

/// Defines a method that is one intrinsic on registers.
macro_rules! intrinsic {
    ($name:ident($($argument:ident),+), $intrinsic:path) => {
        #[inline(always)]
        fn $name(self, $($argument: __m256),+) -> __m256 {
            // SAFETY: the intrinsic touches registers only and needs AVX or FMA, which `self`
            // proves.
            unsafe { $intrinsic($($argument),+) }
        }
    };
}

impl Lanes for Avx2 {
    type Vector = __m256;
    const COUNT: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: needs AVX, which `self` proves.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> __m256 {
        let values = &values[..Self::COUNT];
        // SAFETY: the slice has the 8 values that are read; unaligned reads are allowed; `self`
        // proves AVX.
        unsafe { _mm256_loadu_ps(values.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, vector: __m256, values: &mut [f32]) {
        let values = &mut values[..Self::COUNT];
        // SAFETY: the slice has the 8 values that are written; unaligned writes are allowed; `self`
        // proves AVX.
        unsafe { _mm256_storeu_ps(values.as_mut_ptr(), vector) }
    }

    intrinsic!(add(left, right), _mm256_add_ps);
    intrinsic!(subtract(left, right), _mm256_sub_ps);
    intrinsic!(multiply(left, right), _mm256_mul_ps);
    intrinsic!(divide(left, right), _mm256_div_ps);
    intrinsic!(multiply_add(left, right, addend), _mm256_fmadd_ps);
    intrinsic!(maximum(left, right), _mm256_max_ps);
    intrinsic!(round(vector), _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>);

    #[inline(always)]
    fn absolute(self, vector: __m256) -> __m256 {
        // SAFETY: the intrinsics touch registers only and need AVX, which `self` proves.
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), vector) }
    }

    /// Adds the exponent's offset of 127 and shifts the sum into the exponent's place, which gives
    /// the power of two.
    #[inline(always)]
    fn scale_by_power_of_two(self, vector: __m256, exponent: __m256) -> __m256 {
        // SAFETY: the intrinsics touch registers only and need AVX2, which `self` proves.
        unsafe {
            let offset = _mm256_add_epi32(_mm256_cvtps_epi32(exponent), _mm256_set1_epi32(127));
            let power = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(offset));
            _mm256_mul_ps(vector, power)
        }
    }

    #[inline(always)]
    fn sum(self, vector: __m256) -> f32 {
        let [lower, upper] = self.halves(vector);
        // SAFETY: the intrinsics touch registers only and need SSE, which every x86-64 has.
        unsafe {
            let four = _mm_add_ps(lower, upper);
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    fn largest(self, vector: __m256) -> f32 {
        let [lower, upper] = self.halves(vector);
        // SAFETY: the intrinsics touch registers only and need SSE, which every x86-64 has.
        unsafe {
            let four = _mm_max_ps(lower, upper);
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
}

impl Instructions for Avx2 {
    type Lanes = Self;
    type Element = f32;
    type Operand = __m256;
    const DEPTH: usize = 1;
    const TILE_ROWS: usize = 6;

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }

    fn enter<R: Routine<Self>>(self, routine: R) {
        #[target_feature(enable = "avx2,fma")]
        fn entered<R: Routine<Avx2>>(instructions: Avx2, routine: R) {
            routine.run(instructions);
        }
        // SAFETY: `self` proves the features.
        unsafe { entered(self, routine) }
    }

    #[inline(always)]
    fn load_operand(self, elements: &[f32]) -> __m256 {
        self.load(elements)
    }

    #[inline(always)]
    unsafe fn broadcast_operand(self, elements: *const f32) -> __m256 {
        // SAFETY: the caller promises one readable value.
        self.splat(unsafe { *elements })
    }

    #[inline(always)]
    fn multiply_add(self, row: __m256, column: __m256, sums: __m256) -> __m256 {
        Lanes::multiply_add(self, row, column, sums)
    }

    #[inline(always)]
    fn store_rounded(self, vector: __m256, elements: &mut [f32]) {
        self.store(vector, elements);
    }
}
