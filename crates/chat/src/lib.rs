//! What a memory of conversations is made of: turns and rounds, the keys by which they are found, the times that
//! a question asks about, and how they are recalled for it ("LongMemEval: Benchmarking Chat Assistants on
//! Long-Term Interactive Memory", sections 4 and 5).
//!
//! ```text
//! turns ──key──► title │ text   of a document, which is embedded and indexed
//!          ▲ what is said; day, turn before, facts, phrases, summary, events (KeyDesign)
//! question ──asked_about──► time ─┐
//!          ──search──► turns with scores ──smoothed──► best turns ──rounds──► items
//!                            └──statements──updates──► what is superseded ──────┘
//! ```
//!
//! A [`Turn`] is kept as a document of a corpus, told by its user, session and number ([`Address`]). So whatever
//! holds for documents holds for turns: what is acknowledged is kept, the same turn again changes nothing, and
//! what is forgotten is gone. No turn is written because of another, so that a memory is the same whatever the
//! order in which its turns come, and however often. Rounds and sessions are nothing that is stored: turns are
//! grouped when they are recalled. Nor is it stored that a statement supersedes another: that is found among the turns
//! that are recalled ([`updates`]).
//!
//! What was tried, and what it brought, is in `BENCHMARKS.md`, section Keys.

mod chunk;
mod event;
mod fact;
mod kept;
mod key;
mod recall;
mod smoothing;
pub mod time;
mod turn;
mod update;

pub use chunk::{key_chunks, statement_chunks};
pub use clew_core::{History, Merging, TimeUse, Value};
pub use event::events;
pub use fact::{facts, facts_in, is_in_first_person};
pub use kept::{Address, turn_filter};
pub use key::{Expansion, Key, KeyDesign, KeyPart, check_keys, key};
pub use recall::{Item, Recall, Recalled, boosted, recall};
pub use smoothing::{Place, Smoothing, smoothed};
pub use turn::{Role, Round, Turn, TurnId, rounds};
pub use update::{Statement, Update, statements, updates};
