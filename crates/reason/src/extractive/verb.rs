//! Past tense of irregular verbs: a question asks "did I buy", and the statement says "I bought".

/// Base forms with their past tense, sorted for binary search.
const PAST: [(&str, &str); 58] = [
    ("become", "became"),
    ("begin", "began"),
    ("break", "broke"),
    ("bring", "brought"),
    ("build", "built"),
    ("buy", "bought"),
    ("catch", "caught"),
    ("choose", "chose"),
    ("come", "came"),
    ("cost", "cost"),
    ("draw", "drew"),
    ("drink", "drank"),
    ("drive", "drove"),
    ("eat", "ate"),
    ("fall", "fell"),
    ("feed", "fed"),
    ("feel", "felt"),
    ("find", "found"),
    ("fly", "flew"),
    ("forget", "forgot"),
    ("get", "got"),
    ("give", "gave"),
    ("go", "went"),
    ("grow", "grew"),
    ("hear", "heard"),
    ("hold", "held"),
    ("keep", "kept"),
    ("know", "knew"),
    ("learn", "learnt"),
    ("leave", "left"),
    ("lend", "lent"),
    ("lose", "lost"),
    ("make", "made"),
    ("meet", "met"),
    ("pay", "paid"),
    ("read", "read"),
    ("ride", "rode"),
    ("run", "ran"),
    ("see", "saw"),
    ("sell", "sold"),
    ("send", "sent"),
    ("sing", "sang"),
    ("sleep", "slept"),
    ("speak", "spoke"),
    ("spend", "spent"),
    ("stand", "stood"),
    ("steal", "stole"),
    ("swim", "swam"),
    ("take", "took"),
    ("teach", "taught"),
    ("tell", "told"),
    ("think", "thought"),
    ("throw", "threw"),
    ("wake", "woke"),
    ("wear", "wore"),
    ("win", "won"),
    ("withdraw", "withdrew"),
    ("write", "wrote"),
];

/// Returns the past tense of a base form, if it is in the list.
pub(super) fn past(word: &str) -> Option<&'static str> {
    let place = PAST.binary_search_by_key(&word, |(base, _)| base).ok()?;
    Some(PAST[place].1)
}

/// Returns whether a lower-case word looks like a verb in the past tense.
pub(super) fn is_past(word: &str) -> bool {
    // "Need" and "red" have no verb before the ending.
    let is_regular = |base: &str| base.len() > 2 && !base.ends_with('e');
    word.strip_suffix("ed").is_some_and(is_regular) || PAST.iter().any(|(_, past)| *past == word)
}

/// Returns `text` with the verbs in the list put into the past tense.
pub(super) fn in_past(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches(['?', ',', '.', '!', ':']);
        past(bare).map_or_else(|| word.to_owned(), |past| word.replacen(bare, past, 1))
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_put_into_their_past() {
        assert!(PAST.is_sorted());
        assert_eq!(in_past("I buy a harp and  play"), "I bought a harp and  play");
        assert_eq!(in_past("Which harp did I buy?"), "Which harp did I bought?");
        assert!(is_past("bought") && is_past("played") && !is_past("buy") && !is_past("need"));
    }
}
