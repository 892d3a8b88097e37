//! Why a text is no trace.

use std::fmt;

/// A text that is no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It is no JSON.
    Syntax {
        /// The line at fault, the first being 1.
        line: usize,
        /// The column at fault, the first being 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// It is JSON of another form.
    Form {
        /// The field at fault, such as `trace[3].score`; empty for the whole.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, column, reason } => {
                write!(f, "the trace is no JSON at line {line}, column {column}: {reason}")
            }
            Self::Form { field, reason } if field.is_empty() => {
                write!(f, "this is no trace: {reason}")
            }
            Self::Form { field, reason } => write!(f, "this is no trace: `{field}`: {reason}"),
        }
    }
}

impl std::error::Error for Error {}
