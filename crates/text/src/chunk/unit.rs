//! Units that chunks are packed from: blocks, sentences and words, cut finer only where necessary.

use clew_core::Span;

use super::outline::Outline;
use super::token_map::TokenMap;
use crate::{cut, sentence::sentences};

/// Granularity of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// A paragraph, a list, a table, a code block.
    Block,
    /// A list item, a table row, a paragraph of a quotation.
    Entry,
    /// A sentence, or a line that stands alone.
    Sentence,
    /// A run without white space.
    Word,
    /// A run of grapheme clusters.
    Graphemes,
}

/// A part of a document that goes into one chunk if it fits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) span: Span,
    pub(super) grain: Grain,
    /// Whether a new section begins here, so that no chunk may extend across its start.
    pub(super) begins_section: bool,
    /// Whether it is a heading, which is of no use without the text that follows.
    pub(super) is_heading: bool,
}

/// Returns the blocks of a text as units that partition it. A heading begins a section unless it
/// directly follows another heading.
pub(super) fn units(text: &str, outline: &Outline) -> Vec<Unit> {
    let spans = cut::at(text, Span::new(0, text.len()), outline.blocks().iter().copied());
    let mut headings = outline.headings().peekable();
    let mut after_heading = false;
    let mut units = Vec::with_capacity(spans.len());
    for span in spans {
        let mut is_heading = false;
        while headings.next_if(|&start| start < span.end).is_some() {
            is_heading = true;
        }
        units.push(Unit {
            span,
            grain: Grain::Block,
            begins_section: is_heading && !after_heading,
            is_heading,
        });
        after_heading = is_heading;
    }
    units
}

impl Unit {
    pub(super) fn new(span: Span, grain: Grain) -> Self {
        Self { span, grain, begins_section: false, is_heading: false }
    }

    /// Splits this unit into units of the next finer grain. Returns `None` for the finest grain.
    pub(super) fn finer(
        &self,
        text: &str,
        outline: &Outline,
        tokens: &TokenMap,
        max_tokens: usize,
    ) -> Option<Vec<Self>> {
        let span = self.span;
        let (grain, pieces) = match self.grain {
            Grain::Block => {
                (Grain::Entry, cut::at(text, span, outline.entries_in(span).iter().copied()))
            }
            Grain::Entry => {
                let pieces = sentences(&text[span.start..span.end]);
                (Grain::Sentence, pieces.into_iter().map(|p| p.shifted(span.start)).collect())
            }
            Grain::Sentence => (Grain::Word, cut::words(text, span)),
            Grain::Word => {
                let fits = |piece| tokens.count(piece) <= max_tokens;
                (Grain::Graphemes, cut::fill(text, span, fits))
            }
            Grain::Graphemes => return None,
        };
        let mut units: Vec<Self> =
            pieces.into_iter().map(|span| Self { span, grain, ..*self }).collect();
        units.iter_mut().skip(1).for_each(|unit| unit.begins_section = false);
        Some(units)
    }
}
