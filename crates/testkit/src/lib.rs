//! Test doubles and servers: a manual clock, models that load in milliseconds, real Redis and
//! S3-compatible servers, a certificate authority, and a language-model endpoint, a network and an
//! object store that fail on demand.

mod authority;
mod faulty_store;
mod faulty_wire;
mod manual_clock;
mod model_endpoint;
mod overflowing;
mod redis_deployments;
mod redis_server;
mod s3_server;
mod tiny_bert;
mod tiny_decoder;
mod tiny_reader;

pub use authority::{Authority, IssuedFiles, Validity};
pub use faulty_store::{Fault, FaultyStore};
pub use faulty_wire::FaultyWire;
pub use manual_clock::ManualClock;
pub use model_endpoint::{ModelEndpoint, ModelReply, ModelRequest};
pub use overflowing::overflow;
pub use redis_deployments::{RedisCluster, WatchedRedis};
pub use redis_server::{RedisOptions, RedisServer, signal};
pub use s3_server::{S3Faults, S3Server};
pub use tiny_bert::{
    TinyBert, TinyTensor, WeightFormat, tiny_tokenizer, write_tensors, write_tiny_bert,
    write_tiny_reranker,
};
pub use tiny_decoder::{write_tiny_decoder, write_tiny_memory_model};
pub use tiny_reader::write_tiny_reader;
