//! The memory as text for a reasoner.

use std::fmt::Write;

use clew_text::display_line;

use crate::memory::Hypergraph;

impl Hypergraph {
    /// Returns one line for each point, by number: `P3 [Issus; Xodar]: Issus degrades Xodar.`
    /// Entities are in the order of their keys. No text can begin a line of its own, whatever it
    /// contains. The result is empty if there are no points.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for point in self.points() {
            let name = |key| self.view().entity(key).map(|node| display_line(&node.name));
            let names: Vec<String> = point.entities.iter().filter_map(name).collect();
            let (names, description) = (names.join("; "), display_line(&point.description));
            writeln!(text, "{} [{names}]: {description}", point.id)
                .expect("a string takes whatever is written");
        }
        text
    }
}
