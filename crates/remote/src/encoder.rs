//! Clients of encoders on other nodes, which implement the traits `Encoder`, `Encoders`,
//! `MemoryEncoder`, `Reranker` and `SpanReader` of `clew-core` over pools of encoder services.
//!
//! ```text
//! embed ─► batches ─► Dispatcher: assigns batches ─────┬─► Session ══ stream ══► encoder
//!            ▲          interactive before bulk,       └─► Session ══ stream ══► encoder
//!            │          fewest tokens under way first
//!            └──── again, when a batch is lost with its peer ◄──┘
//! ```
//!
//! A call is split into batches of bounded size, so that several encoders share it. Each member has
//! a session, which keeps one long stream to it with a bounded window of batches. A
//! [`RemoteEncoder`] works with one model. Only members that offer this model take part, whether or
//! not it is their current one. The member's description contains the tokenizer, so texts are cut
//! for the model on this side. [`RemoteEncoders`] has one [`RemoteEncoder`] for each model in use.
//!
//! [`RemoteMemoryEncoder`] implements `MemoryEncoder` over the memory models of the same services.

mod batch;
mod cluster;
mod config;
mod described;
mod dispatcher;
mod memory;
mod model;
mod model_pool;
mod options;
mod reader;
mod remote_encoder;
mod remote_encoders;
mod reranker;
mod session;
mod shared;

pub use config::RemoteEncoderConfig;
pub use memory::RemoteMemoryEncoder;
pub use options::RemoteEncoderOptions;
pub use reader::RemoteReader;
pub use remote_encoder::RemoteEncoder;
pub use remote_encoders::RemoteEncoders;
pub use reranker::RemoteReranker;
