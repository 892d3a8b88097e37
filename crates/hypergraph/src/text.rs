//! The memory as text for a reasoner.

use std::fmt::Write;

use crate::memory::Hypergraph;

impl Hypergraph {
    /// Returns one line for each point, by number: `P3 [Issus; Xodar]: Issus degrades Xodar.`
    /// Entities are in the order of their keys. No text can begin a line of its own, whatever it
    /// contains. The result is empty if there are no points.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for point in self.points() {
            let name = |key| self.view().entity(key).map(|node| one_line(&node.name));
            let names: Vec<String> = point.entities.iter().filter_map(name).collect();
            let (names, description) = (names.join("; "), one_line(&point.description));
            writeln!(text, "{} [{names}]: {description}", point.id)
                .expect("a string takes whatever is written");
        }
        text
    }
}

/// Puts a text on one line. White space becomes one blank. Characters that control a terminal or
/// the direction of writing are left out.
pub(crate) fn one_line(text: &str) -> String {
    let shown = |word: &str| word.chars().filter(|c| !steers(*c)).collect::<String>();
    let words = text.split_whitespace().map(shown).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_other_white_space_than_blanks_and_steers_nothing() {
        assert_eq!(one_line(" a\r\nb\u{2028}\u{1b}[31m \u{7} \u{202e}c\u{a0}"), "a b [31m c");
    }
}
