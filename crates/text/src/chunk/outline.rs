//! The outline of a document: its blocks, its headings, and the places where a block may be cut.

use clew_core::{MediaType, Span};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::cut;

/// Maximum length, in bytes, of a heading's text in key texts.
const MAX_HEADING_BYTES: usize = 200;

/// Blocks and headings of one document.
#[derive(Default)]
pub(super) struct Outline {
    /// Offsets at which blocks begin, ascending.
    blocks: Vec<usize>,
    /// Offsets at which list items, table rows and nested blocks begin, ascending.
    entries: Vec<usize>,
    headings: Vec<Heading>,
}

struct Heading {
    start: usize,
    level: usize,
    text: String,
    /// Index of the heading above this one in the hierarchy.
    parent: Option<usize>,
}

impl Outline {
    pub(super) fn of(text: &str, media_type: MediaType) -> Self {
        match media_type {
            MediaType::Plain => Self { blocks: paragraph_starts(text), ..Self::default() },
            MediaType::Markdown => Self::of_markdown(text),
        }
    }

    fn of_markdown(text: &str) -> Self {
        let mut outline = Self::default();
        let mut lines = LineStarts { text, seen: 0, line_start: 0 };
        let mut depth = 0_usize;
        let mut heading: Option<String> = None;
        let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if depth == 0 {
                        outline.blocks.push(lines.line_start_of(range.start));
                        if let Tag::Heading { level, .. } = tag {
                            outline.open_heading(level as usize);
                            heading = Some(String::new());
                        }
                    } else if is_block(&tag) {
                        outline.entries.push(lines.line_start_of(range.start));
                    }
                    depth += 1;
                }
                Event::End(tag) => {
                    depth = depth.saturating_sub(1);
                    if depth == 0
                        && let (TagEnd::Heading(_), Some(text)) = (tag, heading.take())
                        && let Some(open) = outline.headings.last_mut()
                    {
                        open.text = crate::one_line(&text);
                    }
                }
                Event::Rule if depth == 0 => {
                    outline.blocks.push(lines.line_start_of(range.start));
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some(text) = &mut heading {
                        let room = MAX_HEADING_BYTES.saturating_sub(text.len());
                        text.push_str(&part[..part.floor_char_boundary(room)]);
                    }
                }
                Event::SoftBreak | Event::HardBreak => {
                    if let Some(text) = &mut heading {
                        text.push(' ');
                    }
                }
                _ => {}
            }
        }
        outline
    }

    /// Adds a heading that starts where the last block starts.
    fn open_heading(&mut self, level: usize) {
        let start = self.blocks.last().copied().unwrap_or(0);
        let mut parent = self.headings.len().checked_sub(1);
        while let Some(index) = parent
            && self.headings[index].level >= level
        {
            parent = self.headings[index].parent;
        }
        self.headings.push(Heading { start, level, text: String::new(), parent });
    }

    /// Returns the offsets at which blocks begin, ascending.
    pub(super) fn blocks(&self) -> &[usize] {
        &self.blocks
    }

    /// Returns the offsets at which headings begin, ascending.
    pub(super) fn headings(&self) -> impl Iterator<Item = usize> + '_ {
        self.headings.iter().map(|heading| heading.start)
    }

    /// Returns the offsets within `span` at which entries begin.
    pub(super) fn entries_in(&self, span: Span) -> &[usize] {
        let before = |offset| self.entries.partition_point(|&start| start < offset);
        &self.entries[before(span.start)..before(span.end)]
    }

    /// Returns the headings above a passage that begins at `start`, outermost first, without a
    /// heading that begins exactly there.
    pub(super) fn headings_above(&self, start: usize) -> Vec<&str> {
        let reached = self.headings.partition_point(|heading| heading.start <= start);
        let last = reached.checked_sub(1).map(|index| &self.headings[index]);
        let mut above = last;
        if last.is_some_and(|heading| heading.start == start) {
            above = last.and_then(|heading| heading.parent).map(|index| &self.headings[index]);
        }
        let mut path = Vec::new();
        while let Some(heading) = above {
            if !heading.text.is_empty() {
                path.push(heading.text.as_str());
            }
            above = heading.parent.map(|index| &self.headings[index]);
        }
        path.reverse();
        path
    }
}

/// Returns whether a long block may be cut before the element that `tag` begins.
fn is_block(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Paragraph
            | Tag::Heading { .. }
            | Tag::BlockQuote(_)
            | Tag::CodeBlock(_)
            | Tag::HtmlBlock
            | Tag::List(_)
            | Tag::Item
            | Tag::Table(_)
            | Tag::TableRow
    )
}

/// Finder of the line starts for a series of ascending offsets, which reads each byte once.
struct LineStarts<'a> {
    text: &'a str,
    seen: usize,
    line_start: usize,
}

impl LineStarts<'_> {
    fn line_start_of(&mut self, offset: usize) -> usize {
        if let Some(passed) = self.text.get(self.seen..offset) {
            if let Some(line_end) = passed.rfind('\n') {
                self.line_start = self.seen + line_end + 1;
            }
            self.seen = offset;
        }
        self.line_start
    }
}

/// Returns the offsets at which the paragraphs of a plain text begin: the lines after blank lines.
fn paragraph_starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let (mut offset, mut after_blank) = (0, true);
    for line in text.split_inclusive('\n') {
        let is_blank = !cut::holds_ink(line);
        if after_blank && !is_blank {
            starts.push(offset);
        }
        after_blank = is_blank;
        offset += line.len();
    }
    starts
}
