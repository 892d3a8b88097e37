//! The seams of `clew-core` as services on other nodes of the cluster implement them.

mod encoder;
mod replies;

pub use encoder::{
    RemoteEncoder, RemoteEncoderConfig, RemoteEncoderOptions, RemoteEncoders, RemoteMemoryEncoder,
    RemoteReranker,
};
pub use replies::SharedReplies;
