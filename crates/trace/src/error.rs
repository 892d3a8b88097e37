//! Errors of reading a trace.

use std::fmt;

/// A text that is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It is not JSON.
    Syntax {
        /// Line of the error, counted from 1.
        line: usize,
        /// Column of the error, counted from 1.
        column: usize,
        /// Description of the problem.
        reason: String,
    },
    /// It is JSON of another form.
    Form {
        /// Path of the invalid field, such as `trace[3].score`. Empty for the whole text.
        field: String,
        /// Description of the problem.
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
