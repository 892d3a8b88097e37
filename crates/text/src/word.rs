//! Words of a text, and lists of words that carry grammar more than content.

use clew_core::Span;
use unicode_segmentation::UnicodeSegmentation;

use crate::is_stop_word;

/// Returns the words of `text` in order, by the Unicode rules (UAX #29): `dog's` and `3.5` are one
/// word each, and punctuation is not a word.
pub fn words(text: &str) -> impl Iterator<Item = Span> + '_ {
    text.unicode_word_indices().map(|(start, word)| Span::new(start, start + word.len()))
}

/// Joins the words of `text`, separated by white space, with single spaces.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a lower-case word shapes a sentence or question more than it says what the text
/// is about: the stop words that [`crate::terms`] leaves out, pronouns, auxiliaries, question words
/// and words that join clauses.
pub fn is_grammar_word(word: &str) -> bool {
    is_stop_word(word) || GRAMMAR.binary_search(&word).is_ok()
}

/// Returns whether a lower-case word is one of the most frequent English verbs, in a form that
/// follows a subject, as in "she *gave*" or "he *says*". The list leaves out most regular past
/// tenses.
pub fn is_common_verb(word: &str) -> bool {
    COMMON_VERBS.binary_search(&word).is_ok()
}

/// Words besides the stop words. Sorted for binary search.
const GRAMMAR: [&str; 84] = [
    "about", "after", "all", "also", "am", "any", "been", "before", "being", "both", "can",
    "could", "describe", "did", "do", "does", "doing", "done", "during", "each", "explain", "from",
    "give", "had", "has", "have", "having", "he", "her", "hers", "him", "his", "how", "i", "its",
    "just", "let", "many", "may", "me", "might", "more", "most", "much", "must", "my", "one",
    "other", "our", "out", "over", "please", "same", "shall", "she", "should", "since", "so",
    "some", "tell", "than", "them", "through", "too", "under", "until", "up", "us", "very", "we",
    "were", "what", "when", "where", "which", "while", "who", "whom", "whose", "why", "would",
    "yet", "you", "your",
];

/// Sorted for binary search.
const COMMON_VERBS: [&str; 107] = [
    "asked",
    "asks",
    "became",
    "becomes",
    "began",
    "begins",
    "believes",
    "bought",
    "brings",
    "broke",
    "brought",
    "built",
    "called",
    "calls",
    "came",
    "caught",
    "chose",
    "comes",
    "continues",
    "cried",
    "died",
    "drew",
    "drove",
    "fell",
    "felt",
    "finds",
    "flew",
    "fought",
    "found",
    "gave",
    "gets",
    "gives",
    "goes",
    "got",
    "grew",
    "grows",
    "heard",
    "held",
    "holds",
    "keeps",
    "kept",
    "knew",
    "knows",
    "laughed",
    "leads",
    "leaves",
    "led",
    "left",
    "likes",
    "lives",
    "looked",
    "looks",
    "lost",
    "loved",
    "loves",
    "made",
    "makes",
    "means",
    "meant",
    "meets",
    "met",
    "moved",
    "needs",
    "paid",
    "plays",
    "puts",
    "ran",
    "replied",
    "returned",
    "rose",
    "runs",
    "said",
    "sang",
    "sat",
    "saw",
    "says",
    "seemed",
    "seems",
    "sees",
    "sent",
    "sold",
    "speaks",
    "spent",
    "spoke",
    "stands",
    "started",
    "stood",
    "takes",
    "taught",
    "tells",
    "thinks",
    "thought",
    "threw",
    "told",
    "took",
    "turned",
    "turns",
    "understood",
    "used",
    "uses",
    "wanted",
    "wants",
    "went",
    "woke",
    "won",
    "works",
    "wrote",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_lower_case() {
        for list in [&GRAMMAR[..], &COMMON_VERBS[..]] {
            assert!(list.is_sorted());
            assert!(list.iter().all(|word| word.to_lowercase() == *word));
        }
        assert!(is_grammar_word("the") && is_grammar_word("whose") && !is_grammar_word("thread"));
        assert!(is_common_verb("gave") && !is_common_verb("thread"));
    }

    #[test]
    fn words_are_found_where_they_stand() {
        let text = "Zoë's 3.5 m: (a thread)";
        let found: Vec<_> = words(text).filter_map(|span| span.of(text)).collect();
        assert_eq!(found, ["Zoë's", "3.5", "m", "a", "thread"]);
    }
}
