//! Instruction sets, and the few vector operations that the rest of the crate is written in.
//!
//! The forward pass is written once, generic over [`Instructions`]. A value of an implementing type
//! exists only where the processor has the instructions (`detect`). The value is the proof, so its
//! methods are safe to call. The compiler turns them into single instructions only inside a
//! function compiled for those instructions. Each hot loop is therefore a [`Routine`] that runs
//! through [`Instructions::enter`].

use std::fmt;

use crate::rows::Rows;

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx_bf16;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512_bf16;
pub(crate) mod tile;

/// Format in which the large matrix products read their factors. Sums are always 32-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelPrecision {
    /// 32-bit floats throughout.
    Float32,
    /// Weights and activations rounded to bfloat16 (8 bits of significand): half the memory, twice
    /// the speed.
    BFloat16,
}

/// Family of x86-64 instructions that the forward pass supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// AMX tiles with bfloat16 for products with weights, AVX-512 with bfloat16 for the rest. On
    /// Linux only.
    AmxBf16,
    /// AVX-512 with bfloat16 dot products.
    Avx512Bf16,
    /// AVX-512 in 32-bit floats.
    Avx512,
    /// AVX2 with fused multiply-add in 32-bit floats.
    Avx2,
}

impl Kernel {
    /// All kernels, fastest first.
    pub const ALL: [Self; 4] = [Self::AmxBf16, Self::Avx512Bf16, Self::Avx512, Self::Avx2];

    /// Returns the fastest supported kernel that is at least as precise as `precision`, or `None`
    /// if only a general engine can run the model.
    ///
    /// [`KernelPrecision::BFloat16`] permits rounding but does not require it: a processor without
    /// bfloat16 instructions gets a 32-bit kernel.
    #[must_use]
    pub fn detect(precision: KernelPrecision) -> Option<Self> {
        Self::ALL.into_iter().find(|kernel| {
            let is_precise_enough = precision == KernelPrecision::BFloat16
                || kernel.precision() == KernelPrecision::Float32;
            is_precise_enough && kernel.is_supported()
        })
    }

    /// Returns whether this processor and operating system can run the kernel.
    #[must_use]
    pub fn is_supported(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::AmxBf16 => amx_bf16::AmxBf16::detect().is_some(),
            Self::Avx512Bf16 => avx512_bf16::Avx512Bf16::detect().is_some(),
            Self::Avx512 => avx512::Avx512::detect().is_some(),
            Self::Avx2 => avx2::Avx2::detect().is_some(),
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Returns the format in which the kernel multiplies.
    #[must_use]
    pub fn precision(self) -> KernelPrecision {
        match self {
            Self::AmxBf16 | Self::Avx512Bf16 => KernelPrecision::BFloat16,
            Self::Avx512 | Self::Avx2 => KernelPrecision::Float32,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::AmxBf16 => "amx-bf16",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
        })
    }
}

/// Number format that the matrix products read.
pub(crate) trait Element: Copy + Default + Send + Sync + 'static {
    fn from_f32(value: f32) -> Self;
}

impl Element for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Element for half::bf16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
}

/// Arithmetic on a vector of 32-bit floats, lane by lane.
pub(crate) trait Lanes: Copy {
    type Vector: Copy;
    /// Number of lanes.
    const COUNT: usize;

