//! What a memory model is told: around the text that it reads, and what it is to draft.

/// Before the text. It is the user who speaks.
pub(super) const BEFORE: &str = "Here is a long text. Read it with care and keep it in mind: you will be asked about it.\n\n\
                                 Text:\n";
/// After the text.
pub(super) const AFTER: &str =
    "\n\nThis is the end of the text. What you are to do with it follows.";
/// What the model answers to the text.
pub(super) const READ: &str = "I have read the text. What would you like to know?";

/// What is drafted out of a memory (MemoRAG, section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Draft {
    /// Passages of the text in which evidence for an answer lies.
    Passages,
    /// Questions that say more exactly what is asked.
    Questions,
    /// What a summary has to cover.
    KeyPoints,
}

impl Draft {
    /// The words of a user that ask for it.
    pub(super) fn prompt(self, question: &str) -> String {
        match self {
            Self::Passages => format!(
                "A question about the text:\n{question}\n\nName the passages of the text that help to \
                 answer it, as closely to their words as you can. Write the passages only, one a line."
            ),
            Self::Questions => format!(
                "A question about the text:\n{question}\n\nWrite more exact questions, whose answers in the \
                 text together answer this one. Write the questions only, one a line."
            ),
            Self::KeyPoints => format!(
                "Sum up the text as a numbered list of its main points, one a line, short and in order. What \
                 matters most:\n{question}"
            ),
        }
    }
}

/// The lines of a draft that say something: those of more than three words (the reference leaves out shorter ones),
/// without numbers and dashes before them, each once.
pub fn drafted_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_mark =
            |c: char| c.is_ascii_digit() || matches!(c, '.' | ')' | '-' | '*' | ' ' | '\t');
        let line = line.trim_start_matches(is_mark).trim();
        if line.split_whitespace().count() > 3 && !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lines_marks_and_repetitions_are_left_out() {
        let text = "1. Who kept the bees then?\n\n- Clues:\n* Who kept the bees then?\n12) The roof is flat and sunny.";
        assert_eq!(drafted_lines(text), ["Who kept the bees then?", "The roof is flat and sunny."]);
        assert!(drafted_lines("").is_empty());
    }

    #[test]
    fn prompts_hold_the_question() {
        for draft in [Draft::Passages, Draft::Questions, Draft::KeyPoints] {
            assert!(draft.prompt("Who keeps bees?").contains("Who keeps bees?"));
        }
    }
}
