//! Statements of speakers about themselves, and which of them supersede others.

use crate::{Timestamp, TurnId};

/// A statement of a speaker about themselves: one of the facts of a turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    /// Time at which it was said.
    pub time: Option<Timestamp>,
    /// Turn in which it was said.
    pub turn: TurnId,
    /// Byte position in the turn's text at which its sentence begins.
    pub start: usize,
    /// Name of the speaker. Empty for the user whose memory it is.
    pub speaker: String,
    /// Text of the statement, on one line. The name of one of several people replaces "I".
    pub text: String,
}

/// A statement and the next one that supersedes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Update {
    /// The statement that held until then.
    pub older: Statement,
    /// The statement that holds since, unless it has an update itself.
    pub newer: Statement,
}