    fn splat(self, value: f32) -> Self::Vector;
    /// Reads the first [`Self::COUNT`] of `values`. The slice must be at least that long.
    fn load(self, values: &[f32]) -> Self::Vector;
    /// Writes to the first [`Self::COUNT`] of `values`. The slice must be at least that long.
    fn store(self, vector: Self::Vector, values: &mut [f32]);
    fn add(self, left: Self::Vector, right: Self::Vector) -> Self::Vector;
    fn subtract(self, left: Self::Vector, right: Self::Vector) -> Self::Vector;
    fn multiply(self, left: Self::Vector, right: Self::Vector) -> Self::Vector;
    fn divide(self, left: Self::Vector, right: Self::Vector) -> Self::Vector;
    /// Returns `left * right + addend`, rounded once.
    fn multiply_add(
        self,
        left: Self::Vector,
        right: Self::Vector,
        addend: Self::Vector,
    ) -> Self::Vector;
    fn maximum(self, left: Self::Vector, right: Self::Vector) -> Self::Vector;
    fn absolute(self, vector: Self::Vector) -> Self::Vector;
    /// Rounds each lane to the nearest integer.
    fn round(self, vector: Self::Vector) -> Self::Vector;
    /// Returns `vector * 2^exponent` for integer exponents from -126 to 127.
    fn scale_by_power_of_two(self, vector: Self::Vector, exponent: Self::Vector) -> Self::Vector;
    /// Returns the sum of the lanes.
    fn sum(self, vector: Self::Vector) -> f32;
    /// Returns the largest lane.
    fn largest(self, vector: Self::Vector) -> f32;
}

/// Matrix multiplication with one instruction set.
///
/// One step of a product takes [`Self::DEPTH`] neighbouring elements of a row of the left factor,
/// multiplies them with as many of each column of a panel of the right factor, and adds the
/// products to one lane per column.
pub(crate) trait Instructions: Copy + Send + Sync + 'static {
    type Lanes: Lanes;
    type Element: Element;
    /// Vector of [`Self::DEPTH`] elements per lane.
    type Operand: Copy;
    /// Number of elements that one step sums into a lane.
    const DEPTH: usize;
    /// Number of rows of the register tile. A row takes two registers; three more hold two vectors
    /// of the panel and one of the row.
    const TILE_ROWS: usize;
    /// Maximum number of rows that [`Self::multiply_block`] takes.
    const BLOCK_ROWS: usize = Self::TILE_ROWS;
    /// Number of columns of the register tile and of a panel.
    const PANEL_COLUMNS: usize = 2 * <Self::Lanes as Lanes>::COUNT;

    fn lanes(self) -> Self::Lanes;

    /// Runs `routine` in a function compiled for these instructions.
    fn enter<R: Routine<Self>>(self, routine: R);

    /// Reads `DEPTH` elements for each lane from the start of `elements`. The slice must hold that
    /// many.
    fn load_operand(self, elements: &[Self::Element]) -> Self::Operand;

    /// Repeats the `DEPTH` elements at `elements` in every lane.
    ///
    /// # Safety
    ///
    /// `elements` must be valid for reads of `DEPTH` elements.
    unsafe fn broadcast_operand(self, elements: *const Self::Element) -> Self::Operand;

    /// Returns `sums` plus the products of `row` and `column`.
    fn multiply_add(
        self,
        row: Self::Operand,
        column: Self::Operand,
        sums: Vector<Self>,
    ) -> Vector<Self>;

    /// Rounds `vector` to elements and writes them to the start of `elements`, which must hold one
    /// per lane.
    fn store_rounded(self, vector: Vector<Self>, elements: &mut [Self::Element]);

    /// Writes the products of one to [`Self::BLOCK_ROWS`] rows with a panel of weights to `output`,
    /// row by row, [`Self::PANEL_COLUMNS`] each. The rows are as wide as the panel is deep, a
    /// multiple of 32.
    fn multiply_block(
        self,
        rows: Rows<'_, Self::Element>,
        panel: &[Self::Element],
        output: &mut [f32],
    ) {
        self.enter(tile::Tile { rows, panels: panel, output, output_stride: Self::PANEL_COLUMNS });
    }
}

/// Vector type of `I`.
pub(crate) type Vector<I> = <<I as Instructions>::Lanes as Lanes>::Vector;

/// Hot loop that [`Instructions::enter`] runs. Implementations mark `run` with `#[inline(always)]`,
/// so that it is compiled inside `enter`.
pub(crate) trait Routine<I> {
    fn run(self, instructions: I);
}
