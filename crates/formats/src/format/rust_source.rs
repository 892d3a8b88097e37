//! The doc comments of a Rust source file, as Markdown.
//!
//! Comments of the file (`//!`) are kept as they are. Comments of an item (`///`) are put under a
//! heading with the item's first line, and their own headings move one level down. The title is the
//! file's name. A file without doc comments has no text, which is not an error.

use clew_core::MediaType;

use super::Entry;
use crate::encoding;
use crate::reader::{Reader, WholeText};

pub(super) const ENTRY: Entry = Entry {
    name: "rust",
    extensions: &["rs"],
    reader: Reader::Whole {
        max_file_per_text: 2,
        parse: |bytes, name, _| {
            let text = doc_comments(&encoding::decode(bytes)?);
            let has_text = !text.trim().is_empty();
            Ok(has_text.then(|| WholeText {
                text,
                title: name.to_owned(),
                media_type: MediaType::Markdown,
            }))
        },
    },
};

/// Maximum length, in bytes, of a heading made from an item's first line.
const MAX_HEADING_BYTES: usize = 120;

fn doc_comments(source: &str) -> String {
    let mut markdown = String::new();
    let mut item_comment: Vec<&str> = Vec::new();
    for line in source.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("//!") {
            markdown.push_str(without_margin(comment));
            markdown.push('\n');
        } else if let Some(comment) = line.strip_prefix("///").filter(|c| !c.starts_with('/')) {
            item_comment.push(without_margin(comment));
        } else if !item_comment.is_empty() && !is_between(line) {
            add_item(&mut markdown, line, &item_comment);
            item_comment.clear();
        }
    }
    markdown
}

/// Removes the one space between the marker and the comment.
fn without_margin(comment: &str) -> &str {
    comment.strip_prefix(' ').unwrap_or(comment)
}

/// Returns whether `line` may stand between an item's comment and the item: a blank line, an
/// attribute or another comment.
fn is_between(line: &str) -> bool {
    line.is_empty() || line.starts_with("#[") || line.starts_with("//") || line.starts_with(")]")
}

fn add_item(markdown: &mut String, item: &str, comment: &[&str]) {
    let head = item.split(['{', ';']).next().unwrap_or("").trim().trim_end_matches([',', '(']);
    let head = &head[..head.floor_char_boundary(MAX_HEADING_BYTES)];
    markdown.push_str("\n# `");
    markdown.push_str(&head.replace('`', "'"));
    markdown.push_str("`\n\n");
    let mut in_code = false;
    for line in comment {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if line.starts_with('#') && !in_code {
            markdown.push('#');
        }
        markdown.push_str(line);
        markdown.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_come_under_their_items() {
        let source = "//! The crate.\n//!\n//! # Use\n\nuse a::b; // no\n\n\
            /// Adds.\n///\n/// # Examples\n/// ```\n/// # use x;\n/// ```\n#[inline]\n\
            pub fn add(a: u8) -> u8 {\n    //// not a doc\n    a\n}\n\n/// A field.\nlength: usize,\n";
        assert_eq!(
            doc_comments(source),
            "The crate.\n\n# Use\n\n# `pub fn add(a: u8) -> u8`\n\nAdds.\n\n## Examples\n```\n\
             # use x;\n```\n\n# `length: usize`\n\nA field.\n"
        );
        assert_eq!(doc_comments("fn main() {}"), "");
    }
}
