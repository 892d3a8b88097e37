//! What compressed memories draft for a question.

use std::collections::HashSet;

use crate::{Cost, Filter, Task};

/// Drafted texts to search for (MemoRAG, section 2.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clues {
    /// Questions that say more exactly what is asked.
    pub queries: Vec<String>,
    /// Possible contents of the answer, in words that the corpus may use. They need not be true.
    pub clues: Vec<String>,
    /// Points that a task without a question has to cover.
    pub key_points: Vec<String>,
    /// Answers that memories gave by themselves, if they were asked to. Without evidence they do
    /// not count.
    pub answers: Vec<String>,
}

/// Query for drafts from the memories of a corpus or a shard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClueQuery {
    /// Task of each memory.
    pub draft: DraftTask,
    /// Filter on documents. A memory that holds any document that does not pass drafts nothing.
    pub filter: Filter,
}

/// Drafts of memories.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftedClues {
    /// Drafts of all memories.
    pub clues: Clues,
    /// Number of memories that there were to draft from.
    pub memories: u32,
    /// Cost of drafting.
    pub cost: Cost,
}

impl DraftedClues {
    /// Merges the drafts of several memories: the first of each, then the second of each, and so
    /// on, each text once. They take turns because each memory has seen another part.
    pub fn united(drafts: Vec<Self>) -> Self {
        let mut all = Self::default();
        let (mut queries, mut clues) = (Vec::new(), Vec::new());
        let (mut key_points, mut answers) = (Vec::new(), Vec::new());
        for draft in drafts {
            all.memories += draft.memories;
            all.cost += draft.cost;
            queries.push(draft.clues.queries);
            clues.push(draft.clues.clues);
            key_points.push(draft.clues.key_points);
            answers.push(draft.clues.answers);
        }
        all.clues = Clues {
            queries: in_turn(queries),
            clues: in_turn(clues),
            key_points: in_turn(key_points),
            answers: in_turn(answers),
        };
        all
    }
}

/// Task of drafting from a memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftTask {
    /// Purpose of the drafts.
    pub task: Task,
    /// Question, or subject of a summary.
    pub question: String,
    /// Whether the memory also answers by itself; ignored for a summary.
    pub answers: bool,
}

fn in_turn(drafts: Vec<Vec<String>>) -> Vec<String> {
    let longest = drafts.iter().map(Vec::len).max().unwrap_or(0);
    let mut drafts: Vec<_> = drafts.into_iter().map(Vec::into_iter).collect();
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    for _ in 0..longest {
        for text in drafts.iter_mut().filter_map(Iterator::next) {
            if known.insert(text.clone()) {
                all.push(text);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_of_several_memories_are_taken_in_turn() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let drafted = |queries: &[&str], clues: &[&str]| DraftedClues {
            clues: Clues { queries: texts(queries), clues: texts(clues), ..Clues::default() },
            memories: 1,
            cost: Cost { model_calls: 2, ..Cost::default() },
        };
        let all = DraftedClues::united(vec![
            drafted(&["a 0", "a 1", "a 2"], &["x"]),
            drafted(&["b 0"], &[]),
            drafted(&["a 1", "c"], &["y", "x"]),
        ]);
        assert_eq!(all.clues.queries, ["a 0", "b 0", "a 1", "c", "a 2"]);
        assert_eq!(all.clues.clues, ["x", "y"]);
        assert_eq!((all.memories, all.cost.model_calls), (3, 6));
        assert_eq!(DraftedClues::united(Vec::new()), DraftedClues::default());
    }
}
