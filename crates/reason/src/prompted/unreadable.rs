//! Errors of replies that cannot be parsed.

use std::fmt;

/// Error of a reply whose meaning is not clear. It contains nothing of the reply's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableReply {
    /// Description of what the reply should have been.
    pub expected: &'static str,
    /// Shape that the reply had.
    pub found: ReplyShape,
}

/// Shape of a reply that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyShape {
    /// No text at all.
    Nothing,
    /// Text without anything that was asked for.
    Prose,
    /// The beginning of a reply.
    CutOff,
    /// Something that looks like JSON but is not.
    BrokenJson,
    /// Different replies, any of which could be meant.
    Several,
    /// A reply without the named field.
    Missing(&'static str),
    /// A reply whose named field does not have the expected type.
    Wrong(&'static str),
    /// A reply whose named field refers to something that was not shown.
    OutOfRange(&'static str),
}

impl fmt::Display for UnreadableReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found ", self.expected)?;
        match self.found {
            ReplyShape::Nothing => f.write_str("nothing"),
            ReplyShape::Prose => f.write_str("prose"),
            ReplyShape::CutOff => f.write_str("its beginning only"),
            ReplyShape::BrokenJson => f.write_str("broken JSON"),
            ReplyShape::Several => f.write_str("several that differ"),
            ReplyShape::Missing(field) => write!(f, "no `{field}`"),
            ReplyShape::Wrong(field) => write!(f, "a `{field}` that is none"),
            ReplyShape::OutOfRange(field) => write!(f, "a `{field}` that refers to nothing shown"),
        }
    }
}

impl std::error::Error for UnreadableReply {}
