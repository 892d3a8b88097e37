//! Options for reading files.

use clew_core::{Attributes, Labels, Limits};

/// Options for reading files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names of the columns of tables and of the fields of JSON lines.
    pub columns: Columns,
    /// Limits of documents. Files are limited to a multiple of `document_bytes` before they are
    /// read.
    pub limits: Limits,
    /// Access labels that every document gets in addition to its own.
    pub labels: Labels,
    /// Attributes that every document gets, except those of which it has its own.
    pub attributes: Attributes,
}

/// Names of the columns with a meaning. All other columns become attributes if they hold scalars. A
/// column that does not must be named in `ignored`, so that no data is lost unnoticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Id of the document. Rows without one are named after the file and the number of the row.
    pub id: String,
    /// Text of the document; the only required column.
    pub text: String,
    /// Title of the document.
    pub title: String,
    /// Media type: `text/plain`, the default, or `text/markdown`.
    pub media_type: String,
    /// Time of the events that the text describes: RFC 3339 or a date.
    pub event_time: String,
    /// Access labels: a list of texts, or one text with commas.
    pub labels: String,
    /// Number by which the source of the document orders its states: a whole number from 0 on, in
    /// 64 bits.
    pub source_version: String,
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
            source_version: "source_version".to_owned(),
            ignored: Vec::new(),
        }
    }
}
