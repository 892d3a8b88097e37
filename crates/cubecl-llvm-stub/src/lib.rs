//! The part of `cubecl-llvm` that `cubecl-cuda` names, without LLVM.
//!
//! `cubecl-cuda` knows two compilers for GPU kernels and links both: one writes C++ for the
//! driver's NVRTC, the other goes through LLVM, whose build downloads an LLVM of several hundred
//! megabytes. Clew chooses the first (feature `cpp` of `cubecl-cuda`), which is also the one that
//! offers more of the hardware. What would only exist after a compilation by LLVM is uninhabited
//! here, so that the type checker proves it is never used; asking for such a compilation is an
//! error.
//!
//! Remove it, and the `[patch]` that names it, when `cubecl-cuda` can be built without LLVM.

use std::convert::Infallible;
use std::ffi::c_char;

use cubecl_core::CompilationError;
use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_environment::backtrace::BackTrace;
use cubecl_runtime::kernel::BufferIOAttr;

/// What to generate code for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA GPUs.
    #[default]
    Nvptx,
}

/// The compiler that is not here.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlironCompiler {
    /// What it would generate code for.
    pub target: LlvmTarget,
}

impl PlironCompiler {
    /// Refuses to compile.
    ///
    /// # Errors
    /// Always [`CompilationError::Generic`].
    pub fn compile(
        &mut self,
        _kernel: KernelDefinition,
        _options: &PlironOptions,
    ) -> Result<PlironArtifact, CompilationError> {
        Err(CompilationError::Generic {
            reason: "this build has no LLVM; use the C++ backend of `cubecl-cuda`".to_owned(),
            backtrace: BackTrace::capture(),
        })
    }

    /// Language of the code in logs.
    pub fn lang_tag(&self) -> &'static str {
        "ptx"
    }
}

/// How to compile.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// An AMD architecture; none here.
    pub arch: Option<Infallible>,
    /// The GPU's architecture.
    pub sm_arch: Option<SmArch>,
    /// The code's version; never known here.
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// Whether launch parameters are constants of the grid.
    pub grid_constants: bool,
}

/// What a compilation results in; it never does.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// Code for NVIDIA GPUs.
    NvptxCode(NvptxModule),
}

/// A compiled kernel; there is none.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// The code.
    pub ptx: Vec<c_char>,
    /// Name of the kernel in it.
    pub entrypoint: String,
    /// The code before its translation.
    pub ir: String,
    /// Bytes of shared memory that a launch reserves.
    pub shared_memory_size: usize,
    /// Which buffers it reads and writes.
    pub io: Vec<BufferIOAttr>,
    /// Makes the type uninhabited.
    pub never: Infallible,
}

/// Names of the published crate's code generator for NVIDIA GPUs.
pub mod nvptx {
    /// Versions of the generated code.
    pub mod ptx_version {
        use std::fmt;

        /// A version of the generated code; there is none.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PtxVersion {}

        impl PtxVersion {
            /// The version that a driver would load.
            pub fn for_driver(_driver: i32) -> Option<Self> {
                None
            }
        }

        impl fmt::Display for PtxVersion {
            fn fmt(&self, _formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {}
            }
        }
    }
}

/// Names of the published crate's parts for all targets.
pub mod shared {
    /// What LLVM cannot express of a device.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// What to generate code for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA GPUs.
            Nvptx,
        }

        /// Would take from `properties` what LLVM cannot express. The C++ backend needs all of it.
        pub fn restrict_features(_properties: &mut DeviceProperties, _target: GpuTarget) {}
    }
}
