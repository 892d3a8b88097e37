//! What is wrong with a reply that cannot be read.

use std::fmt;

/// A reply whose meaning cannot be told. It holds nothing of the reply's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What the reply should have been.
    pub expected: &'static str,
    /// The shape that it had.
    pub found: Found,
}

/// The shape of an unreadable reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No text at all.
    Nothing,
    /// Text without anything that was asked for.
    Prose,
    /// The beginning of something.
    CutOff,
    /// What looks like JSON and is not.
    BrokenJson,
    /// Different replies, any of which could be meant.
    Several,
    /// Something without the field of that name.
    Missing(&'static str),
    /// A field of that name that is not of its type.
    Wrong(&'static str),
    /// A field of that name that refers to what was not shown.
    OutOfRange(&'static str),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found ", self.expected)?;
        match self.found {
            Found::Nothing => f.write_str("nothing"),
            Found::Prose => f.write_str("prose"),
            Found::CutOff => f.write_str("its beginning only"),
            Found::BrokenJson => f.write_str("broken JSON"),
            Found::Several => f.write_str("several that differ"),
            Found::Missing(field) => write!(f, "no `{field}`"),
            Found::Wrong(field) => write!(f, "a `{field}` that is none"),
            Found::OutOfRange(field) => write!(f, "a `{field}` that refers to nothing shown"),
        }
    }
}

impl std::error::Error for Unreadable {}
