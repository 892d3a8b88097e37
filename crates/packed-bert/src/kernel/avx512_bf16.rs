//! AVX-512 with bfloat16 dot products: each step multiplies two elements per lane and adds both to
//! a 32-bit sum.

use std::arch::x86_64::*;
use std::mem::transmute;

use half::bf16;

use super::avx512::Avx512;
use super::{Instructions, Lanes, Routine};

/// Proof that the processor has AVX512_BF16 and everything that [`Avx512`] proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Bf16(Avx512);

impl Avx512Bf16 {
    pub(crate) fn detect() -> Option<Self> {
        Avx512::detect().filter(|_| is_x86_feature_detected!("avx512bf16")).map(Self)
    }
}

impl Instructions for Avx512Bf16 {
    type Lanes = Avx512;
    type Element = bf16;
    type Operand = __m512bh;
    const DEPTH: usize = 2;
    const TILE_ROWS: usize = 12;

    #[inline(always)]
    fn lanes(self) -> Avx512 {
        self.0
    }

    fn enter<R: Routine<Self>>(self, routine: R) {
        #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn entered<R: Routine<Avx512Bf16>>(instructions: Avx512Bf16, routine: R) {
            routine.run(instructions);
        }
        // SAFETY: `self` proves the features.
        unsafe { entered(self, routine) }
    }

    #[inline(always)]
    fn load_operand(self, elements: &[bf16]) -> __m512bh {
        let elements = &elements[..Self::DEPTH * Avx512::COUNT];
        // SAFETY: the slice has the 64 bytes that are read; the alignment does not matter; any bits
        // are a `__m512bh`.
        unsafe { elements.as_ptr().cast::<__m512bh>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn broadcast_operand(self, elements: *const bf16) -> __m512bh {
        // SAFETY: the caller promises two readable elements, which are four bytes; any 64 bytes are
        // a `__m512bh`; `self` proves AVX-512F.
        unsafe {
            transmute::<__m512i, __m512bh>(_mm512_set1_epi32(
                elements.cast::<i32>().read_unaligned(),
            ))
        }
    }

    #[inline(always)]
    fn multiply_add(self, row: __m512bh, column: __m512bh, sums: __m512) -> __m512 {
        // SAFETY: the intrinsic touches registers only and needs AVX512_BF16, which `self` proves.
        unsafe { _mm512_dpbf16_ps(sums, row, column) }
    }

    #[inline(always)]
    fn store_rounded(self, vector: __m512, elements: &mut [bf16]) {
        let elements = &mut elements[..Avx512::COUNT];
        // SAFETY: the slice has the 32 bytes that are written; the alignment does not matter; any
        // bits are a `bf16`; `self` proves AVX512_BF16.
        unsafe {
            elements.as_mut_ptr().cast::<__m256bh>().write_unaligned(_mm512_cvtneps_pbh(vector))
        }
    }
}
