//! Advanced Matrix Extensions (AMX) with bfloat16: products of up to 32 rows with the 32 columns of
//! a panel in eight tile registers.
//!
//! One tile instruction does as many multiplications as 256 of the bfloat16 vector instructions,
//! so a product takes as long as its weights take to arrive. Only products with weights use tiles.
//! Everything else runs on the vector instructions of [`Avx512Bf16`], whose panels have the layout
//! that tiles need.

use std::arch::asm;
use std::arch::x86_64::*;

use half::bf16;

use super::avx512::Avx512;
use super::avx512_bf16::Avx512Bf16;
use super::{Instructions, Routine, Vector};
use crate::rows::Rows;

/// Rows of a tile.
const TILE_ROWS: usize = 16;
/// Elements of a row that one tile instruction sums.
const TILE_DEPTH: usize = 32;
/// Bytes of a row of any tile.
const ROW_BYTES: u16 = 64;
/// Bytes between the rows of a tile in a panel: the pairs of elements of 32 columns.
const PANEL_STRIDE: usize = 128;

/// Proof that the processor has AMX with bfloat16, that the system lets this process use it, and of
/// everything that [`Avx512Bf16`] proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AmxBf16(Avx512Bf16);

impl AmxBf16 {
    pub(crate) fn detect() -> Option<Self> {
        Avx512Bf16::detect().filter(|_| has_instructions() && is_permitted()).map(Self)
    }
}

/// Returns whether the processor has tiles and products of bfloat16 in them.
fn has_instructions() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE
}

/// Asks Linux for the permission to use tiles, which it gives to all threads of a process at once.
/// It refuses if it does not save tiles when threads take turns.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const REQUEST_PERMISSION: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let answer: isize;
    // SAFETY: the system call takes two numbers, reads and writes no memory of the process, and
    // only lets it use more registers. The kernel overwrites `rcx` and `r11`.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Shapes of the tile registers, in the layout that the processor reads.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Returns the shapes for products of `upper` and `lower` rows. Registers 0 to 3 hold products,
    /// 4 and 5 rows, 6 and 7 columns.
    fn of(upper: usize, lower: usize) -> Self {
        let (upper, lower) = (upper as u8, lower as u8);
        let mut shapes =
            Self { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        let rows = [upper, upper, lower, lower, upper, lower, TILE_ROWS as u8, TILE_ROWS as u8];
        for (tile, rows) in rows.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            shapes.rows[tile] = rows;
            shapes.row_bytes[tile] = ROW_BYTES;
        }
        shapes
    }
}

impl Instructions for AmxBf16 {
    type Lanes = Avx512;
    type Element = bf16;
    type Operand = __m512bh;
    const DEPTH: usize = Avx512Bf16::DEPTH;
    const TILE_ROWS: usize = Avx512Bf16::TILE_ROWS;
    const BLOCK_ROWS: usize = 2 * TILE_ROWS;

    #[inline(always)]
    fn lanes(self) -> Avx512 {
        self.0.lanes()
    }

    fn enter<R: Routine<Self>>(self, routine: R) {
        #[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn entered<R: Routine<AmxBf16>>(instructions: AmxBf16, routine: R) {
            routine.run(instructions);
        }
        // SAFETY: `self` proves the features.
        unsafe { entered(self, routine) }
    }

    #[inline(always)]
    fn load_operand(self, elements: &[bf16]) -> __m512bh {
        self.0.load_operand(elements)
    }

    #[inline(always)]
    unsafe fn broadcast_operand(self, elements: *const bf16) -> __m512bh {
        // SAFETY: the caller promises two readable elements.
        unsafe { self.0.broadcast_operand(elements) }
    }

    #[inline(always)]
    fn multiply_add(self, row: __m512bh, column: __m512bh, sums: Vector<Self>) -> Vector<Self> {
        self.0.multiply_add(row, column, sums)
    }

    #[inline(always)]
    fn store_rounded(self, vector: Vector<Self>, elements: &mut [bf16]) {
        self.0.store_rounded(vector, elements);
    }

    fn multiply_block(self, rows: Rows<'_, bf16>, panel: &[bf16], output: &mut [f32]) {
        let (count, depth, stride) = (rows.count(), rows.width(), rows.stride());
        let (elements, columns) = (rows.elements(), Self::PANEL_COLUMNS);
        assert!(
            (1..=Self::BLOCK_ROWS).contains(&count)
                && depth > 0
                && depth.is_multiple_of(TILE_DEPTH)
                && elements.len() >= (count - 1) * stride + depth
                && panel.len() == depth * columns
                && output.len() >= count * columns,
            "{count} rows of {depth} elements, a panel of {}, {} products",
            panel.len(),
            output.len()
        );
        let upper = count.min(TILE_ROWS);
        let shapes = Shapes::of(upper, count - upper);
        let row_stride = stride * size_of::<bf16>();
        // SAFETY: `self` proves the instructions and the permission. The assertion checked that
        // what is read and written exists: step by step, tiles of rows cover `count` rows of
        // `depth` elements, `stride` elements apart, and tiles of columns cover the panel; tiles of
        // products cover `count` rows of two tiles' columns each, one row after the other. Each
        // block configures the tile registers before it uses them and releases them at its end.
        // The code that the compiler makes uses none of them.
        unsafe {
            if count > upper {
                asm!(
                    "ldtilecfg [{shapes}]",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "2:",
                    "tileloadd tmm4, [{upper} + {row_stride}]",
                    "tileloadd tmm6, [{panel} + {panel_stride}]",
                    "tileloadd tmm7, [{panel} + {panel_stride} + 64]",
                    "tileloadd tmm5, [{lower} + {row_stride}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "add {upper}, 64",
                    "add {lower}, 64",
                    "add {panel}, 2048",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{output} + {panel_stride}], tmm0",
                    "tilestored [{output} + {panel_stride} + 64], tmm1",
                    "tilestored [{output} + {panel_stride} + 2048], tmm2",
                    "tilestored [{output} + {panel_stride} + 2112], tmm3",
                    "tilerelease",
                    shapes = in(reg) &raw const shapes,
                    upper = inout(reg) elements.as_ptr() => _,
                    lower = inout(reg) elements.as_ptr().add(upper * stride) => _,
                    row_stride = in(reg) row_stride,
                    panel = inout(reg) panel.as_ptr() => _,
                    panel_stride = in(reg) PANEL_STRIDE,
                    output = in(reg) output.as_mut_ptr(),
                    steps = inout(reg) depth / TILE_DEPTH => _,
                    options(nostack),
                );
            } else {
                asm!(
                    "ldtilecfg [{shapes}]",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "2:",
                    "tileloadd tmm4, [{upper} + {row_stride}]",
                    "tileloadd tmm6, [{panel} + {panel_stride}]",
                    "tileloadd tmm7, [{panel} + {panel_stride} + 64]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "add {upper}, 64",
                    "add {panel}, 2048",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{output} + {panel_stride}], tmm0",
                    "tilestored [{output} + {panel_stride} + 64], tmm1",
                    "tilerelease",
                    shapes = in(reg) &raw const shapes,
                    upper = inout(reg) elements.as_ptr() => _,
                    row_stride = in(reg) row_stride,
                    panel = inout(reg) panel.as_ptr() => _,
                    panel_stride = in(reg) PANEL_STRIDE,
                    output = in(reg) output.as_mut_ptr(),
                    steps = inout(reg) depth / TILE_DEPTH => _,
                    options(nostack),
                );
            }
        }
    }
}
