//! Implementations of the seams of `clew-core` that call services on other nodes of the cluster.
//!
//! ```text
//! Encoders, MemoryEncoder, Reranker ─► RemoteEncoders, RemoteMemoryEncoder … ─┐
//! SpanReader                        ─► RemoteReader                          ─┤
//! Reasoners, Generator              ─► RemoteReasoners, RemoteGenerator      ─┼─► pool ═► services
//! GraphBuilders                     ─► RemoteGraphBuilders                   ─┤
//! Corpora, Shard                    ─► RemoteCorpora                         ─┘
//! ```
//!
//! Each is made `of` a [`clew_node::Node`], and follows the members of the node's cluster. A caller
//! sees the seam and does not know whether it is remote.
//!
//! Calls on an account carry the budget that is left, and the spending comes back.
//! [`ReceivedAccount`] is the other side of that, for the services that are called. The service of
//! graph builders itself, [`GraphBuilderRpc`], is here as well, because graph builders and gateways
//! both offer it.

mod corpora;
mod encoder;
mod failed;
mod generator;
mod graph_builder;
mod guide;
mod received;
mod replies;

pub use corpora::RemoteCorpora;
pub use encoder::{
    RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions, RemoteEncoders, RemoteMemoryEncoder,
    RemoteReader, RemoteReranker,
};
pub use generator::RemoteGenerator;
pub use graph_builder::{GraphBuilderRpc, RemoteGraphBuilders};
pub use guide::RemoteReasoners;
pub use received::{ReceivedAccount, Told};
pub use replies::SharedReplies;
