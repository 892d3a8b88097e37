//! Web pages, rendered as Markdown so that their sections survive.

use clew_core::MediaType;
use html2text::RcDom;
use html2text::config::plain_no_decorate;

use super::Entry;
use crate::reader::{Reader, WholeText};
use crate::{Options, Problem, encoding};

pub(super) const ENTRY: Entry = Entry {
    name: "html",
    extensions: &["html", "htm", "xhtml"],
    // In many pages, most bytes are mark-up and scripts.
    reader: Reader::Whole { max_file_per_text: 4, parse },
};

/// Maximum nesting of elements. Parsing time and the renderer's stack grow with it.
const MAX_DEPTH: usize = 256;
/// Line width, in columns: larger than any paragraph, because wrapping is for screens.
const WIDTH: usize = 1 << 24;

fn parse(bytes: Vec<u8>, _name: &str, _options: &Options) -> Result<Option<WholeText>, Problem> {
    let page = encoding::decode(bytes)?;
    check_tag_depth(&page)?;
    let malformed = |error: html2text::Error| Problem::malformed("HTML", error);
    let config = plain_no_decorate().raw_mode(true).link_footnotes(false);
    let dom = config.parse_html(page.as_bytes()).map_err(malformed)?;
    check_depth(&dom)?;
    let title = title(&page).unwrap_or_default();
    let tree = config.dom_to_render_tree(&dom).map_err(malformed)?;
    let text = config.render_to_string(tree, WIDTH).map_err(malformed)?;
    Ok(Some(WholeText { text, title, media_type: MediaType::Markdown }))
}

/// Returns the text of the page's `title` element.
fn title(page: &str) -> Option<String> {
    const MAX_TITLE_BYTES: usize = 4096;
    // ASCII lower-casing keeps byte offsets, and the tag names searched for are ASCII.
    let lower = page.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let content = page.get(start..end)?;
    let content = &content[..content.floor_char_boundary(MAX_TITLE_BYTES)];
    plain_no_decorate().string_from_read(content.as_bytes(), WIDTH).ok()
}

fn too_deep() -> Problem {
    Problem::Malformed(format!("expected elements nested at most {MAX_DEPTH} deep, got more"))
}

/// Refuses, before parsing, a page that opens far more tags than it closes: a parser keeps the open
/// elements in a list and searches it for every tag. Elements without an end tag do not count.
fn check_tag_depth(page: &str) -> Result<(), Problem> {
    let mut depth = 0_usize;
    for tag in page.split('<').skip(1) {
        if let Some(end) = tag.strip_prefix('/') {
            depth = depth.saturating_sub(usize::from(has_end_tag(end)));
        } else if has_end_tag(tag) {
            depth += 1;
        }
        if depth > 16 * MAX_DEPTH {
            return Err(too_deep());
        }
    }
    Ok(())
}

/// Returns whether the element that `tag` begins with is closed by an end tag.
fn has_end_tag(tag: &str) -> bool {
    const WITHOUT: &[&str] = &[
        "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link",
        "meta", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr",
        "track", "wbr",
    ];
    let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
    !name.is_empty() && !WITHOUT.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn check_depth(dom: &RcDom) -> Result<(), Problem> {
    let mut pending = vec![(dom.document.clone(), 0)];
    while let Some((node, depth)) = pending.pop() {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        pending.extend(node.children.borrow().iter().map(|child| (child.clone(), depth + 1)));
    }
    Ok(())
}
