//! Markdown files.

use clew_core::MediaType;

use super::Entry;
use crate::encoding;
use crate::reader::{Reader, WholeText};

pub(super) const ENTRY: Entry = Entry {
    name: "markdown",
    extensions: &["md", "markdown", "mdown", "mkd"],
    reader: Reader::Whole {
        max_file_per_text: 2,
        parse: |bytes, _, _| {
            let text = encoding::decode(bytes)?;
            let title = title(&text).to_owned();
            Ok(Some(WholeText { text, title, media_type: MediaType::Markdown }))
        },
    },
};

/// Returns the top-level heading that a document begins with, or an empty string if there is none.
fn title(text: &str) -> &str {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    first.strip_prefix("# ").unwrap_or("").trim().trim_end_matches('#').trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_a_top_heading_at_the_beginning() {
        assert_eq!(title("\n# Read me #\n\ntext"), "Read me");
        assert_eq!(title("## Part\n# Later"), "");
        assert_eq!(title(""), "");
    }
}
