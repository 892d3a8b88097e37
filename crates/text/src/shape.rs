//! What kind of text a sentence is, told from its characters.

/// A sentence's kind, as far as it matters to an answer or a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Something stated.
    Statement,
    /// Something asked: close to a question that resembles it, yet no answer.
    Asking,
    /// A heading, a row of a table, a line of code, a link, a lead to a list, a word or two.
    Fragment,
}

/// Fewer characters than this state nothing by themselves.
const FEWEST_CHARS: usize = 12;
/// Least share of letters and spaces in a statement; code and tables have more signs than that.
const FEWEST_LETTERS: f32 = 0.7;
/// What headings, tables, fences, comments, prompts, markup, rules and images begin with.
const FRAGMENT_STARTS: [&str; 11] =
    ["#", "|", "```", "~~~", "//", "$ ", "<", "===", "---", "![", "[!["];
/// What lines of code and lines that lead to a list end with.
const FRAGMENT_ENDS: [char; 7] = ['{', '}', ';', '(', ',', '=', ':'];

impl Shape {
    /// The kind of `sentence`, which has no white space around it.
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

/// Whether it is one Markdown link and nothing after it, or the address of one.
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
