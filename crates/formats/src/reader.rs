//! Interface between formats and the code that reads files.

use clew_core::MediaType;

use crate::row::Row;
use crate::{Options, Problem, Source};

/// Iterator over the rows of a file with their numbers, from 1.
pub(crate) type Rows = Box<dyn Iterator<Item = (u64, Result<Row, Problem>)> + Send>;

/// Reader for files of a format.
pub(crate) enum Reader {
    /// One document per file.
    Whole {
        /// Maximum size of a file, as a multiple of the largest document text.
        max_file_per_text: u64,
        /// Function that parses the file.
        parse: Parse,
    },
    /// One document per row. Rows are streamed: a file may be larger than memory.
    Rows(Open),
}

/// Function that extracts the text from the bytes of a file, given its name. Returns `None` if the
/// file has nothing to read and that is not an error.
pub(crate) type Parse = fn(Vec<u8>, &str, &Options) -> Result<Option<WholeText>, Problem>;

/// Function that opens a file and reads up to its first row.
pub(crate) type Open = fn(Source, &Options) -> Result<Rows, Problem>;

/// Content of a file that is one document.
pub(crate) struct WholeText {
    pub(crate) text: String,
    pub(crate) title: String,
    pub(crate) media_type: MediaType,
}
