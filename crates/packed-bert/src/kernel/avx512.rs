//! AVX-512 in 32-bit floats: 16 lanes, a tile of 12 rows by 32 columns in 24 of the 32 registers.

use std::arch::x86_64::*;

use super::{Instructions, Lanes, Routine};

/// Proof that the processor has AVX-512 (F, BW, DQ, VL), AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma"))
        .then_some(Self(()))
    }
}

/// Defines a method that is one intrinsic on registers.
macro_rules! intrinsic {
    ($name:ident($($argument:ident),+) -> $result:ty, $intrinsic:path) => {
        #[inline(always)]
        fn $name(self, $($argument: __m512),+) -> $result {
            // SAFETY: the intrinsic touches registers only and needs AVX-512F, which `self` proves.
            unsafe { $intrinsic($($argument),+) }
        }
    };
}

impl Lanes for Avx512 {
    type Vector = __m512;
    const COUNT: usize = 16;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: needs AVX-512F, which `self` proves.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> __m512 {
        let values = &values[..Self::COUNT];
        // SAFETY: the slice has the 16 values that are read; unaligned reads are allowed; `self`
        // proves AVX-512F.
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, vector: __m512, values: &mut [f32]) {
        let values = &mut values[..Self::COUNT];
        // SAFETY: the slice has the 16 values that are written; unaligned writes are allowed;
        // `self` proves AVX-512F.
        unsafe { _mm512_storeu_ps(values.as_mut_ptr(), vector) }
    }

    intrinsic!(add(left, right) -> __m512, _mm512_add_ps);
    intrinsic!(subtract(left, right) -> __m512, _mm512_sub_ps);
    intrinsic!(multiply(left, right) -> __m512, _mm512_mul_ps);
    intrinsic!(divide(left, right) -> __m512, _mm512_div_ps);
    intrinsic!(multiply_add(left, right, addend) -> __m512, _mm512_fmadd_ps);
    intrinsic!(maximum(left, right) -> __m512, _mm512_max_ps);
    intrinsic!(absolute(vector) -> __m512, _mm512_abs_ps);
    intrinsic!(round(vector) -> __m512, _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>);
    intrinsic!(scale_by_power_of_two(vector, exponent) -> __m512, _mm512_scalef_ps);
    intrinsic!(sum(vector) -> f32, _mm512_reduce_add_ps);
    intrinsic!(largest(vector) -> f32, _mm512_reduce_max_ps);
}

impl Instructions for Avx512 {
    type Lanes = Self;
    type Element = f32;
    type Operand = __m512;
    const DEPTH: usize = 1;
    const TILE_ROWS: usize = 12;

    #[inline(always)]
    fn lanes(self) -> Self {
        self
    }

    fn enter<R: Routine<Self>>(self, routine: R) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn entered<R: Routine<Avx512>>(instructions: Avx512, routine: R) {
            routine.run(instructions);
        }
        // SAFETY: `self` proves the features.
        unsafe { entered(self, routine) }
    }

    #[inline(always)]
    fn load_operand(self, elements: &[f32]) -> __m512 {
        self.load(elements)
    }

    #[inline(always)]
    unsafe fn broadcast_operand(self, elements: *const f32) -> __m512 {
        // SAFETY: the caller promises one readable value.
        self.splat(unsafe { *elements })
    }

    #[inline(always)]
    fn multiply_add(self, row: __m512, column: __m512, sums: __m512) -> __m512 {
        Lanes::multiply_add(self, row, column, sums)
    }

    #[inline(always)]
    fn store_rounded(self, vector: __m512, elements: &mut [f32]) {
        self.store(vector, elements);
    }
}
