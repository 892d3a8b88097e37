//! Small honest stand-ins for tests: a clock that is told the time, and a model that loads in
//! milliseconds.

mod manual_clock;
mod tiny_bert;

pub use manual_clock::ManualClock;
pub use tiny_bert::{
    TinyBert, TinyTensor, WeightFormat, tiny_tokenizer, write_tensors, write_tiny_bert,
};
