//! Classifies sentences by their characters: statements, questions and fragments.

/// Kind of a sentence, as far as it matters for an answer or a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A statement.
    Statement,
    /// A question. It resembles the question that is asked, but does not answer it.
    Asking,
    /// A fragment: a heading, a table row, a line of code, a link, the lead-in of a list, a word or
    /// two.
    Fragment,
}

/// Minimum number of characters of a statement.
const FEWEST_CHARS: usize = 12;
/// Minimum share of letters and white space in a statement; code and tables have less.
const FEWEST_LETTERS: f32 = 0.7;
/// Beginnings of headings, tables, fences, comments, prompts, mark-up, rules and images.
const FRAGMENT_STARTS: [&str; 11] =
    ["#", "|", "```", "~~~", "//", "$ ", "<", "===", "---", "![", "[!["];
/// Endings of lines of code and of the lead-ins of lists.
const FRAGMENT_ENDS: [char; 7] = ['{', '}', ';', '(', ',', '=', ':'];

impl Shape {
    /// Classifies `sentence`, which must have no white space around it.
    pub fn of(sentence: &str) -> Self {
        if is_fragment(sentence) {
            Self::Fragment
        } else if is_asking(sentence) {
            Self::Asking
        } else {
            Self::Statement
        }
    }
}

fn is_fragment(sentence: &str) -> bool {
    let chars = sentence.chars().count();
    let plain = sentence.chars().filter(|c| c.is_alphabetic() || c.is_whitespace()).count();
    chars < FEWEST_CHARS
        || (plain as f32) < FEWEST_LETTERS * chars as f32
        || FRAGMENT_STARTS.iter().any(|start| sentence.starts_with(start))
        || sentence.ends_with(FRAGMENT_ENDS)
        || is_link(sentence)
}

/// Returns whether `sentence` is a single Markdown link, or a link definition.
fn is_link(sentence: &str) -> bool {
    let Some((_, address)) = sentence.strip_prefix('[').and_then(|rest| rest.split_once(']'))
    else {
        return false;
    };
    let after = address.split_once(')').map(|(_, after)| after);
    address.starts_with(": ")
        || (address.starts_with('(')
            && after.is_some_and(|after| !after.contains(char::is_alphanumeric)))
}

fn is_asking(sentence: &str) -> bool {
    sentence.trim_end_matches(['"', '\'', '”', '’', ')', '!']).ends_with(['?', '？'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_from_what_states_nothing() {
        for (sentence, expected) in [
            ("Ariadne gave Theseus a ball of thread.", Shape::Statement),
            ("- The thread, 3.5 m long, led him out (see section 2).", Shape::Statement),
            ("Bob: I moved to Lyon in 2019", Shape::Statement),
            ("迷宮から出るために糸を使いました。", Shape::Statement),
            ("Who gave Theseus the thread?", Shape::Asking),
            ("“Who gave Theseus the thread?”", Shape::Asking),
            ("## How Theseus came out", Shape::Fragment),
            ("| thread | length |", Shape::Fragment),
            ("let thread = Thread::new(length);", Shape::Fragment),
            ("a[i] += b[j] * c[k] / 2.0", Shape::Fragment),
            ("There are three ways out of it:", Shape::Fragment),
            ("[the thread](https://example.org/thread).", Shape::Fragment),
            ("[thread guide]: the guide to every thread", Shape::Fragment),
            ("[Theseus](https://example.org) found the way (of many).", Shape::Statement),
            ("Bob: Yes.", Shape::Fragment),
        ] {
            assert_eq!(Shape::of(sentence), expected, "{sentence}");
        }
    }
}
