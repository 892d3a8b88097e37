//! What a memory of conversations is made of: turns and rounds, and how they are recalled for a question
//! ("LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory", sections 4 and 5).
//!
//! A [`Turn`] is a document of a corpus, told by its user, session and number ([`Address`]). So whatever holds
//! for documents holds for turns: what is acknowledged is kept, the same turn again changes nothing, and what
//! is forgotten is gone. Since no turn is written because of another, a memory is the same whatever the order in
//! which its turns come, and however often.
//!
//! What a question asks about in time is read out of its words ([`time`]).
//!
//! Rounds and sessions are nothing that is stored: [`rounds`] groups turns when they are recalled.

mod recall;
pub mod time;
mod turn;

pub use recall::{Item, Recall, Recalled, TimeUse, Value, recall};
pub use turn::{Address, Role, Turn, rounds, user_filter};
