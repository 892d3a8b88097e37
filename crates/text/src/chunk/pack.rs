//! Packs units into chunks: as many as fit, but never across the start of a section.

use std::ops::Range;

use clew_core::Span;

use super::outline::Outline;
use super::token_map::TokenMap;
use super::unit::{Grain, Unit};

/// Packer for the units of one document.
pub(super) struct Packer<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a TokenMap,
    pub(super) outline: &'a Outline,
    pub(super) max_tokens: usize,
}

/// Units in text order, and the ranges of them that form a chunk together.
#[derive(Default)]
struct Groups {
    units: Vec<Unit>,
    closed: Vec<Range<usize>>,
    /// Index of the first unit of the open group.
    open: usize,
    /// Index of the first closed group of the open section.
    section: usize,
    /// Whether the open group holds a unit that is not a heading.
    has_body: bool,
}

impl Packer<'_> {
    /// Returns the spans of the chunks. `units` partition the text, and so do the spans.
    pub(super) fn pack(&self, mut units: Vec<Unit>) -> Vec<Span> {
        let mut groups = Groups::default();
        units.reverse();
        while let Some(unit) = units.pop() {
            if unit.begins_section {
                self.close_section(&mut groups);
            }
            let joined = Span::new(groups.open_start().unwrap_or(unit.span.start), unit.span.end);
            if self.tokens.count(joined) <= self.max_tokens {
                groups.push(unit);
                continue;
            }
            let is_too_long_alone = self.tokens.count(unit.span) > self.max_tokens;
            let would_strand_heading = groups.is_open() && !groups.has_body;
            if (is_too_long_alone || would_strand_heading)
                && let Some(pieces) = self.finer(&unit)
            {
                units.extend(pieces.into_iter().rev());
                continue;
            }
            groups.close();
            groups.push(unit);
        }
        self.close_section(&mut groups);
        groups.spans()
    }

    fn finer(&self, unit: &Unit) -> Option<Vec<Unit>> {
        unit.finer(self.text, self.outline, self.tokens, self.max_tokens)
    }

    fn close_section(&self, groups: &mut Groups) {
        groups.close();
        if let [.., first, second] = &groups.closed[groups.section..] {
            let (first, second) = (first.clone(), second.clone());
            if self.count(&groups.units[second.clone()]) < self.max_tokens / 4 {
                self.balance(groups, first.start, second);
            }
        }
        groups.section = groups.closed.len();
    }

    /// Moves the border between the last two groups towards their middle, so that a section does
    /// not end with a tiny chunk. The border lies between sentences, or between the units where
    /// these are already finer.
    fn balance(&self, groups: &mut Groups, start: usize, last: Range<usize>) {
        let tail: Vec<Unit> = groups.units[start..last.end]
            .iter()
            .flat_map(|unit| self.in_sentences(*unit))
            .collect();
        let heading_units = tail.iter().take_while(|unit| unit.is_heading).count();
        let best = (heading_units + 1..tail.len())
            .map(|border| (border, self.count(&tail[..border]), self.count(&tail[border..])))
            .filter(|(_, left, right)| (*left).max(*right) <= self.max_tokens)
            .min_by_key(|(_, left, right)| left.abs_diff(*right));
        let Some((border, ..)) = best else { return };
        groups.units.truncate(start);
        groups.units.extend(tail);
        groups.closed.truncate(groups.closed.len() - 2);
        groups.closed.extend([start..start + border, start + border..groups.units.len()]);
        groups.open = groups.units.len();
    }

    fn in_sentences(&self, unit: Unit) -> Vec<Unit> {
        match unit.grain {
            Grain::Block | Grain::Entry => self
                .finer(&unit)
                .into_iter()
                .flatten()
                .flat_map(|piece| self.in_sentences(piece))
                .collect(),
            Grain::Sentence | Grain::Word | Grain::Graphemes => vec![unit],
        }
    }

    fn count(&self, units: &[Unit]) -> usize {
        span_of(units).map_or(0, |span| self.tokens.count(span))
    }
}

impl Groups {
    fn is_open(&self) -> bool {
        self.open < self.units.len()
    }

    fn open_start(&self) -> Option<usize> {
        self.units.get(self.open).map(|unit| unit.span.start)
    }

    fn push(&mut self, unit: Unit) {
        self.has_body |= !unit.is_heading;
        self.units.push(unit);
    }

    fn close(&mut self) {
        if self.is_open() {
            self.closed.push(self.open..self.units.len());
        }
        self.open = self.units.len();
        self.has_body = false;
    }

    fn spans(&self) -> Vec<Span> {
        self.closed.iter().filter_map(|group| span_of(&self.units[group.clone()])).collect()
    }
}

fn span_of(units: &[Unit]) -> Option<Span> {
    Some(Span::new(units.first()?.span.start, units.last()?.span.end))
}
