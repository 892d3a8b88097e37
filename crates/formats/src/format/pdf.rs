//! Text of PDF files.
//!
//! The parser is not written for hostile files. It panics on many damaged files, which the caller
//! catches. It follows drawings that draw themselves until the stack overflows, which cannot be
//! caught, so such files are refused here. It does not limit its output, so it writes into a writer
//! that does. The data it decompresses is bounded only by the size of the file, about a
//! thousandfold.

use std::collections::HashMap;
use std::io::Write;

use clew_core::MediaType;
use pdf_extract::{Dictionary, Document, Object, ObjectId, PlainTextOutput, Stream, output_doc};

use super::Entry;
use crate::reader::{Reader, WholeText};
use crate::{Options, Problem};

pub(super) const ENTRY: Entry = Entry {
    name: "pdf",
    extensions: &["pdf"],
    // In many files, most bytes are fonts and pictures.
    reader: Reader::Whole { max_file_per_text: 4, parse },
};

/// Maximum nesting of drawings within drawings.
const MAX_DRAWING_DEPTH: usize = 16;
/// Maximum number of drawings that one drawing may cause.
const MAX_DRAWINGS: u64 = 100_000;

fn parse(bytes: Vec<u8>, _name: &str, options: &Options) -> Result<Option<WholeText>, Problem> {
    let mut document =
        Document::load_mem(&bytes).map_err(|error| Problem::malformed("a PDF", error))?;
    if document.is_encrypted() {
        document
            .decrypt("")
            .map_err(|_| Problem::Malformed("expected a PDF without password".to_owned()))?;
    }
    check_drawings(&document)?;
    let limit = options.limits.document_bytes;
    let mut text = BoundedText { bytes: Vec::new(), limit, is_over: false };
    let writer: &mut dyn Write = &mut text;
    let outcome = output_doc(&document, &mut PlainTextOutput::new(writer));
    if text.is_over {
        return Err(Problem::TooLarge { limit: limit as u64 });
    }
    outcome.map_err(|error| Problem::malformed("a PDF", error))?;
    let text = String::from_utf8_lossy(&text.bytes).into_owned();
    Ok(Some(WholeText { text, title: String::new(), media_type: MediaType::Plain }))
}

/// A text that refuses to grow beyond its limit.
struct BoundedText {
    bytes: Vec<u8>,
    limit: usize,
    is_over: bool,
}

impl Write for BoundedText {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + part.len() > self.limit {
            self.is_over = true;
            return Err(std::io::Error::other("the text is over the limit"));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Refuses drawings (external objects) that draw each other endlessly or too often. Pictures are
/// checked as well, because the parser treats them as drawings.
fn check_drawings(document: &Document) -> Result<(), Problem> {
    let mut costs = HashMap::new();
    for (&id, object) in &document.objects {
        if let Object::Stream(stream) = object {
            drawing_cost(document, id, stream, 0, &mut costs)?;
        }
    }
    Ok(())
}

/// Returns an upper bound for the number of drawings made when the stream `id` is drawn, itself
/// included.
fn drawing_cost(
    document: &Document,
    id: ObjectId,
    stream: &Stream,
    depth: usize,
    costs: &mut HashMap<ObjectId, u64>,
) -> Result<u64, Problem> {
    if let Some(&cost) = costs.get(&id) {
        return Ok(cost);
    }
    if depth > MAX_DRAWING_DEPTH {
        return Err(refusal("whose drawings nest less deep"));
    }
    let draws = count_draw_operators(stream);
    let mut dearest = 1;
    match dictionary(document, &stream.dict, b"Resources") {
        // It would inherit the resources of the stream that draws it, which may include itself.
        None if draws > 0 && is_external(stream) => {
            return Err(refusal("whose drawings name what they draw"));
        }
        None => {}
        Some(resources) => {
            for (_, drawn) in dictionary(document, resources, b"XObject").into_iter().flatten() {
                if let Object::Reference(next) = drawn
                    && let Ok(Object::Stream(inner)) = document.get_object(*next)
                {
                    let cost = drawing_cost(document, *next, inner, depth + 1, costs)?;
                    dearest = dearest.max(cost);
                }
            }
        }
    }
    let cost = dearest.saturating_mul(draws).saturating_add(1);
    if cost > MAX_DRAWINGS {
        return Err(refusal("that draws less often"));
    }
    costs.insert(id, cost);
    Ok(cost)
}

fn refusal(expected: &str) -> Problem {
    Problem::Malformed(format!("expected a PDF {expected}; print it into a new PDF and try again"))
}

/// Counts the operators `/name Do` in the content of a stream.
fn count_draw_operators(stream: &Stream) -> u64 {
    let content = stream.get_plain_content().unwrap_or_default();
    let words = content.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let pairs = words.clone().zip(words.skip(1));
    pairs.filter(|(name, operator)| name.contains(&b'/') && operator.starts_with(b"Do")).count()
        as u64
}

/// Returns whether a stream is an external object, which pages draw by name, and not a page itself.
fn is_external(stream: &Stream) -> bool {
    stream.dict.get(b"Subtype").is_ok()
}

fn dictionary<'a>(
    document: &'a Document,
    from: &'a Dictionary,
    key: &[u8],
) -> Option<&'a Dictionary> {
    let (_, object) = document.dereference(from.get(key).ok()?).ok()?;
    object.as_dict().ok()
}
