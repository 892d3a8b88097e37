//! Encoders elsewhere: the seams `Encoder` and `Encoders` over a pool of encoder services.
//!
//! ```text
//! embed ─► batches ─► Board: who gets the next batch? ─┬─► Courier ══ stream ══► encoder
//!            ▲          people before bulk work,       └─► Courier ══ stream ══► encoder
//!            │          fewest tokens under way
//!            └──── once more, when a batch is lost with its peer ◄──┘
//! ```
//!
//! A call is split into batches of bounded size, so that several encoders share it. Each member has a
//! courier, which keeps one long stream to it with a bounded window of batches. A [`RemoteEncoder`] works with one
//! model; only members that offer it take part, whichever is current there. Texts are cut for the model here: its
//! tokenizer comes with its description. [`RemoteEncoders`] has one for each model that somebody works with.
//!
//! [`RemoteMemoryEncoder`] is the seam `MemoryEncoder` over the memory models of the same services.

mod batch;
mod board;
mod config;
mod courier;
mod crew;
mod described;
mod memory;
mod model;
mod options;
mod remote_encoder;
mod remote_encoders;
mod reranker;
mod shared;

pub use config::RemoteEncoderConfig;
pub use memory::RemoteMemoryEncoder;
pub use options::RemoteEncoderOptions;
pub use remote_encoder::RemoteEncoder;
pub use remote_encoders::RemoteEncoders;
pub use reranker::RemoteReranker;
