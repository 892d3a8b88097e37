//! What tests need and cannot have otherwise: a clock that is told the time, a model that loads in
//! milliseconds, a Redis server that can be killed and stopped, and a network that fails when told so.

mod faulty_wire;
mod manual_clock;
mod redis_server;
mod tiny_bert;

pub use faulty_wire::FaultyWire;
pub use manual_clock::ManualClock;
pub use redis_server::{RedisServer, signal};
pub use tiny_bert::{
    TinyBert, TinyTensor, WeightFormat, tiny_tokenizer, write_tensors, write_tiny_bert,
};
