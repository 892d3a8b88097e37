//! Plain text files.

use clew_core::MediaType;

use super::Entry;
use crate::encoding;
use crate::reader::{Reader, WholeText};

pub(super) const ENTRY: Entry = Entry {
    name: "text",
    extensions: &["txt", "text", "log"],
    // UTF-16 takes two bytes for most characters that take one byte in UTF-8.
    reader: Reader::Whole {
        max_file_per_text: 2,
        parse: |bytes, _, _| {
            let text = encoding::decode(bytes)?;
            Ok(Some(WholeText { text, title: String::new(), media_type: MediaType::Plain }))
        },
    },
};
