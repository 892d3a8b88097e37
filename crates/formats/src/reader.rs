//! How files of a format are read.

use clew_core::MediaType;

use crate::row::Row;
use crate::{Options, Problem, Source};

/// The rows of a file with their numbers, from 1.
pub(crate) type Rows = Box<dyn Iterator<Item = (u64, Result<Row, Problem>)> + Send>;

/// How a format is read.
pub(crate) enum Reader {
    /// A file is one document.
    Whole {
        /// Largest file, as a multiple of the largest document text.
        max_file_per_text: u64,
        /// Reads it.
        parse: Parse,
    },
    /// A file is rows, each a document. They are streamed: a file may be larger than memory.
    Rows(Open),
}

/// Finds the text in the bytes of the file of the given name. `None` says that there is nothing to
/// read in such a file and that it is no fault.
pub(crate) type Parse = fn(Vec<u8>, &str, &Options) -> Result<Option<WholeText>, Problem>;

/// Opens a file up to its first row.
pub(crate) type Open = fn(Source, &Options) -> Result<Rows, Problem>;

/// What a file that is one document holds.
pub(crate) struct WholeText {
    pub(crate) text: String,
    pub(crate) title: String,
    pub(crate) media_type: MediaType,
}
