//! Tree of the running parts of a service, for people: its supervisors, pools, peers and gates.
//!
//! There is no registry. The owner of a part asks it for its node and puts its own node above it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Part of a running service, with the parts that it manages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningPart {
    /// Name of the part among its siblings.
    pub name: String,
    /// Kind of part: `supervisor`, `pool`, `peer`, `gate`, ...
    pub kind: Cow<'static, str>,
    /// State of the part: `running`, `failed`, `serving`, `draining`, `dead`, ...
    pub state: Cow<'static, str>,
    /// Number of restarts since the process began.
    pub restarts: u64,
    /// Units (requests, tokens, bytes) that wait or run in it.
    pub queued: u64,
    /// Maximum number of units in it; 0 if it takes none.
    pub capacity: u64,
    /// Parts that it manages.
    pub children: Vec<RunningPart>,
}

impl RunningPart {
    /// Creates a part without restarts, units and children.
    pub fn new(
        name: impl Into<String>,
        kind: impl Into<Cow<'static, str>>,
        state: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (name, kind, state) = (name.into(), kind.into(), state.into());
        Self { name, kind, state, restarts: 0, queued: 0, capacity: 0, children: Vec::new() }
    }

    /// Sets how many units it holds, and how many it can hold.
    #[must_use]
    pub fn with_queue(mut self, queued: usize, capacity: usize) -> Self {
        (self.queued, self.capacity) = (queued as u64, capacity as u64);
        self
    }

    /// Sets the parts that it manages.
    #[must_use]
    pub fn with_children(mut self, children: Vec<RunningPart>) -> Self {
        self.children = children;
        self
    }

    fn draw(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        write!(f, "{} ({}) {}", self.name, self.kind, self.state)?;
        if self.capacity > 0 {
            write!(f, ", {} of {}", self.queued, self.capacity)?;
        }
        match self.restarts {
            0 => writeln!(f)?,
            1 => writeln!(f, ", 1 restart")?,
            restarts => writeln!(f, ", {restarts} restarts")?,
        }
        let last = self.children.len().saturating_sub(1);
        for (at, child) in self.children.iter().enumerate() {
            let (branch, below) =
                if at == last { ("└── ", "    ") } else { ("├── ", "│   ") };
            write!(f, "{indent}{branch}")?;
            child.draw(f, &format!("{indent}{below}"))?;
        }
        Ok(())
    }
}

/// Writes one line per node, with its children below it.
impl fmt::Display for RunningPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.draw(f, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_drawn_one_line_a_node() {
        let mut peer = RunningPart::new("encoder-1", "peer", "dead");
        peer.restarts = 3;
        let pools = RunningPart::new("encoders", "pool", "serving").with_children(vec![
            RunningPart::new("encoder-0", "peer", "serving").with_queue(7, 100),
            peer,
        ]);
        let gate = RunningPart::new("questions", "gate", "open").with_queue(0, 8);
        let node = RunningPart::new("node-a", "node", "serving").with_children(vec![pools, gate]);
        let expected = "\
node-a (node) serving
├── encoders (pool) serving
│   ├── encoder-0 (peer) serving, 7 of 100
│   └── encoder-1 (peer) dead, 3 restarts
└── questions (gate) open, 0 of 8
";
        assert_eq!(node.to_string(), expected);
    }
}
