//! The forward pass of a BERT encoder over packed sequences on x86-64 processors.
//!
//! General engines pad a batch to its longest sequence and spend most of their time outside the
//! matrix products. Here the tokens of all sequences form one matrix without padding. Biases, GELU,
//! residuals and roundings are applied to each tile of a product before it leaves the cache, and
//! exponentials are computed a vector at a time. One source serves four [`Kernel`]s. If the
//! processor supports none of them, or a [`Config`] has a shape that they cannot handle, the caller
//! falls back to a general engine.
//!
//! ```text
//! token ids ─ embed ─ normalise
//!                         │
//!   ┌─────────────────────┘
//!   ├─► query, key, value ─► attention (per sequence) ─► output + residual ─ normalise ─┐  each
//!   └── normalise ─ output + residual ◄─ GELU ◄─ intermediate ◄─────────────────────────┘  layer
//! ```
//!
//! One call uses one core. To use more, run one [`Workspace`] per thread on one shared
//! [`PackedBert`]. The crate deliberately has no tokenizers, pooling, threads, file formats, second
//! segments, other activations or training.
//!
//! ```
//! use clew_packed_bert::{Config, Kernel, PackedBert, KernelPrecision, Workspace};
//!
//! let config = Config {
//!     vocabulary: 100,
//!     hidden: 64,
//!     layers: 1,
//!     heads: 2,
//!     intermediate: 128,
//!     positions: 16,
//!     token_types: 2,
//!     layer_norm_epsilon: 1e-12,
//! };
//! let length = |name: &str| match name {
//!     "embeddings.word_embeddings.weight" => 100 * 64,
//!     "embeddings.position_embeddings.weight" => 16 * 64,
//!     "embeddings.token_type_embeddings.weight" => 2 * 64,
//!     name if name.ends_with("intermediate.dense.bias") => 128,
//!     name if name.contains("LayerNorm") || name.ends_with("bias") => 64,
//!     name if name.contains("attention") => 64 * 64,
//!     _ => 128 * 64,
//! };
//! // A real source reads a weights file.
//! let mut source = |name: &str| Some(vec![0.1; length(name)]);
//!
//! if let Some(kernel) = Kernel::detect(KernelPrecision::Float32) {
//!     let model = PackedBert::try_new(config, kernel, &mut source)?;
//!     let mut hidden_states = Vec::new();
//!     model.forward(&[&[1, 2, 3], &[4, 5]], &mut Workspace::default(), &mut hidden_states)?;
//!     assert_eq!(hidden_states.len(), (3 + 2) * 64);
//! }
//! # Ok::<(), clew_packed_bert::Error>(())
//! ```

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "without a kernel nothing runs the generic forward pass")
)]

mod aligned;
mod attention;
mod config;
mod error;
mod forward;
mod functions;
mod kernel;
mod layer_norm;
mod model;
mod panels;
mod product;
mod rows;
mod weights;

pub use config::Config;
pub use error::Error;
pub use forward::Workspace;
pub use kernel::{Kernel, KernelPrecision};
pub use model::PackedBert;
pub use weights::tensor_names;
