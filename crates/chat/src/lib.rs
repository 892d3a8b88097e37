//! Chat memory: turns and rounds, the keys by which they are found, the times that a question asks
//! about, and recall for a question ("LongMemEval: Benchmarking Chat Assistants on Long-Term
//! Interactive Memory", sections 4 and 5).
//!
//! ```text
//! turns ──key──► title │ text   of a document, which is embedded and indexed
//!          ▲ what is said; day, turn before, facts, phrases, summary, events (KeyDesign)
//! question ──asked_about──► time ─┐
//!          ──search──► turns with scores ──smoothed──► best turns ──rounds──► items
//!                            └──statements──updates──► what is superseded ──────┘
//! ```
//!
//! A [`Turn`](clew_core::Turn) is stored as a document of a corpus, identified by its user, session
//! and number ([`TurnAddress`](clew_core::TurnAddress)). The guarantees for documents therefore
//! hold for turns: an acknowledged turn is durable, sending the same turn again changes nothing,
//! and a forgotten turn is gone. A stored turn does not depend on other turns, so a memory is the
//! same whatever the order in which its turns arrive, and however often. Rounds and sessions are
//! not stored: turns are grouped when they are recalled. Superseded statements are not stored
//! either: they are found among the recalled turns ([`updates`]).
//!
//! The values of chat memory (turns, statements, designs of keys, requests and results of recall)
//! are in `clew_core`. So crates that only pass them on are not compiled again after a change of
//! the rules in this crate.
//!
//! `BENCHMARKS.md`, section Keys, describes what was tried and what it gained.

mod chunk;
mod conversations;
mod document;
mod event;
mod fact;
mod key;
mod recall;
mod round;
mod smoothing;
pub mod time;
mod update;

pub use chunk::{key_chunks, passages_among, statement_chunks};
pub use conversations::{ConversationCount, united_conversations};
pub use document::{turn_document, turn_document_with};
pub use event::events;
pub use fact::{facts, facts_in, is_in_first_person};
pub use key::{Key, key};
pub use recall::{boosted, recall};
pub use round::{Round, rounds};
pub use smoothing::{Smoothing, UnitPosition, smoothed};
pub use update::{statements, updates};
