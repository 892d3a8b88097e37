//! What a caller decides about reading.

use clew_core::{Labels, Limits};

/// How files are read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the columns of tables, and the fields of JSON lines, are called.
    pub columns: Columns,
    /// What a document may carry. Files are held to a multiple of `document_bytes` before they are
    /// read.
    pub limits: Limits,
    /// Access labels that every document gets besides its own.
    pub labels: Labels,
}

/// Names of the columns that have a meaning. All other columns become attributes if they hold
/// scalars; one that does not must be named in `ignored`, so that nothing is lost unnoticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The document's id; rows without one are named after the file and the row's number.
    pub id: String,
    /// The text; the only column that must be there.
    pub text: String,
    /// The title.
    pub title: String,
    /// `text/plain` (if absent) or `text/markdown`.
    pub media_type: String,
    /// When what the text tells of happened: RFC 3339 or a date.
    pub event_time: String,
    /// The access labels: texts in a list, or one text with commas between them.
    pub labels: String,
    /// Columns to leave out.
    pub ignored: Vec<String>,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            id: "id".to_owned(),
            text: "text".to_owned(),
            title: "title".to_owned(),
            media_type: "media_type".to_owned(),
            event_time: "event_time".to_owned(),
            labels: "labels".to_owned(),
            ignored: Vec::new(),
        }
    }
}
